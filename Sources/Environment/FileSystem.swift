import Glibc

/// The calls for files that the store makes itself; SQLite makes its own, through a VFS. All of them block.
package protocol FileSystem: Sendable {
    func open(_ path: String, _ mode: FileMode) throws(FileError) -> any OpenFile
    /// Replaces what stands at the new path, in one step.
    func rename(_ path: String, to newPath: String) throws(FileError)
    /// Removes a file, or an empty folder. What is open stays readable.
    func remove(_ path: String) throws(FileError)
    /// Makes a folder for its owner only; its parent must exist.
    func makeFolder(_ path: String) throws(FileError)
    /// The names in a folder, in no order to rely on.
    func names(in folder: String) throws(FileError) -> [String]
    func facts(_ path: String) throws(FileError) -> FileFacts
    /// Makes now the time of the last change.
    func touch(_ path: String) throws(FileError)
    /// Makes durable which names the folder has.
    func syncFolder(_ path: String) throws(FileError)
    /// Tries to become the owner of the lock file, which is made if there is none. The lock ends with the process at the latest.
    func lock(_ path: String) throws(FileError) -> FileLockAttempt
}

package enum FileMode: Sendable {
    case read
    /// A new file, for its owner only, to append to; fails if there is one (`EEXIST`).
    case create
}

/// An open file; closed when it is let go.
package protocol OpenFile: AnyObject, Sendable {
    /// Size in bytes.
    func size() throws(FileError) -> UInt64
    /// Fills the buffer from an offset; the number of bytes read is smaller only at the end of the file.
    func read(at offset: UInt64, into buffer: UnsafeMutableRawBufferPointer) throws(FileError) -> Int
    /// Writes all of the bytes at the end. After an error some of them may be there.
    func append(_ bytes: UnsafeRawBufferPointer) throws(FileError)
    /// Makes the bytes durable.
    func sync() throws(FileError)
}

package struct FileFacts: Sendable, Equatable {
    /// Bytes.
    package var size: UInt64
    /// Seconds since 1970 of the last change.
    package var modified: Int64
    package var isFolder: Bool
    /// The same for one file as long as it exists, whatever its name.
    package var identity: UInt64

    package init(size: UInt64, modified: Int64, isFolder: Bool, identity: UInt64) {
        self.identity = identity
        self.size = size
        self.modified = modified
        self.isFolder = isFolder
    }
}

package enum FileLockAttempt: Sendable {
    case taken(any FileLock)
    /// Somebody else has it; the process, if it is known.
    case held(by: Int32?)
}

/// A lock that was taken; given back when it is let go.
package protocol FileLock: AnyObject, Sendable {
    func release()
}

/// A call for a file failed.
package struct FileError: Error, Equatable, CustomStringConvertible {
    package let path: String
    /// The system's error number, as `ENOENT`.
    package let number: Int32
    /// What is there where it is no regular file.
    package let found: String?

    package init(path: String, number: Int32) {
        self.path = path
        self.number = number
        found = nil
    }

    /// Something else than a regular file is there.
    package init(path: String, found: String) {
        self.path = path
        number = EINVAL
        self.found = found
    }

    /// The system's words for the number, or what is there in place of a file.
    package var reason: String { found.map { "is \($0), and a regular file is expected" } ?? String(cString: strerror(number)) }

    /// There is no such file.
    package var isMissing: Bool { number == ENOENT }

    package var description: String { "\(path): \(reason)" }
}

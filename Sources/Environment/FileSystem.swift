import Glibc

/// File operations of the store itself; SQLite performs its own through a VFS. All of them block.
package protocol FileSystem: Sendable {
    func open(_ path: String, _ mode: FileMode) throws(FileError) -> any OpenFile
    /// Atomically replaces whatever exists at the new path.
    func rename(_ path: String, to newPath: String) throws(FileError)
    /// Removes a file, or an empty folder. An open file stays readable.
    func remove(_ path: String) throws(FileError)
    /// Creates a folder that only its owner can access; its parent must exist.
    func makeFolder(_ path: String) throws(FileError)
    /// The names in a folder, in no particular order.
    func names(in folder: String) throws(FileError) -> [String]
    func facts(_ path: String) throws(FileError) -> FileFacts
    /// Sets the time of the last change to now.
    func touch(_ path: String) throws(FileError)
    /// Makes the folder's entries durable.
    func syncFolder(_ path: String) throws(FileError)
    /// Tries to acquire the lock file, which is created if it does not exist. The lock ends with the process at the latest.
    func lock(_ path: String) throws(FileError) -> FileLockAttempt
}

package enum FileMode: Sendable {
    case read
    /// A new file to append to, accessible only to its owner; fails if it exists (`EEXIST`).
    case create
}

/// An open file; closed when the last reference is released.
package protocol OpenFile: AnyObject, Sendable {
    /// Size in bytes.
    func size() throws(FileError) -> UInt64
    /// Fills the buffer starting at an offset; fewer bytes are read only at the end of the file.
    func read(at offset: UInt64, into buffer: UnsafeMutableRawBufferPointer) throws(FileError) -> Int
    /// Appends all of the bytes. After an error, some of them may have been written.
    func append(_ bytes: UnsafeRawBufferPointer) throws(FileError)
    /// Makes the bytes durable.
    func sync() throws(FileError)
}

package struct FileFacts: Sendable, Equatable {
    /// Size in bytes.
    package var size: UInt64
    /// Time of the last change, in seconds since 1970.
    package var modified: Int64
    package var isFolder: Bool
    /// Identifies one file for as long as it exists, whatever its name.
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
    /// Somebody else holds it; includes the process id if known.
    case held(by: Int32?)
}

/// An acquired lock; released with its last reference.
package protocol FileLock: AnyObject, Sendable {
    func release()
}

/// A failed file operation.
package struct FileError: Error, Equatable, CustomStringConvertible {
    package let path: String
    /// The system's error number, such as `ENOENT`.
    package let number: Int32
    /// What exists there, if it is not a regular file.
    package let found: String?

    package init(path: String, number: Int32) {
        self.path = path
        self.number = number
        found = nil
    }

    /// Something other than a regular file exists there.
    package init(path: String, found: String) {
        self.path = path
        number = EINVAL
        self.found = found
    }

    /// The system's message for the number, or what exists in place of a file.
    package var reason: String { found.map { "is \($0), and a regular file is expected" } ?? String(cString: strerror(number)) }

    /// There is no such file.
    package var isMissing: Bool { number == ENOENT }

    package var description: String { "\(path): \(reason)" }
}

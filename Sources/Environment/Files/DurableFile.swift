import Glibc

/// Small files that survive a power failure: they contain either the old or the new contents, never a part. Readable only by their owner.
package enum DurableFile {
    /// Who may write the file concurrently.
    package enum Writers {
        /// Only this process, which holds a lock: an unfinished earlier file is overwritten.
        case thisProcess
        /// Commands and the agent: each writes a file of its own, and one of them replaces the target.
        case several
    }

    /// Writes a file atomically.
    ///
    /// - Parameter owner: the owner that root assigns to it; nil: the current user.
    package static func write(
        _ path: String, _ bytes: UnsafeRawBufferPointer, writers: Writers, owner: uid_t? = nil
    ) throws(FileError) {
        let temporary = writers == .thisProcess ? "\(path).part" : "\(path).\(getpid()).part"
        // Left behind by a power failure.
        unlink(temporary)
        let descriptor = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        // Errors name the file that the caller knows.
        guard descriptor >= 0 else { throw FileError(path: path, number: errno) }
        do throws(FileError) {
            // Regardless of the umask.
            guard fchmod(descriptor, 0o600) == 0 else { throw FileError(path: path, number: errno) }
            if let owner, fchown(descriptor, owner, gid_t.max) != 0 { throw FileError(path: path, number: errno) }
            try writeAll(descriptor, bytes, path)
        } catch {
            close(descriptor)
            unlink(temporary)
            throw error
        }
        try place(descriptor, temporary, as: path)
        try syncFolder(parent(of: path))
    }

    /// Moves a file to its final name after it was written under another one, perhaps in pieces: after a power failure, the file under the final name
    /// is complete. To make sure that it exists, call ``syncFolder(_:)``, once for many files.
    ///
    /// - Parameter descriptor: of the file; it is closed in any case. On failure, the temporary file is removed.
    package static func place(_ descriptor: Int32, _ temporary: String, as path: String) throws(FileError) {
        var number: Int32 = fsync(descriptor) == 0 ? 0 : errno
        if close(descriptor) != 0, number == 0 { number = errno }
        if number == 0, rename(temporary, path) != 0 { number = errno }
        guard number == 0 else {
            unlink(temporary)
            throw FileError(path: path, number: number)
        }
    }

    package static func write(_ path: String, _ bytes: [UInt8], writers: Writers) throws(FileError) {
        // Typed errors cannot be thrown through an array's withUnsafeBytes.
        let outcome: Result<Void, FileError> = bytes.withUnsafeBytes { buffer in
            Result { () throws(FileError) in try write(path, buffer, writers: writers) }
        }
        try outcome.get()
    }

    package static func remove(_ path: String) throws(FileError) {
        guard unlink(path) == 0 else { throw FileError(path: path, number: errno) }
        try syncFolder(parent(of: path))
    }

    /// Creates a folder that only its owner can access, inside an existing one. An existing folder is left unchanged.
    package static func makeFolder(_ path: String) throws(FileError) {
        if mkdir(path, 0o700) == 0 { return try syncFolder(path + "/..") }
        guard errno == EEXIST else { throw FileError(path: path, number: errno) }
    }

    /// Makes creations, renames and removals in a folder durable.
    package static func syncFolder(_ path: String) throws(FileError) { try SystemFiles().syncFolder(path) }

    package static func parent(of path: String) -> String {
        guard let slash = path.utf8.lastIndex(of: UInt8(ascii: "/")) else { return "." }
        return slash == path.startIndex ? "/" : String(path[..<slash])
    }

    private static func writeAll(_ descriptor: Int32, _ buffer: UnsafeRawBufferPointer, _ path: String) throws(FileError) {
        var rest = buffer[...]
        while !rest.isEmpty {
            let count = Glibc.write(descriptor, UnsafeRawBufferPointer(rebasing: rest).baseAddress, rest.count)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw FileError(path: path, number: errno) }
            rest = rest.dropFirst(count)
        }
    }
}

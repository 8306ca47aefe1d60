import Glibc

/// Small files that survive a power cut: either the old contents or the new ones, never a part. Readable by their owner only.
package enum DurableFile {
    /// Who may write the file at the same time.
    package enum Writers {
        /// This process alone, which holds a lock: what it left unfinished before is overwritten.
        case thisProcess
        /// Commands and the agent: each writes a file of its own before one takes the place.
        case several
    }

    /// Puts a file in its place.
    ///
    /// - Parameter owner: to whom root gives it; nil: it stays this user's.
    package static func write(
        _ path: String, _ bytes: UnsafeRawBufferPointer, writers: Writers, owner: uid_t? = nil
    ) throws(FileError) {
        let temporary = writers == .thisProcess ? "\(path).part" : "\(path).\(getpid()).part"
        // What was left behind when power failed.
        unlink(temporary)
        let descriptor = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw FileError(path: temporary, number: errno) }
        do throws(FileError) {
            // Whatever the umask is.
            guard fchmod(descriptor, 0o600) == 0 else { throw FileError(path: temporary, number: errno) }
            if let owner, fchown(descriptor, owner, gid_t.max) != 0 { throw FileError(path: temporary, number: errno) }
            try writeAll(descriptor, bytes, temporary)
        } catch {
            close(descriptor)
            unlink(temporary)
            throw error
        }
        try place(descriptor, temporary, as: path)
        try syncFolder(parent(of: path))
    }

    /// Puts a file in its place that was written under another name, perhaps in pieces: whatever stands there after a power cut is whole. That it
    /// stands there takes ``syncFolder(_:)``, once for many files.
    ///
    /// - Parameter descriptor: of the file; it is closed in any case. Where it fails, nothing is left of the other name.
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
        // Typed errors do not pass through withUnsafeBytes of an array.
        let outcome: Result<Void, FileError> = bytes.withUnsafeBytes { buffer in
            Result { () throws(FileError) in try write(path, buffer, writers: writers) }
        }
        try outcome.get()
    }

    package static func remove(_ path: String) throws(FileError) {
        guard unlink(path) == 0 else { throw FileError(path: path, number: errno) }
        try syncFolder(parent(of: path))
    }

    /// Makes a folder for its owner only, in one that is there. One that exists is left as it is.
    package static func makeFolder(_ path: String) throws(FileError) {
        if mkdir(path, 0o700) == 0 { return try syncFolder(path + "/..") }
        guard errno == EEXIST else { throw FileError(path: path, number: errno) }
    }

    /// Makes what was created, renamed or removed in a folder durable.
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

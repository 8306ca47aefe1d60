import Glibc

/// Writing files that survive a power cut: either the old contents or the new ones, never a part.
enum DurableFile {
    /// Puts a file in its place, readable by its owner only.
    static func write(_ path: String, _ bytes: SecretBytes) throws(TLSFileError) {
        let folder = parent(of: path)
        let temporary = "\(path).\(getpid()).part"
        // What a process of the same number left behind when power failed.
        unlink(temporary)
        let descriptor = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw failure(temporary, errno) }
        do throws(TLSFileError) {
            defer { close(descriptor) }
            // Whatever the umask is.
            guard fchmod(descriptor, 0o600) == 0 else { throw failure(temporary, errno) }
            try bytes.withBytes { buffer throws(TLSFileError) in try writeAll(descriptor, buffer, temporary) }
            guard fsync(descriptor) == 0 else { throw failure(temporary, errno) }
        } catch {
            unlink(temporary)
            throw error
        }
        guard rename(temporary, path) == 0 else {
            let number = errno
            unlink(temporary)
            throw failure(path, number)
        }
        try syncFolder(folder)
    }

    static func remove(_ path: String) throws(TLSFileError) {
        guard unlink(path) == 0 else { throw errno == ENOENT ? TLSFile.failure(path, ENOENT) : failure(path, errno) }
        try syncFolder(parent(of: path))
    }

    /// Makes what was created, renamed or removed in a folder durable.
    static func syncFolder(_ path: String) throws(TLSFileError) {
        let descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { throw failure(path, errno) }
        defer { close(descriptor) }
        guard fsync(descriptor) == 0 else { throw failure(path, errno) }
    }

    static func parent(of path: String) -> String {
        guard let slash = path.utf8.lastIndex(of: UInt8(ascii: "/")) else { return "." }
        return slash == path.startIndex ? "/" : String(path[..<slash])
    }

    static func failure(_ path: String, _ number: Int32) -> TLSFileError {
        TLSFileError(.unwritable, path: path, reason: "cannot be written: \(String(cString: strerror(number)))")
    }

    private static func writeAll(_ descriptor: Int32, _ buffer: UnsafeRawBufferPointer, _ path: String) throws(TLSFileError) {
        var rest = buffer[...]
        while !rest.isEmpty {
            let count = Glibc.write(descriptor, UnsafeRawBufferPointer(rebasing: rest).baseAddress, rest.count)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw failure(path, errno) }
            rest = rest.dropFirst(count)
        }
    }
}

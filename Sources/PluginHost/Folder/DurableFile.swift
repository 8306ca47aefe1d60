import Glibc

/// Small files of the agent's own that must survive a power cut: replaced as a whole, by a file that is complete and on disk.
enum DurableFile {
    /// Makes a folder, readable by its owner only, in one that is there.
    static func makeFolder(_ path: String) throws(FileRefusal) {
        if mkdir(path, 0o700) == 0 { return try sync(folder: path + "/..") }
        guard errno == EEXIST else { throw refusal() }
    }

    static func write(_ bytes: [UInt8], to path: String) throws(FileRefusal) {
        let temporary = path + ".new"
        let file = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard file >= 0 else { throw refusal() }
        var written = 0
        while written < bytes.count {
            let count = bytes[written...].withUnsafeBytes { Glibc.write(file, $0.baseAddress, $0.count) }
            if count < 0 && errno == EINTR { continue }
            guard count > 0 else {
                let failure = refusal()
                close(file)
                unlink(temporary)
                throw failure
            }
            written += count
        }
        let isSynced = fsync(file) == 0
        guard close(file) == 0, isSynced, rename(temporary, path) == 0 else {
            let failure = refusal()
            unlink(temporary)
            throw failure
        }
        guard let slash = path.lastIndex(of: "/") else { return }
        try sync(folder: String(path[..<slash]))
    }

    static func read(_ path: String, limit: Int) throws(FileRefusal) -> [UInt8] {
        let folder = path.lastIndex(of: "/").map { String(path[..<$0]) } ?? "."
        guard let real = realpath(folder, nil) else { throw refusal() }
        defer { free(real) }
        return try BoundedFile.read(path, inside: [String(cString: real)], limit: limit, limitName: "file").bytes
    }

    private static func sync(folder: String) throws(FileRefusal) {
        let descriptor = try Descriptor(folder, flags: O_DIRECTORY)
        guard fsync(descriptor.number) == 0 else { throw refusal() }
    }

    /// Of the current `errno`.
    static func refusal() -> FileRefusal {
        let code = errno
        return FileRefusal(isMissing: code == ENOENT || code == ENOTDIR, message: String(cString: strerror(code)))
    }
}

import Glibc

/// The few file system calls the store needs, with its errors.
enum Files {
    static func text(_ number: Int32) -> String { String(cString: strerror(number)) }

    /// The error for the current `errno`.
    static func failure(_ path: String) -> StoreError {
        let number = errno
        switch number {
        case ENOSPC, EDQUOT, EFBIG: return .diskFull(path: path, detail: text(number))
        case EIO: return .inputOutput(path: path, detail: text(number))
        default: return .folder(path: path, errno: number, detail: text(number))
        }
    }

    /// Makes the folder, readable by its owner only; the parent must exist. Durable when it returns.
    static func makeFolder(_ path: String) throws(StoreError) {
        if mkdir(path, 0o700) == 0 {
            try syncFolder(path + "/..")
            return
        }
        guard errno == EEXIST else { throw failure(path) }
        var info = stat()
        guard stat(path, &info) == 0 else { throw failure(path) }
        guard info.st_mode & S_IFMT == S_IFDIR else {
            throw .folder(path: path, errno: ENOTDIR, detail: text(ENOTDIR))
        }
    }

    /// Makes names created or renamed in the folder durable.
    static func syncFolder(_ path: String) throws(StoreError) {
        let descriptor = Glibc.open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { throw failure(path) }
        defer { Glibc.close(descriptor) }
        guard fsync(descriptor) == 0 else { throw failure(path) }
    }

    static func size(_ path: String) -> Int64? {
        var info = stat()
        return stat(path, &info) == 0 ? Int64(info.st_size) : nil
    }

    /// Calls `body` with each name in the folder.
    static func names(in folder: String) throws(StoreError) -> [String] {
        guard let directory = opendir(folder) else { throw failure(folder) }
        defer { closedir(directory) }
        var names: [String] = []
        while let entry = readdir(directory) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if name != "." && name != ".." { names.append(name) }
        }
        return names
    }
}

import Glibc

/// The few file operations that scenarios need.
enum Files {
    static func contents(_ path: String) throws -> [UInt8] {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw failure(path) }
        defer { close(descriptor) }
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count = read(descriptor, &piece, piece.count)
            guard count >= 0 else { throw failure(path) }
            if count == 0 { return bytes }
            bytes += piece[..<count]
        }
    }

    static func write(_ text: String, to path: String) throws {
        let descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o644)
        guard descriptor >= 0 else { throw failure(path) }
        defer { close(descriptor) }
        try write(Array(text.utf8), to: descriptor, path)
    }

    static func write(_ bytes: [UInt8], to descriptor: Int32, _ path: String) throws {
        var written = 0
        while written < bytes.count {
            let count = bytes.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress.map { $0 + written }, $0.count - written) }
            if count < 0 && errno == EINTR { continue }
            guard count > 0 else { throw failure(path) }
            written += count
        }
    }

    /// Moves a file over another one atomically.
    static func move(_ from: String, to path: String) throws {
        guard rename(from, path) == 0 else { throw failure(path) }
    }

    static func makeFolder(_ path: String) throws {
        guard mkdir(path, 0o755) == 0 || errno == EEXIST else { throw failure(path) }
    }

    /// The names in a folder, ascending, without `.` and `..`.
    static func names(in folder: String) throws -> [String] {
        guard let stream = opendir(folder) else { throw failure(folder) }
        defer { closedir(stream) }
        var names: [String] = []
        while let entry = readdir(stream) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) { pointer in
                pointer.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if name != "." && name != ".." { names.append(name) }
        }
        return names.sorted()
    }

    static func isFolder(_ path: String) -> Bool {
        var facts = stat()
        return stat(path, &facts) == 0 && facts.st_mode & S_IFMT == S_IFDIR
    }

    static func exists(_ path: String) -> Bool { access(path, F_OK) == 0 }

    /// Copies a folder's files and syncs them to disk, so that nothing is written back during a measurement.
    static func copyFolder(_ from: String, _ to: String) throws {
        try makeFolder(to)
        for name in try names(in: from) {
            if isFolder("\(from)/\(name)") {
                try copyFolder("\(from)/\(name)", "\(to)/\(name)")
            } else {
                try copyFile("\(from)/\(name)", "\(to)/\(name)")
            }
        }
    }

    static func copyFile(_ from: String, _ to: String) throws {
        let source = open(from, O_RDONLY | O_CLOEXEC)
        guard source >= 0 else { throw failure(from) }
        defer { close(source) }
        let target = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o644)
        guard target >= 0 else { throw failure(to) }
        defer { close(target) }
        var piece = [UInt8](repeating: 0, count: 1 << 20)
        while true {
            let count = read(source, &piece, piece.count)
            guard count >= 0 else { throw failure(from) }
            if count == 0 { break }
            try write(Array(piece[..<count]), to: target, to)
        }
        guard fsync(target) == 0 else { throw failure(to) }
    }

    static func remove(_ path: String) {
        if isFolder(path), let names = try? names(in: path) {
            for name in names { remove("\(path)/\(name)") }
            rmdir(path)
        } else {
            unlink(path)
        }
    }

    static func failure(_ path: String) -> BenchError { BenchError("\(path): \(String(cString: strerror(errno)))") }
}

/// A temporary folder for one run, removed at the end.
struct Scratch: Sendable {
    let path: String

    /// - Parameter parent: must be on a real disk; in a memory file system, durable writes would seem to cost nothing.
    init(parent: String) throws {
        let pattern = strdup("\(parent)/nightjar-bench-XXXXXX")
        defer { free(pattern) }
        guard let pattern, let made = mkdtemp(pattern) else { throw Files.failure(parent) }
        path = String(cString: made)
    }

    func remove() { Files.remove(path) }
}

import Environment
import Glibc

/// Why a file was not read.
struct FileRefusal: Error, Equatable {
    var isMissing = false
    var message: String

    init(isMissing: Bool = false, message: String) {
        self.isMissing = isMissing
        self.message = message
    }

    init(_ error: FileError) {
        self.init(isMissing: error.number == ENOENT || error.number == ENOTDIR, message: error.reason)
    }
}

/// A file descriptor that closes itself.
struct Descriptor: ~Copyable {
    let number: Int32

    /// Opens without blocking, even a FIFO, and never as a controlling terminal.
    init(at folder: Int32 = AT_FDCWD, _ path: String, flags: Int32) throws(FileRefusal) {
        let opened = openat(folder, path, flags | O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY)
        guard opened >= 0 else {
            let code = errno
            throw FileRefusal(isMissing: code == ENOENT || code == ENOTDIR, message: String(cString: strerror(code)))
        }
        number = opened
    }

    deinit { close(number) }

    /// The open file's real path, with every symbolic link resolved: the kernel is asked about the descriptor, so nothing can be swapped in between.
    func realPath() throws(FileRefusal) -> String {
        let length = Int(PATH_MAX)
        let bytes = [UInt8](unsafeUninitializedCapacity: length) { out, count in
            count = max(0, readlink("/proc/self/fd/\(number)", UnsafeMutableRawPointer(out.baseAddress!).assumingMemoryBound(to: CChar.self), length))
        }
        guard !bytes.isEmpty, bytes.count < length else { throw FileRefusal(message: "cannot be located through /proc/self/fd") }
        return String(decoding: bytes, as: UTF8.self)
    }
}

/// Reads complete small files that must be inside given folders.
enum BoundedFile {
    struct Content {
        var bytes: [UInt8]
        var realPath: String
    }

    /// - Parameters:
    ///   - roots: real paths of folders; after resolving all links, the file must be in one of them.
    ///   - limit: in bytes; the error mentions `limitName`.
    static func read(
        at folder: Int32 = AT_FDCWD, _ path: String, inside roots: [String], limit: Int, limitName: String
    ) throws(FileRefusal) -> Content {
        let file = try Descriptor(at: folder, path, flags: 0)
        let real = try file.realPath()
        guard roots.contains(where: { lies(real, in: $0) }) else {
            throw FileRefusal(message: "leads out of its folder (to \(real))")
        }
        var status = stat()
        guard fstat(file.number, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
            throw FileRefusal(message: "is not a regular file")
        }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(min(Int(status.st_size), limit) + 1)
        var chunk = [UInt8](repeating: 0, count: 16 << 10)
        while true {
            let count = Glibc.read(file.number, &chunk, chunk.count)
            if count < 0 && errno == EINTR { continue }
            guard count >= 0 else { throw FileRefusal(message: String(cString: strerror(errno))) }
            if count == 0 { break }
            bytes.append(contentsOf: chunk[..<count])
            guard bytes.count <= limit else { throw FileRefusal(message: "has more than \(limitName) = \(limit) bytes") }
        }
        return Content(bytes: bytes, realPath: real)
    }

    /// Reads one of the agent's own files, in any folder.
    static func readOwn(_ path: String, limit: Int) throws(FileRefusal) -> [UInt8] {
        let folder = path.lastIndex(of: "/").map { String(path[..<$0]) } ?? "."
        guard let real = realpath(folder, nil) else { throw FileRefusal(FileError(path: folder, number: errno)) }
        defer { free(real) }
        return try read(path, inside: [String(cString: real)], limit: limit, limitName: "file").bytes
    }

    /// Whether a real path is inside a folder given by its real path.
    static func lies(_ path: String, in folder: String) -> Bool {
        let root = folder == "/" ? "" : folder
        return path.utf8.starts(with: root.utf8) && path.utf8.dropFirst(root.utf8.count).first == UInt8(ascii: "/")
    }
}

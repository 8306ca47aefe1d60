import Glibc

/// Paths, lexically: nothing is looked up, so `..` stays (it may lead through a symbolic link).
enum Paths {
    /// The path as an absolute one.
    static func resolve(_ path: String, in folder: String) -> String {
        if path.hasPrefix("/") { return path }
        var relative = Substring(path)
        while relative.hasPrefix("./") {
            relative = relative.dropFirst(2)
            while relative.hasPrefix("/") { relative = relative.dropFirst() }
        }
        if relative.isEmpty || relative == "." { return folder }
        return folder.hasSuffix("/") ? folder + relative : "\(folder)/\(relative)"
    }

    /// The absolute folder of a file.
    static func folder(of path: String) -> String {
        let absolute = resolve(path, in: currentFolder)
        guard let slash = absolute.utf8.lastIndex(of: UInt8(ascii: "/")), slash != absolute.startIndex else { return "/" }
        return String(absolute[..<slash])
    }

    static var currentFolder: String {
        guard let buffer = getcwd(nil, 0) else { return "/" }
        defer { free(buffer) }
        return String(cString: buffer)
    }

    static func isFolder(_ path: String) -> Bool {
        var information = stat()
        return stat(path, &information) == 0 && information.st_mode & S_IFMT == S_IFDIR
    }
}

/// Reading small files whole.
enum SmallFile {
    enum Failure: Error {
        case system(Int32)
        case notRegular
        case tooLarge

        func text(limit: Int) -> String {
            switch self {
            case .system(let code): String(cString: strerror(code))
            case .notRegular: "not a regular file"
            case .tooLarge: "larger than \(limit) bytes"
            }
        }
    }

    /// - Parameter regularOnly: refuse pipes and devices, which may block or never end.
    static func read(_ path: String, limit: Int, regularOnly: Bool) throws(Failure) -> [UInt8] {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | (regularOnly ? O_NONBLOCK : 0))
        guard descriptor >= 0 else { throw .system(errno) }
        defer { close(descriptor) }
        var information = stat()
        guard fstat(descriptor, &information) == 0 else { throw .system(errno) }
        if regularOnly, information.st_mode & S_IFMT != S_IFREG { throw .notRegular }

        var bytes: [UInt8] = []
        while true {
            let room = min(64 << 10, limit + 1 - bytes.count)
            var code: Int32 = 0
            let chunk = [UInt8](unsafeUninitializedCapacity: room) { buffer, count in
                var result = Glibc.read(descriptor, buffer.baseAddress, room)
                while result < 0, errno == EINTR { result = Glibc.read(descriptor, buffer.baseAddress, room) }
                if result < 0 { code = errno }
                count = max(result, 0)
            }
            if code != 0 { throw .system(code) }
            if chunk.isEmpty { return bytes }
            bytes += chunk
            if bytes.count > limit { throw .tooLarge }
        }
    }
}

import Glibc

/// Paths are handled lexically, without accessing the file system, so `..` is kept (it may follow a symbolic link).
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

    /// Reports what only a shell would expand: taken literally, it names a folder that nobody means.
    ///
    /// - Returns: whether there is any.
    static func reportShellSyntax(_ path: String, _ node: ConfigurationNode, _ reading: inout Reading) -> Bool {
        if path == "~" || path.hasPrefix("~/") {
            let rest = path.dropFirst(2)
            reading.report(at: node.position, "\"~\" is not expanded here: write the whole path, or ${HOME}\(rest.isEmpty ? "" : "/\(rest)"); a folder that has this name is ./\(path)")
            return true
        }
        let name = path.dropFirst().prefix { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "_") }
        guard node.scalar?.isExpanded == false, path.first == "$", name.first?.isLetter == true else { return false }
        reading.report(at: node.position, "\"$\(name)\" is not expanded here: write ${\(name)}; a folder that has this name is ./\(path)")
        return true
    }

    static var currentFolder: String {
        guard let buffer = getcwd(nil, 0) else { return "/" }
        defer { free(buffer) }
        return String(cString: buffer)
    }

    static func isFile(_ path: String) -> Bool {
        var information = stat()
        return stat(path, &information) == 0 && information.st_mode & S_IFMT == S_IFREG
    }

    static func isFolder(_ path: String) -> Bool {
        var information = stat()
        return stat(path, &information) == 0 && information.st_mode & S_IFMT == S_IFDIR
    }
}

/// Reads small files completely.
enum SmallFile {
    enum Failure: Error {
        case system(Int32)
        case notRegular
        case tooLarge
        case silent(seconds: Int32)

        func text(limit: Int) -> String {
            switch self {
            case .system(let code): String(cString: strerror(code))
            case .notRegular: "not a regular file"
            case .tooLarge: "larger than \(limit) bytes"
            case .silent(let seconds):
                "it is a named pipe, and nothing arrived from it within \(seconds) seconds (config_wait): write to its other end first, or use a regular file or <(…)"
            }
        }
    }

    /// - Parameter regularOnly: whether to refuse pipes and devices, which may block or never end.
    /// - Parameter wait: seconds to wait for data from a named pipe (`mkfifo`), which may never get a writer. A shell's `<(…)` always has a writer,
    ///   and is read until that ends.
    static func read(_ path: String, limit: Int, regularOnly: Bool, wait: Int32 = Limits.waitSeconds) throws(Failure) -> [UInt8] {
        // Does not wait until the other end is opened.
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
        guard descriptor >= 0 else { throw .system(errno) }
        defer { close(descriptor) }
        var information = stat()
        guard fstat(descriptor, &information) == 0 else { throw .system(errno) }
        if regularOnly, information.st_mode & S_IFMT != S_IFREG { throw .notRegular }
        let isNamed = information.st_mode & S_IFMT == S_IFIFO && isNamedPipe(descriptor)
        if !isNamed { _ = fcntl(descriptor, F_SETFL, O_RDONLY) }

        var bytes: [UInt8] = []
        var mayBeginLater = isNamed
        while true {
            let room = min(64 << 10, limit + 1 - bytes.count)
            var code: Int32 = 0
            let chunk = [UInt8](unsafeUninitializedCapacity: room) { buffer, count in
                var result = Glibc.read(descriptor, buffer.baseAddress, room)
                while result < 0, errno == EINTR { result = Glibc.read(descriptor, buffer.baseAddress, room) }
                if result < 0 { code = errno }
                count = max(result, 0)
            }
            // A pipe that nobody has opened for writing yet looks like one that has ended.
            if isNamed, code == EAGAIN || code == 0 && chunk.isEmpty && mayBeginLater {
                try awaitBytes(descriptor, seconds: wait)
                mayBeginLater = mayBeginLater && code == EAGAIN
                continue
            }
            if code != 0 { throw .system(code) }
            if chunk.isEmpty { return bytes }
            mayBeginLater = false
            bytes += chunk
            if bytes.count > limit { throw .tooLarge }
        }
    }

    /// Returns when there is data, or the writer has ended.
    private static func awaitBytes(_ descriptor: Int32, seconds: Int32) throws(Failure) {
        var waiting = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        while true {
            let count = poll(&waiting, 1, seconds * 1_000)
            if count > 0 { return }
            if count == 0 { throw .silent(seconds: seconds) }
            guard errno == EINTR else { throw .system(errno) }
        }
    }

    /// Whether a pipe has a name in the file system.
    private static func isNamedPipe(_ descriptor: Int32) -> Bool {
        var target = [CChar](repeating: 0, count: 64)
        let count = readlink("/proc/self/fd/\(descriptor)", &target, target.count)
        return !target.prefix(max(0, count)).starts(with: "pipe:".utf8CString.dropLast())
    }
}

import Glibc

/// Access to paths that must be regular files: opening a pipe with nobody at its other end would block forever.
package enum RegularFile {
    /// Opens without blocking, and never as a controlling terminal.
    ///
    /// - Throws: also if the path leads to a pipe, a folder or a device; the error says which.
    package static func open(_ path: String, _ flags: Int32, permissions: mode_t = 0o600) throws(FileError) -> Int32 {
        let descriptor = Glibc.open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, permissions)
        var facts = stat()
        guard descriptor >= 0 else {
            let number = errno
            // For pipes and sockets, the system only says that they cannot be opened.
            if number == ENXIO, stat(path, &facts) == 0 { throw FileError(path: path, found: FileKind.words(facts.st_mode)) }
            throw FileError(path: path, number: number)
        }
        guard fstat(descriptor, &facts) == 0, facts.st_mode & S_IFMT == S_IFREG else {
            close(descriptor)
            throw FileError(path: path, found: FileKind.words(facts.st_mode))
        }
        return descriptor
    }
}

/// The kind of file at a path.
package enum FileKind {
    package static func words(_ mode: mode_t) -> String {
        switch mode & S_IFMT {
        case S_IFREG: "a file"
        case S_IFDIR: "a folder"
        case S_IFIFO: "a pipe"
        case S_IFSOCK: "a socket"
        default: "a device"
        }
    }

    /// Whether an open pipe has a name in a folder (`mkfifo`). One without a name, as created by `|` or `<(…)`, has or had somebody at its other end.
    package static func isNamedPipe(_ descriptor: Int32) -> Bool {
        var target = [CChar](repeating: 0, count: 64)
        let count = readlink("/proc/self/fd/\(descriptor)", &target, target.count)
        return !target.prefix(max(0, count)).starts(with: "pipe:".utf8CString.dropLast())
    }
}

import Glibc
import HTTPServer
import Interfaces

/// A listener's socket file.
enum UnixSocket {
    /// Binds a socket, whose file has the given mode from the start, and listens. Replaces a socket file on which nobody is listening.
    ///
    /// - Throws: ``ReplicationError`` that says why it failed.
    static func bind(_ path: String, mode: mode_t) throws -> CInt {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let capacity = MemoryLayout.size(ofValue: address.sun_path)
        guard path.utf8.count < capacity else {
            throw ReplicationError(domain: .network, code: 0, message: "unix:\(path) is longer than the \(capacity - 1) bytes that a socket's path may have")
        }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue) | Int32(SOCK_NONBLOCK.rawValue), 0)
        guard descriptor >= 0 else { throw failure(path, errno) }
        // The file gets its mode from the socket, reduced by the umask: it is never more permissive, even for a moment.
        fchmod(descriptor, mode)
        var status = call(Glibc.bind, descriptor, &address)
        if status != 0, errno == EADDRINUSE, isAbandoned(path, &address) {
            unlink(path)
            status = call(Glibc.bind, descriptor, &address)
        }
        guard status == 0, chmod(path, mode) == 0, listen(descriptor, 128) == 0 else {
            let code = errno
            close(descriptor)
            throw failure(path, code)
        }
        return descriptor
    }

    /// Whether it is a socket that nobody answers.
    private static func isAbandoned(_ path: String, _ address: inout sockaddr_un) -> Bool {
        var facts = stat()
        guard lstat(path, &facts) == 0, facts.st_mode & S_IFMT == S_IFSOCK else {
            errno = EADDRINUSE
            return false
        }
        let probe = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue) | Int32(SOCK_NONBLOCK.rawValue), 0)
        defer { close(probe) }
        let isGone = probe >= 0 && call(Glibc.connect, probe, &address) != 0 && errno == ECONNREFUSED
        errno = EADDRINUSE
        return isGone
    }

    private static func call(
        _ function: (CInt, UnsafePointer<sockaddr>?, socklen_t) -> CInt, _ descriptor: CInt, _ address: inout sockaddr_un
    ) -> CInt {
        withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { function(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size)) }
        }
    }

    private static func failure(_ path: String, _ code: CInt) -> ReplicationError {
        if [EACCES, EPERM].contains(code) {
            let remedy = "let the agent's user write in the folder of that socket, or correct endpoint"
            return ReplicationError(
                domain: .network, code: ReplicationError.NetworkCode.notPermitted.rawValue,
                message: "cannot listen on unix:\(path): \(NetworkErrors.systemText(code)); \(remedy)", remedy: remedy)
        }
        let holder = code == EADDRINUSE ? "; \(PortHolder.advice(socket: path))" : ""
        return ReplicationError(
            network: NetworkErrors.code(errno: code) ?? .aborted, message: "cannot listen on unix:\(path): \(NetworkErrors.systemText(code))\(holder)")
    }

    /// The name of a local user. May use the network, so it must not be called on event loops.
    static func userName(_ id: uid_t) -> String {
        var record = passwd()
        var found: UnsafeMutablePointer<passwd>?
        var buffer = [CChar](repeating: 0, count: 4096)
        guard getpwuid_r(id, &record, &buffer, buffer.count, &found) == 0, found != nil, let name = record.pw_name else { return "uid:\(id)" }
        return String(cString: name)
    }
}

import Glibc

/// A blocking socket for the probes, with a deadline for each step.
struct Socket: ~Copyable {
    let descriptor: Int32

    enum Address: Sendable {
        case unix(String)
        /// Connects from one of this machine's addresses, if one is given.
        case tcp(host: String, port: Int, from: String? = nil)
    }

    init(_ address: Address) throws {
        switch address {
        case .unix(let path): descriptor = try Self.unix(path)
        case .tcp(let host, let port, let source): descriptor = try Self.tcp(host, port, source)
        }
        var limit = timeval(tv_sec: 60, tv_usec: 0)
        for option in [SO_RCVTIMEO, SO_SNDTIMEO] {
            setsockopt(descriptor, SOL_SOCKET, option, &limit, socklen_t(MemoryLayout<timeval>.size))
        }
    }

    deinit { close(descriptor) }

    func send(_ bytes: [UInt8]) throws {
        try bytes.withUnsafeBytes { buffer in
            var rest = buffer[...]
            while !rest.isEmpty {
                let count = Glibc.send(
                    descriptor, UnsafeRawBufferPointer(rebasing: rest).baseAddress, rest.count, Int32(MSG_NOSIGNAL))
                guard count > 0 else { throw SupportError("send: \(String(cString: strerror(errno)))") }
                rest = rest.dropFirst(count)
            }
        }
    }

    /// Returns nothing at the end of the stream; a reset connection counts as the end.
    func receive() throws -> [UInt8] {
        if let bytes = readSome(descriptor) { return bytes }
        if errno == ECONNRESET || errno == EPIPE { return [] }
        throw SupportError("receive: \(String(cString: strerror(errno)))")
    }

    private static func unix(_ path: String) throws -> Int32 {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let bytes = Array(path.utf8)
        guard bytes.count < MemoryLayout.size(ofValue: address.sun_path) else { throw SupportError("\(path) is too long for a socket") }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
        let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        let result = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        guard result == 0 else {
            let why = String(cString: strerror(errno))
            close(descriptor)
            throw SupportError("\(path): \(why)")
        }
        return descriptor
    }

    private static func tcp(_ host: String, _ port: Int, _ source: String?) throws -> Int32 {
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        hints.ai_flags = AI_NUMERICSERV
        var found: UnsafeMutablePointer<addrinfo>?
        guard getaddrinfo(host, "\(port)", &hints, &found) == 0, let first = found else { throw SupportError("the host \(host) is unknown") }
        defer { freeaddrinfo(found) }
        let descriptor = socket(first.pointee.ai_family, first.pointee.ai_socktype | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard comes(descriptor, from: source), connect(descriptor, first.pointee.ai_addr, first.pointee.ai_addrlen) == 0 else {
            let why = String(cString: strerror(errno))
            close(descriptor)
            throw SupportError("\(host):\(port): \(why)")
        }
        var one: Int32 = 1
        setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &one, socklen_t(MemoryLayout<Int32>.size))
        return descriptor
    }

    /// Binds the socket to this IPv4 address, and returns whether that worked.
    private static func comes(_ descriptor: Int32, from source: String?) -> Bool {
        guard let source else { return true }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        guard inet_pton(AF_INET, source, &address.sin_addr) == 1 else { return false }
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0 }
        }
    }
}

/// A TCP port that is taken for as long as this exists, to test what happens to others who want it.
package final class TakenPort: Sendable {
    let descriptor: Int32
    package let port: Int

    /// Takes any free port of 127.0.0.1.
    package init() throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let descriptor = descriptor
        let result = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, length) == 0 && listen(descriptor, 1) == 0 && getsockname(descriptor, $0, &length) == 0
            }
        }
        guard result else { throw SupportError("no free port: \(String(cString: strerror(errno)))") }
        port = Int(UInt16(bigEndian: address.sin_port))
    }

    deinit { close(descriptor) }
}

import Glibc
import NIOCore
import NIOPosix
import Synchronization

/// Why a host name has no address.
struct ResolverError: Error, Equatable {
    var isTemporary: Bool
    var text: String
}

/// Name resolution by the system, on the thread pool for blocking work. Unlike NIO's own resolver it reports the reason for a
/// failure, since "try again" and "no such host" are retried differently.
final class SystemResolver: Resolver, Sendable {
    private let eventLoop: any EventLoop
    /// If the local address is given, only addresses of its family are usable.
    private let family: NIOBSDSocket.ProtocolFamily?
    private let answer: Mutex<EventLoopFuture<[SocketAddress]>?> = Mutex(nil)

    init(eventLoop: any EventLoop, family: NIOBSDSocket.ProtocolFamily?) {
        self.eventLoop = eventLoop
        self.family = family
    }

    func initiateAQuery(host: String, port: Int) -> EventLoopFuture<[SocketAddress]> {
        addresses(host, port, of: .inet)
    }

    func initiateAAAAQuery(host: String, port: Int) -> EventLoopFuture<[SocketAddress]> {
        addresses(host, port, of: .inet6)
    }

    func cancelQueries() {}

    private func addresses(_ host: String, _ port: Int, of family: NIOBSDSocket.ProtocolFamily) -> EventLoopFuture<[SocketAddress]> {
        if let only = self.family, only != family { return eventLoop.makeSucceededFuture([]) }
        // Both queries share one call.
        let all = answer.withLock { answer in
            if let answer { return answer }
            let future = NIOThreadPool.singleton.runIfActive(eventLoop: eventLoop) { try Self.resolve(host: host, port: port) }
            answer = future
            return future
        }
        return all.map { $0.filter { $0.protocol == family } }
    }

    /// Blocks. Each address once, in the system's order.
    static func resolve(host: String, port: Int) throws -> [SocketAddress] {
        var hints = addrinfo()
        hints.ai_socktype = CInt(SOCK_STREAM.rawValue)
        hints.ai_protocol = CInt(IPPROTO_TCP)
        var list: UnsafeMutablePointer<addrinfo>?
        let result = getaddrinfo(host, String(port), &hints, &list)
        guard result == 0 else {
            let why = gai_strerror(result).map { String(cString: $0) } ?? "error \(result)"
            throw ResolverError(isTemporary: result == EAI_AGAIN, text: "cannot resolve \(host): \(why)")
        }
        defer { freeaddrinfo(list) }
        var addresses: [SocketAddress] = []
        var next = list
        while let info = next {
            next = info.pointee.ai_next
            guard let raw = info.pointee.ai_addr, let address = SocketAddress(raw, host: host) else { continue }
            if !addresses.contains(address) { addresses.append(address) }
        }
        return addresses
    }
}

extension SocketAddress {
    init?(_ raw: UnsafePointer<sockaddr>, host: String = "") {
        switch CInt(raw.pointee.sa_family) {
        case AF_INET: self.init(raw.withMemoryRebound(to: sockaddr_in.self, capacity: 1) { $0.pointee }, host: host)
        case AF_INET6: self.init(raw.withMemoryRebound(to: sockaddr_in6.self, capacity: 1) { $0.pointee }, host: host)
        default: return nil
        }
    }
}

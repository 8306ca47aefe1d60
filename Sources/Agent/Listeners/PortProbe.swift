import Glibc
import NIOCore

/// Whether a port could be bound, found out by binding it for an instant: nobody can connect meanwhile, because nothing listens.
package enum PortProbe {
    /// The system's error; nil if the address is free.
    package static func obstacle(toBinding address: SocketAddress) -> Int32? {
        let descriptor = Glibc.socket(address.protocol == .inet6 ? AF_INET6 : AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var yes: Int32 = 1
        setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, socklen_t(MemoryLayout<Int32>.size))
        let outcome = address.withSockAddr { pointer, size in bind(descriptor, pointer, socklen_t(size)) == 0 ? 0 : errno }
        return outcome == 0 ? nil : outcome
    }
}

import Glibc
import Interfaces
import NIOCore
import NIOPosix

/// Binds a socket to one network interface, regardless of the routing table (SO_BINDTODEVICE).
enum InterfaceBinding {
    /// Linux: IFNAMSIZ, including the terminating NUL.
    private static let nameSize = 16
    /// Linux: SO_BINDTODEVICE.
    private static let bindToDevice = NIOBSDSocket.Option(rawValue: 25)

    /// The local address of a connection that must use an interface, which is given by name or by one of its addresses.
    static func localAddress(of interface: String, toReach host: String) throws -> SocketAddress {
        if let address = try? SocketAddress(ipAddress: interface, port: 0) { return address }
        guard NetworkInterfaces.exists(interface) else {
            throw ReplicationError(network: .unknownInterface, message: "\(interface) is neither a network interface nor an address of this machine")
        }
        let addresses = NetworkInterfaces.addresses(of: interface)
        // To connect to an IPv6 address, the local address must be an IPv6 address, too.
        let wanted: NIOBSDSocket.ProtocolFamily = host.utf8.contains(UInt8(ascii: ":")) ? .inet6 : .inet
        guard var address = addresses.first(where: { $0.protocol == wanted }) ?? addresses.first else {
            throw ReplicationError(network: .addressNotAvailable, message: "the network interface \(interface) has no address or is down")
        }
        address.port = 0
        return address
    }

    /// Called before the socket is connected. If the interface is given by an address, the caller binds to that. If the system forbids
    /// binding to a device (before Linux 5.7 this needs CAP_NET_RAW), binding to the interface's address, which the caller does as well, has
    /// to be enough.
    static func bind(_ channel: any Channel, to interface: String?) -> EventLoopFuture<Void> {
        let done = channel.eventLoop.makeSucceededVoidFuture()
        guard let interface, (try? SocketAddress(ipAddress: interface, port: 0)) == nil, interface.utf8.count < nameSize,
            let provider = channel as? any SocketOptionProvider
        else { return done }
        var name: (UInt64, UInt64) = (0, 0)
        withUnsafeMutableBytes(of: &name) { $0.copyBytes(from: interface.utf8) }
        return provider.unsafeSetSocketOption(level: .socket, name: bindToDevice, value: name).flatMapErrorThrowing { error in
            guard let code = (error as? IOError)?.errnoCode, code != EPERM, code != EACCES else { return }
            throw ReplicationError(
                network: .unknownInterface, message: "network_interface \(interface) cannot be used: \(NetworkErrors.systemText(code))")
        }
    }
}

extension ChannelOption where Self == ChannelOptions.Types.SocketOption {
    /// Linux: TCP_USER_TIMEOUT, in milliseconds.
    static var tcpUserTimeout: Self { .init(level: .tcp, name: .init(rawValue: 18)) }
}

import Glibc
import Interfaces
import NIOCore
import NIOPosix

/// Has a socket use one network interface whatever the routing table says (SO_BINDTODEVICE).
enum InterfaceBinding {
    /// Linux: IFNAMSIZ, with the zero at the end.
    private static let nameSize = 16
    /// Linux: SO_BINDTODEVICE.
    private static let bindToDevice = NIOBSDSocket.Option(rawValue: 25)

    /// The address that a connection comes from which has to use an interface, given by its name or by an address of it.
    static func localAddress(of interface: String, toReach host: String) throws -> SocketAddress {
        if let address = try? SocketAddress(ipAddress: interface, port: 0) { return address }
        guard NetworkInterfaces.exists(interface) else {
            throw ReplicationError(network: .unknownInterface, message: "\(interface) is no network interface and no address of this machine")
        }
        let addresses = NetworkInterfaces.addresses(of: interface)
        // An IPv6 address as target needs one of the same family on our side.
        let wanted: NIOBSDSocket.ProtocolFamily = host.utf8.contains(UInt8(ascii: ":")) ? .inet6 : .inet
        guard var address = addresses.first(where: { $0.protocol == wanted }) ?? addresses.first else {
            throw ReplicationError(network: .addressNotAvailable, message: "the network interface \(interface) has no address or is down")
        }
        address.port = 0
        return address
    }

    /// Before the socket is connected. An address instead of a name is bound by the caller. Where the system forbids it (before Linux
    /// 5.7 it takes CAP_NET_RAW), the address of the interface has to do, which the caller binds as well.
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

import Environment
import Glibc
import NIOCore
import NIOPosix

/// Tells when the machine gets a network or another one: an interface comes up, gets an address, or a route is added (netlink).
public final class NetworkWatch: Sendable {
    /// `network_change_gathering`: changes within so many milliseconds are one, since an interface that comes up brings many.
    static let gatheringMilliseconds = 1_000

    private let channel: any Channel

    private init(channel: any Channel) {
        self.channel = channel
    }

    /// - Parameter changed: called on an event loop, at most once in a second.
    /// - Throws: why the system does not tell, for instance in a sandbox.
    public static func start(
        group: any EventLoopGroup, time: any TimeSource, changed: @escaping @Sendable () -> Void
    ) throws -> NetworkWatch {
        let descriptor = try socket()
        let handler = NetworkChangeHandler(changed: changed)
        let loop = group.next()
        let promise = loop.makePromise(of: (any Channel).self)
        NIOPipeBootstrap(group: loop)
            .channelOption(.recvAllocator, value: FixedSizeRecvByteBufferAllocator(capacity: NetlinkMessage.bufferSize))
            .channelInitializer { channel in channel.eventLoop.makeCompletedFuture { try channel.pipeline.syncOperations.addHandler(handler) } }
            .takingOwnershipOfDescriptor(input: descriptor)
            .cascade(to: promise)
        return NetworkWatch(channel: try promise.futureResult.wait())
    }

    public func stop() { channel.close(promise: nil) }

    private static func socket() throws -> CInt {
        // AF_NETLINK, NETLINK_ROUTE.
        let descriptor = Glibc.socket(16, CInt(SOCK_RAW.rawValue) | CInt(SOCK_CLOEXEC.rawValue) | CInt(SOCK_NONBLOCK.rawValue), 0)
        guard descriptor >= 0 else { throw IOError(errnoCode: errno, reason: "netlink socket") }
        var address = NetlinkMessage.SocketAddress()
        let result = withUnsafeBytes(of: &address) { bytes in
            bytes.withMemoryRebound(to: sockaddr.self) { Glibc.bind(descriptor, $0.baseAddress, socklen_t(bytes.count)) }
        }
        guard result == 0 else {
            let code = errno
            close(descriptor)
            throw IOError(errnoCode: code, reason: "netlink bind")
        }
        return descriptor
    }
}

/// Gathers what netlink says. Used on its event loop only.
private final class NetworkChangeHandler: ChannelInboundHandler, @unchecked Sendable {
    typealias InboundIn = ByteBuffer

    private let changed: @Sendable () -> Void
    private var links = NetlinkMessage.Links()
    private var isGathering = false

    init(changed: @escaping @Sendable () -> Void) {
        self.changed = changed
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if links.isNews(unwrapInboundIn(data).readableBytesView) { gather(context) }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // More happened at once than the socket holds: something changed.
        gather(context)
    }

    private func gather(_ context: ChannelHandlerContext) {
        guard !isGathering else { return }
        isGathering = true
        context.eventLoop.assumeIsolated().scheduleTask(in: .milliseconds(Int64(NetworkWatch.gatheringMilliseconds))) { [self] in
            isGathering = false
            changed()
        }
    }
}

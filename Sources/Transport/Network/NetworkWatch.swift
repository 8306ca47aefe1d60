import Environment
import Glibc
import NIOCore
import NIOPosix

/// Reports when the machine gains, changes or loses its network connection: an interface comes up or goes down, gains or loses an address, or a
/// route is added (netlink).
public final class NetworkWatch: Sendable {
    /// `network_change_gathering`: changes within this many milliseconds are reported as one, since an interface that comes up causes many.
    static let gatheringMilliseconds = 1_000

    private let channel: any Channel

    private init(channel: any Channel) {
        self.channel = channel
    }

    /// What happened within a second.
    public enum Change: Sendable {
        /// Something that may let a connection succeed that failed before, and perhaps also a loss.
        case gain
        case loss
    }

    /// - Parameter changed: called on an event loop, at most once a second.
    /// - Throws: why the system does not report changes, for example in a sandbox.
    public static func start(
        group: any EventLoopGroup, time: any TimeSource, changed: @escaping @Sendable (Change) -> Void
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

/// Collects netlink's reports. Confined to its event loop.
private final class NetworkChangeHandler: ChannelInboundHandler, @unchecked Sendable {
    typealias InboundIn = ByteBuffer

    private let changed: @Sendable (NetworkWatch.Change) -> Void
    private var links = NetlinkMessage.Links()
    /// What has arrived since the last report.
    private var gathered = NetlinkMessage.News.nothing

    init(changed: @escaping @Sendable (NetworkWatch.Change) -> Void) {
        self.changed = changed
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        gather(links.news(unwrapInboundIn(data).readableBytesView), context)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // More happened at once than the socket can hold, so something has changed.
        gather(.gain, context)
    }

    private func gather(_ news: NetlinkMessage.News, _ context: ChannelHandlerContext) {
        let isFirst = gathered == .nothing
        gathered = max(gathered, news)
        guard isFirst, gathered != .nothing else { return }
        context.eventLoop.assumeIsolated().scheduleTask(in: .milliseconds(Int64(NetworkWatch.gatheringMilliseconds))) { [self] in
            let change: NetworkWatch.Change = gathered == .gain ? .gain : .loss
            gathered = .nothing
            changed(change)
        }
    }
}

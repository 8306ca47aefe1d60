import Interfaces
import NIOCore

/// First on a connection through a proxy until the proxy has connected us to the remote; then it removes itself.
final class ProxyHandler: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private var negotiation: any ProxyNegotiation
    private let proxy: ProxyServer
    /// Adds the handlers that communicate with the remote.
    private let connected: (any Channel) throws -> Void
    private let failed: (any Error) -> Void
    private var isBegun = false
    private var isDone = false

    init(
        _ negotiation: any ProxyNegotiation, proxy: ProxyServer, connected: @escaping (any Channel) throws -> Void,
        failed: @escaping (any Error) -> Void
    ) {
        (self.negotiation, self.proxy, self.connected, self.failed) = (negotiation, proxy, connected, failed)
    }

    func handlerAdded(context: ChannelHandlerContext) {
        if context.channel.isActive { begin(context) }
    }

    func channelActive(context: ChannelHandlerContext) {
        begin(context)
        context.fireChannelActive()
    }

    private func begin(_ context: ChannelHandlerContext) {
        guard !isBegun else { return }
        isBegun = true
        do { send(try negotiation.begin(), context) } catch { fail(context, error) }
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !isDone else { return context.fireChannelRead(data) }
        do {
            switch try negotiation.receive(unwrapInboundIn(data).readableBytesView) {
            case .wait: break
            case .send(let bytes): send(bytes, context)
            case .connected(let rest):
                try connected(context.channel)
                isDone = true
                if !rest.isEmpty { context.fireChannelRead(wrapInboundOut(ByteBuffer(bytes: rest))) }
                context.pipeline.syncOperations.removeHandler(context: context, promise: nil)
            }
        } catch { fail(context, error) }
    }

    func channelInactive(context: ChannelHandlerContext) {
        fail(context, ReplicationError(network: .connectionReset, message: "\(proxy): the proxy closed the connection before its answer was complete"))
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if isDone { context.fireErrorCaught(error) } else { fail(context, NetworkErrors.replicationError(error, target: "\(proxy)")) }
    }

    private func send(_ bytes: [UInt8], _ context: ChannelHandlerContext) {
        context.writeAndFlush(wrapOutboundOut(ByteBuffer(bytes: bytes)), promise: nil)
    }

    private func fail(_ context: ChannelHandlerContext, _ error: any Error) {
        guard !isDone else { return }
        isDone = true
        failed(error)
        context.close(promise: nil)
    }
}

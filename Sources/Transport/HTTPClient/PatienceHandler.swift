import NIOCore

/// Closes a connection on which nothing moves any more.
final class PatienceHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let willClose: () -> Void

    init(_ willClose: @escaping () -> Void) { self.willClose = willClose }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        guard event is IdleStateHandler.IdleStateEvent else { return context.fireUserInboundEventTriggered(event) }
        willClose()
        context.close(promise: nil)
    }
}

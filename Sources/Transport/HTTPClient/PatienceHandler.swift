import NIOCore

/// Closes a connection on which nothing moves while a request is under way.
final class PatienceHandler: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundIn = ByteBuffer

    private var context: ChannelHandlerContext?
    private var limit: TimeAmount?
    private var lastMove = NIODeadline.now()
    private var timer: Scheduled<Void>?
    private var willClose: () -> Void = {}

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) {
        end()
        self.context = nil
    }

    /// On the event loop.
    func begin(_ limit: TimeAmount, _ willClose: @escaping () -> Void) {
        end()
        (self.limit, self.willClose, lastMove) = (limit, willClose, .now())
        look(at: lastMove + limit)
    }

    func end() {
        timer?.cancel()
        (timer, limit, willClose) = (nil, nil, {})
    }

    private func look(at deadline: NIODeadline) {
        guard let context else { return }
        timer = context.eventLoop.assumeIsolated().scheduleTask(deadline: deadline) { [weak self] in self?.look() }
    }

    private func look() {
        guard let limit, let context else { return }
        let deadline = lastMove + limit
        guard deadline <= .now() else { return look(at: deadline) }
        willClose()
        context.close(promise: nil)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        lastMove = .now()
        context.fireChannelRead(data)
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        let promise = promise ?? context.eventLoop.makePromise()
        promise.futureResult.assumeIsolated().whenSuccess { [weak self] in self?.lastMove = .now() }
        context.write(data, promise: promise)
    }
}

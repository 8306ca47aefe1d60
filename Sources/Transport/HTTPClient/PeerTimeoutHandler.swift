import NIOCore

/// Closes a connection on which nothing, or too little, moves during a request. Time in which nobody reads incoming data and nothing is to
/// be sent does not count: then the delay is ours, not the peer's.
final class PeerTimeoutHandler: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundIn = ByteBuffer

    private var context: ChannelHandlerContext?
    private var limit: TimeAmount?
    private var pace: HTTPClient.Pace?
    private var lastMove = NIODeadline.now()
    private var portionBegan = NIODeadline.now()
    private var portion = 0
    /// Somebody wants to read. A read requested before this handler was added is not known.
    private var isReading = true
    private var writes = 0
    /// Since when we have not been waiting for the peer.
    private var paused: NIODeadline?
    private var timer: Scheduled<Void>?
    private var willClose: (_ why: String) -> Void = { _ in }

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) {
        end()
        self.context = nil
    }

    /// Must be called on the event loop.
    func begin(_ limit: TimeAmount, _ pace: HTTPClient.Pace?, _ willClose: @escaping (_ why: String) -> Void) {
        end()
        (self.limit, self.pace, self.willClose) = (limit, pace, willClose)
        let now = NIODeadline.now()
        (lastMove, portionBegan, portion) = (now, now, 0)
        paused = waits ? nil : now
        look(at: deadline(limit))
    }

    func end() {
        timer?.cancel()
        (timer, limit, pace, willClose) = (nil, nil, nil, { _ in })
    }

    /// Data was passed to the connection that the system has not accepted yet.
    var isWriting: Bool { writes > 0 }

    private var waits: Bool { isReading || writes > 0 }

    private func deadline(_ limit: TimeAmount) -> NIODeadline {
        min(lastMove + limit, pace.map { portionBegan + $0.time } ?? .distantFuture)
    }

    private func look(at deadline: NIODeadline) {
        guard let context else { return }
        timer = context.eventLoop.assumeIsolated().scheduleTask(deadline: deadline) { [weak self] in self?.look() }
    }

    private func look() {
        guard let limit, let context else { return }
        timer = nil
        // The clock resumes when somebody reads again.
        guard paused == nil else { return }
        let deadline = deadline(limit)
        guard deadline <= .now() else { return look(at: deadline) }
        if lastMove + limit <= .now() {
            willClose("nothing came or went for \(limit.nanoseconds / 1_000_000) ms (patience)")
        } else if let pace {
            willClose("less than \(pace.bytes) bytes came or went in \(pace.time.nanoseconds / 1_000_000) ms (portion_bytes, portion_time)")
        }
        context.close(promise: nil)
    }

    /// Pauses or resumes the clock.
    private func noteWaiting() {
        let now = NIODeadline.now()
        if waits {
            guard let since = paused else { return }
            paused = nil
            lastMove = now
            portionBegan = portionBegan + (now - since)
            if timer == nil, let limit { look(at: deadline(limit)) }
        } else if paused == nil {
            paused = now
        }
    }

    private func moved(_ bytes: Int) {
        lastMove = .now()
        portion += bytes
        guard let pace, portion >= pace.bytes else { return }
        (portion, portionBegan) = (0, lastMove)
    }

    func read(context: ChannelHandlerContext) {
        isReading = true
        noteWaiting()
        context.read()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        moved(unwrapInboundIn(data).readableBytes)
        context.fireChannelRead(data)
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        // The next read is requested explicitly.
        isReading = false
        context.fireChannelReadComplete()
        // The channel requests more after this event, if it may.
        context.eventLoop.assumeIsolated().execute { [weak self] in self?.noteWaiting() }
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        let promise = promise ?? context.eventLoop.makePromise()
        let bytes = unwrapOutboundIn(data).readableBytes
        writes += 1
        noteWaiting()
        promise.futureResult.assumeIsolated().whenComplete { [weak self] result in
            guard let self else { return }
            writes -= 1
            if case .success = result { moved(bytes) }
            noteWaiting()
        }
        context.write(data, promise: promise)
    }
}

import NIOCore

/// Holds a connection to a bandwidth. It stands next to the socket, so that it counts what crosses the wire, that of TLS and HTTP included.
///
/// What is written goes on at once and is flushed when its time has come: so the channel counts it as waiting, and whoever writes sees that the
/// connection takes no more. What has come is passed on at once, and the next read waits: so the system's window holds the peer back.
final class PacingHandler: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundIn = IOData

    /// What is said to it through the pipeline.
    enum Order: Sendable {
        /// The connection ends: what is left to say waits no more, nor what is left to hear.
        case end
    }

    private let bandwidths: [Bandwidth]
    private var context: ChannelHandlerContext?
    /// Written, and not paid for.
    private var unpaid = 0
    private var flushing: Scheduled<Void>?
    private var reading: Scheduled<Void>?
    /// From when on the socket may be read.
    private var readable: NIODeadline?
    private var isEnding = false
    /// What a connection says and hears first is paid for and waits for nobody: where many share a bandwidth, TLS and the upgrade would else not be
    /// over in time.
    private var greeting = (sent: 16 << 10, received: 16 << 10)

    init(_ bandwidths: [Bandwidth]) { self.bandwidths = bandwidths }

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        // A slow line takes and brings little at a time, so that signs of life do not wait long behind the rest.
        let options = context.channel.syncOptions
        if let portion = Self.portion(bandwidths.compactMap { $0.send?.rate }) {
            try? options?.setOption(.writeBufferWaterMark, value: .init(low: portion / 4, high: portion))
        }
        if let portion = Self.portion(bandwidths.compactMap { $0.receive?.rate }) {
            try? options?.setOption(.recvAllocator, value: AdaptiveRecvByteBufferAllocator(minimum: 512, initial: 1_024, maximum: portion))
        }
        try? options?.setOption(.maxMessagesPerRead, value: 1)
    }

    /// What a quarter of a second brings; nil where the usual portions take no longer than a second.
    private static func portion(_ rates: [Int]) -> Int? {
        guard let rate = rates.min(), rate < 64 << 10 else { return nil }
        return max(1_024, rate / 4)
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        flushing?.cancel()
        reading?.cancel()
        (flushing, reading, self.context) = (nil, nil, nil)
    }

    // MARK: Out

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        unpaid += unwrapOutboundIn(data).readableBytes
        context.write(data, promise: promise)
    }

    func flush(context: ChannelHandlerContext) {
        guard flushing == nil else { return }
        let isGreeting = unpaid <= greeting.sent
        greeting.sent = max(0, greeting.sent - unpaid)
        let wait = pay()
        guard wait > 0, !isGreeting, !isEnding else { return context.flush() }
        flushing = context.eventLoop.assumeIsolated().scheduleTask(in: .nanoseconds(Int64(clamping: wait))) { [weak self] in self?.release() }
    }

    private func release() {
        flushing = nil
        // What was written meanwhile goes along; what comes behind it waits for that, too.
        _ = pay()
        context?.flush()
    }

    private func pay() -> UInt64 {
        defer { unpaid = 0 }
        return unpaid == 0 ? 0 : bandwidths.reduce(UInt64(0)) { max($0, $1.send?.take(unpaid) ?? 0) }
    }

    func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        if mode != .input { end() }
        context.close(mode: mode, promise: promise)
    }

    func triggerUserOutboundEvent(context: ChannelHandlerContext, event: Any, promise: EventLoopPromise<Void>?) {
        guard case Order.end? = event as? Order else { return context.triggerUserOutboundEvent(event, promise: promise) }
        end()
        promise?.succeed(())
    }

    private func end() {
        guard !isEnding else { return }
        isEnding = true
        if let flushing {
            flushing.cancel()
            release()
        }
        if let reading {
            reading.cancel()
            goOnReading()
        }
    }

    // MARK: In

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let bytes = unwrapInboundIn(data).readableBytes
        let wait = bandwidths.reduce(UInt64(0)) { max($0, $1.receive?.take(bytes) ?? 0) }
        let isGreeting = bytes <= greeting.received
        greeting.received = max(0, greeting.received - bytes)
        if wait > 0, !isGreeting { readable = context.eventLoop.now + .nanoseconds(Int64(clamping: wait)) }
        context.fireChannelRead(data)
    }

    func read(context: ChannelHandlerContext) {
        guard reading == nil else { return }
        guard let due = readable, due > context.eventLoop.now, !isEnding else {
            readable = nil
            return context.read()
        }
        reading = context.eventLoop.assumeIsolated().scheduleTask(deadline: due) { [weak self] in self?.goOnReading() }
    }

    private func goOnReading() {
        (reading, readable) = (nil, nil)
        context?.read()
    }
}

import NIOCore

/// Limits a connection to a bandwidth. It is next to the socket, so that it counts the bytes on the wire, including TLS and HTTP.
///
/// Writes are passed on at once and flushed when their time has come, so that the channel counts them as waiting and becomes unwritable. Received
/// data is passed on at once and the next read is delayed, so that the TCP window holds the peer back.
final class PacingHandler: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundIn = IOData

    /// Sent to it through the pipeline.
    enum Order: Sendable {
        /// The connection is ending: neither remaining output nor remaining input waits any longer.
        case end
    }

    private let bandwidths: [Bandwidth]
    private var context: ChannelHandlerContext?
    /// Written bytes that have not been taken from the bandwidth yet.
    private var unpaid = 0
    private var flushing: Scheduled<Void>?
    private var reading: Scheduled<Void>?
    /// When the socket may be read again.
    private var readable: NIODeadline?
    private var isEnding = false
    /// The first bytes of a connection count towards the bandwidth but are not delayed: if many connections share a bandwidth, TLS and the upgrade
    /// would otherwise not complete in time.
    private var greeting = (sent: 16 << 10, received: 16 << 10)

    init(_ bandwidths: [Bandwidth]) { self.bandwidths = bandwidths }

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        // On a slow line, data is transferred in small portions, so that heartbeats do not wait long behind other data.
        let options = context.channel.syncOptions
        if let portion = Self.portion(bandwidths.compactMap { $0.send?.rate }) {
            try? options?.setOption(.writeBufferWaterMark, value: .init(low: portion / 4, high: portion))
        }
        if let portion = Self.portion(bandwidths.compactMap { $0.receive?.rate }) {
            try? options?.setOption(.recvAllocator, value: AdaptiveRecvByteBufferAllocator(minimum: 512, initial: 1_024, maximum: portion))
        }
        try? options?.setOption(.maxMessagesPerRead, value: 1)
    }

    /// The bytes in a quarter of a second; nil if the default portions take less than a second.
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
        // Includes what has been written meanwhile; later writes wait for all of it.
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

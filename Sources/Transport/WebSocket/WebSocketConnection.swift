import Environment
import Interfaces
import NIOCore

/// A WebSocket after its handshake: the last handler of its channel's pipeline, and the transport that a session uses.
///
/// Sendable although mutable: all mutable state is confined to the channel's event loop, which the entry points assert; `close` and `drop`, which may
/// be called from anywhere, hop there first.
public final class WebSocketConnection: ChannelInboundHandler, ChannelOutboundHandler, MessageTransport, SecuredTransport, @unchecked Sendable {
    public typealias InboundIn = ByteBuffer
    public typealias OutboundIn = ByteBuffer
    public typealias OutboundOut = ByteBuffer

    enum Side {
        /// Masks its frames, with keys from this source.
        case client(maskRandom: any RandomSource)
        case server
    }

    private enum Phase {
        case open
        /// Our CLOSE frame was written; the socket is closed when the peer's arrives or the time is up.
        case closing
        case closed
    }

    package let eventLoop: any EventLoop
    public let executionContext: any SerialContext
    public let peerDescription: String
    /// The token of `Sec-WebSocket-Protocol` that both sides agreed on.
    public let protocolName: String
    public var subprotocol: Subprotocol? { Subprotocol(rawValue: protocolName) }
    public let peerHasBothNames: Bool
    /// Who is behind the secure layer, if there is one.
    public let securePeer: SecurePeer?
    public let correlationID: String?

    private let limits: TransportLimits
    private let onEnd: (@Sendable (WebSocketConnection) -> Void)?

    private var context: ChannelHandlerContext?
    private var receiver: (any MessageReceiver)?
    private var phase = Phase.open
    private var encoder: WebSocketEncoder
    private var reader: WebSocketReader
    private var (reportedUnfinished, goesOn) = (0, false)
    private var end: ConnectionEnd?
    private var undeliveredEnd: ConnectionEnd?
    private var lastSystemError: String?
    private var closeWritten: EventLoopFuture<Void>?
    private var deadline: Scheduled<Void>?

    /// Data that arrives while the HTTP handlers are still in the pipeline: an answer to it would pass through them.
    private var early: [ByteBuffer]? = []
    private var isReading = false
    private var holdsRead = false
    private var pendingPong: [UInt8]?
    private var reportsWritability = false
    private var liveness: Liveness

    /// - Parameter heartbeat: idle time after which a PING is sent.
    init(
        side: Side, channel: any Channel, protocolName: String, peerDescription: String, securePeer: SecurePeer?, correlationID: String? = nil,
        peerHasBothNames: Bool = false, heartbeat: TimeAmount, limits: TransportLimits, onEnd: (@Sendable (WebSocketConnection) -> Void)?
    ) {
        eventLoop = channel.eventLoop
        executionContext = EventLoopContext(channel.eventLoop)
        self.peerDescription = peerDescription
        self.protocolName = protocolName
        self.securePeer = securePeer
        self.correlationID = correlationID
        self.peerHasBothNames = peerHasBothNames
        self.limits = limits
        self.onEnd = onEnd
        let expectsMask: Bool
        switch side {
        case .client(let random):
            encoder = WebSocketEncoder(maskRandom: random)
            expectsMask = false
        case .server:
            encoder = WebSocketEncoder(maskRandom: nil)
            expectsMask = true
        }
        reader = WebSocketReader(WebSocketDecoder(expectsMask: expectsMask, limit: limits.messageBytes, allocator: channel.allocator))
        liveness = Liveness(heartbeat: heartbeat, pongTime: limits.pongTime)
    }

    // MARK: MessageTransport

    public var isWritable: Bool {
        eventLoop.preconditionInEventLoop()
        return phase == .open && (context?.channel.isWritable ?? false)
    }

    public func start(_ receiver: any MessageReceiver) {
        eventLoop.preconditionInEventLoop()
        precondition(self.receiver == nil, "a transport is started once")
        if let undeliveredEnd {
            self.undeliveredEnd = nil
            deliver(to: receiver)
            eventLoop.execute { receiver.closed(undeliveredEnd) }
            return
        }
        self.receiver = receiver
        deliver()
        setReading(true)
    }

    public func write(_ messages: [ByteBuffer]) {
        eventLoop.preconditionInEventLoop()
        guard phase == .open, let context, !messages.isEmpty else { return }
        encoder.encode(messages, allocator: context.channel.allocator) { context.write(wrapOutboundOut($0), promise: nil) }
        context.flush()
        guard phase == .open, !context.channel.isWritable else { return }
        let waiting = waitingBytes
        if waiting > limits.outboundBytes {
            // Not 1008, which makes Couchbase Lite stop permanently.
            close(4001, "\(waiting) bytes wait for a peer that does not read; outbound_bytes is \(limits.outboundBytes)")
        }
    }

    /// Bytes that the socket has not accepted yet. Event loop only.
    public var waitingBytes: Int {
        eventLoop.preconditionInEventLoop()
        return (try? context?.channel.syncOptions?.getOption(.bufferedWritableBytes)) ?? 0
    }

    public func setReading(_ enabled: Bool) {
        eventLoop.preconditionInEventLoop()
        // While closing we keep reading, to see the peer's CLOSE.
        guard enabled != isReading, enabled || phase == .open else { return }
        isReading = enabled
        if enabled {
            liveness.heard(at: eventLoop.now)
            readOn()
        }
    }

    public func close(code: UInt16, reason: String) {
        if eventLoop.inEventLoop {
            close(code, reason)
        } else {
            eventLoop.execute { self.close(code, reason) }
        }
    }

    public func drop() {
        if eventLoop.inEventLoop {
            drop(ConnectionEnd(code: CloseFrame.abnormal, reason: "dropped", initiatedLocally: true))
        } else {
            eventLoop.execute { self.drop(ConnectionEnd(code: CloseFrame.abnormal, reason: "dropped", initiatedLocally: true)) }
        }
    }

    // MARK: ChannelHandler

    public func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        liveness.heard(at: eventLoop.now)
        scheduleHeartbeat(after: liveness.heartbeat)
    }

    public func handlerRemoved(context: ChannelHandlerContext) {
        // The pipeline removes its handlers after channelInactive; a removal at any other time also ends the connection.
        finish()
        self.context = nil
    }

    public func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard phase != .closed else { return }
        if early != nil {
            early?.append(unwrapInboundIn(data))
        } else {
            take(unwrapInboundIn(data))
        }
    }

    /// Called when the HTTP handlers have been removed, before the connection is handed out. Event loop only.
    func begin() {
        guard let early else { return }
        self.early = nil
        for piece in early { take(piece) }
    }

    private func take(_ piece: ByteBuffer) {
        liveness.heard(at: eventLoop.now)
        guard reader.take(piece) else {
            reader.forget()
            return drop(ConnectionEnd(code: CloseFrame.abnormal, reason: "the connection ended before everything it had brought was processed", initiatedLocally: false))
        }
        reportUnfinished()
        if reader.hasControl { handleControl() }
    }

    private func reportUnfinished() {
        let unfinished = reader.unfinishedBytes
        guard unfinished != reportedUnfinished else { return }
        reportedUnfinished = unfinished
        receiver?.holds(unfinishedBytes: unfinished)
    }

    public func channelReadComplete(context: ChannelHandlerContext) {
        deliver()
        resumeLater()
    }

    /// The next messages are processed after other connections on the event loop have had their turn.
    private func resumeLater() {
        guard !reader.isEmpty, !goesOn, isReading || phase != .open else { return }
        goesOn = true
        executionContext.executeAfterIO { self.goOn() }
    }

    private func goOn() {
        goesOn = false
        guard phase != .closed, isReading || phase != .open else { return }
        reader.goOn()
        reportUnfinished()
        if reader.hasControl { handleControl() }
        deliver()
        readOn()
    }

    /// Data that has already been read comes first.
    private func readOn() {
        if !reader.isEmpty { return resumeLater() }
        guard holdsRead, isReading || phase != .open else { return }
        holdsRead = false
        context?.read()
    }

    public func channelWritabilityChanged(context: ChannelHandlerContext) {
        guard phase == .open else { return }
        let isWritable = context.channel.isWritable
        if isWritable, let payload = pendingPong {
            pendingPong = nil
            sendControl(.pong, payload)
        }
        // In a later tick, and once for several changes: otherwise a write that fills and drains the socket's buffer would call the session back in
        // the middle of its write, repeatedly.
        guard !reportsWritability else { return }
        reportsWritability = true
        eventLoop.execute { self.reportWritability() }
    }

    private func reportWritability() {
        reportsWritability = false
        guard phase == .open, let context else { return }
        // Even if it is unchanged: a session that saw false in between waits for this call.
        receiver?.writabilityChanged(context.channel.isWritable)
    }

    public func read(context: ChannelHandlerContext) {
        // Channels request the next read by themselves after each read; holding that back is what stops the socket.
        if reader.isEmpty, isReading || phase != .open {
            context.read()
        } else {
            holdsRead = true
        }
    }

    public func errorCaught(context: ChannelHandlerContext, error: any Error) {
        lastSystemError = NetworkErrors.describe(error)
        context.close(promise: nil)
    }

    public func channelInactive(context: ChannelHandlerContext) {
        finish()
    }

    // MARK: Incoming

    private func deliver() {
        guard let receiver, !reader.output.messages.isEmpty else { return }
        deliver(to: receiver)
    }

    private func deliver(to receiver: any MessageReceiver) {
        guard !reader.output.messages.isEmpty else { return }
        var messages: [ByteBuffer] = []
        swap(&messages, &reader.output.messages)
        // The side that closed reads no further messages.
        if end?.initiatedLocally != true { receiver.received(messages) }
    }

    private func handleControl() {
        if let payload = reader.output.ping {
            reader.output.ping = nil
            if phase == .open {
                if context?.channel.isWritable == true { sendControl(.pong, payload) } else { pendingPong = payload }
            }
        }
        if let violation = reader.output.violation {
            reader.output.violation = nil
            if phase == .open {
                deliver()
                close(violation.code, violation.reason)
            }
        }
        if let payload = reader.output.close {
            reader.output.close = nil
            deliver()
            handlePeerClose(payload)
        }
    }

    private func handlePeerClose(_ payload: ByteBuffer) {
        guard let context else { return }
        if phase == .open {
            let frame = CloseFrame(payload: payload)
            end = frame.map { ConnectionEnd(code: $0.code, reason: $0.reason, initiatedLocally: false) }
                ?? ConnectionEnd(code: 1002, reason: "the peer's CLOSE frame has an impossible code", initiatedLocally: true)
            sendClose(CloseFrame.payload(code: frame?.code ?? 1002, reason: ""))
        }
        // Both CLOSE frames exist; the socket is closed as soon as ours has been sent.
        let channel = context.channel
        closeWritten?.whenComplete { _ in channel.close(promise: nil) }
    }

    // MARK: Ending

    private func close(_ code: UInt16, _ reason: String) {
        guard phase == .open, context != nil else { return }
        end = ConnectionEnd(code: code, reason: reason, initiatedLocally: true)
        sendClose(CloseFrame.payload(code: code, reason: reason))
    }

    private func sendClose(_ payload: [UInt8]) {
        guard let context else { return }
        phase = .closing
        pendingPong = nil
        reader.skipToClose()
        isReading = true
        let written = eventLoop.makePromise(of: Void.self)
        closeWritten = written.futureResult
        context.triggerUserOutboundEvent(PacingHandler.Order.end, promise: nil)
        let frame = encoder.control(.close, payload, allocator: context.channel.allocator)
        deadline?.cancel()
        deadline = eventLoop.scheduleTask(in: limits.closeTime) { [weak self] in self?.context?.close(promise: nil) }
        context.writeAndFlush(wrapOutboundOut(frame), promise: written)
        readOn()
    }

    private func drop(_ end: ConnectionEnd) {
        guard phase != .closed, let context else { return }
        if self.end == nil { self.end = end }
        pendingPong = nil
        phase = .closing
        context.close(promise: nil)
    }

    private func finish() {
        guard phase != .closed else { return }
        let end =
            self.end
            ?? ConnectionEnd(
                code: CloseFrame.abnormal, reason: lastSystemError ?? "the connection ended without a CLOSE frame", initiatedLocally: false)
        deliver()
        // The sender has gone before this was processed, and will offer it again.
        reader.forget()
        phase = .closed
        deadline?.cancel()
        deadline = nil
        if let receiver {
            self.receiver = nil
            // A failing write ends the channel from within; the session must not be called back in the middle of its own call.
            eventLoop.execute { receiver.closed(end) }
        } else {
            undeliveredEnd = end
        }
        onEnd?(self)
    }

    // MARK: Heartbeat

    private func scheduleHeartbeat(after delay: TimeAmount) {
        deadline = eventLoop.scheduleTask(in: delay) { [weak self] in self?.checkLiveness() }
    }

    private func checkLiveness() {
        guard phase == .open else { return }
        switch liveness.check(at: eventLoop.now, isReading: isReading) {
        case .wait(let delay):
            scheduleHeartbeat(after: delay)
        case .ping(let delay):
            sendControl(.ping, [])
            scheduleHeartbeat(after: delay)
        case .dead(let waited):
            drop(
                ConnectionEnd(
                    code: CloseFrame.abnormal,
                    reason: "no answer to a PING within \(waited.nanoseconds / 1_000_000) ms", initiatedLocally: false))
        }
    }

    private func sendControl(_ opcode: WebSocketEncoder.Opcode, _ payload: [UInt8]) {
        guard let context else { return }
        context.writeAndFlush(wrapOutboundOut(encoder.control(opcode, payload, allocator: context.channel.allocator)), promise: nil)
    }
}

import NIOCore

/// TLS on one connection: records on the socket's side, plain bytes on the other.
///
/// - Writes wait for the end of the handshake and are encrypted when flushed, small ones together. Encrypted bytes count as the channel's own, so its
///   writability reflects the peer.
/// - ``TLSHandshakeCompleted`` is fired once; each failure is a ``TLSError``, followed by the end of the channel.
/// - Closing sends a close_notify. If the peer sends none, that is ``TLSError/Kind/truncated``, reported before `channelInactive`.
package final class TLSHandler: ChannelDuplexHandler {
    package typealias InboundIn = ByteBuffer
    package typealias InboundOut = ByteBuffer
    package typealias OutboundIn = ByteBuffer
    package typealias OutboundOut = ByteBuffer

    enum Phase: Equatable {
        /// The channel is not active yet.
        case waiting
        /// Nothing has been received yet: the peer may speak something else.
        case sniffing
        case handshaking
        case open
        /// The peer has been told why it is refused; further input is discarded.
        case refusing(TLSError)
        case ended
    }

    let limits: TLSConnectionLimits
    var engine: TLSEngine?
    var phase = Phase.waiting
    var context: ChannelHandlerContext?
    private var timer: Scheduled<Void>?

    var pending = CircularBuffer<(bytes: ByteBuffer, promise: EventLoopPromise<Void>?)>()
    /// How many of the `pending` writes were flushed.
    var flushed = 0
    var heldBytes = 0
    /// Our direction was to be closed during the handshake.
    var waitingOutputClose: EventLoopPromise<Void>??
    var isOutputClosed = false

    private var isInputClosed = false
    /// The socket itself failed: that is why the connection ends, not a missing close_notify.
    private var hasTransportError = false
    /// A read was requested and has not yielded plain bytes yet.
    private var wantsRead = false

    private let isClient: Bool

    /// For an accepted connection.
    package init(server context: TLSContext) throws(TLSError) {
        limits = context.limits
        isClient = false
        guard context.client == nil else { throw TLSError(.configuration, "a client's TLS context cannot serve") }
        engine = try TLSEngine(context, endpoint: nil)
    }

    /// For a connection to `endpoint`.
    package init(client context: TLSContext, endpoint: TLSEndpoint) throws(TLSError) {
        limits = context.limits
        isClient = true
        guard context.client != nil else { throw TLSError(.configuration, "a server's TLS context cannot connect") }
        engine = try TLSEngine(context, endpoint: endpoint)
    }

    // MARK: Channel events

    package func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        if context.channel.isActive { start(context) }
    }

    package func handlerRemoved(context: ChannelHandlerContext) {
        end(ChannelError.ioOnClosedChannel)
        self.context = nil
    }

    package func channelActive(context: ChannelHandlerContext) {
        start(context)
        context.fireChannelActive()
    }

    private func start(_ context: ChannelHandlerContext) {
        guard phase == .waiting else { return }
        phase = .sniffing
        let time = limits.handshakeTime
        arm(time) { this in
            this.fail(TLSError(.timedOut, "no complete TLS handshake within \(time.nanoseconds / 1_000_000) ms (handshake_time)"))
        }
        if isClient { advanceHandshake(context) }
    }

    func arm(_ time: TimeAmount, _ action: @escaping (TLSHandler) -> Void) {
        timer?.cancel()
        timer = context?.eventLoop.assumeIsolated().scheduleTask(in: time) { [weak self] in self.map(action) }
    }

    package func channelInactive(context: ChannelHandlerContext) {
        switch phase {
        case .waiting, .ended:
            break
        case .refusing:
            reportRefusal(context)
        case .sniffing, .handshaking:
            if !hasTransportError { context.fireErrorCaught(TLSError(.closedInHandshake, "the peer closed the connection during the TLS handshake")) }
        case .open:
            if !isInputClosed, !hasTransportError { context.fireErrorCaught(Self.truncation) }
        }
        end(ChannelError.ioOnClosedChannel)
        context.fireChannelInactive()
    }

    private static var truncation: TLSError {
        TLSError(.truncated, "the connection broke off, without a TLS close_notify: the peer ended or the line was cut")
    }

    package func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if case .refusing = phase {
            // The peer disconnected before it had read the whole refusal; the reason for that refusal is what counts.
            reportRefusal(context)
            return context.close(promise: nil)
        }
        hasTransportError = true
        context.fireErrorCaught(error)
    }

    package func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        guard case ChannelEvent.inputClosed? = event as? ChannelEvent else { return context.fireUserInboundEventTriggered(event) }
        switch phase {
        case .sniffing, .handshaking:
            fail(TLSError(.closedInHandshake, "the peer closed the connection during the TLS handshake"))
        case .open where !isInputClosed:
            isInputClosed = true
            context.fireErrorCaught(Self.truncation)
            context.fireUserInboundEventTriggered(event)
        case .refusing:
            context.close(promise: nil)
        case .waiting, .open, .ended:
            break
        }
    }

    /// Releases the connection's resources. Unsent writes fail.
    func end(_ error: any Error) {
        phase = .ended
        timer?.cancel()
        timer = nil
        engine = nil
        var unsent = CircularBuffer<(bytes: ByteBuffer, promise: EventLoopPromise<Void>?)>()
        swap(&unsent, &pending)
        flushed = 0
        heldBytes = 0
        for write in unsent { write.promise?.fail(error) }
        if let promise = waitingOutputClose {
            waitingOutputClose = nil
            promise?.fail(error)
        }
    }

    /// Sends the peer OpenSSL's alert, fires the error through the pipeline, and closes.
    func fail(_ error: TLSError) {
        guard phase != .ended, let context else { return }
        flushRecords(context)
        let isRefusal = !isClient && phase == .handshaking && error.kind != .timedOut && error.kind != .closedInHandshake
        end(error)
        if isRefusal { return refuse(error, context) }
        context.fireErrorCaught(error)
        context.close(promise: nil)
    }

    /// Gives the peer time to read why it is refused: closing at once, while it is still sending, would reset the connection, and a client that only
    /// sees the reset takes it for a network problem and reconnects. The pipeline is told when the connection has ended.
    private func refuse(_ error: TLSError, _ context: ChannelHandlerContext) {
        phase = .refusing(error)
        arm(limits.lingerTime) { $0.context?.close(promise: nil) }
        context.close(mode: .output, promise: nil)
        context.read()
    }

    /// Reports to the pipeline, once, why the peer is refused.
    func reportRefusal(_ context: ChannelHandlerContext) {
        guard case .refusing(let error) = phase else { return }
        phase = .ended
        context.fireErrorCaught(error)
    }

    // MARK: Input from the socket

    package func read(context: ChannelHandlerContext) {
        wantsRead = true
        context.read()
    }

    package func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard let engine else { return }
        switch phase {
        case .waiting, .refusing, .ended:
            return
        case .sniffing:
            engine.records.append(unwrapInboundIn(data))
            guard engine.records.inbound.readableBytes >= FirstBytes.count else { return }
            let bytes = engine.records.inbound.readableBytesView
            switch FirstBytes(bytes) {
            case .tls:
                phase = .handshaking
                advanceHandshake(context)
            case .plainHTTP:
                heardPlainHTTP(context)
            case .other:
                let shown = bytes.prefix(16).map { (0x20..<0x7F).contains($0) ? String(UnicodeScalar($0)) : "\\x" + hex($0) }.joined()
                fail(TLSError(.notTLS, "the peer does not speak TLS: its first bytes are \"\(shown)\"", advice: "check host and port"))
            }
        case .handshaking:
            engine.records.append(unwrapInboundIn(data))
            advanceHandshake(context)
        case .open:
            guard !isInputClosed else { return }
            engine.records.append(unwrapInboundIn(data))
            decrypt(context)
        }
    }

    private func hex(_ byte: UInt8) -> String {
        let digits = String(byte, radix: 16)
        return digits.utf8.count < 2 ? "0" + digits : digits
    }

    package func channelReadComplete(context: ChannelHandlerContext) {
        context.fireChannelReadComplete()
        // The handlers above wait for plain bytes, and do not request another read after a record that contained none.
        var isEarly = phase == .sniffing || phase == .handshaking
        if case .refusing = phase { isEarly = true } // input is discarded until the end
        if isEarly || (wantsRead && phase == .open) { context.read() }
    }

    private func heardPlainHTTP(_ context: ChannelHandlerContext) {
        if isClient {
            let target = engine?.endpoint.map { "\($0.host) port \($0.port)" } ?? "the server"
            return fail(TLSError(.plainHTTP, "\(target) speaks plain HTTP, not TLS", advice: "use ws: or http: if this is the right port, or enable TLS at the server"))
        }
        let error = TLSError(.plainHTTP, "a client spoke plain HTTP to this TLS port", advice: "it has to use https: or wss:")
        end(error)
        context.writeAndFlush(wrapOutboundOut(context.channel.allocator.buffer(string: FirstBytes.httpRefusal)), promise: nil)
        refuse(error, context)
    }

    private func advanceHandshake(_ context: ChannelHandlerContext) {
        guard let engine else { return }
        switch engine.handshake() {
        case .needsMore:
            flushRecords(context)
        case .failed(let error):
            fail(error)
        case .done:
            timer?.cancel()
            timer = nil
            phase = .open
            flushRecords(context)
            if let completed = engine.completed() { context.fireUserInboundEventTriggered(completed) }
            heldBytes = 0
            encryptFlushed(context)
            if let promise = waitingOutputClose {
                waitingOutputClose = nil
                closeOutput(context, promise)
            }
            // Application data may have arrived with the last handshake message.
            if phase == .open, engine.hasInput { decrypt(context) }
        }
    }

    private func decrypt(_ context: ChannelHandlerContext) {
        guard let engine else { return }
        repeat {
            let capacity = min(max(engine.records.inbound.readableBytes, 256), limits.readBytes)
            var plain = context.channel.allocator.buffer(capacity: capacity)
            let outcome = engine.read(into: &plain, upTo: limits.readBytes)
            if plain.readableBytes > 0 {
                wantsRead = false
                context.fireChannelRead(wrapInboundOut(plain))
                // A handler above may have closed this connection.
                guard phase == .open else { return }
            }
            switch outcome {
            case .full: continue
            case .needsMore: return flushRecords(context)
            case .closed: return peerClosed(context)
            case .failed(let error): return fail(error)
            }
        } while phase == .open && engine.hasInput
    }

    /// The peer's close_notify arrived: treated like the end of input on a plain socket.
    private func peerClosed(_ context: ChannelHandlerContext) {
        isInputClosed = true
        flushRecords(context)
        let staysOpen = (try? context.channel.syncOptions?.getOption(.allowRemoteHalfClosure)) ?? false
        if staysOpen {
            context.fireUserInboundEventTriggered(ChannelEvent.inputClosed)
        } else {
            close(context: context, mode: .all, promise: nil)
        }
    }
}

import Logging
import NIOCore
import NIOHTTP1

/// One accepted connection while it speaks HTTP/1: takes requests one at a time, has them answered, or hands the connection over. While a request is
/// being answered, only its body is read from the socket, on demand. Bytes are written without NIO's encoder, because Couchbase Lite accepts less in
/// a 101 response than HTTP allows.
final class HTTPConnectionHandler: ChannelInboundHandler, ChannelOutboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    let core: HTTPListener.Core
    let entry: ConnectionTable.Entry
    var limits: HTTPLimits { core.table.limits }
    private var info: ConnectionInfo
    private(set) var phase = Phase.idle
    private var queue = RequestQueue()
    private var holdsRead = false
    private var timer: Scheduled<Void>?
    private var stallTimer: Scheduled<Void>?
    private var isDraining = false
    private var isFirstRequest = true
    private(set) var context: ChannelHandlerContext?
    private let unread: UnreadBytes

    init(core: HTTPListener.Core, entry: ConnectionTable.Entry, info: ConnectionInfo) {
        unread = UnreadBytes(core.table.memory, of: entry.origin) { [channel = entry.channel] in channel.close(promise: nil) }
        self.core = core
        self.entry = entry
        self.info = info
    }

    // MARK: Channel

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        arm(limits.headerTime) { $0.headerTimeIsUp() }
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        stopTimer()
        unread.note(0)
        self.context = nil
    }

    func channelInactive(context: ChannelHandlerContext) {
        stopTimer()
        if case .exchange(let exchange) = phase { exchange.end(ChannelError.ioOnClosedChannel) }
        phase = .closing
        context.fireChannelInactive()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        switch event {
        case let identity as any PeerIdentity:
            info.identity = identity
        case Order.drain:
            isDraining = true
            if case .idle = phase { context.close(promise: nil) }
            guard case .exchange(let exchange) = phase else { return }
            let stopping = HTTPError(503, "the agent or its listener is stopping")
            exchange.interruptUnpacking(stopping)
            if exchange.isComplete { return }
            if !exchange.endBody(stopping) { fail(exchange, stopping.status, stopping.reason) }
        case Order.leave:
            context.close(promise: nil)
        default:
            context.fireUserInboundEventTriggered(event)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        let problem = core.problem(error, of: info.remoteAddress)
        switch (phase, problem) {
        case (.idle, let problem?): refuse(problem.status, problem.reason)
        case (.exchange(let exchange), let problem?) where exchange.isComplete: queue.refuseTheRest(problem.status, problem.reason)
        case (.exchange(let exchange), let problem?): fail(exchange, problem.status, problem.reason)
        case (.closing, _?): break
        default: context.close(promise: nil)
        }
    }

    func read(context: ChannelHandlerContext) {
        if case .exchange(let exchange) = phase, exchange.isComplete || !exchange.isBodyWanted {
            holdsRead = true
        } else {
            context.read()
        }
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let part = unwrapInboundIn(data)
        guard case .exchange(let exchange) = phase, exchange.isComplete else { return process(part) }
        queue.push(part, limit: limits.queuedRequests)
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        unread.note(waitingBytes)
        if context.channel.isWritable, case .exchange(let exchange) = phase {
            stallTimer?.cancel()
            stallTimer = nil
            exchange.resumeWriters()
            if exchange.isOver { watchClient() }
        }
        context.fireChannelWritabilityChanged()
    }

    // MARK: Requests

    private func process(_ part: HTTPServerRequestPart) {
        switch (phase, part) {
        case (.idle, .head(let head)): begin(head)
        case (.exchange(let exchange), .body(let piece)): take(piece, of: exchange)
        case (.exchange(let exchange), .end): requestIsComplete(exchange)
        default: break
        }
    }

    private func begin(_ head: HTTPRequestHead) {
        guard let context else { return }
        if isFirstRequest { core.table.handshakeIsOver(entry) }
        isFirstRequest = false
        stopTimer()
        entry.noteBusy()
        if let problem = entry.problem ?? HeaderRules.problem(head).map({ (400, $0) }) { return refuse(problem.status, problem.reason, isHead: head.method == .HEAD) }
        let exchange = Exchange(head, handler: self)
        phase = .exchange(exchange)
        let bound = NIOLoopBound(exchange, eventLoop: context.eventLoop)
        let eventLoop = context.eventLoop
        let yieldResources = { @Sendable in eventLoop.execute { bound.value.yieldResources() } }
        var (memory, connection): (BodyMemory?, ConnectionInfo) = (nil, info)
        connection.cut = yieldResources
        if exchange.hasBody {
            exchange.open(BodyPipe { demand in eventLoop.execute { bound.value.handler?.bodyIsWanted(demand, of: bound.value) } })
            memory = core.bodyMemory(of: info, yieldResources: yieldResources)
            memory?.noteBegun()
            exchange.memory = memory
        }
        let limit = NamedLimit("body_bytes", limits.bodyBytes)
        let body = RequestBody(pipe: exchange.pipe, declaredLength: exchange.declaredLength, limit: limit, memory: memory)
        let request = HTTPRequest(
            method: head.method.rawValue, uri: head.uri, headers: HeaderList(head.headers.map { (name: $0.name, value: $0.value) }),
            body: body, connection: connection)
        exchange.task = Exchange.run(bound, request, core)
    }

    private func headerTimeIsUp() {
        guard isFirstRequest else { return context?.close(promise: nil) ?? () }
        refuse(408, "no complete request header within header_time (\(limits.headerTime.shown))")
    }

    // MARK: Responses

    func answer(_ response: HTTPResponse, to exchange: Exchange) {
        guard isCurrent(exchange), exchange.encoder.progress == .notBegun, let context, context.channel.isActive else {
            return response.abandonUpgrade()
        }
        switch response.body {
        case .upgrade(let upgrade): take(upgrade, exchange, context)
        case .stream: break
        case .buffer(let bytes):
            send([exchange.encoder.whole(response, bytes, keepAlive: canStayOpen(after: exchange, response))], of: exchange, context)
            responseIsWritten(exchange)
        }
    }

    /// Writes the header; false if no body may follow.
    func beginStream(_ response: HTTPResponse, length: Int?, of exchange: Exchange) throws -> Bool {
        guard isCurrent(exchange), exchange.encoder.progress == .notBegun, let context else { throw ChannelError.ioOnClosedChannel }
        let (header, hasBody) = exchange.encoder.begin(response, length: length, keepAlive: canStayOpen(after: exchange, response))
        send([header], of: exchange, context)
        return hasBody
    }

    /// Writes a piece of a streamed body; the promise succeeds when little enough of the output is waiting for the client.
    func write(_ piece: ByteBuffer, of exchange: Exchange, _ promise: EventLoopPromise<Void>) throws {
        guard isCurrent(exchange), let context else { throw ChannelError.ioOnClosedChannel }
        send(try exchange.encoder.frame(piece), of: exchange, context)
        // The write may have made the socket fail.
        guard isCurrent(exchange) else { throw ChannelError.ioOnClosedChannel }
        guard !context.channel.isWritable else { return promise.succeed() }
        exchange.writers.append(promise)
        watchClient()
    }

    func endStream(_ exchange: Exchange) throws {
        guard isCurrent(exchange), let context else { throw ChannelError.ioOnClosedChannel }
        if let out = try exchange.encoder.end() { send([out], of: exchange, context) }
        responseIsWritten(exchange)
    }

    private func send(_ pieces: [ByteBuffer], of exchange: Exchange, _ context: ChannelHandlerContext) {
        let taken = context.eventLoop.makePromise(of: Void.self)
        exchange.taken = taken.futureResult
        for (index, piece) in pieces.enumerated() { context.write(wrapOutboundOut(piece), promise: index == pieces.count - 1 ? taken : nil) }
        context.flush()
        unread.note(waitingBytes)
        guard waitingBytes > 0 else { return }
        let this = NIOLoopBound(self, eventLoop: context.eventLoop)
        taken.futureResult.whenSuccess { this.value.unread.note(this.value.waitingBytes) }
    }

    func yieldResources(_ exchange: Exchange) {
        fail(exchange, exchange.memory?.refusal ?? HTTPError(503, "limits.memory (\(core.table.memory.limit)) of the agent has no room for this at the moment"))
    }

    func cut(_ exchange: Exchange) {
        if isCurrent(exchange) { context?.close(promise: nil) }
    }

    private func canStayOpen(after exchange: Exchange, _ response: HTTPResponse) -> Bool {
        exchange.wantsKeepAlive && !response.headers.list("Connection").contains { HeaderList.sameName($0, "close") }
            && !isDraining && (exchange.isComplete || exchange.canDiscardRest(upTo: limits.discardedBodyBytes))
    }

    private func responseIsWritten(_ exchange: Exchange) {
        guard isCurrent(exchange) else { return }
        exchange.task = nil
        guard exchange.encoder.keepAlive, !isDraining else { return finishConnection() }
        if exchange.isComplete { return finishExchange(exchange) }
        exchange.pipe?.end(.failure(ChannelError.ioOnClosedChannel))
        exchange.roomTimer?.cancel()
        exchange.isBodyWanted = true
        entry.noteWaiting()
        exchange.idleTimer?.cancel()
        exchange.idleTimer = schedule(limits.bodyIdleTime) { $0.context?.close(promise: nil) }
        resumeReading()
    }

    /// The next request is not processed until the socket has accepted the whole response to the last one.
    func finishExchange(_ exchange: Exchange) {
        exchange.isOver = true
        guard waitingBytes > 0, let context else { return next() }
        watchClient()
        let (eventLoop, bound) = (context.eventLoop, NIOLoopBound(exchange, eventLoop: context.eventLoop))
        // Not during the write that completes this future.
        exchange.taken?.whenSuccess { eventLoop.execute { bound.value.noteTaken() } }
    }

    func noteTaken(_ exchange: Exchange) {
        if isCurrent(exchange), exchange.isOver { next() }
    }

    private func next() {
        if case .exchange(let exchange) = phase { exchange.finish() }
        guard !isDraining else { return finishConnection() }
        phase = .idle
        entry.noteWaiting()
        arm(limits.idleHTTPTime) { $0.headerTimeIsUp() }
        while !queue.isEmpty {
            if case .exchange(let exchange) = phase, exchange.isComplete { return }
            queue.pop().map(process)
        }
        if case .idle = phase, let refusal = queue.refusal { return refuse(refusal.status, refusal.reason) }
        if case .exchange(let exchange) = phase, exchange.isComplete || !exchange.isBodyWanted { return }
        resumeReading()
    }

    private func take(_ upgrade: ProtocolUpgrade, _ exchange: Exchange, _ context: ChannelHandlerContext) {
        guard exchange.isComplete, !exchange.hasBody, !isDraining else {
            upgrade.abandoned()
            return isDraining ? refuse(503, "the agent or its listener is stopping") : refuse(400, "an upgrade request has no body")
        }
        let channel = context.channel
        let pipeline = channel.pipeline.syncOperations
        do {
            let decoder = try pipeline.context(handlerType: ByteToMessageHandler<HTTPRequestDecoder>.self)
            let takeover = try upgrade.takeOver(channel)
            context.writeAndFlush(wrapOutboundOut(upgrade.response), promise: nil)
            try pipeline.addHandler(takeover.handler, position: .after(context.handler))
            let readWasHeld = holdsRead
            exchange.finish()
            phase = .upgraded
            pipeline.removeHandler(context: context, promise: nil)
            // Bytes that follow the request are passed to the new handler when the decoder is removed.
            let removed = context.eventLoop.makePromise(of: Void.self)
            removed.futureResult.whenComplete { _ in
                takeover.completed()
                if readWasHeld { channel.read() }
            }
            pipeline.removeHandler(context: decoder, promise: removed)
        } catch {
            upgrade.abandoned()
            if let error = error as? HTTPError { refuse(error.status, error.reason) } else { channel.close(promise: nil) }
        }
    }

    // MARK: Refusals and closing

    /// Ends an exchange from our side: with an answer if none has begun, otherwise by closing the connection.
    func fail(_ exchange: Exchange, _ status: Int, _ reason: String) { fail(exchange, HTTPError(status, reason)) }

    private func fail(_ exchange: Exchange, _ error: HTTPError) {
        guard isCurrent(exchange) else { return }
        let hasBegun = exchange.encoder.progress != .notBegun
        exchange.end(error)
        if hasBegun { context?.close(promise: nil) } else { refuse(error.status, error.reason, isHead: exchange.isHead) }
    }

    private func refuse(_ status: Int, _ reason: String, isHead: Bool = false) {
        guard let context else { return }
        let error = HTTPError(status, reason, headers: status == 503 ? ["Retry-After": "5"] : [:])
        context.writeAndFlush(wrapOutboundOut(ResponseEncoder.refusal(error, isHead: isHead)), promise: nil)
        core.logger.debug("request refused", metadata: ["remote": "\(info.remoteAddress)", "status": "\(status)", "reason": "\(reason)"])
        finishConnection()
    }

    /// Closing at once would reset the connection while the client is still sending, and it would never read our answer.
    private func finishConnection() {
        guard let context else { return }
        if case .exchange(let exchange) = phase { exchange.end(ChannelError.ioOnClosedChannel) }
        phase = .closing
        queue.removeAll()
        entry.noteWaiting()
        stopTimer()
        watchClient()
        // Half-closing the socket tells the client that the answer is complete; if that is impossible, the timer closes it.
        let written = context.eventLoop.makePromise(of: Void.self)
        let this = NIOLoopBound(self, eventLoop: context.eventLoop)
        written.futureResult.whenComplete { _ in
            let this = this.value
            this.arm(this.limits.lingerTime) { $0.context?.close(promise: nil) }
        }
        context.close(mode: .output, promise: written)
        resumeReading()
    }

    func isCurrent(_ exchange: Exchange) -> Bool {
        if case .exchange(let current) = phase { current === exchange } else { false }
    }

    func resumeReading() {
        guard holdsRead, let context else { return }
        holdsRead = false
        context.read()
    }

    /// Closes the connection if its client reads nothing of the waiting output for `response_idle_time`; checks repeatedly.
    private func watchClient() {
        guard stallTimer == nil, waitingBytes > 0 else { return }
        let waiting = waitingBytes
        stallTimer = schedule(limits.responseIdleTime) { this in
            this.stallTimer = nil
            if this.waitingBytes < waiting { this.watchClient() } else if this.waitingBytes > 0 { this.context?.close(promise: nil) }
        }
    }

    private var waitingBytes: Int { (try? context?.channel.syncOptions?.getOption(.bufferedWritableBytes)) ?? 0 }

    func schedule(_ time: TimeAmount, _ action: @escaping (HTTPConnectionHandler) -> Void) -> Scheduled<Void>? {
        context?.eventLoop.assumeIsolated().scheduleTask(in: time) { [weak self] in self.map(action) }
    }

    private func arm(_ time: TimeAmount, _ action: @escaping (HTTPConnectionHandler) -> Void) {
        timer?.cancel()
        timer = schedule(time, action)
    }

    private func stopTimer() {
        timer?.cancel()
        stallTimer?.cancel()
        (timer, stallTimer) = (nil, nil)
    }
}

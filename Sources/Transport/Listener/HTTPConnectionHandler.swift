import Interfaces
import Logging
import NIOCore
import NIOHTTP1

/// One accepted connection while it speaks HTTP/1: takes requests one at a time, asks the delegate and answers, or turns
/// the connection into a WebSocket.
///
/// It writes bytes itself instead of using NIO's encoder, because what Couchbase Lite accepts in a 101 response is narrower
/// than what HTTP allows.
final class HTTPConnectionHandler: ChannelInboundHandler, ChannelOutboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    /// Fired through the pipeline when the listener stops: idle connections end now, others after their response.
    struct Drain: Sendable {}

    private enum State {
        /// Waits for a request's header.
        case idle
        /// Collects a request's body.
        case receiving(HTTPRequestHead)
        /// The delegate works on a request; further parts wait in `queue`, and nothing more is read.
        case handling
        /// The last response was sent; whatever comes is thrown away until the client closes or `linger_time` is over.
        case closing
    }

    private let owner: WebSocketListener.Core
    private var limits: TransportLimits { owner.state.limits }
    private var state = State.idle
    private var body = ByteBuffer()
    private var bodyBytes = 0
    private var queue = CircularBuffer<HTTPServerRequestPart>()
    private var holdsRead = false
    private var timer: Scheduled<Void>?
    private var task: Task<Void, Never>?
    private var holdsPlace = false
    private var isDraining = false
    private var isFirstRequest = true
    private var securePeer: SecurePeer?
    private var context: ChannelHandlerContext?

    init(owner: WebSocketListener.Core) {
        self.owner = owner
    }

    // MARK: Channel

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        arm(limits.headerTime) { $0.headerTimeIsUp() }
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        stopTimer()
        releaseBody()
        self.context = nil
    }

    func channelInactive(context: ChannelHandlerContext) {
        stopTimer()
        task?.cancel()
        task = nil
        releaseBody()
        context.fireChannelInactive()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        switch event {
        case let peer as SecurePeer:
            securePeer = peer
        case is Drain:
            isDraining = true
            if case .idle = state { context.close(promise: nil) }
        default:
            context.fireUserInboundEventTriggered(event)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        switch (state, error) {
        case (.closing, _):
            break
        case (.idle, HTTPParserError.headerOverflow):
            refuse(431, "the request's header has more than header_bytes (\(limits.headerBytes)) or header_count (\(limits.headerCount)) allow")
        case (.idle, is HTTPParserError), (.receiving, is HTTPParserError):
            refuse(400, "this is not HTTP/1.1: \(error)")
        case (.idle, let error as ReplicationError) where error.domain == .tls:
            // Told aloud: the operator of the other side asks why nothing comes, and the answer is here.
            owner.logger.info("TLS connection failed", metadata: ["remote": "\(owner.shown(context.channel))", "error": "\(error.message)"])
            if owner.configuration.secureLayer == nil {
                refuse(400, "this port speaks plain HTTP, not TLS: use http: or ws:")
            } else {
                context.close(promise: nil)
            }
        default:
            owner.logger.debug(
                "connection failed",
                metadata: ["remote": "\(owner.shown(context.channel))", "error": "\(NetworkErrors.describe(error))"])
            context.close(promise: nil)
        }
    }

    func read(context: ChannelHandlerContext) {
        if case .handling = state { holdsRead = true } else { context.read() }
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let part = unwrapInboundIn(data)
        if case .handling = state { queue.append(part) } else { process(part) }
    }

    // MARK: Requests

    private func process(_ part: HTTPServerRequestPart) {
        switch (state, part) {
        case (.idle, .head(let head)):
            begin(head)
        case (.receiving(let head), .body(let piece)):
            guard body.readableBytes + piece.readableBytes <= limits.bodyBytes else { return refuseBody() }
            guard owner.state.takeBodyBytes(piece.readableBytes) else {
                return refuse(503, "the listener holds as much as total_body_bytes (\(limits.totalBodyBytes)) allows", method: head.method)
            }
            bodyBytes += piece.readableBytes
            if body.readableBytes == 0 { body = piece } else { body.writeImmutableBuffer(piece) }
        case (.receiving(let head), .end):
            stopTimer()
            state = .handling
            if let database = RequestTarget.replicationDatabase(path: RequestTarget.split(head.uri).path) {
                upgrade(head, database)
            } else {
                respond(head)
            }
        default:
            break
        }
    }

    private func begin(_ head: HTTPRequestHead) {
        if isFirstRequest, let context { owner.state.handshakeIsOver(context.channel) }
        isFirstRequest = false
        state = .receiving(head)
        arm(limits.bodyTime) { $0.refuse(408, "the request's body did not come within body_time") }
        if let length = head.headers.first(name: "Content-Length").flatMap({ Int($0) }), length > limits.bodyBytes { return refuseBody() }
        if head.headers.first(name: "Expect").map({ HeaderList.sameName($0, "100-continue") }) == true, head.version.minor >= 1 {
            writeBytes("HTTP/1.1 100 Continue\r\n\r\n")
        }
    }

    private func refuseBody() {
        refuse(413, "the request's body has more than body_bytes (\(limits.bodyBytes)) allows")
    }

    private func headerTimeIsUp() {
        if isFirstRequest {
            refuse(408, "no complete request header within header_time")
        } else {
            context?.close(promise: nil)
        }
    }

    private func listenerRequest(_ head: HTTPRequestHead) -> ListenerRequest {
        let headers = HeaderList(head.headers.map { (name: $0.name, value: $0.value) })
        return ListenerRequest(
            method: head.method.rawValue, uri: head.uri, headers: headers, body: body, remoteAddress: context.map { owner.shown($0.channel) } ?? "",
            basicCredentials: WebSocketHandshake.basicCredentials(headers), securePeer: securePeer
        )
    }

    private func respond(_ head: HTTPRequestHead) {
        guard let context else { return }
        let request = listenerRequest(head)
        body = ByteBuffer()
        let keepAlive = head.isKeepAlive && !head.headers.contains(name: "Upgrade") && head.method != .CONNECT
        let isModern = head.version.minor >= 1
        let isHead = head.method == .HEAD
        let this = NIOLoopBound(self, eventLoop: context.eventLoop)
        let channel = context.channel
        let delegate = owner.delegate
        let logger = owner.logger
        task = Task {
            let response = await delegate.respond(to: request)
            switch response.body {
            case .buffer(let bytes):
                channel.eventLoop.execute { this.value.send(response, bytes, keepAlive: keepAlive, isHead: isHead) }
            case .stream(let produce):
                let framing: ResponseHead.Framing = isModern ? .chunked : .untilClose
                let keepAlive = keepAlive && isModern
                do {
                    var out = channel.allocator.buffer(capacity: 256)
                    ResponseHead.write(status: response.status, headers: response.headers, framing: framing, keepAlive: keepAlive, into: &out)
                    try await channel.writeAndFlush(out)
                    try await produce(ResponseBodyWriter(channel: channel, isChunked: isModern, isDiscarded: isHead))
                    if isModern, !isHead { try await channel.writeAndFlush(ByteBuffer(string: "0\r\n\r\n")) }
                    channel.eventLoop.execute { this.value.finished(keepAlive: keepAlive) }
                } catch {
                    logger.debug("response cut short", metadata: ["uri": "\(request.uri)", "error": "\(NetworkErrors.describe(error))"])
                    channel.close(promise: nil)
                }
            }
        }
    }

    private func send(_ response: ListenerResponse, _ bytes: ByteBuffer, keepAlive: Bool, isHead: Bool) {
        guard let context, case .handling = state else { return }
        let keepAlive = keepAlive && !isDraining
        let hasBody = !ResponseHead.isBodyless(response.status)
        var out = context.channel.allocator.buffer(capacity: 256 + bytes.readableBytes)
        ResponseHead.write(
            status: response.status, headers: response.headers,
            framing: hasBody ? .length(bytes.readableBytes) : .none, keepAlive: keepAlive, into: &out
        )
        if hasBody, !isHead { out.writeImmutableBuffer(bytes) }
        context.writeAndFlush(wrapOutboundOut(out), promise: nil)
        finished(keepAlive: keepAlive)
    }

    /// The response is written; goes on with the next request or ends the connection.
    private func finished(keepAlive: Bool) {
        guard let context, case .handling = state else { return }
        task = nil
        releaseBody()
        guard keepAlive, !isDraining else { return finishConnection() }
        state = .idle
        arm(limits.idleHTTPTime) { $0.headerTimeIsUp() }
        while !queue.isEmpty {
            if case .handling = state { return }
            process(queue.removeFirst())
        }
        if case .handling = state { return }
        if holdsRead {
            holdsRead = false
            context.read()
        }
    }

    // MARK: Refusals and the end

    private func refuse(_ status: Int, _ reason: String, headers: HeaderList = [:], method: HTTPMethod = .GET) {
        guard let context else { return }
        let response = ListenerResponse.error(status: status, error: ResponseHead.errorName(status), reason: reason, headers: headers)
        guard case .buffer(let bytes) = response.body else { return }
        var out = context.channel.allocator.buffer(capacity: 256 + bytes.readableBytes)
        ResponseHead.write(status: status, headers: response.headers, framing: .length(bytes.readableBytes), keepAlive: false, into: &out)
        if method != .HEAD { out.writeImmutableBuffer(bytes) }
        context.writeAndFlush(wrapOutboundOut(out), promise: nil)
        owner.logger.debug("request refused", metadata: ["remote": "\(owner.shown(context.channel))", "status": "\(status)", "reason": "\(reason)"])
        finishConnection()
    }

    /// Closing at once would reset the connection if the client still sends, and it would never read our answer.
    private func finishConnection() {
        guard let context else { return }
        stopTimer()
        releaseBody()
        state = .closing
        queue.removeAll()
        arm(limits.lingerTime) { $0.context?.close(promise: nil) }
        // A half-closed socket tells the client that this was all; where that is impossible the timer ends it.
        context.close(mode: .output, promise: nil)
        if holdsRead {
            holdsRead = false
            context.read()
        }
    }

    private func writeBytes(_ text: StaticString) {
        guard let context else { return }
        var out = context.channel.allocator.buffer(capacity: 64)
        out.writeStaticString(text)
        context.writeAndFlush(wrapOutboundOut(out), promise: nil)
    }

    private func releaseBody() {
        body = ByteBuffer()
        owner.state.giveBackBodyBytes(bodyBytes)
        bodyBytes = 0
        if holdsPlace {
            holdsPlace = false
            owner.state.release()
        }
    }

    private func arm(_ time: TimeAmount, _ action: @escaping (HTTPConnectionHandler) -> Void) {
        timer?.cancel()
        guard let context else { return }
        timer = context.eventLoop.assumeIsolated().scheduleTask(in: time) { [weak self] in self.map(action) }
    }

    private func stopTimer() {
        timer?.cancel()
        timer = nil
    }

    // MARK: Upgrade

    private func upgrade(_ head: HTTPRequestHead, _ databaseBytes: Substring.UTF8View) {
        guard let context else { return }
        let request = listenerRequest(head)
        let offer: WebSocketHandshake.Offer
        switch WebSocketHandshake.check(method: request.method, headers: request.headers, speaking: owner.protocols) {
        case .success(let checked): offer = checked
        case .failure(let refusal): return refuse(refusal.status, refusal.reason, headers: refusal.headers, method: head.method)
        }
        guard let database = RequestTarget.decode(databaseBytes), !database.isEmpty else {
            return refuse(400, "the path names no database: \(request.path)")
        }
        guard body.readableBytes == 0 else { return refuse(400, "an upgrade request has no body") }
        guard !isDraining, !owner.state.isStopping else { return refuse(503, "the listener is stopping") }
        guard owner.state.reserve() else {
            return refuse(503, "the listener carries as many connections as max_connections (\(limits.maxConnections)) allows")
        }
        holdsPlace = true
        let upgradeRequest = UpgradeRequest(
            database: database, path: request.path, query: request.query, headers: request.headers,
            remoteAddress: request.remoteAddress, origin: context.channel.remoteAddress?.origin ?? "",
            offeredProtocols: offer.offeredProtocols, selectedProtocol: offer.selectedProtocol, basicCredentials: request.basicCredentials,
            securePeer: securePeer
        )
        let this = NIOLoopBound(self, eventLoop: context.eventLoop)
        let eventLoop = context.eventLoop
        let delegate = owner.delegate
        task = Task {
            let decision = await delegate.authorize(upgradeRequest)
            eventLoop.execute { this.value.decided(decision, upgradeRequest, offer) }
        }
    }

    private func decided(_ decision: UpgradeDecision, _ request: UpgradeRequest, _ offer: WebSocketHandshake.Offer) {
        guard let context, context.channel.isActive, case .handling = state else { return }
        task = nil
        switch decision {
        case .refuse(let status, let reason, let headers):
            refuse(status, reason, headers: headers)
        case .accept(let chosen, let decisionContext):
            let protocolName = chosen ?? offer.selectedProtocol
            guard offer.offeredProtocols.contains(where: { $0.utf8.elementsEqual(protocolName.utf8) }) else {
                owner.logger.error("the delegate chose a protocol that was not offered", metadata: ["protocol": "\(protocolName)"])
                return refuse(500, "internal error in the choice of the protocol")
            }
            guard !isDraining, !owner.state.isStopping else { return refuse(503, "the listener is stopping") }
            becomeWebSocket(context, protocolName, request, offer, decisionContext)
        }
    }

    private func becomeWebSocket(
        _ context: ChannelHandlerContext, _ protocolName: String, _ request: UpgradeRequest, _ offer: WebSocketHandshake.Offer,
        _ decisionContext: (any Sendable)?
    ) {
        stopTimer()
        let channel = context.channel
        let state = owner.state
        let connection = WebSocketConnection(
            side: .server, channel: channel, protocolName: protocolName, peerDescription: request.remoteAddress, securePeer: securePeer,
            heartbeat: owner.configuration.heartbeat, limits: limits, onEnd: { state.removed($0) }
        )
        // The place goes over to the connection.
        holdsPlace = false
        state.opened(connection)
        var out = channel.allocator.buffer(capacity: 256)
        out.writeString(WebSocketHandshake.switchingProtocols(accept: offer.accept, protocolName: protocolName))
        context.writeAndFlush(wrapOutboundOut(out), promise: nil)
        let delegate = owner.delegate
        let readWasHeld = holdsRead
        let pipeline = channel.pipeline.syncOperations
        do {
            let decoder = try pipeline.context(handlerType: ByteToMessageHandler<HTTPRequestDecoder>.self)
            try pipeline.addHandler(connection, position: .after(context.handler))
            pipeline.removeHandler(context: context, promise: nil)
            // Bytes that came behind the request go on to the WebSocket when the decoder leaves.
            let removed = context.eventLoop.makePromise(of: Void.self)
            removed.futureResult.whenComplete { _ in
                connection.begin()
                delegate.accepted(connection, request: request, context: decisionContext)
                if readWasHeld { channel.read() }
            }
            pipeline.removeHandler(context: decoder, promise: removed)
        } catch {
            state.removed(connection)
            channel.close(promise: nil)
            return
        }
    }
}

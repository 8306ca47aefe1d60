import HTTPServer
import Interfaces
import NIOCore
import NIOHTTP1

/// Sends the upgrade request, checks the answer and hands the connection over to the ``WebSocketConnection``.
final class ClientHandshakeHandler: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPClientResponsePart
    typealias OutboundOut = HTTPClientRequestPart

    private let attempt: ConnectionAttempt
    private let promise: EventLoopPromise<ConnectionAttempt.Outcome>
    private var head: HTTPResponseHead?
    private var body: [UInt8] = []
    private var isSent = false
    private var isDone = false
    private var securePeer: SecurePeer?

    init(attempt: ConnectionAttempt, promise: EventLoopPromise<ConnectionAttempt.Outcome>) {
        self.attempt = attempt
        self.promise = promise
    }

    func handlerAdded(context: ChannelHandlerContext) {
        if context.channel.isActive { sendRequest(context) }
    }

    func channelActive(context: ChannelHandlerContext) {
        sendRequest(context)
    }

    private func sendRequest(_ context: ChannelHandlerContext) {
        // If the channel is already active when this handler is added, that is signalled twice.
        guard !isSent else { return }
        isSent = true
        context.write(wrapOutboundOut(.head(attempt.request)), promise: nil)
        context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if let peer = event as? SecurePeer { securePeer = peer } else { context.fireUserInboundEventTriggered(event) }
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !isDone else { return }
        switch unwrapInboundIn(data) {
        case .head(let head):
            self.head = head
        case .body(let piece):
            body.append(contentsOf: piece.readableBytesView.prefix(attempt.configuration.limits.errorBodyBytes - body.count))
            if body.count >= attempt.configuration.limits.errorBodyBytes { answered(context) }
        case .end:
            if head?.status.code == 101 { upgrade(context) } else { answered(context) }
        }
    }

    func channelInactive(context: ChannelHandlerContext) {
        if head != nil {
            answered(context)
        } else {
            let hint = attempt.url.isSecure ? "" : " (if it speaks TLS, use wss:)"
            fail(
                context,
                ReplicationError(
                    network: .connectionReset, message: "\(attempt.url): the peer closed the connection before its HTTP answer\(hint)"))
        }
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        guard !isDone else { return }
        switch error {
        case HTTPParserError.invalidEOFState:
            // Half-closure in the middle of the answer; this event comes before channelInactive.
            channelInactive(context: context)
        case HTTPParserError.headerOverflow:
            let limits = attempt.configuration.limits
            fail(
                context,
                ReplicationError(
                    domain: .websocket, code: 1002,
                    message: "\(attempt.url): the answer's header is larger than header_bytes (\(limits.http.headerBytes)) "
                        + "or header_count (\(limits.http.headerCount)) allow"))
        case is HTTPParserError, is NIOHTTPDecoderError:
            fail(context, ReplicationError(domain: .websocket, code: 1002, message: "\(attempt.url): the answer is not HTTP/1.1 (\(error))"))
        default:
            fail(context, NetworkErrors.replicationError(error, target: "\(attempt.url)"))
        }
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        guard !isDone else { return }
        fail(context, ReplicationError(network: .aborted, message: "\(attempt.url): the connection was given up"))
    }

    private func answered(_ context: ChannelHandlerContext) {
        guard !isDone, let head else { return }
        isDone = true
        promise.succeed(.response(HandshakeResponse(status: Int(head.status.code), headers: Self.list(head.headers), body: body)))
        context.close(promise: nil)
    }

    private func fail(_ context: ChannelHandlerContext, _ error: ReplicationError) {
        guard !isDone else { return }
        isDone = true
        promise.fail(error)
        context.close(promise: nil)
    }

    private static func list(_ headers: HTTPHeaders) -> HeaderList {
        HeaderList(headers.map { (name: $0.name, value: $0.value) })
    }

    private func upgrade(_ context: ChannelHandlerContext) {
        guard let head else { return }
        let headers = Self.list(head.headers)
        if let problem = problem(headers) { return fail(context, problem) }
        isDone = true
        attempt.configuration.onResponse?(101, headers)
        let channel = context.channel
        let connection = WebSocketConnection(
            side: .client(maskRandom: attempt.random), channel: channel, protocolName: headers.first("Sec-WebSocket-Protocol") ?? "",
            peerDescription: peerDescription(channel), securePeer: securePeer,
            // The server's value has priority: Sync Gateway assigns its own.
            correlationID: CorrelationID.accepted(headers.first(CorrelationID.header)) ?? attempt.request.headers.first(name: CorrelationID.header),
            peerHasBothNames: headers.first(Subprotocol.versionsHeader) != nil, heartbeat: attempt.configuration.heartbeat,
            limits: attempt.configuration.limits, onEnd: nil
        )
        let pipeline = channel.pipeline.syncOperations
        do {
            let encoder = try pipeline.context(handlerType: HTTPRequestEncoder.self)
            let decoder = try pipeline.context(handlerType: ByteToMessageHandler<HTTPResponseDecoder>.self)
            try pipeline.addHandler(connection, position: .after(context.handler))
            pipeline.removeHandler(context: context, promise: nil)
            pipeline.removeHandler(context: encoder, promise: nil)
            // Frames that arrived with the answer are passed to the WebSocket when the decoder is removed.
            let removed = context.eventLoop.makePromise(of: Void.self)
            removed.futureResult.assumeIsolated().whenComplete { [promise] _ in
                connection.begin()
                promise.succeed(.upgraded(connection))
            }
            pipeline.removeHandler(context: decoder, promise: removed)
        } catch {
            promise.fail(NetworkErrors.replicationError(error, target: "\(attempt.url)"))
            channel.close(promise: nil)
        }
    }

    /// With a proxy, the socket's remote address is the proxy's.
    private func peerDescription(_ channel: any Channel) -> String {
        if let proxy = attempt.configuration.proxy { return "\(attempt.url.authority) through \(proxy)" }
        return channel.remoteAddress?.shown ?? attempt.url.authority
    }

    /// What is wrong with a 101 answer, as one of LiteCore's codes.
    private func problem(_ headers: HeaderList) -> ReplicationError? {
        func wrong(_ code: Int, _ text: String) -> ReplicationError {
            ReplicationError(domain: .websocket, code: code, message: "\(attempt.url): \(text)")
        }
        guard headers.list("Connection").contains(where: { HeaderList.sameName($0, "upgrade") }),
            headers.list("Upgrade").contains(where: { HeaderList.sameName($0, "websocket") })
        else { return wrong(1002, "the answer does not upgrade to a WebSocket") }
        let key = attempt.request.headers.first(name: "Sec-WebSocket-Key") ?? ""
        guard headers.first("Sec-WebSocket-Accept") == WebSocketHandshake.accept(forKey: key) else {
            return wrong(1002, "Sec-WebSocket-Accept of the answer does not fit the request")
        }
        guard headers.list("Sec-WebSocket-Extensions").isEmpty else {
            return wrong(1002, "the answer has the extension \(headers.first("Sec-WebSocket-Extensions") ?? ""), none was offered")
        }
        let offered = attempt.configuration.protocols
        guard let chosen = headers.first("Sec-WebSocket-Protocol") else {
            return wrong(1002, "incompatible replication protocol: the answer chooses none of \(offered.joined(separator: ", "))")
        }
        guard offered.contains(where: { $0.utf8.elementsEqual(chosen.utf8) }) else {
            return wrong(403, "the answer chooses the protocol \(chosen), offered were \(offered.joined(separator: ", "))")
        }
        return nil
    }
}

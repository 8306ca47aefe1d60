import BLIP
import Environment
import Interfaces
import NIOCore
import Replication
import Synchronization
import Transport

/// The other end of a connection, played by a test: it sends any requests, well-formed or not, and answers as it is told.
///
/// Sendable although it is mutable, because everything mutable is touched only on `loop`.
final class Peer: MessageReceiver, @unchecked Sendable {
    typealias Answer = @Sendable (IncomingRequest) -> OutgoingReply?

    private let transport: any MessageTransport
    private let loop: any SerialContext
    private let hub: Hub?
    private var blip = BLIPConnection()
    private var waiting: [RequestToken: CheckedContinuation<IncomingReply?, Never>] = [:]
    private var answer: Answer = { _ in nil }
    private var isOver = false
    /// The requests of the other side.
    let requests: AsyncStream<IncomingRequest>
    private let requestContinuation: AsyncStream<IncomingRequest>.Continuation
    /// How the connection ended.
    let end: AsyncStream<ConnectionEnd>
    private let endContinuation: AsyncStream<ConnectionEnd>.Continuation

    /// - Parameter answer: called for each request that wants a reply; nil leaves it without one.
    init(_ transport: any MessageTransport, hub: Hub? = nil, answer: @escaping Answer = { _ in OutgoingReply() }) {
        self.transport = transport
        self.hub = hub
        loop = transport.executionContext
        self.answer = answer
        (requests, requestContinuation) = AsyncStream.makeStream()
        (end, endContinuation) = AsyncStream.makeStream()
        loop.execute { transport.start(self) }
    }

    /// A peer connected to a passive session.
    convenience init(_ hub: Hub, answer: @escaping Answer = { _ in OutgoingReply() }) async throws {
        self.init(try await hub.connect(), hub: hub, answer: answer)
    }

    func send(_ request: OutgoingRequest) {
        loop.execute {
            _ = self.blip.send(request)
            self.pump()
        }
    }

    /// Sends a request and waits for its reply; nil if the connection ends first.
    func ask(_ request: OutgoingRequest) async -> IncomingReply? {
        await withCheckedContinuation { continuation in
            loop.execute {
                guard !self.isOver, let token = self.blip.send(request) else { return continuation.resume(returning: nil) }
                self.waiting[token] = continuation
                self.pump()
            }
        }
    }

    func ask(_ profile: String, _ properties: [(String, String)] = [], _ body: String = "", compressed: Bool = false) async -> IncomingReply? {
        await ask(request(profile, properties, body, compressed: compressed))
    }

    func request(
        _ profile: String, _ properties: [(String, String)] = [], _ body: String = "", compressed: Bool = false, noReply: Bool = false
    ) -> OutgoingRequest {
        var request = OutgoingRequest(profile: profile, isCompressed: compressed, isNoReply: noReply)
        for (key, value) in properties { request.properties.append(key, value) }
        request.body = ByteBuffer(string: body)
        return request
    }

    /// Starts in collection mode.
    @discardableResult
    func begin(_ collections: [String] = ["_default"]) async -> IncomingReply? {
        let names = collections.map { "\"\($0)\"" }.joined(separator: ",")
        let ids = collections.indices.map { "\"cp-\($0)\"" }.joined(separator: ",")
        return await ask("getCollections", [], "{\"checkpoint_ids\":[\(ids)],\"collections\":[\(names)]}")
    }

    /// Whether the session still answers.
    func isAlive() async -> Bool {
        let reply = await ask("getCheckpoint", [("client", "alive?"), ("collection", "0")])
        return reply?.error?.code == 404
    }

    /// Answers a request that was left without a reply.
    func reply(to number: UInt64, _ reply: OutgoingReply) {
        loop.execute {
            self.blip.reply(to: number, reply)
            self.pump()
        }
    }

    /// Acknowledges what it receives, or no longer.
    func acknowledge(_ isOn: Bool) {
        loop.execute {
            self.blip.acknowledgesReceived = isOn
            self.pump()
        }
    }

    func close(_ code: UInt16 = 1000) { transport.close(code: code, reason: "") }

    private func pump() {
        while transport.isWritable, let frame = blip.nextFrame() { transport.write([frame]) }
    }

    func received(_ messages: [ByteBuffer]) {
        var events: [BLIPEvent] = []
        for message in messages {
            do { try blip.receive(message, into: &events) } catch {
                transport.close(code: 1011, reason: "\(error)")
                break
            }
        }
        for event in events {
            switch event {
            case .request(let request):
                requestContinuation.yield(request)
                if !request.isNoReply, let reply = answer(request) { blip.reply(to: request.number, reply) }
            case .reply(let token, let reply): waiting.removeValue(forKey: token)?.resume(returning: reply)
            case .replyProgress, .sent, .replyBegan, .replyBytes, .replyEnded, .wantsMore: break
            }
        }
        pump()
    }

    func writabilityChanged(_ isWritable: Bool) {
        if isWritable { pump() }
    }

    func closed(_ end: ConnectionEnd) {
        isOver = true
        for continuation in waiting.values { continuation.resume(returning: nil) }
        waiting = [:]
        requestContinuation.finish()
        endContinuation.yield(end)
        endContinuation.finish()
    }
}

/// A listener played by a test.
final class FakeListener: TransportConnector, Sendable {
    private let answer: Peer.Answer
    /// The protocol that is spoken, if it is named; and whether revisions have ids as well.
    private let subprotocol: Subprotocol?
    private let hasBothNames: Bool
    private let peersSoFar = Mutex([Peer]())
    let peers: AsyncStream<Peer>
    private let continuation: AsyncStream<Peer>.Continuation

    init(_ subprotocol: Subprotocol? = nil, hasBothNames: Bool = true, _ answer: @escaping Peer.Answer) {
        self.answer = answer
        self.subprotocol = subprotocol
        self.hasBothNames = hasBothNames
        (peers, continuation) = AsyncStream.makeStream()
    }

    func connect() async throws -> any MessageTransport {
        let (client, server) = InMemoryTransport.pair(loops.next(), loops.next(), subprotocol: subprotocol, peerHasBothNames: hasBothNames)
        let peer = Peer(server, answer: answer)
        peersSoFar.withLock { $0.append(peer) }
        continuation.yield(peer)
        return client
    }
}

extension OutgoingReply {
    init(json: String, _ properties: BLIPProperties = [:]) {
        self.init(properties: properties, body: ByteBuffer(string: json))
    }

    init(error domain: String, _ code: Int, _ message: String = "") {
        self.init(error: BLIPErrorReply(domain: domain, code: code, message: message))
    }
}

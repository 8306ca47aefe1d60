import NIOCore

@testable import BLIP

/// A connection in a box: the macros of Testing cannot call into what cannot be copied. With doors to its inside.
final class Peer {
    private var connection: BLIPConnection

    init(limits: BLIPLimits = .init(), compressionLevel: Int32 = 6) {
        connection = BLIPConnection(limits: limits, compressionLevel: compressionLevel)
    }

    @discardableResult
    func send(_ request: OutgoingRequest, streamsReply: Bool = false) -> RequestToken? {
        connection.send(request, streamsReply: streamsReply)
    }

    func consumed(_ token: RequestToken, _ bytes: Int) { connection.consumed(token, bytes: bytes) }
    func abandon(_ token: RequestToken) { connection.abandon(token) }

    func reply(to number: UInt64, streaming reply: OutgoingReply) -> StreamID? { connection.reply(to: number, streaming: reply) }

    @discardableResult
    func supply(_ stream: StreamID, _ bytes: ByteBuffer, isLast: Bool = false) -> Bool {
        connection.supply(stream, bytes, isLast: isLast)
    }

    @discardableResult
    func cut(_ stream: StreamID) -> Bool { connection.cut(stream) }

    @discardableResult
    func reply(to number: UInt64, _ reply: OutgoingReply) -> Bool { connection.reply(to: number, reply) }

    func receive(_ frame: ByteBuffer, into events: inout [BLIPEvent]) throws(BLIPError) {
        try connection.receive(frame, into: &events)
    }

    func receive(_ frames: [ByteBuffer]) throws(BLIPError) -> [BLIPEvent] {
        var events: [BLIPEvent] = []
        for frame in frames { try connection.receive(frame, into: &events) }
        return events
    }

    func nextFrame() -> ByteBuffer? { connection.nextFrame() }
    func nextFrame(into events: inout [BLIPEvent]) -> ByteBuffer? { connection.nextFrame(into: &events) }
    func fail() -> [RequestToken] { connection.fail() }

    /// Everything that may be sent now.
    func drain() -> [ByteBuffer] {
        var frames: [ByteBuffer] = []
        while let frame = connection.nextFrame() { frames.append(frame) }
        return frames
    }

    var hasPendingOutput: Bool { connection.hasPendingOutput }
    var queuedBytes: Int { connection.queuedBytes }
    var queuedReplyBytes: Int { connection.queuedReplyBytes }
    var bufferedBytes: Int { connection.bufferedBytes }
    var unconsumedBytes: Int { connection.unconsumedBytes }
    var shouldPauseReading: Bool { connection.shouldPauseReading }
    var allowsCompression: Bool {
        get { connection.allowsCompression }
        set { connection.allowsCompression = newValue }
    }
    var deflaterSize: DeflaterSize {
        get { connection.deflaterSize }
        set { connection.deflaterSize = newValue }
    }
    var queuedRequests: Int { connection.queuedRequests }
    var awaitedReplies: Int { connection.awaitedReplies }
    var unansweredRequests: Int { connection.unansweredRequests }
    var acknowledgesReceived: Bool {
        get { connection.acknowledgesReceived }
        set { connection.acknowledgesReceived = newValue }
    }

    // Inside.
    var flows: [Flow] { Array(connection.flows.values) }
    var checksumIn: UInt32 { connection.checksumIn.value }
    var checksumOut: UInt32 { connection.checksumOut.value }
    var hasDueAcknowledgements: Bool { !connection.dueAcknowledgements.isEmpty }
    var unfinishedBytes: Int { connection.unfinishedBytes }
    /// The address of the bytes of the only unfinished message: a different one means that they were copied.
    var unfinishedPlace: UnsafeRawPointer? {
        let partial = connection.unfinishedReplies.values.first ?? connection.unfinishedRequests.values.first
        return partial?.bytes.withUnsafeReadableBytes { $0.baseAddress }
    }
    var outgoingStreamsAreOver: Bool { connection.outgoingStreams.isEmpty }
    var incomingStreamsAreOver: Bool { connection.incomingStreams.isEmpty }
    var scratchCapacity: Int { connection.inflatedScratch.capacity }

    /// Memory of messages that wait for acknowledgements.
    var stoppedCapacity: Int { connection.flows.values.reduce(0) { $0 + ($1.stopped.map { $0.head.storageCapacity + $0.body.storageCapacity } ?? 0) } }

    /// Pretends that request `number` was sent; the reply comes with a token of that serial.
    func pretendSent(_ number: UInt64) { connection.awaited[number] = RequestToken(serial: number) }

    /// Pretends that request `number` was received.
    func pretendReceived(_ number: UInt64) { connection.unanswered[number] = false }

    /// Queues what `send` would not.
    func enqueue(_ message: OutgoingMessage) { connection.outbox.enqueue(message) }
}

/// Two connections back to back.
struct Pair {
    let a: Peer
    let b: Peer

    init(limits: BLIPLimits = .init(), level: Int32 = 6) {
        a = Peer(limits: limits, compressionLevel: level)
        b = Peer(limits: limits, compressionLevel: level)
    }

    /// Moves frames both ways until nothing moves; gives the events at each side.
    func settle() throws(BLIPError) -> (atA: [BLIPEvent], atB: [BLIPEvent]) {
        var atA: [BLIPEvent] = []
        var atB: [BLIPEvent] = []
        while a.hasPendingOutput || b.hasPendingOutput {
            if let frame = a.nextFrame() { try b.receive(frame, into: &atB) }
            if let frame = b.nextFrame() { try a.receive(frame, into: &atA) }
        }
        return (atA, atB)
    }
}

extension [BLIPEvent] {
    var requests: [IncomingRequest] {
        compactMap { if case .request(let request) = $0 { request } else { nil } }
    }

    var replies: [(token: RequestToken, reply: IncomingReply)] {
        compactMap { if case .reply(let token, let reply) = $0 { (token, reply) } else { nil } }
    }
}

extension BLIPProperties {
    var list: [[String]] { pairs.map { [$0.key, $0.value] } }
}

/// What was reported of one streamed reply.
struct Told: Equatable {
    var properties: BLIPProperties?
    var body = ByteBuffer()
    var pieces: [Int] = []
    var hasEnded = false
}

extension [BLIPEvent] {
    /// The streams, by token; out of order is nil.
    var streams: [RequestToken: Told]? {
        var all: [RequestToken: Told] = [:]
        for event in self {
            switch event {
            case .replyBegan(let token, let properties):
                guard all[token] == nil else { return nil }
                all[token] = Told(properties: properties)
            case .replyBytes(let token, let bytes):
                guard all[token]?.hasEnded == false, bytes.readableBytes > 0 else { return nil }
                all[token]?.body.writeImmutableBuffer(bytes)
                all[token]?.pieces.append(bytes.readableBytes)
            case .replyEnded(let token):
                guard all[token]?.hasEnded == false else { return nil }
                all[token]?.hasEnded = true
            default: break
            }
        }
        return all
    }

    var wanted: [StreamID] {
        compactMap { if case .wantsMore(let stream) = $0 { stream } else { nil } }
    }
}

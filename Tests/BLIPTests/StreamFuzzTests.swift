import NIOCore
import TestRandomness
import Testing

@testable import BLIP

/// Random streams and plain replies, interleaved, with owners that consume, supply, abandon and cut at random.
struct StreamFuzzTests {
    private struct Expected {
        var body: ByteBuffer
        var isStreamed: Bool
        var error: BLIPErrorReply?
        var isAbandoned = false
        var isCut = false
    }

    private struct Source {
        var token: RequestToken
        var rest: ByteBuffer
    }

    @Test(arguments: 0..<12)
    func traffic(round: Int) throws {
        let seed = UInt64.random(in: 0...UInt64.max)
        let place = Comment(rawValue: "seed \(seed)")
        var random = SeededGenerator(seed: seed)
        func limits() -> BLIPLimits {
            var limits = BLIPLimits()
            limits.maximumFrame = [64, 300, 4_096, 16_384][random.below(4)]
            limits.maximumFrameBeforeUrgent = max(64, limits.maximumFrame / 4)
            limits.ackThreshold = 500 + random.below(5_000)
            // Above the other side's threshold, or both wait for ever.
            limits.sendWindow = 2 * 5_500 + random.below(10_000)
            limits.streamWindow = 1_000 + random.below(40_000)
            limits.streamLowWater = 1 + random.below(10_000)
            return limits
        }
        let (a, b) = (Peer(limits: limits(), compressionLevel: Int32(random.below(10))), Peer(limits: limits(), compressionLevel: 6))
        if Bool.random(using: &random) { b.deflaterSize = .small }
        var expected: [RequestToken: Expected] = [:]
        var tokens: [String: RequestToken] = [:]
        var toAnswer: [IncomingRequest] = []
        var sources: [StreamID: Source] = [:]
        var wanting: [StreamID] = []
        var told: [RequestToken: Told] = [:]
        var unconsumed: [RequestToken: Int] = [:]
        var finished: Set<RequestToken> = []
        var serial = 0
        let total = 60

        func check(_ events: [BLIPEvent]) throws {
            for event in events {
                switch event {
                case .reply(let token, let reply):
                    let wanted = try #require(expected[token], place)
                    #expect(!wanted.isAbandoned && (!wanted.isStreamed || wanted.error != nil), place)
                    #expect(reply.error == wanted.error, place)
                    let length = wanted.isCut ? reply.body.readableBytes : wanted.body.readableBytes
                    if wanted.error == nil { #expect(reply.body == wanted.body.slice(0, length), place) }
                    #expect(finished.insert(token).inserted, place)
                case .replyBegan(let token, let properties):
                    #expect(told[token] == nil && expected[token]?.isStreamed == true && expected[token]?.isAbandoned == false, place)
                    told[token] = Told(properties: properties)
                case .replyBytes(let token, let bytes):
                    #expect(told[token]?.hasEnded == false && expected[token]?.isAbandoned == false, place)
                    told[token]?.body.writeImmutableBuffer(bytes)
                    unconsumed[token, default: 0] += bytes.readableBytes
                case .replyEnded(let token):
                    let wanted = try #require(expected[token], place)
                    let body = try #require(told[token]?.body, place)
                    #expect(!wanted.isAbandoned && finished.insert(token).inserted, place)
                    #expect(wanted.isCut ? body == wanted.body.slice(0, body.readableBytes) : body == wanted.body, place)
                    told[token]?.hasEnded = true
                default: break
                }
            }
        }
        func answer(_ request: IncomingRequest) throws {
            let token = try #require(tokens[request.properties["id"] ?? ""], place)
            let size = [0, 10, 5_000, 150_000][random.below(4)]
            let body = random.body(size == 0 ? 0 : random.below(size))
            let isCompressed = Bool.random(using: &random)
            if random.below(6) == 0 {
                let error = BLIPErrorReply(domain: "HTTP", code: 503, message: "later")
                expected[token]?.error = error
                b.reply(to: request.number, OutgoingReply(error: error))
                return
            }
            expected[token]?.body = body
            guard Bool.random(using: &random) else {
                b.reply(to: request.number, OutgoingReply(properties: ["r": "1"], body: body, isCompressed: isCompressed))
                return
            }
            let first = random.below(body.readableBytes + 1)
            let reply = OutgoingReply(properties: ["r": "1"], body: body.slice(0, first), isCompressed: isCompressed)
            let stream = try #require(b.reply(to: request.number, streaming: reply), place)
            sources[stream] = Source(token: token, rest: body.slice(first, body.readableBytes - first))
        }
        func supply(_ stream: StreamID) throws {
            var source = try #require(sources[stream], place)
            if random.below(40) == 0 {
                expected[source.token]?.isCut = true
                #expect(b.cut(stream), place)
                sources[stream] = nil
                return
            }
            let piece = source.rest.readSlice(length: min(source.rest.readableBytes, random.below(20_000))) ?? ByteBuffer()
            // The end may come with the last bytes or after them.
            let isLast = source.rest.readableBytes == 0 && Bool.random(using: &random)
            #expect(b.supply(stream, piece, isLast: isLast), place)
            sources[stream] = isLast ? nil : source
            // Nothing supplied is no answer.
            if !isLast, piece.readableBytes == 0 { wanting.append(stream) }
        }

        var steps = 0
        while serial < total || a.awaitedReplies > 0 || a.hasPendingOutput || b.hasPendingOutput {
            steps += 1
            try #require(steps < 2_000_000, place)
            if serial < total, random.below(4) == 0 {
                serial += 1
                let isStreamed = random.below(3) > 0
                let request = OutgoingRequest(
                    profile: "get", properties: ["id": "\(serial)"], isCompressed: Bool.random(using: &random),
                    isUrgent: random.below(4) == 0)
                let token = try #require(a.send(request, streamsReply: isStreamed), place)
                expected[token] = Expected(body: ByteBuffer(), isStreamed: isStreamed)
                tokens["\(serial)"] = token
            }
            if !toAnswer.isEmpty, random.below(2) == 0 { try answer(toAnswer.remove(at: random.below(toAnswer.count))) }
            if !wanting.isEmpty, random.below(2) == 0 { try supply(wanting.remove(at: random.below(wanting.count))) }
            for token in Array(unconsumed.keys).sorted(by: { $0.serial < $1.serial }) where random.below(8) == 0 {
                let rest = unconsumed[token] ?? 0
                let count = random.below(rest + 1)
                a.consumed(token, count)
                unconsumed[token] = rest == count ? nil : rest - count
            }
            let abandonable = random.below(200) == 0
                ? expected.filter { $0.value.isStreamed && !$0.value.isAbandoned && !finished.contains($0.key) } : [:]
            if let token = abandonable.keys.min(by: { $0.serial < $1.serial }) {
                a.abandon(token)
                expected[token]?.isAbandoned = true
                unconsumed[token] = nil
            }
            for _ in 0..<random.below(4) {
                var events: [BLIPEvent] = []
                if Bool.random(using: &random) {
                    guard let frame = a.nextFrame() else { continue }
                    try b.receive(frame, into: &events)
                    toAnswer += events.requests
                } else {
                    var own: [BLIPEvent] = []
                    let frame = b.nextFrame(into: &own)
                    wanting += own.wanted
                    if let frame { try a.receive(frame, into: &events) }
                    try check(events)
                }
            }
            #expect(a.unconsumedBytes == unconsumed.values.reduce(0, +), place)
        }
        #expect(finished.count + expected.values.count(where: \.isAbandoned) == total, place)
        for (token, rest) in unconsumed { a.consumed(token, rest) }
        #expect(a.incomingStreamsAreOver && b.outgoingStreamsAreOver && b.queuedReplyBytes == 0, place)
        #expect(a.unconsumedBytes == 0 && a.unfinishedBytes == 0 && b.flows.isEmpty, place)
        #expect(a.fail().isEmpty && b.fail().isEmpty, place)
    }
}

import NIOCore
import TestRandomness
import Testing

@testable import BLIP

struct FlowControlTests {
    @Test func tenMegabytesEachWayNeedAcknowledgements() throws {
        var random = SeededGenerator(seed: 7)
        let body = random.noise(10_000_000)
        let pair = Pair()
        pair.a.acknowledgesReceived = false
        pair.b.acknowledgesReceived = false
        pair.a.send(OutgoingRequest(profile: "blob", body: body))
        pair.b.send(OutgoingRequest(profile: "blob", body: body, isCompressed: true))
        var events = try pair.settle()
        #expect(events.atA.isEmpty && events.atB.isEmpty)
        // LiteCore stops with the frame that reaches the window.
        for sent in [pair.a.flows, pair.b.flows].map({ $0.map(\.sent) }) {
            #expect(sent.count == 1 && (128_000..<128_000 + 16_384).contains(sent[0]))
        }
        #expect(pair.a.queuedBytes > 9_800_000 && !pair.a.hasPendingOutput)

        // Other messages pass.
        pair.a.send(OutgoingRequest(profile: "small"))
        events = try pair.settle()
        #expect(events.atB.requests.map(\.profile) == ["small"])

        pair.a.acknowledgesReceived = true
        #expect(pair.a.hasPendingOutput)
        pair.b.acknowledgesReceived = true
        events = try pair.settle()
        #expect(events.atB.requests.first?.body == body)
        #expect(events.atA.requests.first?.body == body)
        #expect(pair.a.queuedBytes == 0 && pair.a.flows.isEmpty && pair.b.flows.isEmpty)

        pair.b.reply(to: 1, OutgoingReply(body: body))
        pair.a.reply(to: 1, OutgoingReply(body: body, isCompressed: true))
        events = try pair.settle()
        #expect(events.atA.replies.first?.reply.body == body)
        #expect(events.atB.replies.first?.reply.body == body)
        #expect(pair.b.flows.isEmpty && !pair.a.hasPendingOutput && !pair.b.hasPendingOutput)
    }

    @Test("beyond the limit, long requests arrive one after the other, dropped ones are let pass, and short ones overtake", arguments: [false, true])
    func longRequestsTakeTurns(isCompressed: Bool) throws {
        var random = SeededGenerator(seed: 11)
        let bodies = (0..<6).map { _ in random.noise(2_000_000) } + [random.noise(9_000_000)]
        var limits = BLIPLimits()
        (limits.maximumInterleavedBytes, limits.maximumMessage) = (500_000, 3_000_000)
        let (a, b) = (Peer(), Peer(limits: limits))
        for body in bodies { a.send(OutgoingRequest(profile: "rev", body: body, isCompressed: isCompressed)) }
        a.send(OutgoingRequest(profile: "short"))
        var (arrived, peak): ([IncomingRequest], Int) = ([], 0)
        while true {
            let frames = a.drain()
            if frames.isEmpty { break }
            for frame in frames {
                arrived += try b.receive([frame]).requests
                peak = max(peak, b.bufferedBytes)
            }
            _ = try a.receive(b.drain())
        }
        #expect(arrived.count == bodies.count + 1 && arrived.first?.profile == "short")
        #expect(Set(arrived.filter { !$0.isTruncated }.map(\.body)) == Set(bodies.dropLast() + [NIOCore.ByteBuffer()]))
        #expect(arrived.filter(\.isTruncated).map(\.totalBytes).first.map { $0 >= 9_000_000 } == true)
        // One whole, of each of the others what the peer's window lets through, and what inflating takes. All together are 15 MB.
        #expect(peak < 5_500_000, "\(peak)")
    }

    /// Ends of other requests, of which there may be thousands, neither pass the turn on nor lose it.
    @Test func theTurnPassesWhenTheRequestThatHasItEnds() throws {
        var limits = BLIPLimits()
        limits.maximumInterleavedBytes = 100_000
        var random = SeededGenerator(seed: 12)
        let (a, b) = (Peer(), Peer(limits: limits))
        let bodies = (0..<3).map { _ in random.noise(1_000_000) }
        for body in bodies { a.send(OutgoingRequest(profile: "rev", body: body)) }
        var arrived: [IncomingRequest] = []
        var sent = 0
        while arrived.count(where: { $0.profile == "rev" }) < bodies.count {
            try #require(sent < 1_000, "the long requests stand still")
            arrived += try b.receive(a.drain()).requests
            _ = try a.receive(b.drain())
            // Two frames each, which end between those of the others.
            a.send(OutgoingRequest(profile: "short", body: random.noise(20_000)))
            sent += 1
        }
        #expect(arrived.filter { $0.profile == "rev" }.map(\.body) == bodies)
        #expect(arrived.count { $0.profile == "short" } >= sent - 1)
    }

    @Test func acknowledgementsCountWhatTravelled() throws {
        let pair = Pair()
        pair.a.send(OutgoingRequest(profile: "blob", body: ByteBuffer(repeating: 7, count: 100_000)))
        var arrived = 0
        var events: [BLIPEvent] = []
        while !pair.b.hasDueAcknowledgements {
            let frame = try #require(pair.a.nextFrame())
            arrived += frame.readableBytes - 2
            try pair.b.receive(frame, into: &events)
        }
        #expect((50_000..<50_000 + 16_384).contains(arrived))
        var expected = ByteBuffer(bytes: [1, 0x34])
        expected.writeVarint(UInt64(arrived))
        #expect(pair.b.nextFrame() == expected)
        #expect(pair.b.nextFrame() == nil)
    }

    @Test func acknowledgementsGoFirstAndNotForFinishedMessages() throws {
        let pair = Pair()
        pair.a.send(OutgoingRequest(profile: "blob", body: ByteBuffer(repeating: 7, count: 60_000)))
        pair.b.send(OutgoingRequest(profile: "other"))
        let frames = pair.a.drain()
        #expect(frames.count == 4)
        _ = try pair.b.receive(Array(frames.dropLast()))
        #expect(pair.b.hasDueAcknowledgements || frames.dropLast().reduce(0) { $0 + $1.readableBytes } < 50_000)
        _ = try pair.b.receive([frames[3]])
        #expect(try pair.b.drain().map { try FrameHeader($0).type } == [0])

        pair.a.send(OutgoingRequest(profile: "blob", body: ByteBuffer(repeating: 7, count: 100_000)))
        pair.b.send(OutgoingRequest(profile: "other"))
        _ = try pair.b.receive(Array(pair.a.drain().dropLast()))
        #expect(try pair.b.drain().map { try FrameHeader($0).type } == [4, 0])
    }

    /// Too large, too small, unknown: nothing of it moves more than was sent.
    @Test func strangeAcknowledgementsDoNoHarm() throws {
        let pair = Pair()
        pair.a.send(OutgoingRequest(profile: "blob", body: ByteBuffer(repeating: 7, count: 1_000_000)))
        let first = pair.a.drain()
        for frame in ["0134ffffffffffffffffff01", "013400", "0234ffff7f", "ffffffffffffffffff0135ffff7f", "0135808001"] {
            var events: [BLIPEvent] = []
            try pair.a.receive(buffer(hex: frame), into: &events)
            #expect(events.isEmpty)
        }
        #expect(pair.a.flows.map(\.acknowledged) == pair.a.flows.map(\.sent))
        let second = pair.a.drain()
        #expect(second.count == first.count)
        var events: [BLIPEvent] = []
        #expect(throws: BLIPError.truncatedNumber) { try pair.a.receive(buffer(hex: "013480"), into: &events) }
    }

    /// An acknowledgement may cross the end of its message on the way.
    @Test func acknowledgementsOfWhatIsOverAreIgnored() throws {
        let pair = Pair()
        pair.a.send(OutgoingRequest(profile: "get"))
        _ = try pair.settle()
        pair.b.reply(to: 1, OutgoingReply(body: ByteBuffer(repeating: 7, count: 100_000)))
        _ = try pair.settle()
        for frame in ["0134ffff7f", "0135ffff7f", "0735ffff7f", "0034ffff7f"] {
            for peer in [pair.a, pair.b] {
                var events: [BLIPEvent] = []
                try peer.receive(buffer(hex: frame), into: &events)
                #expect(events.isEmpty)
            }
        }
        pair.a.send(OutgoingRequest(profile: "still here"))
        #expect(try pair.settle().atB.requests.map(\.profile) == ["still here"])
    }

    @Test func progressIsTold() throws {
        let pair = Pair()
        pair.a.send(OutgoingRequest(profile: "get"))
        _ = try pair.settle()
        pair.b.reply(to: 1, OutgoingReply(body: ByteBuffer(repeating: 7, count: 100_000)))
        let counts = try pair.settle().atA.compactMap { if case .replyProgress(_, let count) = $0 { count } else { nil } }
        #expect(counts == (1...6).map { $0 * 16_378 })
    }
}

import NIOCore
import TestRandomness
import Testing

@testable import BLIP

/// Replies that are told as they come.
struct IncomingStreamTests {
    private func limits(_ change: (inout BLIPLimits) -> Void) -> BLIPLimits {
        var limits = BLIPLimits()
        change(&limits)
        return limits
    }

    /// `a` asked for a stream and `b` has the request, whose number is 1.
    private func asked(a: BLIPLimits = .init(), b: BLIPLimits = .init()) throws -> (a: Peer, b: Peer, token: RequestToken) {
        let (a, b) = (Peer(limits: a), Peer(limits: b))
        let token = try #require(a.send(OutgoingRequest(profile: "get"), streamsReply: true))
        _ = try b.receive(a.drain())
        return (a, b, token)
    }

    @Test(arguments: [0, 1, 10, 20_000, 700_000], [false, true])
    func anySize(size: Int, isCompressed: Bool) throws {
        let (a, b, token) = try asked()
        var random = SeededGenerator(seed: UInt64(size))
        let body = random.body(size)
        b.reply(to: 1, OutgoingReply(properties: ["k": "v"], body: body, isCompressed: isCompressed))
        var events: [BLIPEvent] = []
        while let frame = b.nextFrame() {
            try a.receive(frame, into: &events)
            a.consumed(token, a.unconsumedBytes)
            _ = try b.receive(a.drain())
        }
        let told = try #require(events.streams?[token])
        #expect(told.properties == ["k": "v"] && told.body == body && told.hasEnded)
        #expect(told.pieces.allSatisfy { $0 <= PartialMessage.pieceLength })
        #expect(events.replies.isEmpty && a.awaitedReplies == 0 && a.incomingStreamsAreOver && a.unfinishedBytes == 0)
        #expect(a.fail().isEmpty)
    }

    @Test func longPropertiesSpanFrames() throws {
        for isCompressed in [false, true] {
            let (a, b, token) = try asked(b: limits { $0.maximumFrame = 100 })
            let properties: BLIPProperties = ["key": String(repeating: "v", count: 90_000)]
            b.reply(to: 1, OutgoingReply(properties: properties, body: ByteBuffer(string: "body"), isCompressed: isCompressed))
            let told = try #require(try a.receive(b.drain()).streams?[token])
            #expect(told.properties == properties && String(buffer: told.body) == "body" && told.hasEnded)
        }
    }

    @Test func anErrorIsOneReply() throws {
        let (a, b, token) = try asked()
        b.reply(to: 1, OutgoingReply(error: BLIPErrorReply(domain: "HTTP", code: 404, message: String(repeating: "x", count: 40_000))))
        let events = try a.receive(b.drain())
        #expect(events.streams == [:])
        #expect(events.replies.map(\.token) == [token] && events.replies.first?.reply.error?.code == 404)
        #expect(a.incomingStreamsAreOver && a.awaitedReplies == 0)

        let (c, d, other) = try asked(a: limits { $0.maximumErrorReply = 30_000 })
        d.reply(to: 1, OutgoingReply(error: BLIPErrorReply(domain: "HTTP", code: 404, message: String(repeating: "x", count: 40_000))))
        #expect(throws: BLIPError.limitExceeded("maximumErrorReply", value: 30_001, maximum: 30_000)) { try c.receive(d.drain()) }
        #expect(c.fail() == [other])
    }

    /// Malformed starts are found in streams too.
    @Test func malformed() throws {
        let cases: [(String, BLIPError.PropertiesFault)] = [
            ("", .missing), ("05", .longerThanMessage), ("026162", .unterminated), ("026100", .oddStrings),
        ]
        for (payload, reason) in cases {
            let (a, _, _) = try asked()
            var frame = buffer(hex: "0101" + payload)
            var sum = RunningChecksum()
            sum.add(frame, 2, frame.readableBytes - 2)
            frame.writeInteger(sum.value)
            #expect(throws: BLIPError.properties(reason: reason, message: 1)) { try a.receive([frame]) }
        }
    }

    /// The peer stops at its window, and other messages pass.
    @Test(arguments: [false, true])
    func aSlowConsumerStopsThePeer(isCompressed: Bool) throws {
        let (a, b, token) = try asked()
        var random = SeededGenerator(seed: 5)
        let body = random.noise(10_000_000)
        b.reply(to: 1, OutgoingReply(body: body, isCompressed: isCompressed))
        var events: [BLIPEvent] = []
        func move() throws {
            while a.hasPendingOutput || b.hasPendingOutput {
                if let frame = b.nextFrame() { try a.receive(frame, into: &events) }
                _ = try b.receive(a.drain())
                let bound = 131_072 + 128_000 + 16_384
                #expect(a.unconsumedBytes <= bound && a.bufferedBytes < bound + 100_000)
                #expect(!a.shouldPauseReading)
            }
        }
        try move()
        #expect(a.unconsumedBytes > 131_072 && !b.hasPendingOutput && b.queuedBytes > 9_000_000)
        b.send(OutgoingRequest(profile: "other", isCompressed: true))
        try move()
        #expect(events.requests.map(\.profile) == ["other"])

        // Above the window nothing happens; at the window it continues.
        a.consumed(token, a.unconsumedBytes - 131_073)
        #expect(!a.hasPendingOutput)
        a.consumed(token, 1)
        #expect(a.hasPendingOutput)
        while a.unconsumedBytes > 0 {
            a.consumed(token, 1 + random.below(a.unconsumedBytes))
            try move()
        }
        let told = try #require(events.streams?[token])
        #expect(told.hasEnded && told.body == body && a.incomingStreamsAreOver)
    }

    /// An acknowledgement that was due and not sent yet is withdrawn when the window fills.
    @Test func acknowledgementsAreWithdrawn() throws {
        let (a, b, token) = try asked(a: limits { $0.streamWindow = 100_000 })
        b.reply(to: 1, OutgoingReply(body: ByteBuffer(repeating: 7, count: 1_000_000)))
        let frames = b.drain()
        #expect(frames.count == 8)
        _ = try a.receive(Array(frames.prefix(5)))
        #expect(a.hasDueAcknowledgements)
        _ = try a.receive(Array(frames.dropFirst(5)))
        #expect(a.unconsumedBytes > 100_000 && !a.hasDueAcknowledgements && !a.hasPendingOutput)
        a.consumed(token, a.unconsumedBytes)
        #expect(a.drain().count == 1)
        #expect(!a.hasPendingOutput)
    }

    /// Limits that stand for "none".
    @Test func boundlessLimits() throws {
        let (a, b, token) = try asked(a: limits {
            for path in [
                \BLIPLimits.maximumInflatedFrame, \.maximumUnfinishedBytes, \.maximumMessage, \.maximumReply, \.maximumErrorReply,
                \.streamWindow, \.maximumStreamUnacknowledged, \.maximumStreamUnconsumed,
            ] { $0[keyPath: path] = .max }
        })
        b.reply(to: 1, OutgoingReply(body: ByteBuffer(repeating: 7, count: 100_000), isCompressed: true))
        b.send(OutgoingRequest(profile: "p", body: ByteBuffer(repeating: 7, count: 100_000), isCompressed: true))
        let events = try a.receive(b.drain())
        #expect(events.streams?[token]?.body.readableBytes == 100_000 && events.requests.first?.body.readableBytes == 100_000)
    }

    @Test func aPeerThatIgnoresTheWindow() throws {
        let (a, b, token) = try asked(b: limits { $0.sendWindow = .max })
        b.reply(to: 1, OutgoingReply(body: ByteBuffer(repeating: 7, count: 10_000_000)))
        var error: BLIPError?
        var most = 0
        do throws(BLIPError) {
            while let frame = b.nextFrame() {
                _ = try a.receive([frame])
                most = max(most, a.bufferedBytes)
                _ = a.drain()
            }
        } catch let found { error = found }
        guard case .limitExceeded("maximumStreamUnacknowledged", let value, 512_000)? = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(value > 512_000 && most < 131_072 + 512_000 + 10_000)
        #expect(a.fail() == [token])
    }

    /// Data that compresses well comes in quantities within the window; an owner that pauses is safe, one that does not gets an error.
    @Test(arguments: [false, true])
    func dataThatCompressesWell(ownerPauses: Bool) throws {
        let (a, b, token) = try asked()
        let body = ByteBuffer(repeating: 7, count: 30_000_000)
        b.reply(to: 1, OutgoingReply(body: body, isCompressed: true))
        var events: [BLIPEvent] = []
        var pauses = 0
        func move() throws(BLIPError) {
            while let frame = b.nextFrame() {
                try a.receive(frame, into: &events)
                if ownerPauses, a.shouldPauseReading {
                    pauses += 1
                    #expect(a.unconsumedBytes <= 4 * 131_072 + 16_384)
                    a.consumed(token, a.unconsumedBytes)
                }
                for frame in a.drain() { _ = try b.receive([frame]) }
            }
        }
        if ownerPauses {
            try move()
            #expect(pauses > 10 && events.streams?[token]?.body == body)
        } else {
            #expect(throws: BLIPError.self) { try move() }
            #expect(a.unconsumedBytes > 4 << 20 && a.unconsumedBytes <= 4 << 20 + 16_384)
        }
    }

    enum Moment: CaseIterable { case beforeSending, beforeTheReply, inTheMiddle, afterTheEnd }

    @Test(arguments: Moment.allCases, [false, true])
    func abandoning(_ moment: Moment, isCompressed: Bool) throws {
        let pair = Pair()
        var random = SeededGenerator(seed: 9)
        let token = try #require(pair.a.send(OutgoingRequest(profile: "get"), streamsReply: true))
        if moment == .beforeSending { pair.a.abandon(token) }
        _ = try pair.b.receive(pair.a.drain())
        if moment == .beforeTheReply { pair.a.abandon(token) }
        let size = moment == .afterTheEnd ? 100_000 : 3_000_000
        pair.b.reply(to: 1, OutgoingReply(body: random.noise(size), isCompressed: isCompressed))
        var events = try pair.settle().atA
        if moment == .inTheMiddle {
            #expect(events.streams?[token]?.hasEnded == false)
            pair.a.abandon(token)
            events = try pair.settle().atA
        } else if moment == .afterTheEnd {
            #expect(events.streams?[token]?.hasEnded == true && pair.a.unconsumedBytes == 100_000)
            pair.a.abandon(token)
            events = []
        }
        #expect(events.isEmpty, "nothing is told")
        #expect(pair.b.queuedBytes == 0, "the peer got rid of it")
        #expect(pair.a.unconsumedBytes == 0 && pair.a.unfinishedBytes == 0 && pair.a.incomingStreamsAreOver && pair.a.awaitedReplies == 0)
        pair.a.consumed(token, 10)
        pair.a.abandon(token)
        // Checksum and inflater have seen all of it.
        pair.b.send(OutgoingRequest(profile: "after", body: random.noise(50_000), isCompressed: true))
        #expect(try pair.settle().atA.requests.map(\.profile) == ["after"])
    }

    @Test func anAbandonedErrorIsNotTold() throws {
        let (a, b, token) = try asked()
        a.abandon(token)
        b.reply(to: 1, OutgoingReply(error: .noHandler))
        #expect(try a.receive(b.drain()).isEmpty)
        #expect(a.incomingStreamsAreOver && a.awaitedReplies == 0)
    }

    @Test func failing() throws {
        let (a, b, token) = try asked()
        let given = try #require(a.send(OutgoingRequest(profile: "get"), streamsReply: true))
        a.abandon(given)
        let queued = try #require(a.send(OutgoingRequest(profile: "get"), streamsReply: true))
        b.reply(to: 1, OutgoingReply(body: ByteBuffer(repeating: 1, count: 100_000)))
        _ = try a.receive(Array(b.drain().dropLast()))
        #expect(a.unconsumedBytes > 0)
        #expect(a.fail() == [token, queued])
        #expect(a.unconsumedBytes == 0 && a.incomingStreamsAreOver)
        a.consumed(token, 5)
        a.abandon(token)
    }

    /// A checksum that is wrong takes back what its frame told.
    @Test func damage() throws {
        for isCompressed in [false, true] {
            let (a, b, token) = try asked()
            b.reply(to: 1, OutgoingReply(body: ByteBuffer(repeating: 1, count: 40_000), isCompressed: isCompressed))
            var frame = try #require(b.nextFrame())
            frame.setInteger(UInt32(1), at: frame.writerIndex - 4)
            var events: [BLIPEvent] = []
            #expect(throws: BLIPError.self) { try a.receive(frame, into: &events) }
            #expect(events.isEmpty && a.fail() == [token])
        }
    }
}

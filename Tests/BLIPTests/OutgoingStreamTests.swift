import NIOCore
import TestRandomness
import Testing

@testable import BLIP

/// Replies that are sent as they are supplied.
struct OutgoingStreamTests {
    private func asked(limits: BLIPLimits = .init()) throws -> Pair {
        let pair = Pair(limits: limits)
        pair.a.send(OutgoingRequest(profile: "get"))
        _ = try pair.b.receive(pair.a.drain())
        return pair
    }

    @Test(arguments: [false, true], [0, 10, 100_000])
    func supplyOnDemand(isCompressed: Bool, first: Int) throws {
        let pair = try asked()
        var random = SeededGenerator(seed: 1)
        let body = random.noise(2_000_000)
        var position = first
        let begin = OutgoingReply(properties: ["k": "v"], body: body.slice(0, first), isCompressed: isCompressed)
        let stream = try #require(pair.b.reply(to: 1, streaming: begin))
        #expect(!pair.b.reply(to: 1, OutgoingReply()) && pair.b.reply(to: 1, streaming: begin) == nil, "a second reply")
        var events: [BLIPEvent] = []
        var asked = 0
        while true {
            var own: [BLIPEvent] = []
            let frame = pair.b.nextFrame(into: &own)
            if let frame { try pair.a.receive(frame, into: &events) }
            _ = try pair.b.receive(pair.a.drain())
            #expect(own.wanted.count <= 1)
            if own.wanted.first == stream {
                asked += 1
                #expect(pair.b.queuedBytes < 32_768)
                let count = min(32_768, body.readableBytes - position)
                #expect(pair.b.supply(stream, body.slice(position, count), isLast: position + count == body.readableBytes))
                position += count
            } else if frame == nil, !pair.b.hasPendingOutput {
                break
            }
            #expect(pair.b.queuedBytes <= max(65_536, first + 10) && pair.b.queuedReplyBytes == pair.b.queuedBytes)
        }
        #expect(asked > 50)
        let reply = try #require(events.replies.first?.reply)
        #expect(reply.properties == ["k": "v"] && reply.body == body)
        #expect(pair.b.outgoingStreamsAreOver && pair.b.flows.isEmpty && pair.b.queuedBytes == 0 && pair.b.queuedReplyBytes == 0)
        #expect(!pair.b.supply(stream, body, isLast: true) && !pair.b.cut(stream), "it is over")
    }

    /// A stream without data neither blocks nor spins.
    @Test func anIdleStream() throws {
        let pair = try asked()
        let stream = try #require(pair.b.reply(to: 1, streaming: OutgoingReply()))
        var own: [BLIPEvent] = []
        let first = try #require(pair.b.nextFrame(into: &own))
        #expect(own.wanted == [stream] && !pair.b.hasPendingOutput)
        var events = try pair.a.receive([first])
        pair.b.supply(stream, ByteBuffer())
        #expect(!pair.b.hasPendingOutput)
        pair.b.send(OutgoingRequest(profile: "other"))
        own = []
        let second = try #require(pair.b.nextFrame(into: &own))
        events += try pair.a.receive([second])
        #expect(events.requests.map(\.profile) == ["other"] && own.wanted.isEmpty)
        #expect(pair.b.nextFrame() == nil)
        pair.b.supply(stream, ByteBuffer(string: "now"), isLast: true)
        #expect(try pair.settle().atA.replies.map { String(buffer: $0.reply.body) } == ["now"])
    }

    /// A caller that asks for frames without events is told later.
    @Test func askingIsNotLost() throws {
        let pair = try asked()
        let stream = try #require(pair.b.reply(to: 1, streaming: OutgoingReply()))
        #expect(pair.b.drain().count == 1)
        var own: [BLIPEvent] = []
        #expect(pair.b.nextFrame(into: &own) == nil)
        #expect(own.wanted == [stream])
    }

    /// The last frame may have no data. It is plain then: a compressed one breaks LiteCore's inflater.
    @Test func theEndOnAFrameEdge() throws {
        let pair = try asked()
        let stream = try #require(pair.b.reply(to: 1, streaming: OutgoingReply(body: ByteBuffer(string: "some"), isCompressed: true)))
        var frames = pair.b.drain()
        pair.b.supply(stream, ByteBuffer(), isLast: true)
        frames += pair.b.drain()
        #expect(frames.count == 2 && frames[1].readableBytes == 2 + 4)
        #expect(frames.map { $0.getInteger(at: 1, as: UInt8.self) } == [0x49, 0x01])
        #expect(frames[0].getInteger(at: frames[0].writerIndex - 4, as: UInt32.self) == frames[1].getInteger(at: 2, as: UInt32.self))
        #expect(try pair.a.receive(frames).replies.map { String(buffer: $0.reply.body) } == ["some"])
        pair.b.send(OutgoingRequest(profile: "after", isCompressed: true))
        let after = try pair.a.receive(pair.b.drain()).requests
        #expect(after.map(\.profile) == ["after"] && after[0].isCompressed, "the deflater is as it was")
    }

    enum Place: CaseIterable { case unsent, idle, stopped, queued }

    /// The reply ends short, and the connection goes on.
    @Test(arguments: Place.allCases)
    func cutting(_ place: Place) throws {
        let pair = try asked()
        let size = place == .idle || place == .unsent ? 10_000 : 500_000
        let stream = try #require(pair.b.reply(to: 1, streaming: OutgoingReply(body: ByteBuffer(repeating: 7, count: size))))
        var events: [BLIPEvent] = []
        switch place {
        case .unsent: break
        case .queued: events += try pair.a.receive([try #require(pair.b.nextFrame())])
        case .idle, .stopped: events += try pair.a.receive(pair.b.drain())
        }
        #expect(pair.b.cut(stream))
        #expect(!pair.b.cut(stream) && !pair.b.supply(stream, ByteBuffer(string: "x"), isLast: true))
        pair.b.send(OutgoingRequest(profile: "after"))
        events += try pair.settle().atA
        let body = try #require(events.replies.first?.reply.body)
        #expect(body.readableBytes < 500_000 && (body.readableBytes == 0) == (place == .unsent))
        #expect(events.requests.map(\.profile) == ["after"])
        #expect(pair.b.outgoingStreamsAreOver && pair.b.queuedBytes == 0 && pair.b.queuedReplyBytes == 0)
    }

    /// A peer that does not acknowledge stops the stream at its window, and more is wanted once only.
    @Test func theWindow() throws {
        let pair = try asked()
        pair.a.acknowledgesReceived = false
        let stream = try #require(pair.b.reply(to: 1, streaming: OutgoingReply()))
        var wanted = 0
        for _ in 0..<100 {
            var own: [BLIPEvent] = []
            if let frame = pair.b.nextFrame(into: &own) { _ = try pair.a.receive([frame]) }
            for id in own.wanted {
                wanted += 1
                pair.b.supply(id, ByteBuffer(repeating: 1, count: 32_768))
            }
        }
        #expect((4...6).contains(wanted) && !pair.b.hasPendingOutput && pair.b.queuedBytes <= 65_536)
        pair.a.acknowledgesReceived = true
        pair.b.supply(stream, ByteBuffer(string: "end"), isLast: true)
        let body = try #require(try pair.settle().atA.replies.first?.reply.body)
        #expect(body.readableBytes == wanted * 32_768 + 3)
    }

    @Test func refusals() throws {
        let pair = try asked()
        #expect(pair.b.reply(to: 7, streaming: OutgoingReply()) == nil)
        #expect(pair.b.reply(to: 1, streaming: OutgoingReply(error: .noHandler)) == nil, "an error is sent whole")
        #expect(try pair.settle().atA.replies.first?.reply.error == .noHandler)
        pair.a.send(OutgoingRequest(profile: "get"))
        _ = try pair.settle()
        let stream = try #require(pair.b.reply(to: 2, streaming: OutgoingReply()))
        _ = pair.b.fail()
        #expect(!pair.b.supply(stream, ByteBuffer(string: "x"), isLast: true) && !pair.b.cut(stream))
        #expect(pair.b.bufferedBytes == 0)
    }
}

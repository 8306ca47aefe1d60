import NIOCore
import Testing

@testable import BLIP

/// A small frame may become megabytes: it does so in pieces, as there is room for them.
struct SuspendedFrameTests {
    private static let room = 1_000

    @Test("a frame becomes as much as there is room for, and the message is whole after the last piece", arguments: [false, true])
    func pieces(isReply: Bool) throws {
        let body = ByteBuffer(repeating: 0x20, count: 60_000)
        var sender = BLIPConnection()
        var receiver = BLIPConnection()
        var events: [BLIPEvent] = []
        if isReply {
            receiver.send(OutgoingRequest(profile: "get"))
            while let frame = receiver.nextFrame() { try sender.receive(frame, into: &events) }
            sender.reply(to: 1, OutgoingReply(body: body, isCompressed: true))
        } else {
            sender.send(OutgoingRequest(profile: "put", body: body, isCompressed: true))
        }
        events = []
        var resumed = 0
        while let frame = sender.nextFrame() {
            var before = receiver.takenBytes
            try receiver.receive(frame, inflationLimit: Self.room, into: &events)
            #expect(receiver.takenBytes - before <= Self.room)
            while receiver.isSuspended {
                before = receiver.takenBytes
                try receiver.resume(inflationLimit: Self.room, into: &events)
                #expect(receiver.takenBytes - before <= Self.room)
                resumed += 1
            }
        }
        #expect(resumed > 50)
        #expect((isReply ? events.replies.first?.reply.body : events.requests.first?.body) == body)
    }

    @Test("no other frame is taken while one is suspended")
    func oneAtATime() throws {
        var sender = BLIPConnection()
        var receiver = BLIPConnection()
        var events: [BLIPEvent] = []
        for _ in 0..<2 { sender.send(OutgoingRequest(profile: "put", body: ByteBuffer(repeating: 0x20, count: 10_000), isCompressed: true)) }
        let (first, second) = (sender.nextFrame(), sender.nextFrame())
        let next = try #require(second)
        try receiver.receive(try #require(first), inflationLimit: Self.room, into: &events)
        #expect(receiver.isSuspended && events.isEmpty)
        do throws(BLIPError) {
            try receiver.receive(next, into: &events)
            Issue.record("it was taken")
        } catch {}
    }
}

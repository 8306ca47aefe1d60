import NIOCore
import TestRandomness
import Testing

@testable import BLIP

/// The bytes of a growing message stay where they are, but for the growth of their memory by doubling.
struct LinearReceivingTests {
    private static let limits: BLIPLimits = {
        var limits = BLIPLimits()
        limits.maximumFrame = 4_096
        limits.sendWindow = .max
        limits.maximumMessage = 70 << 20
        limits.maximumReply = 70 << 20
        limits.maximumUnfinishedBytes = 70 << 20
        return limits
    }()

    /// Receives and counts how often the message moved.
    private func moves(_ receiver: Peer, _ frames: () -> ByteBuffer?) throws -> (frames: Int, moves: Int, events: [BLIPEvent]) {
        var events: [BLIPEvent] = []
        var place = receiver.unfinishedPlace
        var count = 0
        var moves = 0
        while let frame = frames() {
            try receiver.receive(frame, into: &events)
            count += 1
            let now = receiver.unfinishedPlace
            if now != place { moves += 1 }
            try #require(moves <= 18, "it moves with each frame")
            place = now
            _ = receiver.drain()
        }
        return (count, moves, events)
    }

    @Test(arguments: [false, true], [false, true])
    func sixtyMegabytes(isReply: Bool, isCompressed: Bool) throws {
        var random = SeededGenerator(seed: 2)
        let body = random.noise(60_000_000)
        let pair = Pair(limits: Self.limits, level: 1)
        if isReply {
            pair.a.send(OutgoingRequest(profile: "get"))
            _ = try pair.settle()
            pair.b.reply(to: 1, OutgoingReply(body: body, isCompressed: isCompressed))
        } else {
            pair.b.send(OutgoingRequest(profile: "put", body: body, isCompressed: isCompressed))
        }
        let (frames, moves, events) = try moves(pair.a) { pair.b.nextFrame() }
        #expect(frames > 14_000)
        // 4 KiB to 64 MiB takes 14 doublings; the first place and the end are two more.
        #expect(moves <= 18, "\(moves) moves")
        #expect((isReply ? events.replies.first?.reply.body : events.requests.first?.body) == body)
    }

    @Test(arguments: [false, true])
    func framesOfOneByteOntoAGrownReply(isReply: Bool) throws {
        let receiver = Peer(limits: Self.limits)
        let type: UInt8 = isReply ? 1 : 0
        if isReply { receiver.pretendSent(1) }
        var sum = RunningChecksum()
        func frame(_ data: ByteBuffer) -> ByteBuffer {
            var frame = ByteBuffer(bytes: [1, 0x40 | type])
            frame.writeImmutableBuffer(data)
            sum.add(data, 0, data.readableBytes)
            frame.writeInteger(sum.value)
            return frame
        }
        for _ in 0..<20 { _ = try receiver.receive([frame(ByteBuffer(repeating: 0, count: 1_000_000))]) }
        var left = 400
        let result = try moves(receiver) {
            left -= 1
            return left < 0 ? nil : frame(ByteBuffer(repeating: 0, count: 1))
        }
        #expect(result.frames == 400 && result.moves <= 1, "\(result.moves) moves")
        #expect(receiver.unfinishedBytes == 20_000_400)
    }
}

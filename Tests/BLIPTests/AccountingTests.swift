import NIOCore
import TestRandomness
import Testing

@testable import BLIP

/// What a connection says about its memory.
struct AccountingTests {
    private func compressed(_ count: Int = 100) -> OutgoingRequest {
        OutgoingRequest(profile: "p", body: ByteBuffer(repeating: 1, count: count), isCompressed: true, isNoReply: true)
    }

    @Test func nothingIsHeldByAnIdleConnection() throws {
        let pair = Pair()
        #expect(pair.a.bufferedBytes == 0 && pair.b.bufferedBytes == 0)
        pair.a.send(OutgoingRequest(profile: "p", body: ByteBuffer(repeating: 1, count: 300_000), isNoReply: true))
        _ = try pair.settle()
        #expect(pair.a.bufferedBytes == 0 && pair.b.bufferedBytes == 0, "plain messages leave nothing")
    }

    @Test func zlibIsCountedOnceItIsThere() throws {
        let pair = Pair()
        pair.a.send(compressed())
        _ = try pair.settle()
        #expect((268_000..<290_000).contains(pair.a.bufferedBytes), "the deflater: \(pair.a.bufferedBytes)")
        #expect((40_000..<50_000).contains(pair.b.bufferedBytes), "the inflater: \(pair.b.bufferedBytes)")

        let small = Pair()
        small.a.deflaterSize = .small
        small.a.send(compressed())
        _ = try small.settle()
        #expect((70_000..<90_000).contains(small.a.bufferedBytes), "\(small.a.bufferedBytes)")
    }

    /// Its owner may have to wait for the peer's CLOSE: by then nobody counts what it holds.
    @Test func aConnectionThatHasFailedHoldsNothing() throws {
        let pair = Pair()
        pair.a.send(compressed())
        _ = try pair.settle()
        #expect(pair.a.bufferedBytes > 0 && pair.b.bufferedBytes > 0)
        _ = (pair.a.fail(), pair.b.fail())
        #expect(pair.a.bufferedBytes == 0 && pair.b.bufferedBytes == 0)
    }

    /// A peer that never acknowledges leaves the ends of as many replies as it likes.
    @Test func whatIsLeftOfAMessageDoesNotKeepWhatWasSent() throws {
        let pair = Pair()
        for _ in 0..<20 { pair.a.send(OutgoingRequest(profile: "get")) }
        let asked = pair.a.drain()
        _ = try pair.b.receive(asked)
        for number in 1...20 { pair.b.reply(to: UInt64(number), OutgoingReply(body: ByteBuffer(repeating: 7, count: 140_000))) }
        #expect(pair.b.bufferedBytes > 20 * 140_000)
        // They go by turns: what all of them take goes down with what is left of them.
        var sent: [ByteBuffer] = []
        for _ in 0..<20 * 6 { sent.append(try #require(pair.b.nextFrame())) }
        #expect((20 * 40_000..<20 * 70_000).contains(pair.b.bufferedBytes), "\(pair.b.bufferedBytes)")
        sent += pair.b.drain()
        #expect(sent.count >= 20 * 8 && (1..<20 * 20_000).contains(pair.b.stoppedCapacity), "\(pair.b.stoppedCapacity)")
        #expect(pair.b.bufferedBytes >= pair.b.stoppedCapacity / 2)
        // Nothing is lost.
        #expect(try pair.a.receive(sent).replies.isEmpty)
        _ = try pair.settle()
        #expect(pair.b.bufferedBytes == 0 && pair.b.stoppedCapacity == 0)
    }

    @Test func messagesAreCounted() throws {
        let pair = Pair()
        pair.a.send(OutgoingRequest(profile: "p", body: ByteBuffer(repeating: 1, count: 100_000)))
        #expect((100_000..<132_000).contains(pair.a.bufferedBytes))
        let frames = pair.a.drain()
        _ = try pair.b.receive(Array(frames.dropLast()))
        #expect((98_000..<132_000).contains(pair.b.bufferedBytes), "unfinished: \(pair.b.bufferedBytes)")
        _ = try pair.b.receive(Array(frames.suffix(1)))
        #expect(pair.b.bufferedBytes < 1_000, "told: the owner's")

        #expect(pair.b.queuedReplyBytes == 0)
        pair.b.send(OutgoingRequest(profile: "q", body: ByteBuffer(repeating: 1, count: 1_000)))
        pair.b.reply(to: 1, OutgoingReply(body: ByteBuffer(repeating: 1, count: 50_000)))
        #expect(pair.b.queuedReplyBytes == 50_000 && (51_000..<68_000).contains(pair.b.bufferedBytes))
        _ = try pair.settle()
        #expect(pair.b.queuedReplyBytes == 0 && pair.b.bufferedBytes < 1_000)
    }

    /// Messages of a few bytes that never end cost more than their bytes.
    @Test func unfinishedMessagesHaveAPrice() throws {
        let receiver = Peer()
        var sum = RunningChecksum()
        for number in 1...1_000 {
            var frame = ByteBuffer()
            frame.writeVarint(UInt64(number))
            frame.writeBytes([0x40, 0x00])
            sum.add(ByteBuffer(bytes: [0]), 0, 1)
            frame.writeInteger(sum.value)
            _ = try receiver.receive([frame])
        }
        #expect(receiver.unfinishedBytes == 1_000)
        #expect(receiver.bufferedBytes >= 256_000)
    }

    @Test func compressionMayBeForbidden() throws {
        let pair = Pair()
        func flags() throws -> [Bool] { try pair.a.drain().map { try FrameHeader($0).flags.contains(.compressed) } }
        pair.a.allowsCompression = false
        pair.a.send(compressed())
        pair.a.send(compressed(50_000))
        #expect(try flags().allSatisfy { !$0 })
        #expect(pair.a.bufferedBytes == 0, "nothing was taken")
        pair.a.allowsCompression = true
        pair.a.send(compressed())
        #expect(try flags() == [true])
        pair.a.allowsCompression = false
        pair.a.send(compressed())
        #expect(try flags() == [true], "its memory is taken already")
    }

    /// A long message that began plain stays plain: peers see one kind of message.
    @Test func allowingDoesNotChangeAMessageInTheMiddle() throws {
        let pair = Pair()
        pair.a.allowsCompression = false
        pair.a.send(compressed(50_000))
        var frames = [try #require(pair.a.nextFrame())]
        pair.a.allowsCompression = true
        frames += pair.a.drain()
        #expect(try frames.allSatisfy { try !FrameHeader($0).flags.contains(.compressed) })
        #expect(try pair.b.receive(frames).requests.first?.body.readableBytes == 50_000)
    }

    /// Any receiver has a window of 32 KiB, so a smaller one is read by all.
    @Test(arguments: [DeflaterSize.full, .small])
    func everySizeIsReadable(size: DeflaterSize) throws {
        let seed = UInt64.random(in: 0...UInt64.max)
        var random = SeededGenerator(seed: seed)
        let pair = Pair()
        pair.a.deflaterSize = size
        for _ in 0..<50 {
            let body = random.body(random.below(100_000))
            pair.a.send(OutgoingRequest(profile: "p", body: body, isCompressed: true, isNoReply: true))
            #expect(try pair.settle().atB.requests.first?.body == body, "seed \(seed)")
        }
    }
}

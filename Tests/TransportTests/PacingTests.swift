import Environment
import NIOCore
import NIOEmbedded
import Synchronization
import Testing

@testable import Transport

private final class HandClock: TimeSource {
    let nanoseconds = Atomic<UInt64>(1_000_000_000_000)
    func wallSeconds() -> Int64 { 0 }
    func monotonicNanoseconds() -> UInt64 { nanoseconds.load(ordering: .relaxed) }
    func sleep(nanoseconds: UInt64) async throws {}
    func advance(milliseconds: UInt64) { nanoseconds.wrappingAdd(milliseconds * 1_000_000, ordering: .relaxed) }
}

@Suite("What bandwidth limits do to a connection")
struct PacingTests {
    private static let rate = 64 << 10

    @Test func aBucketIsOverdrawnOnceAndTheNextOneWaits() {
        let clock = HandClock()
        let bucket = TokenBucket(rate: 1_000, time: clock)
        // Unused for long: a quarter of a second's bytes and no more.
        #expect(bucket.take(250) == 0)
        #expect(bucket.take(1_000) == 0)
        #expect(bucket.take(500) == 1_000_000_000)
        #expect(bucket.take(0) == 1_500_000_000)
        clock.advance(milliseconds: 1_500)
        #expect(bucket.take(1) == 0)
        #expect(bucket.take(1) == 1_000_000)
    }

    /// A channel that both kinds of traffic cross for ten seconds, as much as it takes.
    @Test("over time as much gets through as may, and no more", arguments: [true, false])
    func tenSeconds(_ sends: Bool) throws {
        let clock = HandClock()
        let reads = ReadCounter()
        let cap = BandwidthCap(send: sends ? Self.rate : nil, receive: sends ? nil : Self.rate)
        let channel = EmbeddedChannel()
        try channel.pipeline.syncOperations.addHandlers([reads, PacingHandler([Bandwidth(cap, time: clock)])])
        defer { _ = try? channel.finish() }
        let piece = ByteBuffer(repeating: 7, count: 8 << 10)
        var (crossed, free) = (0, 0)
        for _ in 0..<1_000 {
            if sends {
                // Another piece as soon as the one before is gone.
                if crossed == free {
                    channel.writeAndFlush(piece, promise: nil)
                    free += piece.readableBytes
                }
                while let out = try channel.readOutbound(as: ByteBuffer.self) { crossed += out.readableBytes }
            } else {
                channel.read()
                if reads.count > 0 {
                    reads.count = 0
                    try channel.writeInbound(piece)
                    crossed += piece.readableBytes
                }
            }
            clock.advance(milliseconds: 10)
            channel.embeddedEventLoop.advanceTime(by: .milliseconds(10))
        }
        #expect((9 * Self.rate...11 * Self.rate).contains(crossed), "\(crossed)")
    }

    @Test("what comes in the direction without a cap does not wait")
    func theOtherWay() throws {
        let channel = EmbeddedChannel()
        try channel.pipeline.syncOperations.addHandler(PacingHandler([Bandwidth(BandwidthCap(receive: 4 << 10), time: HandClock())]))
        defer { _ = try? channel.finish() }
        for _ in 0..<50 { try channel.writeOutbound(ByteBuffer(repeating: 7, count: 8 << 10)) }
        var crossed = 0
        while let out = try channel.readOutbound(as: ByteBuffer.self) { crossed += out.readableBytes }
        #expect(crossed == 400 << 10)
    }

    @Test("two connections share a bandwidth evenly, and each has its own limit as well")
    func shared() throws {
        let clock = HandClock()
        let both = Bandwidth(BandwidthCap(send: Self.rate), time: clock)
        let own = Self.rate / 4 * 3
        let channels = try (0..<2).map { _ in
            let channel = EmbeddedChannel()
            try channel.pipeline.syncOperations.addHandler(PacingHandler([both, Bandwidth(BandwidthCap(send: own), time: clock)]))
            return channel
        }
        defer { for channel in channels { _ = try? channel.finish() } }
        var (crossed, free) = ([0, 0], [0, 0])
        let piece = ByteBuffer(repeating: 7, count: 4 << 10)
        /// Ten seconds in which these are written to as soon as what was written before is gone.
        func tenSeconds(_ numbers: [Int]) throws {
            crossed = free
            let before = crossed
            for _ in 0..<1_000 {
                for number in numbers {
                    if crossed[number] >= free[number] {
                        channels[number].writeAndFlush(piece, promise: nil)
                        free[number] += piece.readableBytes
                    }
                    while let out = try channels[number].readOutbound(as: ByteBuffer.self) { crossed[number] += out.readableBytes }
                }
                clock.advance(milliseconds: 10)
                for channel in channels { channel.embeddedEventLoop.advanceTime(by: .milliseconds(10)) }
            }
            crossed = zip(crossed, before).map { $0 - $1 }
        }
        try tenSeconds([0, 1])
        let sum = crossed[0] + crossed[1]
        #expect((9 * Self.rate...11 * Self.rate).contains(sum), "\(crossed)")
        #expect(abs(crossed[0] - crossed[1]) < sum / 10, "\(crossed)")
        try tenSeconds([0])
        #expect((9 * own...11 * own).contains(crossed[0]), "\(crossed)")
    }

    @Test("the first message of a connection does not wait for others")
    func greeting() throws {
        let shared = Bandwidth(BandwidthCap(send: 4 << 10), time: HandClock())
        let channels = try (0..<2).map { _ in
            let channel = EmbeddedChannel()
            try channel.pipeline.syncOperations.addHandler(PacingHandler([shared]))
            return channel
        }
        defer { for channel in channels { _ = try? channel.finish() } }
        channels[0].writeAndFlush(ByteBuffer(repeating: 7, count: 1 << 20), promise: nil)
        for (number, isHeard) in [true, true, false].enumerated() {
            channels[1].writeAndFlush(ByteBuffer(repeating: UInt8(number), count: 8 << 10), promise: nil)
            let heard = try channels[1].readOutbound(as: ByteBuffer.self)
            #expect((heard != nil) == isHeard, "\(number)")
        }
    }

    @Test("the last message of a connection that ends is sent", arguments: [true, false])
    func lastWord(_ closes: Bool) throws {
        let channel = EmbeddedChannel()
        defer { _ = try? channel.finish(acceptAlreadyClosed: true) }
        try channel.pipeline.syncOperations.addHandler(PacingHandler([Bandwidth(BandwidthCap(send: 4 << 10), time: HandClock())]))
        for text in [String(repeating: "x", count: 64 << 10), "goodbye"] { channel.writeAndFlush(ByteBuffer(string: text), promise: nil) }
        #expect(try channel.readOutbound(as: ByteBuffer.self)?.readableBytes == 64 << 10)
        #expect(try channel.readOutbound(as: ByteBuffer.self) == nil)
        if closes { channel.close(promise: nil) } else { channel.pipeline.triggerUserOutboundEvent(PacingHandler.Order.end, promise: nil) }
        #expect(try channel.readOutbound(as: ByteBuffer.self) == ByteBuffer(string: "goodbye"))
    }
}

/// Stands in the socket's place and sees what is asked of it.
private final class ReadCounter: ChannelOutboundHandler {
    typealias OutboundIn = IOData
    var count = 0

    func read(context: ChannelHandlerContext) { count += 1 }
}

import NIOCore

@testable import BLIP

/// Repeatable randomness (SplitMix64). Tests put the seed into their failures.
struct SeededRandom: RandomNumberGenerator {
    var state: UInt64

    init(_ seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
        return mixed ^ (mixed >> 31)
    }

    mutating func below(_ bound: Int) -> Int { Int.random(in: 0..<bound, using: &self) }

    /// Text-like bytes (compressible) or noise.
    mutating func body(_ count: Int) -> ByteBuffer {
        if Bool.random(using: &self) { return noise(count) }
        let period = ByteBuffer(string: "{\"key\":\(next()),\"value\":[1,2,\(next())]}")
        return Self.cycle(period, from: 0, count)
    }

    /// Bytes that do not compress: nothing repeats within deflate's window.
    mutating func noise(_ count: Int) -> ByteBuffer {
        Self.cycle(Self.pool, from: below(Self.pool.readableBytes), count)
    }

    private static let pool: ByteBuffer = {
        var random = SeededRandom(1)
        return ByteBuffer(bytes: (0..<100_000).map { _ in UInt8(truncatingIfNeeded: random.next()) })
    }()

    private static func cycle(_ period: ByteBuffer, from start: Int, _ count: Int) -> ByteBuffer {
        var buffer = ByteBuffer()
        buffer.reserveCapacity(count)
        var position = start
        while buffer.readableBytes < count {
            let length = min(period.readableBytes - position, count - buffer.readableBytes)
            buffer.writeImmutableBuffer(period.slice(position, length))
            position = 0
        }
        return buffer
    }
}

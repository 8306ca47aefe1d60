import NIOCore
import TestRandomness

@testable import BLIP

extension SeededGenerator {
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
        var random = SeededGenerator(seed: 1)
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

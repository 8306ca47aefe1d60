import NIOCore

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
        var buffer = ByteBuffer()
        buffer.reserveCapacity(count)
        if Bool.random(using: &self) {
            let period = Array("{\"key\":\(next()),\"value\":[1,2,\(next())]}".utf8)
            while buffer.readableBytes + period.count <= count { buffer.writeBytes(period) }
        }
        while buffer.readableBytes + 8 <= count { buffer.writeInteger(next()) }
        while buffer.readableBytes < count { buffer.writeInteger(UInt8(truncatingIfNeeded: next())) }
        return buffer
    }
}

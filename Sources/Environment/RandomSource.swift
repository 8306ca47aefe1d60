/// Where ids, keys and jitter get their chance from.
public protocol RandomSource: Sendable {
    /// 64 random bits.
    func next() -> UInt64
}

extension RandomSource {
    public func bytes(_ count: Int) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(count)
        while bytes.count < count {
            var bits = next()
            for _ in 0..<min(8, count - bytes.count) {
                bytes.append(UInt8(truncatingIfNeeded: bits))
                bits >>= 8
            }
        }
        return bytes
    }
}

/// The system's cryptographic generator.
public struct SystemRandom: RandomSource {
    public init() {}

    public func next() -> UInt64 {
        var generator = SystemRandomNumberGenerator()
        return generator.next()
    }
}

import Glibc

/// The source of randomness for ids, keys and jitter.
public protocol RandomSource: Sendable {
    /// 64 random bits.
    func next() -> UInt64

    /// Fills a buffer; with the system's source, one call yields many bytes.
    func fill(_ buffer: UnsafeMutableRawBufferPointer)
}

extension RandomSource {
    public func fill(_ buffer: UnsafeMutableRawBufferPointer) {
        var at = 0
        while at < buffer.count {
            var bits = next()
            for index in at..<min(at + 8, buffer.count) {
                buffer[index] = UInt8(truncatingIfNeeded: bits)
                bits >>= 8
            }
            at += 8
        }
    }

    public func bytes(_ count: Int) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        bytes.withUnsafeMutableBytes { fill($0) }
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

    public func fill(_ buffer: UnsafeMutableRawBufferPointer) {
        // The most that one call returns.
        let most = 256
        var at = 0
        while at < buffer.count {
            let piece = UnsafeMutableRawBufferPointer(rebasing: buffer[at..<min(at + most, buffer.count)])
            guard let start = piece.baseAddress, getentropy(start, piece.count) == 0 else {
                // Refused: the standard library's generator has other means of reaching the same source.
                var generator = SystemRandomNumberGenerator()
                for index in piece.indices { piece[index] = generator.next() }
                at += piece.count
                continue
            }
            at += piece.count
        }
    }
}

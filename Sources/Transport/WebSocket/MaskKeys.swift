import Glibc

/// Unpredictable masking keys (RFC 6455, section 5.3), fetched from the system by the handful, since one call to the system
/// for each frame would show in the profile.
struct MaskKeys {
    private var keys: [UInt32] = []

    mutating func next() -> UInt32 {
        if let key = keys.popLast() { return key }
        keys = [UInt32](repeating: 0, count: 64)
        // 256 bytes are the most that one call gives.
        let result = keys.withUnsafeMutableBytes { $0.baseAddress.map { getentropy($0, 256) } ?? -1 }
        if result != 0 {
            // Refused: the standard library's generator has its own ways to the same source.
            var generator = SystemRandomNumberGenerator()
            for i in keys.indices { keys[i] = generator.next() }
        }
        return keys.removeLast()
    }
}

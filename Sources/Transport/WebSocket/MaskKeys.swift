import Environment

/// Unpredictable masking keys (RFC 6455, section 5.3), fetched by the handful, since one call to the system for each frame
/// would show in the profile.
struct MaskKeys {
    private let random: any RandomSource
    private var keys: [UInt32] = []

    init(_ random: any RandomSource) { self.random = random }

    mutating func next() -> UInt32 {
        if let key = keys.popLast() { return key }
        keys = [UInt32](repeating: 0, count: 64)
        keys.withUnsafeMutableBytes { [random] in random.fill($0) }
        return keys.removeLast()
    }
}

import Environment

/// Unpredictable masking keys (RFC 6455, section 5.3), generated in batches, since one system call per frame would be
/// noticeable.
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

/// The key of a document in the id index: 48 bits of a SipHash-1-3 of its id, keyed per database, so that no peer can choose colliding ids.
/// Collisions are resolved by trying again with another salt (see `IDIndex`), so the length only matters for size: six bytes keep the index small,
/// and with random ids small means fast.
struct IDHash: Sendable {
    private let k0: UInt64
    private let k1: UInt64

    /// From 32 hex digits; other text yields a key as well, only a weaker one.
    init(key: String) {
        var words: [UInt64] = [0, 0]
        for (index, digit) in key.utf8.enumerated() {
            words[index & 16 == 0 ? 0 : 1] = words[index & 16 == 0 ? 0 : 1] << 4 | UInt64(Character(Unicode.Scalar(digit)).hexDigitValue ?? 0)
        }
        k0 = words[0]
        k1 = words[1]
    }

    func slot(_ id: UnsafeBufferPointer<UInt8>, salt: UInt64) -> Int64 {
        var v0 = k0 ^ 0x736f_6d65_7073_6575
        var v1 = k1 ^ salt ^ 0x646f_7261_6e64_6f6d
        var v2 = k0 ^ 0x6c79_6765_6e65_7261
        var v3 = k1 ^ salt ^ 0x7465_6462_7974_6573

        @inline(__always) func round() {
            v0 = v0 &+ v1
            v1 = v1 << 13 | v1 >> 51
            v1 ^= v0
            v0 = v0 << 32 | v0 >> 32
            v2 = v2 &+ v3
            v3 = v3 << 16 | v3 >> 48
            v3 ^= v2
            v0 = v0 &+ v3
            v3 = v3 << 21 | v3 >> 43
            v3 ^= v0
            v2 = v2 &+ v1
            v1 = v1 << 17 | v1 >> 47
            v1 ^= v2
            v2 = v2 << 32 | v2 >> 32
        }

        let bytes = UnsafeRawBufferPointer(id)
        var offset = 0
        while offset + 8 <= bytes.count {
            let word = UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
            v3 ^= word
            round()
            v0 ^= word
            offset += 8
        }
        var last = UInt64(bytes.count & 0xFF) << 56
        var shift: UInt64 = 0
        while offset < bytes.count {
            last |= UInt64(bytes[offset]) << shift
            shift += 8
            offset += 1
        }
        v3 ^= last
        round()
        v0 ^= last
        v2 ^= 0xFF
        round()
        round()
        round()
        return Int64((v0 ^ v1 ^ v2 ^ v3) & 0xFFFF_FFFF_FFFF)
    }
}

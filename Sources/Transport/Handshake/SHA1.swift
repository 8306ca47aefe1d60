/// SHA-1 (FIPS 180-4) for `Sec-WebSocket-Accept`, where it proves that the peer understood the handshake and protects
/// nothing. Kept here so that this target needs no crypto library; everything else hashes with `Digests`.
enum SHA1 {
    static func digest(_ message: [UInt8]) -> [UInt8] {
        var padded = message
        padded.append(0x80)
        while padded.count % 64 != 56 { padded.append(0) }
        let bits = UInt64(message.count) * 8
        for shift in stride(from: 56, through: 0, by: -8) { padded.append(UInt8(truncatingIfNeeded: bits >> UInt64(shift))) }

        var state: (UInt32, UInt32, UInt32, UInt32, UInt32) = (0x6745_2301, 0xEFCD_AB89, 0x98BA_DCFE, 0x1032_5476, 0xC3D2_E1F0)
        var words = [UInt32](repeating: 0, count: 80)
        for block in stride(from: 0, to: padded.count, by: 64) {
            for i in 0..<16 {
                let at = block + i * 4
                words[i] = UInt32(padded[at]) << 24 | UInt32(padded[at + 1]) << 16 | UInt32(padded[at + 2]) << 8 | UInt32(padded[at + 3])
            }
            for i in 16..<80 {
                words[i] = rotate(words[i - 3] ^ words[i - 8] ^ words[i - 14] ^ words[i - 16], 1)
            }
            var (a, b, c, d, e) = state
            for i in 0..<80 {
                let mix: UInt32
                switch i {
                case 0..<20: mix = (b & c | ~b & d) &+ 0x5A82_7999
                case 20..<40: mix = (b ^ c ^ d) &+ 0x6ED9_EBA1
                case 40..<60: mix = (b & c | b & d | c & d) &+ 0x8F1B_BCDC
                default: mix = (b ^ c ^ d) &+ 0xCA62_C1D6
                }
                let next = rotate(a, 5) &+ mix &+ e &+ words[i]
                e = d
                d = c
                c = rotate(b, 30)
                b = a
                a = next
            }
            state = (state.0 &+ a, state.1 &+ b, state.2 &+ c, state.3 &+ d, state.4 &+ e)
        }
        return [state.0, state.1, state.2, state.3, state.4].flatMap { word in
            [UInt8(truncatingIfNeeded: word >> 24), UInt8(truncatingIfNeeded: word >> 16), UInt8(truncatingIfNeeded: word >> 8), UInt8(truncatingIfNeeded: word)]
        }
    }

    private static func rotate(_ word: UInt32, _ bits: UInt32) -> UInt32 {
        word << bits | word >> (32 - bits)
    }
}

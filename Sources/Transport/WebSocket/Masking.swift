/// The masking of RFC 6455, section 5.3.
enum Masking {
    /// Copies `count` bytes, masking them in the process.
    ///
    /// - Parameters:
    ///   - key: the four key bytes in wire order, as a little-endian number.
    ///   - phase: how many bytes of this frame have been masked before.
    @inline(__always)
    static func copy(from source: UnsafeRawPointer, to target: UnsafeMutableRawPointer, count: Int, key: UInt32, phase: Int) {
        let shift = UInt32(phase & 3) * 8
        let turned = shift == 0 ? key : key >> shift | key << (32 - shift)
        let wide = (UInt64(turned) << 32 | UInt64(turned)).littleEndian
        var at = 0
        while at &+ 8 <= count {
            target.storeBytes(of: source.loadUnaligned(fromByteOffset: at, as: UInt64.self) ^ wide, toByteOffset: at, as: UInt64.self)
            at &+= 8
        }
        var rest = turned
        while at < count {
            let byte = source.load(fromByteOffset: at, as: UInt8.self) ^ UInt8(truncatingIfNeeded: rest)
            target.storeBytes(of: byte, toByteOffset: at, as: UInt8.self)
            rest = rest >> 8 | rest << 24
            at &+= 1
        }
    }
}

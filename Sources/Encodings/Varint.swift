/// Unsigned LEB128: 7 bits per byte, least significant first, at most 10 bytes.
public enum Varint {
    /// `length` 0: the number is truncated; -1: it does not fit 64 bits.
    public struct Reading {
        public var value: UInt64
        public var length: Int

        @inlinable
        init(value: UInt64, length: Int) {
            self.value = value
            self.length = length
        }
    }

    /// The number that starts at `start`; `length` 0 if that is after the last byte.
    @inlinable @inline(__always)
    public static func read(_ bytes: UnsafeRawBufferPointer, at start: Int) -> Reading {
        guard start < bytes.count else { return Reading(value: 0, length: 0) }
        let first = bytes[start]
        return first < 0x80 ? Reading(value: UInt64(first), length: 1) : readLong(bytes, at: start)
    }

    @usableFromInline
    static func readLong(_ bytes: UnsafeRawBufferPointer, at start: Int) -> Reading {
        var value: UInt64 = 0
        var shift: UInt64 = 0
        for position in start..<min(bytes.count, start + 10) {
            let byte = bytes[position]
            if shift == 63 && byte > 1 { return Reading(value: 0, length: -1) }
            value |= UInt64(byte & 0x7f) << shift
            if byte < 0x80 { return Reading(value: value, length: position - start + 1) }
            shift += 7
        }
        return Reading(value: 0, length: bytes.count - start >= 10 ? -1 : 0)
    }

    /// Number of bytes of the encoded number: 1 to 10.
    @inlinable
    public static func length(_ value: UInt64) -> Int {
        value < 0x80 ? 1 : (70 - value.leadingZeroBitCount) / 7
    }

    /// Passes the bytes of the encoded number to `put`, in order.
    @inlinable @inline(__always)
    public static func write(_ value: UInt64, _ put: (UInt8) -> Void) {
        var rest = value
        while rest >= 0x80 {
            put(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        put(UInt8(truncatingIfNeeded: rest))
    }
}

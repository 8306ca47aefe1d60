/// Lowercase hexadecimal text.
public enum Hex {
    static let digits: StaticString = "0123456789abcdef"

    /// The digit for a number below 16.
    @inlinable @inline(__always)
    public static func digit(_ value: UInt8) -> UInt8 { value < 10 ? 0x30 + value : 0x57 + value }

    public static func encode(_ bytes: some Collection<UInt8>) -> String {
        String(unsafeUninitializedCapacity: bytes.count * 2) { out in
            var at = 0
            for byte in bytes {
                out[at] = digits.utf8Start[Int(byte >> 4)]
                out[at + 1] = digits.utf8Start[Int(byte & 15)]
                at += 2
            }
            return at
        }
    }

    /// The decoded bytes, or nil unless `text` consists of pairs of hexadecimal digits (either case).
    public static func decode(_ text: some StringProtocol) -> [UInt8]? {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.utf8.count / 2)
        var high: UInt8?
        for character in text.utf8 {
            guard let digit = value(of: character) else { return nil }
            if let first = high {
                bytes.append(first << 4 | digit)
                high = nil
            } else {
                high = digit
            }
        }
        return high == nil ? bytes : nil
    }

    /// The value of a digit of either case; nil for any other character.
    @inlinable @inline(__always)
    public static func value(of character: UInt8) -> UInt8? {
        switch character {
        case 0x30...0x39: character - 0x30
        case 0x61...0x66: character - 0x61 + 10
        case 0x41...0x46: character - 0x41 + 10
        default: nil
        }
    }
}

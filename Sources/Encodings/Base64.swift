/// Standard base64 with padding (RFC 4648 section 4).
public enum Base64 {
    private static let alphabet: StaticString = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

    /// The six bits of each character, 0xFF for characters outside the alphabet.
    private static let values: [UInt8] = {
        var table = [UInt8](repeating: 0xFF, count: 256)
        for index in 0..<64 { table[Int(alphabet.utf8Start[index])] = UInt8(index) }
        return table
    }()

    /// The six bits that a character stands for; nil outside the alphabet.
    public static func bits(_ character: UInt8) -> UInt8? {
        let value = values[Int(character)]
        return value == 0xFF ? nil : value
    }

    /// The character for six bits.
    public static func character(_ bits: UInt8) -> UInt8 { alphabet.utf8Start[Int(bits & 63)] }

    public static func encode(_ bytes: UnsafeRawBufferPointer) -> String {
        let length = (bytes.count + 2) / 3 * 4
        return String(unsafeUninitializedCapacity: length) { out in
            let letters = alphabet.utf8Start
            var from = 0
            var to = 0
            while from < bytes.count {
                let left = bytes.count - from
                let second = left > 1 ? UInt32(bytes[from + 1]) : 0
                let third = left > 2 ? UInt32(bytes[from + 2]) : 0
                let group = UInt32(bytes[from]) << 16 | second << 8 | third
                out[to] = letters[Int(group >> 18)]
                out[to + 1] = letters[Int(group >> 12 & 63)]
                out[to + 2] = left > 1 ? letters[Int(group >> 6 & 63)] : 0x3D
                out[to + 3] = left > 2 ? letters[Int(group & 63)] : 0x3D
                from += 3
                to += 4
            }
            return length
        }
    }

    public static func encode(_ bytes: [UInt8]) -> String { bytes.withUnsafeBytes { encode($0) } }

    /// The decoded bytes, or nil unless `text` is padded base64 whose unused bits are zero (so that each value has only one text).
    public static func decode(_ text: some StringProtocol) -> [UInt8]? {
        var owned = String(text)
        return owned.withUTF8 { decode($0) }
    }

    /// Like the other `decode`, from the text's bytes.
    public static func decode(_ text: UnsafeBufferPointer<UInt8>) -> [UInt8]? {
        guard text.count % 4 == 0 else { return nil }
        guard text.count > 0 else { return [] }
        let padding = text[text.count - 1] != 0x3D ? 0 : text[text.count - 2] != 0x3D ? 1 : 2
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.count / 4 * 3)
        var group: UInt32 = 0
        let significant = text.count - padding
        for index in 0..<significant {
            let value = values[Int(text[index])]
            guard value != 0xFF else { return nil }
            group = group << 6 | UInt32(value)
            if index & 3 == 3 {
                bytes.append(UInt8(truncatingIfNeeded: group >> 16))
                bytes.append(UInt8(truncatingIfNeeded: group >> 8))
                bytes.append(UInt8(truncatingIfNeeded: group))
                group = 0
            }
        }
        switch padding {
        case 1:
            guard group & 3 == 0 else { return nil }
            bytes.append(UInt8(truncatingIfNeeded: group >> 10))
            bytes.append(UInt8(truncatingIfNeeded: group >> 2))
        case 2:
            guard group & 15 == 0 else { return nil }
            bytes.append(UInt8(truncatingIfNeeded: group >> 4))
        default: break
        }
        return bytes
    }
}

/// Base64url without padding (RFC 4648 section 5), as used by JSON Web Tokens.
extension Base64 {
    public static func encodeURL(_ bytes: [UInt8]) -> String {
        let text = encode(bytes).utf8.prefix { $0 != 0x3D }.map { byte in
            switch byte {
            case UInt8(ascii: "+"): UInt8(ascii: "-")
            case UInt8(ascii: "/"): UInt8(ascii: "_")
            default: byte
            }
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// The decoded bytes; nil for anything that ``encodeURL(_:)`` would not produce.
    public static func decodeURL(_ text: some StringProtocol) -> [UInt8]? {
        var standard: [UInt8] = []
        standard.reserveCapacity(text.utf8.count + 2)
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "-"): standard.append(UInt8(ascii: "+"))
            case UInt8(ascii: "_"): standard.append(UInt8(ascii: "/"))
            case UInt8(ascii: "+"), UInt8(ascii: "/"), 0x3D: return nil
            default: standard.append(byte)
            }
        }
        guard standard.count % 4 != 1 else { return nil }
        while standard.count % 4 != 0 { standard.append(0x3D) }
        return standard.withUnsafeBufferPointer { decode($0) }
    }
}

/// The little JSON that a transport needs: to write an error body and to find the reason in one.
enum JSONText {
    static func quoted(_ text: String) -> String {
        var result: [UInt8] = [UInt8(ascii: "\"")]
        result.reserveCapacity(text.utf8.count + 2)
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"): result += [UInt8(ascii: "\\"), byte]
            case 0x0A: result += [UInt8(ascii: "\\"), UInt8(ascii: "n")]
            case 0..<0x20, 0x7F:
                let digits = Array("0123456789abcdef".utf8)
                result += Array("\\u00".utf8) + [digits[Int(byte >> 4)], digits[Int(byte & 15)]]
            default: result.append(byte)
            }
        }
        result.append(UInt8(ascii: "\""))
        return String(decoding: result, as: UTF8.self)
    }

    /// The string value of a key of the outermost object; nil if it is not there or the text is no such JSON.
    static func string(forKey key: String, in bytes: [UInt8]) -> String? {
        var at = 0
        var depth = 0
        var lastString: String?
        var isValue = false
        var wanted = false
        while at < bytes.count {
            switch bytes[at] {
            case UInt8(ascii: "{"), UInt8(ascii: "["):
                depth += 1
                isValue = false
                wanted = false
                // Past a few levels nobody's error body nests; the cursor goes on, only the depth counts.
                at += 1
            case UInt8(ascii: "}"), UInt8(ascii: "]"):
                depth -= 1
                at += 1
            case UInt8(ascii: ":"):
                isValue = true
                wanted = depth == 1 && lastString.map { $0.utf8.elementsEqual(key.utf8) } ?? false
                at += 1
            case UInt8(ascii: ","):
                isValue = false
                wanted = false
                at += 1
            case UInt8(ascii: "\""):
                guard let (text, next) = readString(bytes, at + 1) else { return nil }
                if wanted, isValue { return text }
                lastString = text
                at = next
            default: at += 1
            }
        }
        return nil
    }

    private static func readString(_ bytes: [UInt8], _ start: Int) -> (String, Int)? {
        var at = start
        var result: [UInt8] = []
        while at < bytes.count {
            let byte = bytes[at]
            at += 1
            if byte == UInt8(ascii: "\"") { return (String(decoding: result, as: UTF8.self), at) }
            guard byte == UInt8(ascii: "\\") else {
                result.append(byte)
                continue
            }
            guard at < bytes.count else { return nil }
            let escape = bytes[at]
            at += 1
            switch escape {
            case UInt8(ascii: "n"): result.append(0x0A)
            case UInt8(ascii: "t"): result.append(0x09)
            case UInt8(ascii: "r"): result.append(0x0D)
            case UInt8(ascii: "b"), UInt8(ascii: "f"): result.append(0x20)
            case UInt8(ascii: "u"):
                guard at + 4 <= bytes.count, let unit = UInt16(String(decoding: bytes[at..<(at + 4)], as: UTF8.self), radix: 16) else { return nil }
                at += 4
                // Half of a surrogate pair shows as a replacement character: this is text for a person.
                result += Array(String(Unicode.Scalar(unit) ?? "\u{FFFD}").utf8)
            default: result.append(escape)
            }
        }
        return nil
    }
}

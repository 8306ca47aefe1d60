import Glibc

/// The meaning of a scalar.
package enum ScalarValue: Sendable {
    case null
    case bool(Bool)
    case integer(Int64)
    case number(Double)
    case string(String)
}

extension ScalarValue: Equatable {
    package static func == (left: Self, right: Self) -> Bool {
        switch (left, right) {
        case (.null, .null): true
        case (.bool(let one), .bool(let other)): one == other
        case (.integer(let one), .integer(let other)): one == other
        case (.number(let one), .number(let other)): one == other
        case (.string(let one), .string(let other)): one.utf8.elementsEqual(other.utf8)
        default: false
        }
    }
}

extension ConfigurationNode.Scalar {
    /// The value according to YAML 1.2's core schema: `yes`, `no`, `on` and `off` are texts, `0o17` and `0x1F` are
    /// integers, quoted scalars are texts. A plain scalar with `${…}` is interpreted after expansion.
    package var value: ScalarValue {
        guard style == .plain else { return .string(text) }
        switch text {
        case "", "~", "null", "Null", "NULL":
            // An expansion to something that looks absent is a text, not an absent value.
            return isExpanded ? .string(text) : .null
        default: break
        }
        if let bool = ScalarRules.bool(text) { return .bool(bool) }
        if let integer = ScalarRules.integer(text) { return .integer(integer) }
        if let number = ScalarRules.number(text) { return .number(number) }
        return .string(text)
    }
}

enum ScalarRules {
    static func bool(_ text: String) -> Bool? {
        switch text {
        case "true", "True", "TRUE": true
        case "false", "False", "FALSE": false
        default: nil
        }
    }

    /// A 64-bit integer; nil for anything else, including larger ones.
    static func integer(_ text: String) -> Int64? {
        if text.hasPrefix("0x") { return unsigned(text.utf8.dropFirst(2), radix: 16) }
        if text.hasPrefix("0o") { return unsigned(text.utf8.dropFirst(2), radix: 8) }
        // At this point, Swift's parser accepts exactly the core schema's [-+]?[0-9]+.
        return Int64(text)
    }

    private static func unsigned(_ digits: Substring.UTF8View, radix: Int) -> Int64? {
        guard let first = digits.first, first != UInt8(ascii: "-"), first != UInt8(ascii: "+") else { return nil }
        return Int64(String(Substring(digits)), radix: radix)
    }

    /// A decimal number; infinities and NaN are excluded, because JSON has none.
    static func number(_ text: String) -> Double? {
        var digits = 0
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): digits += 1
            case UInt8(ascii: "+"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "e"), UInt8(ascii: "E"):
                // A text that begins with e is a word.
                if digits == 0, byte == UInt8(ascii: "e") || byte == UInt8(ascii: "E") { return nil }
            default: return nil
            }
        }
        guard digits > 0, let number = Double(text), number.isFinite else { return nil }
        return number
    }
}

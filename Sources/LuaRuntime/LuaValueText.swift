import Encodings

extension LuaValue {
    /// JSON text; members in order, without `missing` ones. Numbers that are not finite become null.
    public var jsonBytes: [UInt8] {
        var out: [UInt8] = []
        LuaValue.write(self, to: &out)
        return out
    }

    private static func write(_ value: LuaValue, to out: inout [UInt8]) {
        switch value {
        case .missing, .null: out += "null".utf8
        case .bool(let value): out += (value ? "true" : "false").utf8
        case .integer(let value): out += String(value).utf8
        case .number(let value): out += (value.isFinite ? String(value) : "null").utf8
        case .string(let bytes): JSONString.append(bytes, to: &out)
        case .array(let values):
            out.append(UInt8(ascii: "["))
            for (index, value) in values.enumerated() {
                if index > 0 { out.append(UInt8(ascii: ",")) }
                write(value, to: &out)
            }
            out.append(UInt8(ascii: "]"))
        case .object(let members):
            out.append(UInt8(ascii: "{"))
            var first = true
            for member in members where member.value != .missing {
                if !first { out.append(UInt8(ascii: ",")) }
                first = false
                JSONString.append(member.key.utf8, to: &out)
                out.append(UInt8(ascii: ":"))
                write(member.value, to: &out)
            }
            out.append(UInt8(ascii: "}"))
        }
    }

    /// Parses JSON text; nil if it is invalid, nested deeper than 128, or contains more than `limit` values. Of members with equal keys the first is
    /// kept.
    public init?(json: some Sequence<UInt8>, limit: Int = 50_000) {
        var reader = JSONReader(bytes: Array(json), remaining: limit)
        guard let value = reader.value(depth: 0) else { return nil }
        reader.skipSpace()
        guard reader.position == reader.bytes.count else { return nil }
        self = value
    }
}

/// A small recursive parser for values from the C side; documents are never parsed with it.
private struct JSONReader {
    let bytes: [UInt8]
    var remaining: Int
    var position = 0

    init(bytes: [UInt8], remaining: Int) {
        self.bytes = bytes
        self.remaining = remaining
    }

    var current: UInt8? { position < bytes.count ? bytes[position] : nil }

    mutating func skipSpace() {
        while let byte = current, byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 { position += 1 }
    }

    mutating func take(_ byte: UInt8) -> Bool {
        guard current == byte else { return false }
        position += 1
        return true
    }

    mutating func word(_ text: StaticString, _ value: LuaValue) -> LuaValue? {
        let count = text.utf8CodeUnitCount
        guard bytes.count - position >= count else { return nil }
        for index in 0..<count where bytes[position + index] != text.utf8Start[index] { return nil }
        position += count
        return value
    }

    mutating func value(depth: Int) -> LuaValue? {
        skipSpace()
        remaining -= 1
        guard depth <= 128, remaining >= 0, let byte = current else { return nil }
        switch byte {
        case UInt8(ascii: "{"): return object(depth: depth)
        case UInt8(ascii: "["): return array(depth: depth)
        case UInt8(ascii: "\""): return string().map { .string($0) }
        case UInt8(ascii: "t"): return word("true", .bool(true))
        case UInt8(ascii: "f"): return word("false", .bool(false))
        case UInt8(ascii: "n"): return word("null", .null)
        default: return number()
        }
    }

    mutating func array(depth: Int) -> LuaValue? {
        position += 1
        var values: [LuaValue] = []
        skipSpace()
        if take(UInt8(ascii: "]")) { return .array(values) }
        while true {
            guard let value = value(depth: depth + 1) else { return nil }
            values.append(value)
            skipSpace()
            if take(UInt8(ascii: "]")) { return .array(values) }
            guard take(UInt8(ascii: ",")) else { return nil }
        }
    }

    mutating func object(depth: Int) -> LuaValue? {
        position += 1
        var members: [LuaMember] = []
        var seen: Set<[UInt8]> = []
        skipSpace()
        if take(UInt8(ascii: "}")) { return .object(members) }
        while true {
            skipSpace()
            guard current == UInt8(ascii: "\""), let key = string() else { return nil }
            skipSpace()
            guard take(UInt8(ascii: ":")), let value = value(depth: depth + 1) else { return nil }
            if seen.insert(key).inserted {
                members.append(LuaMember(key: String(decoding: key, as: UTF8.self), value: value))
            }
            skipSpace()
            if take(UInt8(ascii: "}")) { return .object(members) }
            guard take(UInt8(ascii: ",")) else { return nil }
        }
    }

    mutating func string() -> [UInt8]? {
        position += 1
        var out: [UInt8] = []
        while let byte = current {
            position += 1
            switch byte {
            case UInt8(ascii: "\""): return out
            case UInt8(ascii: "\\"):
                guard escape(into: &out) else { return nil }
            case 0..<0x20: return nil
            default: out.append(byte)
            }
        }
        return nil
    }

    mutating func escape(into out: inout [UInt8]) -> Bool {
        guard let byte = current else { return false }
        position += 1
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): out.append(byte)
        case UInt8(ascii: "b"): out.append(8)
        case UInt8(ascii: "f"): out.append(12)
        case UInt8(ascii: "n"): out.append(10)
        case UInt8(ascii: "r"): out.append(13)
        case UInt8(ascii: "t"): out.append(9)
        case UInt8(ascii: "u"):
            guard let first = unit() else { return false }
            var scalar = UInt32(first)
            if first >= 0xD800, first < 0xDC00, bytes.count - position >= 6,
                bytes[position] == UInt8(ascii: "\\"), bytes[position + 1] == UInt8(ascii: "u")
            {
                let before = position
                position += 2
                if let second = unit(), second >= 0xDC00, second < 0xE000 {
                    scalar = 0x10000 + (UInt32(first) - 0xD800) << 10 + (UInt32(second) - 0xDC00)
                } else {
                    position = before
                }
            }
            let character = Unicode.Scalar(scalar) ?? "\u{FFFD}" // a lone surrogate has no UTF-8 form
            out += String(Character(character)).utf8
        default: return false
        }
        return true
    }

    mutating func unit() -> UInt16? {
        guard bytes.count - position >= 4 else { return nil }
        var value: UInt16 = 0
        for _ in 0..<4 {
            let byte = bytes[position]
            guard let digit = Hex.value(of: byte) else { return nil }
            value = value << 4 | UInt16(digit)
            position += 1
        }
        return value
    }

    mutating func number() -> LuaValue? {
        let start = position
        while let byte = current, byte == UInt8(ascii: "-") || byte == UInt8(ascii: "+") || byte == UInt8(ascii: ".")
            || byte | 0x20 == UInt8(ascii: "e") || (byte >= UInt8(ascii: "0") && byte <= UInt8(ascii: "9"))
        {
            position += 1
        }
        guard position > start, bytes[start] == UInt8(ascii: "-") || bytes[start] <= UInt8(ascii: "9") else { return nil }
        let text = String(decoding: bytes[start..<position], as: UTF8.self)
        if let value = Int64(text), !text.utf8.elementsEqual("-0".utf8) { return .integer(value) }
        guard let value = Double(text), value.isFinite else { return nil }
        return .number(value)
    }
}

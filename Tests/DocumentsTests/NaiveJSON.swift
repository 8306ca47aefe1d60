import TestRandomness
/// A slow, plain reader of JSON written from RFC 8259 alone, to compare the fast ones with. Strings are bytes.
indirect enum NaiveJSON: Equatable {
    case word(String)
    case number([UInt8])
    case string([UInt8])
    case array([NaiveJSON])
    case object([(key: [UInt8], value: NaiveJSON)])

    static func == (a: NaiveJSON, b: NaiveJSON) -> Bool { a.canonical == b.canonical }

    /// nil if the text is not acceptable.
    static func read(_ text: [UInt8]) -> NaiveJSON? {
        var rest = text[...]
        skipSpace(&rest)
        guard let value = value(&rest, depth: 1) else { return nil }
        skipSpace(&rest)
        return rest.isEmpty ? value : nil
    }

    private static func skipSpace(_ rest: inout ArraySlice<UInt8>) {
        while let first = rest.first, [0x20, 0x09, 0x0A, 0x0D].contains(first) { rest.removeFirst() }
    }

    private static func take(_ byte: Character, _ rest: inout ArraySlice<UInt8>) -> Bool {
        guard rest.first == byte.asciiValue else { return false }
        rest.removeFirst()
        return true
    }

    private static func value(_ rest: inout ArraySlice<UInt8>, depth: Int) -> NaiveJSON? {
        for word in ["true", "false", "null"] where rest.starts(with: word.utf8) {
            rest = rest.dropFirst(word.utf8.count)
            return .word(word)
        }
        switch rest.first {
        case UInt8(ascii: "\""): return string(&rest).map { .string($0) }
        case UInt8(ascii: "["):
            guard depth <= 100 else { return nil }
            rest.removeFirst()
            var items: [NaiveJSON] = []
            skipSpace(&rest)
            if take("]", &rest) { return .array([]) }
            repeat {
                skipSpace(&rest)
                guard let item = value(&rest, depth: depth + 1) else { return nil }
                items.append(item)
                skipSpace(&rest)
            } while take(",", &rest)
            return take("]", &rest) ? .array(items) : nil
        case UInt8(ascii: "{"):
            guard depth <= 100 else { return nil }
            rest.removeFirst()
            var members: [(key: [UInt8], value: NaiveJSON)] = []
            skipSpace(&rest)
            if take("}", &rest) { return .object([]) }
            repeat {
                skipSpace(&rest)
                guard let key = string(&rest), !members.contains(where: { $0.key == key }) else { return nil }
                skipSpace(&rest)
                guard take(":", &rest) else { return nil }
                skipSpace(&rest)
                guard let item = value(&rest, depth: depth + 1) else { return nil }
                members.append((key, item))
                skipSpace(&rest)
            } while take(",", &rest)
            return take("}", &rest) ? .object(members) : nil
        default: return number(&rest)
        }
    }

    private static func number(_ rest: inout ArraySlice<UInt8>) -> NaiveJSON? {
        let token = Array(rest.prefix { "+-.eE0123456789".utf8.contains($0) })
        let text = String(decoding: token, as: UTF8.self)
        guard text.wholeMatch(of: /-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?/) != nil else { return nil }
        rest = rest.dropFirst(token.count)
        // Damage may join digits to an exponent that no number has.
        guard Double(String(decoding: token, as: UTF8.self))?.isFinite == true else { return nil }
        return .number(token)
    }

    private static func string(_ rest: inout ArraySlice<UInt8>) -> [UInt8]? {
        guard take("\"", &rest) else { return nil }
        var bytes: [UInt8] = []
        while let byte = rest.popFirst() {
            switch byte {
            case UInt8(ascii: "\""): return String(validating: bytes, as: UTF8.self) == nil ? nil : bytes
            case 0..<0x20: return nil
            case UInt8(ascii: "\\"):
                guard let letter = rest.popFirst() else { return nil }
                switch Character(UnicodeScalar(letter)) {
                case "\"", "\\", "/": bytes.append(letter)
                case "b": bytes.append(8)
                case "f": bytes.append(12)
                case "n": bytes.append(10)
                case "r": bytes.append(13)
                case "t": bytes.append(9)
                case "u":
                    guard var code = unit(&rest) else { return nil }
                    if code >= 0xD800, code < 0xDC00 {
                        guard take("\\", &rest), take("u", &rest), let low = unit(&rest), low >= 0xDC00, low < 0xE000 else { return nil }
                        code = 0x10000 + (code - 0xD800) * 0x400 + (low - 0xDC00)
                    }
                    guard let scalar = UnicodeScalar(code) else { return nil }
                    bytes += Array(String(Character(scalar)).utf8)
                default: return nil
                }
            default: bytes.append(byte)
            }
        }
        return nil
    }

    private static func unit(_ rest: inout ArraySlice<UInt8>) -> UInt32? {
        let digits = rest.prefix(4)
        guard digits.count == 4, digits.allSatisfy({ Character(UnicodeScalar($0)).isHexDigit }) else { return nil }
        rest = rest.dropFirst(4)
        return UInt32(String(decoding: digits, as: UTF8.self), radix: 16)
    }

    var canonical: [UInt8] {
        switch self {
        case .word(let word): return Array(word.utf8)
        case .number(let token): return token
        case .string(let bytes): return Self.quote(bytes)
        case .array(let items): return Array("[".utf8) + items.map(\.canonical).joined(separator: ",".utf8) + Array("]".utf8)
        case .object(let members):
            var last: [[UInt8]: NaiveJSON] = [:]
            for member in members { last[member.key] = member.value }
            let sorted = last.sorted { $0.key.lexicographicallyPrecedes($1.key) }
            let texts = sorted.map { Self.quote($0.key) + [UInt8(ascii: ":")] + $0.value.canonical }
            return Array("{".utf8) + texts.joined(separator: ",".utf8) + Array("}".utf8)
        }
    }

    private static func quote(_ bytes: [UInt8]) -> [UInt8] {
        var out = Array("\"".utf8)
        for byte in bytes {
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"): out += [UInt8(ascii: "\\"), byte]
            case 10: out += Array("\\n".utf8)
            case 13: out += Array("\\r".utf8)
            case 9: out += Array("\\t".utf8)
            case 0..<0x20, 0x7F:
                let digits = String(byte, radix: 16)
                out += Array(("\\u" + String(repeating: "0", count: 4 - digits.count) + digits).utf8)
            default: out.append(byte)
            }
        }
        return out + Array("\"".utf8)
    }

    var holdsEscapedKey: Bool {
        switch self {
        case .object(let members):
            members.contains { $0.value.holdsEscapedKey || $0.key.contains { $0 < 0x20 || $0 == 0x22 || $0 == 0x5C || $0 == 0x7F } }
        case .array(let items): items.contains { $0.holdsEscapedKey }
        default: false
        }
    }
}

/// Random JSON text, loosely written.
struct JSONMaker {
    var random: SeededGenerator

    mutating func document(size: Int = 6) -> [UInt8] {
        var out: [UInt8] = []
        space(&out)
        object(&out, depth: 0, size: size)
        space(&out)
        return out
    }

    private mutating func space(_ out: inout [UInt8]) {
        while random.chance(oneIn: 6) { out.append([0x20, 0x0A, 0x0D, 0x09][random.below(4)]) }
    }

    private mutating func object(_ out: inout [UInt8], depth: Int, size: Int) {
        out.append(UInt8(ascii: "{"))
        let count = random.chance(oneIn: 40) ? 30 + random.below(20) : random.below(size)
        for index in 0..<count {
            if index > 0 { out.append(UInt8(ascii: ",")) }
            space(&out)
            string(&out, key: true, mark: random.chance(oneIn: 20) ? nil : index)
            space(&out)
            out.append(UInt8(ascii: ":"))
            space(&out)
            value(&out, depth: depth + 1)
            space(&out)
        }
        if count == 0 { space(&out) }
        out.append(UInt8(ascii: "}"))
    }

    private mutating func value(_ out: inout [UInt8], depth: Int) {
        switch random.below(depth > 4 ? 6 : 9) {
        case 0: out += Array(["true", "false", "null"][random.below(3)].utf8)
        case 1, 2: out += Array(["0", "-0", "1", "-12", "3.25", "1e5", "2E-3", "-1.5e+10", "12345678901234567890"][random.below(9)].utf8)
        case 3...5: string(&out, key: false)
        case 6:
            out.append(UInt8(ascii: "["))
            for index in 0..<random.below(4) {
                if index > 0 { out.append(UInt8(ascii: ",")) }
                space(&out)
                value(&out, depth: depth + 1)
                space(&out)
            }
            out.append(UInt8(ascii: "]"))
        default: object(&out, depth: depth, size: 4)
        }
    }

    private mutating func string(_ out: inout [UInt8], key: Bool, mark: Int? = nil) {
        out.append(UInt8(ascii: "\""))
        if key, random.chance(oneIn: 10) {
            out += Array(["@type", "_attachments", "_id", "\\u005fx", "a\\u0062c"][random.below(5)].utf8)
        }
        let pieces = [
            "a", "b", "c", "abcdefgh", "ab", "é", "ß", "€", "😀", "\\n", "\\t", "\\\"", "\\\\", "\\/", "\\b", "\\f", "\\r", "\\u0000", "\\u001F",
            "\\u001f", "\\u0009", "\\u00e9", "\\uD83D\\uDE00", "\\u007f", "\u{7F}", "\u{FFFF}", "\u{10FFFF}", "{", "]", ",", " ",
        ]
        for _ in 0..<random.below(key ? 4 : 12) { out += Array(pieces[random.chance(oneIn: 3) ? random.below(pieces.count) : random.below(5)].utf8) }
        // So that most keys of an object differ.
        if let mark { out += Array("\(mark)".utf8) }
        out.append(UInt8(ascii: "\""))
    }

    /// Changes a few bytes so that the text is often no longer right.
    mutating func damage(_ bytes: [UInt8]) -> [UInt8] {
        var damaged = bytes
        for _ in 0...random.below(3) where !damaged.isEmpty {
            let at = random.below(damaged.count)
            let interesting = Array("{}[]\",:\\u0e.-+ tfn1".utf8) + [0, 0x1F, 0x7F, 0x80, 0xBF, 0xC0, 0xE0, 0xED, 0xF0, 0xF4, 0xF5, 0xFF]
            switch random.below(5) {
            case 0: damaged[at] = UInt8(random.below(256))
            case 1: damaged[at] = interesting[random.below(interesting.count)]
            case 2: damaged.insert(interesting[random.below(interesting.count)], at: at)
            case 3: damaged.remove(at: at)
            default: damaged.removeSubrange(at...)
            }
        }
        return damaged
    }
}

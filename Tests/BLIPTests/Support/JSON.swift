/// Just enough JSON to read test vectors. Objects keep their order.
indirect enum JSON: Equatable, Sendable {
    case object([Member])
    case array([JSON])
    case string(String)
    case number(String)
    case bool(Bool)
    case null

    struct Member: Equatable, Sendable {
        var key: String
        var value: JSON
    }

    subscript(_ key: String) -> JSON? {
        guard case .object(let members) = self else { return nil }
        return members.first { $0.key == key }?.value
    }

    var string: String? {
        guard case .string(let value) = self else { return nil }
        return value
    }

    var integer: Int? {
        guard case .number(let text) = self else { return nil }
        return Int(text)
    }

    var bool: Bool? {
        guard case .bool(let value) = self else { return nil }
        return value
    }

    var array: [JSON]? {
        guard case .array(let values) = self else { return nil }
        return values
    }

    var members: [Member]? {
        guard case .object(let members) = self else { return nil }
        return members
    }

    struct Malformed: Error {
        var offset: Int
    }

    static func parse(_ bytes: ArraySlice<UInt8>) throws -> JSON {
        var reader = Reader(bytes: bytes, position: bytes.startIndex)
        let value = try reader.value()
        reader.skipSpace()
        guard reader.position == bytes.endIndex else { throw Malformed(offset: reader.position) }
        return value
    }

    private struct Reader {
        let bytes: ArraySlice<UInt8>
        var position: Int

        var current: UInt8? { position < bytes.endIndex ? bytes[position] : nil }

        mutating func skipSpace() {
            while let byte = current, byte == 0x20 || (0x09...0x0d).contains(byte) { position += 1 }
        }

        mutating func take(_ byte: UInt8) -> Bool {
            skipSpace()
            guard current == byte else { return false }
            position += 1
            return true
        }

        mutating func need(_ byte: UInt8) throws {
            guard take(byte) else { throw Malformed(offset: position) }
        }

        mutating func value() throws -> JSON {
            skipSpace()
            switch current {
            case UInt8(ascii: "{"):
                position += 1
                var members: [Member] = []
                if take(UInt8(ascii: "}")) { return .object([]) }
                repeat {
                    skipSpace()
                    let key = try string()
                    try need(UInt8(ascii: ":"))
                    members.append(Member(key: key, value: try value()))
                } while take(UInt8(ascii: ","))
                try need(UInt8(ascii: "}"))
                return .object(members)
            case UInt8(ascii: "["):
                position += 1
                var values: [JSON] = []
                if take(UInt8(ascii: "]")) { return .array([]) }
                repeat { values.append(try value()) } while take(UInt8(ascii: ","))
                try need(UInt8(ascii: "]"))
                return .array(values)
            case UInt8(ascii: "\""):
                return .string(try string())
            default:
                let start = position
                while let byte = current, byte != UInt8(ascii: ","), byte != UInt8(ascii: "]"), byte != UInt8(ascii: "}"), byte > 0x20 {
                    position += 1
                }
                switch String(decoding: bytes[start..<position], as: UTF8.self) {
                case "": throw Malformed(offset: position)
                case "true": return .bool(true)
                case "false": return .bool(false)
                case "null": return .null
                case let text: return .number(text)
                }
            }
        }

        mutating func string() throws -> String {
            guard current == UInt8(ascii: "\"") else { throw Malformed(offset: position) }
            position += 1
            var text: [UInt8] = []
            while let byte = current {
                position += 1
                switch byte {
                case UInt8(ascii: "\""): return String(decoding: text, as: UTF8.self)
                case UInt8(ascii: "\\"): try escape(&text)
                default: text.append(byte)
                }
            }
            throw Malformed(offset: position)
        }

        mutating func escape(_ text: inout [UInt8]) throws {
            guard let byte = current else { throw Malformed(offset: position) }
            position += 1
            switch byte {
            case UInt8(ascii: "n"): text.append(0x0a)
            case UInt8(ascii: "r"): text.append(0x0d)
            case UInt8(ascii: "t"): text.append(0x09)
            case UInt8(ascii: "b"): text.append(0x08)
            case UInt8(ascii: "f"): text.append(0x0c)
            case UInt8(ascii: "u"):
                var code = try unit()
                if (0xd800..<0xdc00).contains(code), position + 1 < bytes.endIndex, bytes[position] == UInt8(ascii: "\\") {
                    position += 2
                    code = 0x10000 + (code - 0xd800) << 10 + (try unit() - 0xdc00)
                }
                guard let scalar = Unicode.Scalar(code) else { throw Malformed(offset: position) }
                text.append(contentsOf: UTF8.encode(scalar) ?? UTF8.encodedReplacementCharacter)
            default: text.append(byte)
            }
        }

        mutating func unit() throws -> UInt32 {
            guard position + 4 <= bytes.endIndex,
                let value = UInt32(String(decoding: bytes[position..<position + 4], as: UTF8.self), radix: 16)
            else { throw Malformed(offset: position) }
            position += 4
            return value
        }
    }
}

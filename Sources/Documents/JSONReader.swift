/// Builds values from JSON text that `JSONWalker` accepted in the same call.
struct JSONReader {
    private var at: UnsafePointer<UInt8>
    private let end: UnsafePointer<UInt8>

    static func read(_ bytes: UnsafeRawBufferPointer) -> JSONValue {
        guard let base = bytes.assumingMemoryBound(to: UInt8.self).baseAddress else { return .null }
        var reader = JSONReader(at: base, end: base + bytes.count)
        reader.skipSpace()
        return reader.value()
    }

    @inline(__always)
    private mutating func skipSpace() {
        while at < end, at.pointee <= 0x20 { at += 1 }
    }

    private mutating func value() -> JSONValue {
        switch at.pointee {
        case 0x7B: return .object(object())
        case 0x5B: return array()
        case 0x22: return .string(string())
        case 0x74:
            at += 4
            return .bool(true)
        case 0x66:
            at += 5
            return .bool(false)
        case 0x6E:
            at += 4
            return .null
        default:
            let first = at
            JSONText.skipCheckedScalar(&at, end)
            return .number(JSONNumber(checked: String(decoding: UnsafeBufferPointer(start: first, count: at - first), as: UTF8.self)))
        }
    }

    private mutating func string() -> String {
        let first = at + 1
        let escaped = JSONText.skipCheckedString(&at, end, flagDelete: false)
        let inside = UnsafeBufferPointer(start: first, count: at - 1 - first)
        guard escaped else { return String(decoding: inside, as: UTF8.self) }
        var plain: [UInt8] = []
        plain.reserveCapacity(inside.count)
        JSONText.appendPlain(inside, to: &plain)
        return String(decoding: plain, as: UTF8.self)
    }

    private mutating func array() -> JSONValue {
        var items: [JSONValue] = []
        at += 1
        skipSpace()
        while at < end, at.pointee != 0x5D {
            items.append(value())
            skipSpace()
            if at < end, at.pointee == 0x2C {
                at += 1
                skipSpace()
            }
        }
        at += 1
        return .array(items)
    }

    private mutating func object() -> JSONObject {
        var members: [JSONObject.Member] = []
        at += 1
        skipSpace()
        while at < end, at.pointee == 0x22 {
            let key = string()
            skipSpace()
            at += 1  // the colon
            skipSpace()
            members.append(JSONObject.Member(key: key, value: value()))
            skipSpace()
            if at < end, at.pointee == 0x2C {
                at += 1
                skipSpace()
            }
        }
        at += 1
        return JSONObject(members)
    }
}

import Documents
import LuaRuntime

extension LuaValue {
    /// A JSON value in the form that plugins get: numbers become 64-bit integers if they fit, otherwise doubles.
    package init(_ json: JSONValue) {
        switch json {
        case .null: self = .null
        case .bool(let value): self = .bool(value)
        case .number(let number):
            if let integer = Int64(number.text) { self = .integer(integer) } else { self = .number(number.asDouble ?? 0) }
        case .string(let text): self = .text(text)
        case .array(let items): self = .array(items.map { LuaValue($0) })
        case .object(let object): self = .object(object.members.map { LuaMember(key: $0.key, value: LuaValue($0.value)) })
        }
    }

    /// The value as JSON; `missing` becomes null.
    package var json: JSONValue {
        switch self {
        case .missing, .null: .null
        case .bool(let value): .bool(value)
        case .integer(let value): .int(value)
        case .number(let value): JSONNumber(value).map { .number($0) } ?? .null
        case .string(let bytes): .string(String(decoding: bytes, as: UTF8.self))
        case .array(let items): .array(items.map(\.json))
        case .object(let members): .object(JSONObject(members.map { JSONObject.Member(key: $0.key, value: $0.value.json) }))
        }
    }
}

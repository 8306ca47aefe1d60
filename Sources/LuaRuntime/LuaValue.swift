/// A JSON-like value passed between Lua and the host: parameters, principals, log fields. `missing` is Lua's nil; `null` is JSON's (`nightjar.null`).
public enum LuaValue: Sendable, Equatable {
    case missing
    case null
    case bool(Bool)
    case integer(Int64)
    /// Always finite.
    case number(Double)
    /// UTF-8 bytes.
    case string([UInt8])
    case array([LuaValue])
    /// Members in their original order; from Lua, ascending by the key's bytes. Keys are unique.
    case object([LuaMember])
}

/// One member of an object.
public struct LuaMember: Sendable, Equatable {
    public var key: String
    public var value: LuaValue

    public init(key: String, value: LuaValue) {
        self.key = key
        self.value = value
    }
}

extension LuaValue {
    /// A string value from text.
    public static func text(_ text: String) -> LuaValue { .string(Array(text.utf8)) }

    /// An object from pairs.
    public static func members(_ pairs: [(String, LuaValue)]) -> LuaValue {
        .object(pairs.map { LuaMember(key: $0.0, value: $0.1) })
    }

    /// The member with this key, compared as bytes; `missing` if there is none or this is not an object.
    public subscript(key: String) -> LuaValue {
        guard case .object(let members) = self else { return .missing }
        return members.first { $0.key.utf8.elementsEqual(key.utf8) }?.value ?? .missing
    }

    /// The text of a string value.
    public var text: String? {
        guard case .string(let bytes) = self else { return nil }
        return String(decoding: bytes, as: UTF8.self)
    }

    public var bool: Bool? {
        guard case .bool(let value) = self else { return nil }
        return value
    }

    public var integer: Int64? {
        guard case .integer(let value) = self else { return nil }
        return value
    }

    /// The name of the type, for operators.
    public var typeName: String {
        switch self {
        case .missing: "nil"
        case .null: "null"
        case .bool: "boolean"
        case .integer: "integer"
        case .number: "number"
        case .string: "string"
        case .array: "array"
        case .object: "object"
        }
    }
}

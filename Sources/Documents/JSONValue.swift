import Encodings

/// A JSON value in memory, for protocol messages and for code that modifies bodies. Objects keep the order of their members, numbers their text.
public indirect enum JSONValue: Sendable {
    case null
    case bool(Bool)
    case number(JSONNumber)
    case string(String)
    case array([JSONValue])
    case object(JSONObject)

    /// Parses one JSON value and nothing else, by the rules of ``JSONScanner``.
    public init(parsing bytes: UnsafeRawBufferPointer) throws(JSONError) {
        try JSONScanner.checkValue(bytes)
        self = JSONReader.read(bytes)
    }

    public init(parsing bytes: [UInt8]) throws(JSONError) {
        self = try bytes.withRawBytes { (raw) throws(JSONError) in try JSONValue(parsing: raw) }
    }

    /// Parses a stored body: two equal keys, which an older version accepted, are not an error. The last one counts.
    public init(stored bytes: [UInt8]) throws(JSONError) {
        self = try bytes.withRawBytes { (raw) throws(JSONError) in
            try JSONScanner.checkValue(raw, keysMayRepeat: true)
            return JSONReader.read(raw)
        }
    }

    public init(parsing text: String) throws(JSONError) { try self.init(parsing: Array(text.utf8)) }

    public func serialize() -> [UInt8] {
        var out: [UInt8] = []
        serialize(into: &out)
        return out
    }

    /// Appends the value without white space, with members in their order.
    public func serialize(into out: inout [UInt8]) { write(into: &out, sorted: false) }

    /// The canonical form (see `CanonicalJSON`).
    public func canonicalBytes() -> [UInt8] {
        var out: [UInt8] = []
        write(into: &out, sorted: true)
        return out
    }

    /// The serialized value as text.
    public var text: String { String(decoding: serialize(), as: UTF8.self) }

    private func write(into out: inout [UInt8], sorted: Bool) {
        switch self {
        case .null: out.append(contentsOf: "null".utf8)
        case .bool(let value): out.append(contentsOf: (value ? "true" : "false").utf8)
        case .number(let value): out.append(contentsOf: value.text.utf8)
        case .string(let value): JSONValue.writeString(value, into: &out)
        case .array(let items):
            out.append(0x5B)
            for (index, item) in items.enumerated() {
                if index > 0 { out.append(0x2C) }
                item.write(into: &out, sorted: sorted)
            }
            out.append(0x5D)
        case .object(let object):
            out.append(0x7B)
            for (index, member) in (sorted ? object.sortedMembers() : object.members).enumerated() {
                if index > 0 { out.append(0x2C) }
                JSONValue.writeString(member.key, into: &out)
                out.append(0x3A)
                member.value.write(into: &out, sorted: sorted)
            }
            out.append(0x7D)
        }
    }

    /// Appends a string in quotes with its escapes.
    static func writeString(_ value: String, into out: inout [UInt8]) {
        out.append(0x22)
        value.withBytes { bytes in
            var at = 0
            while at < bytes.count {
                let run = at
                while at < bytes.count, !JSONString.needsEscape(bytes[at]) { at += 1 }
                out.append(contentsOf: bytes[run..<at])
                if at < bytes.count {
                    JSONString.writeEscaped(bytes[at]) { out.append($0) }
                    at += 1
                }
            }
        }
        out.append(0x22)
    }
}

extension JSONValue: Equatable {
    /// Strings compare as bytes, numbers as written, objects regardless of the order of their members.
    public static func == (a: JSONValue, b: JSONValue) -> Bool {
        switch (a, b) {
        case (.null, .null): true
        case (.bool(let x), .bool(let y)): x == y
        case (.number(let x), .number(let y)): x == y
        case (.string(let x), .string(let y)): x.sameBytes(as: y)
        case (.array(let x), .array(let y)): x == y
        case (.object(let x), .object(let y)): x == y
        default: false
        }
    }
}

// MARK: - Looking inside

extension JSONValue {
    public var isNull: Bool { if case .null = self { true } else { false } }
    public var asBool: Bool? { if case .bool(let value) = self { value } else { nil } }
    public var asNumber: JSONNumber? { if case .number(let value) = self { value } else { nil } }
    public var asInt64: Int64? { asNumber?.asInt64 }
    public var asUInt64: UInt64? { asNumber?.asUInt64 }
    public var asDouble: Double? { asNumber?.asDouble }
    public var asString: String? { if case .string(let value) = self { value } else { nil } }
    public var asArray: [JSONValue]? { if case .array(let value) = self { value } else { nil } }
    public var asObject: JSONObject? { if case .object(let value) = self { value } else { nil } }

    /// The member of an object; nil if there is none or this is not an object.
    public subscript(key: String) -> JSONValue? { asObject?[key] }

    public static func int(_ value: some BinaryInteger) -> JSONValue { .number(JSONNumber(value)) }
}

extension JSONValue: ExpressibleByNilLiteral, ExpressibleByBooleanLiteral, ExpressibleByIntegerLiteral,
    ExpressibleByStringLiteral, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
    public init(nilLiteral: ()) { self = .null }
    public init(booleanLiteral value: Bool) { self = .bool(value) }
    public init(integerLiteral value: Int64) { self = .number(JSONNumber(value)) }
    public init(stringLiteral value: String) { self = .string(value) }
    public init(arrayLiteral elements: JSONValue...) { self = .array(elements) }
    public init(dictionaryLiteral elements: (String, JSONValue)...) {
        self = .object(JSONObject(elements.map { JSONObject.Member(key: $0.0, value: $0.1) }))
    }
}

/// The members of a JSON object in order. Keys compare as bytes; of equal keys the last one counts.
public struct JSONObject: Sendable, Equatable {
    public struct Member: Sendable {
        public var key: String
        public var value: JSONValue

        public init(key: String, value: JSONValue) {
            self.key = key
            self.value = value
        }
    }

    public var members: [Member]

    public init(_ members: [Member] = []) { self.members = members }

    public var isEmpty: Bool { members.isEmpty }
    public var count: Int { members.count }

    /// Setting replaces the member in place, or appends it; setting nil removes it.
    public subscript(key: String) -> JSONValue? {
        get { members.last { $0.key.sameBytes(as: key) }?.value }
        set {
            guard let newValue else {
                members.removeAll { $0.key.sameBytes(as: key) }
                return
            }
            if let index = members.lastIndex(where: { $0.key.sameBytes(as: key) }) {
                members[index].value = newValue
            } else {
                members.append(Member(key: key, value: newValue))
            }
        }
    }

    /// In ascending order of the keys' bytes; of equal keys only the last.
    func sortedMembers() -> [Member] {
        let order = members.indices.sorted { x, y in
            if members[x].key.sameBytes(as: members[y].key) { return x < y }
            return members[x].key.precedesBytes(of: members[y].key)
        }
        var sorted: [Member] = []
        sorted.reserveCapacity(order.count)
        for index in order {
            if let last = sorted.last, last.key.sameBytes(as: members[index].key) { sorted.removeLast() }
            sorted.append(members[index])
        }
        return sorted
    }

    public static func == (a: JSONObject, b: JSONObject) -> Bool {
        let x = a.sortedMembers()
        let y = b.sortedMembers()
        return x.count == y.count
            && zip(x, y).allSatisfy { $0.key.sameBytes(as: $1.key) && $0.value == $1.value }
    }
}

/// A JSON number, kept as its original text so that no digit is lost.
public struct JSONNumber: Sendable, Hashable, CustomStringConvertible {
    public let text: String

    /// Nil unless the text follows JSON's grammar for numbers.
    public init?(parsing text: String) {
        let bytes = Array(text.utf8)
        guard let first = bytes.first, first == 0x2D || isDigit(first), let last = bytes.last, isDigit(last),
            bytes.withUnsafeBytes({ raw in (try? JSONScanner.checkValue(raw)) != nil })
        else { return nil }
        self.text = text
    }

    public init(_ value: some BinaryInteger) { text = String(value) }

    /// nil for infinities and NaN, which JSON cannot represent.
    public init?(_ value: Double) {
        guard value.isFinite else { return nil }
        text = value.description
    }

    init(checked text: String) { self.text = text }

    /// The value if it is an integer that fits, even if written as `1e3` or `2.0`.
    public var asInt64: Int64? { Int64(text) ?? asDouble.flatMap { Int64(exactly: $0) } }
    public var asUInt64: UInt64? { UInt64(text) ?? asDouble.flatMap { UInt64(exactly: $0) } }
    /// The nearest Double; nil if the number is too large for one.
    public var asDouble: Double? { Double(text).flatMap { $0.isFinite ? $0 : nil } }
    public var description: String { text }
}

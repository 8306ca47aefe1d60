import Documents

/// The path of a field in a document: `address.city`, with `\.` for a dot that is part of a name.
package struct FieldPath: Sendable, Hashable {
    package let names: [String]

    /// The whole value, for conditions on elements.
    static let whole = FieldPath(names: [])

    init(names: [String]) { self.names = names }

    /// - Throws: `invalid_field_name` for an empty name.
    package init(parsing text: String) throws(SelectorError) {
        var names: [String] = []
        var name: [UInt8] = []
        var isEscaped = false
        for byte in text.utf8 {
            if isEscaped {
                name.append(byte)
                isEscaped = false
            } else if byte == UInt8(ascii: "\\") {
                isEscaped = true
            } else if byte == UInt8(ascii: ".") {
                names.append(String(decoding: name, as: UTF8.self))
                name = []
            } else {
                name.append(byte)
            }
        }
        names.append(String(decoding: name, as: UTF8.self))
        guard names.allSatisfy({ !$0.utf8.isEmpty }) else {
            throw SelectorError("invalid_field_name", "Invalid field name \(JSONValue.string(SelectorError.cut(text)).text): a part of it is empty")
        }
        guard names.count <= SelectorLimits.depth else {
            throw SelectorError("invalid_field_name", "the field name has \(names.count) parts, more than selector_depth = \(SelectorLimits.depth)")
        }
        self.names = names
    }

    /// The path in its written form.
    package var text: String {
        names.map { name in
            var out: [UInt8] = []
            for byte in name.utf8 {
                if byte == UInt8(ascii: ".") || byte == UInt8(ascii: "\\") { out.append(UInt8(ascii: "\\")) }
                out.append(byte)
            }
            return String(decoding: out, as: UTF8.self)
        }.joined(separator: ".")
    }

    func appending(_ other: FieldPath) -> FieldPath { FieldPath(names: names + other.names) }

    package enum Found: Sendable {
        case value(JSONValue)
        /// The object that would contain it exists, but does not have it.
        case missing
        /// There is no such object.
        case noPlace
    }

    /// The value at this path; a number selects an element of an array.
    package func find(in value: JSONValue) -> Found {
        var value = value
        for name in names {
            switch value {
            case .object(let object):
                guard let found = object[name] else { return .missing }
                value = found
            case .array(let items):
                guard let index = Int(name), items.indices.contains(index) else { return .noPlace }
                value = items[index]
            default: return .noPlace
            }
        }
        return .value(value)
    }

    package func value(in document: JSONValue) -> JSONValue? {
        guard case .value(let found) = find(in: document) else { return nil }
        return found
    }

    package static func == (a: FieldPath, b: FieldPath) -> Bool {
        a.names.count == b.names.count && zip(a.names, b.names).allSatisfy { $0.utf8.elementsEqual($1.utf8) }
    }

    package func hash(into hasher: inout Hasher) {
        for name in names { hasher.combine(Array(name.utf8)) }
    }
}

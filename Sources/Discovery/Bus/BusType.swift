/// A D-Bus type, as written in a signature.
indirect enum BusType: Equatable, Sendable {
    case byte, bool, int16, uint16, int32, uint32, int64, uint64, double, string, objectPath, signature, variant, descriptor
    case array(BusType)
    /// Also used for dictionary entries.
    case structure([BusType])

    /// Nesting levels of arrays and structures, according to the specification.
    static let deepest = 32

    /// The types in a signature such as `iiussa{sv}`; nil if it is invalid.
    static func parse(_ signature: String) -> [BusType]? {
        var rest = signature.utf8[...]
        guard rest.count <= 255 else { return nil }
        var types: [BusType] = []
        while !rest.isEmpty {
            guard let type = one(&rest, depth: 0) else { return nil }
            types.append(type)
        }
        return types
    }

    private static func one(_ rest: inout Substring.UTF8View, depth: Int) -> BusType? {
        guard depth <= deepest, let code = rest.popFirst() else { return nil }
        switch code {
        case UInt8(ascii: "y"): return .byte
        case UInt8(ascii: "b"): return .bool
        case UInt8(ascii: "n"): return .int16
        case UInt8(ascii: "q"): return .uint16
        case UInt8(ascii: "i"): return .int32
        case UInt8(ascii: "u"): return .uint32
        case UInt8(ascii: "x"): return .int64
        case UInt8(ascii: "t"): return .uint64
        case UInt8(ascii: "d"): return .double
        case UInt8(ascii: "s"): return .string
        case UInt8(ascii: "o"): return .objectPath
        case UInt8(ascii: "g"): return .signature
        case UInt8(ascii: "v"): return .variant
        case UInt8(ascii: "h"): return .descriptor
        case UInt8(ascii: "a"): return one(&rest, depth: depth + 1).map { .array($0) }
        case UInt8(ascii: "("), UInt8(ascii: "{"):
            let end = code == UInt8(ascii: "(") ? UInt8(ascii: ")") : UInt8(ascii: "}")
            var fields: [BusType] = []
            while let next = rest.first, next != end {
                guard let field = one(&rest, depth: depth + 1) else { return nil }
                fields.append(field)
            }
            guard rest.popFirst() == end, !fields.isEmpty else { return nil }
            return .structure(fields)
        default: return nil
        }
    }

    var alignment: Int {
        switch self {
        case .byte, .signature, .variant: 1
        case .int16, .uint16: 2
        case .bool, .int32, .uint32, .string, .objectPath, .array, .descriptor: 4
        case .int64, .uint64, .double, .structure: 8
        }
    }
}

/// A value in a message. Numbers are kept as bits, whatever their type.
indirect enum BusValue: Hashable, Sendable {
    case number(UInt64)
    /// Strings, paths and signatures.
    case text(String)
    case array([BusValue])
    case structure([BusValue])
    case variant(BusValue)

    static func int32(_ value: Int32) -> BusValue { .number(UInt64(UInt32(bitPattern: value))) }

    var text: String? { if case .text(let text) = self { text } else { nil } }
    var number: UInt64? { if case .number(let number) = self { number } else { nil } }
    var int32: Int32? { number.map { Int32(bitPattern: UInt32(truncatingIfNeeded: $0)) } }
    var array: [BusValue]? { if case .array(let values) = self { values } else { nil } }
    /// An array of bytes.
    var bytes: [UInt8]? { array.map { $0.compactMap { $0.number.map { UInt8(truncatingIfNeeded: $0) } } } }
}

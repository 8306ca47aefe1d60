import Documents

/// The order of JSON values: null, false, true, numbers, strings, arrays, objects, as in CouchDB.
///
/// Strings are ordered by their UTF-8 bytes; CouchDB uses a Unicode collation. 64-bit integers are compared exactly, other numbers as doubles.
/// Objects compare member by member, in the order in which they are written.
package enum Collation {
    /// Negative, zero or positive if `a` precedes, equals or follows `b`.
    package static func compare(_ a: JSONValue, _ b: JSONValue) -> Int {
        switch (a, b) {
        case (.number(let x), .number(let y)):
            // Most equal numbers are written the same way.
            return x.text.utf8.elementsEqual(y.text.utf8) ? 0 : NumberKey(x).compare(NumberKey(y))
        case (.string(let x), .string(let y)): return compare(x, y)
        case (.array(let x), .array(let y)):
            for (left, right) in zip(x, y) {
                let order = compare(left, right)
                if order != 0 { return order }
            }
            return x.count - y.count
        case (.object(let x), .object(let y)):
            for (left, right) in zip(x.members, y.members) {
                let keys = compare(left.key, right.key)
                if keys != 0 { return keys }
                let values = compare(left.value, right.value)
                if values != 0 { return values }
            }
            return x.members.count - y.members.count
        default: return Int(rank(a)) - Int(rank(b))
        }
    }

    /// Compares by UTF-8 bytes.
    package static func compare(_ a: String, _ b: String) -> Int {
        if a.utf8.elementsEqual(b.utf8) { return 0 }
        return a.utf8.lexicographicallyPrecedes(b.utf8) ? -1 : 1
    }

    /// The first byte of a value's key.
    static func rank(_ value: JSONValue) -> UInt8 {
        switch value {
        case .null: 0x10
        case .bool(let value): value ? 0x28 : 0x20
        case .number: 0x30
        case .string: 0x40
        case .array: 0x50
        case .object: 0x60
        }
    }
}

/// The position of a number among numbers.
struct NumberKey {
    /// The nearest double; 0 for both zeros.
    let double: Double
    /// The difference between an integer of more than 53 bits and that double.
    let rest: Int

    init(_ number: JSONNumber) {
        let text = number.text
        if let small = Int64(text) {
            double = Double(small)
            rest = abs(double) < Self.exact ? 0 : Self.rest(small, double)
        } else if let large = UInt64(text) {
            double = Double(large)
            rest = double < 0x1p64 ? Int(Int64(bitPattern: large &- UInt64(double))) : Int(Int64(bitPattern: large))
        } else {
            // The text is valid JSON; numbers that do not fit a double are refused on entry.
            let value = Double(text) ?? 0
            double = value == 0 ? 0 : value
            rest = 0
        }
    }

    private static let exact = 0x1p53

    private static func rest(_ value: Int64, _ double: Double) -> Int {
        // The double nearest to the largest Int64 exceeds it by one.
        double >= 0x1p63 ? Int(value &- Int64.max) - 1 : Int(value - Int64(double))
    }

    func compare(_ other: NumberKey) -> Int {
        if double != other.double { return double < other.double ? -1 : 1 }
        return rest - other.rest
    }

    /// The double as bytes in sorting order, followed by the rest if there may be one.
    func write(into key: inout [UInt8]) {
        let bits = double.bitPattern
        let ordered = bits >> 63 == 0 ? bits | 1 << 63 : ~bits
        for shift in stride(from: 56, through: 0, by: -8) { key.append(UInt8(truncatingIfNeeded: ordered >> UInt64(shift))) }
        guard abs(double) >= Self.exact else { return }
        let moved = UInt16(clamping: rest + 0x8000)
        key.append(UInt8(moved >> 8))
        key.append(UInt8(moved & 0xFF))
    }
}

import Documents

/// The range of keys of one field for the values that a selector can match; values within the range still have to be tested.
struct FieldBounds {
    /// Inclusive.
    private(set) var low: [UInt8] = []
    /// Exclusive; nil if there is no upper bound.
    private(set) var high: [UInt8]?
    /// The only possible key, if there is just one.
    private(set) var equal: [UInt8]?

    var isBounded: Bool { !low.isEmpty || high != nil }
    var isEmpty: Bool { high.map { !low.lexicographicallyPrecedes($0) } ?? false }

    /// Derives the bounds of a field from all conditions that must hold.
    init(_ path: FieldPath, _ condition: Condition) { narrow(path, condition) }

    private mutating func narrow(_ path: FieldPath, _ condition: Condition) {
        switch condition {
        case .all(let parts): for part in parts { narrow(path, part) }
        case .any: break
        case .field(let other, let test): if other == path { narrow(test) }
        }
    }

    private mutating func narrow(_ test: Test) {
        switch test {
        case .compared(let comparison, let value):
            var key: [UInt8] = []
            let isWhole = CollationKey.append(value, to: &key)
            let next = CollationKey.successor(of: key)
            switch comparison {
            case .equal:
                from(key)
                below(next)
                equal = key
            // A truncated key may be shared by other values.
            case .greater: from(isWhole ? next : key)
            case .less: below(isWhole ? key : next)
            case .atLeast: from(key)
            case .atMost: below(next)
            case .notEqual: break
            }
        case .beginsWith(let text):
            var key: [UInt8] = []
            CollationKey.appendBeginning(text, to: &key)
            from(key)
            below(CollationKey.successor(of: key))
        default: break
        }
    }

    private mutating func from(_ key: [UInt8]) { if low.lexicographicallyPrecedes(key) { low = key } }

    private mutating func below(_ key: [UInt8]) {
        if high.map({ key.lexicographicallyPrecedes($0) }) ?? true { high = key }
    }
}

/// A range of an index: keys from `low` (inclusive) to `high` (exclusive).
package struct IndexRange: Sendable, Equatable {
    package var low: [UInt8]
    package var high: [UInt8]

    package init(low: [UInt8], high: [UInt8]) { (self.low, self.high) = (low, high) }

    package var isEmpty: Bool { !low.lexicographicallyPrecedes(high) }
}

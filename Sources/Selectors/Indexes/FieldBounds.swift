import Documents

/// Between which keys the values of one field are that a selector can mean; what lies between them is still asked.
struct FieldBounds {
    /// Included.
    private(set) var low: [UInt8] = []
    /// Not included; nil: none.
    private(set) var high: [UInt8]?
    /// The only one.
    private(set) var equal: [UInt8]?

    var isBounded: Bool { !low.isEmpty || high != nil }
    var isEmpty: Bool { high.map { !low.lexicographicallyPrecedes($0) } ?? false }

    /// Of a field, from all conditions that have to hold.
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
            // Other values may have the same key where it is cut.
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

/// A part of an index: keys from `low` on and below `high`.
package struct IndexRange: Sendable, Equatable {
    package var low: [UInt8]
    package var high: [UInt8]

    package init(low: [UInt8], high: [UInt8]) { (self.low, self.high) = (low, high) }

    package var isEmpty: Bool { !low.lexicographicallyPrecedes(high) }
}

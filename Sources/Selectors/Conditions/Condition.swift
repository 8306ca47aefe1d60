import Documents

/// A selector's condition on a document, after negations were pushed down to individual fields.
package indirect enum Condition: Sendable {
    case all([Condition])
    /// True if the list is empty, as in CouchDB.
    case any([Condition])
    /// A missing field passes no test except that for its absence.
    case field(FieldPath, Test)
}

/// A test of one value.
package indirect enum Test: Sendable {
    case compared(Comparison, JSONValue)
    /// The value, or one of its elements if it is an array, is one of these.
    case among(ValueSet)
    case exists(Bool)
    case type(String)
    /// The remainder of an integer.
    case remainder(divisor: Int64, Int64)
    case size(Int)
    case matches(Pattern)
    case beginsWith(String)
    /// An array that contains all of them.
    case hasAll([JSONValue])
    case anyElement(Condition)
    case everyElement(Condition)
    case anyKey(Condition)
    case not(Test)
}

package enum Comparison: String, Sendable {
    case less = "$lt"
    case atMost = "$lte"
    case equal = "$eq"
    case notEqual = "$ne"
    case atLeast = "$gte"
    case greater = "$gt"

    var negated: Comparison {
        switch self {
        case .less: .atLeast
        case .atMost: .greater
        case .equal: .notEqual
        case .notEqual: .equal
        case .atLeast: .less
        case .greater: .atMost
        }
    }

    /// - Parameter order: the result of comparing the value with the operator's argument.
    func holds(_ order: Int) -> Bool {
        switch self {
        case .less: order < 0
        case .atMost: order <= 0
        case .equal: order == 0
        case .notEqual: order != 0
        case .atLeast: order >= 0
        case .greater: order > 0
        }
    }
}

/// A set of values with fast look-up, however many a client lists.
package struct ValueSet: Sendable {
    /// In the client's order.
    package let listed: [JSONValue]
    private let sorted: [JSONValue]

    init(_ values: [JSONValue]) {
        listed = values
        sorted = values.sorted { Collation.compare($0, $1) < 0 }
    }

    func contains(_ value: JSONValue) -> Bool {
        var (low, high) = (0, sorted.count)
        while low < high {
            let middle = (low + high) / 2
            let order = Collation.compare(sorted[middle], value)
            if order == 0 { return true }
            if order < 0 { low = middle + 1 } else { high = middle }
        }
        return false
    }
}

import Documents

extension Condition {
    package func matches(_ value: JSONValue) -> Bool {
        switch self {
        case .all(let conditions): conditions.allSatisfy { $0.matches(value) }
        case .any(let conditions): conditions.isEmpty || conditions.contains { $0.matches(value) }
        case .field(let path, let test):
            switch path.find(in: value) {
            case .value(let found): test.passes(found)
            case .missing: test.isOfAbsence
            case .noPlace: false
            }
        }
    }
}

extension Test {
    var isOfAbsence: Bool {
        guard case .exists(false) = self else { return false }
        return true
    }

    /// The value is there.
    func passes(_ value: JSONValue) -> Bool {
        switch self {
        case .compared(let comparison, let other): return comparison.holds(Collation.compare(value, other))
        case .among(let values):
            guard case .array(let items) = value else { return values.contains(value) }
            return items.contains { values.contains($0) }
        case .exists(let exists): return exists
        case .type(let name): return name.utf8.elementsEqual(Self.type(of: value).utf8)
        case .remainder(let divisor, let remainder):
            guard case .number(let number) = value, let whole = Int64(number.text) else { return false }
            // The smallest integer by -1 has no quotient.
            return whole.remainderReportingOverflow(dividingBy: divisor).partialValue == remainder
        case .size(let size): return value.asArray?.count == size
        case .matches(let pattern): return value.asString.map { pattern.matches($0) } ?? false
        case .beginsWith(let beginning): return value.asString?.utf8.starts(with: beginning.utf8) ?? false
        case .hasAll(let wanted): return Self.hasAll(wanted, value)
        case .anyElement(let condition): return value.asArray?.contains { condition.matches($0) } ?? false
        case .everyElement(let condition):
            guard let items = value.asArray, !items.isEmpty else { return false }
            return items.allSatisfy { condition.matches($0) }
        case .anyKey(let condition): return value.asObject?.members.contains { condition.matches(.string($0.key)) } ?? false
        case .not(let test): return !test.passes(value)
        }
    }

    private static func hasAll(_ wanted: [JSONValue], _ value: JSONValue) -> Bool {
        guard !wanted.isEmpty, let items = value.asArray else { return false }
        if wanted.allSatisfy({ one in items.contains { Collation.compare($0, one) == 0 } }) { return true }
        // A single list may also be the value itself.
        return wanted.count == 1 && Collation.compare(wanted[0], value) == 0
    }

    static func type(of value: JSONValue) -> StaticString {
        switch value {
        case .null: "null"
        case .bool: "boolean"
        case .number: "number"
        case .string: "string"
        case .array: "array"
        case .object: "object"
        }
    }
}

extension StaticString {
    fileprivate var utf8: UnsafeBufferPointer<UInt8> { UnsafeBufferPointer(start: utf8Start, count: utf8CodeUnitCount) }
}

import Documents

/// The cost of evaluating one document: list elements times conditions could be a large number.
struct MatchRun {
    private(set) var isOver = false
    private(set) var spent = 0
    private let limit: Int

    init(limit: Int = SelectorLimits.steps) { self.limit = limit }

    /// Once it is exhausted, answers no longer count.
    mutating func take(_ steps: Int) {
        spent += steps
        if spent > limit { isOver = true }
    }
}

/// The maximum cost of evaluating many documents for one request of a client.
package struct SelectorBudget: Sendable {
    package let limit: Int
    /// Steps so far.
    package fileprivate(set) var spent = 0
    /// Documents that took too much memory or too many steps to be matched, and were left out.
    package private(set) var leftOut = 0

    package init(_ limit: Int = SelectorLimits.requestSteps) { self.limit = limit }

    /// Nil for a document that takes too much by itself: whoever can write one such document must not make the queries of all others fail.
    package mutating func leavingOut<Result>(_ body: (inout SelectorBudget) throws -> Result?) throws -> Result? {
        do { return try body(&self) } catch let error as SelectorError where error.isOfDocument {
            leftOut += 1
            return nil
        }
    }
}

extension Selector {
    /// - Throws: ``SelectorError`` if the document would cost more than `selector_steps`.
    package func matches(_ document: JSONValue) throws(SelectorError) -> Bool {
        var budget = SelectorBudget()
        return try matches(document, &budget)
    }

    /// - Throws: ``SelectorError`` if the document would cost more than `selector_steps`, or more than is left of the budget.
    package func matches(_ document: JSONValue, _ budget: inout SelectorBudget) throws(SelectorError) -> Bool {
        var run = MatchRun(limit: min(SelectorLimits.steps, budget.limit - budget.spent))
        let isMeant = condition.matches(document, &run)
        budget.spent += run.spent
        guard run.isOver else { return isMeant }
        guard run.spent > SelectorLimits.steps else {
            throw SelectorError(
                "invalid_selector",
                "the selector takes more than selector_request_steps = \(budget.limit) on the documents of one request: make it simpler, or make an index")
        }
        throw SelectorError(
            "invalid_selector", "the selector takes more than selector_steps = \(SelectorLimits.steps) on one document: make it simpler",
            isOfDocument: true)
    }
}

extension Condition {
    func matches(_ value: JSONValue, _ run: inout MatchRun) -> Bool {
        run.take(1)
        if run.isOver { return false }
        switch self {
        case .all(let conditions): return conditions.allSatisfy { $0.matches(value, &run) }
        case .any(let conditions): return conditions.isEmpty || conditions.contains { $0.matches(value, &run) }
        case .field(let path, let test):
            switch path.find(in: value) {
            case .value(let found): return test.passes(found, &run)
            case .missing: return test.isOfAbsence
            case .noPlace: return false
            }
        }
    }
}

extension Test {
    var isOfAbsence: Bool {
        guard case .exists(false) = self else { return false }
        return true
    }

    /// Whether an existing value passes.
    func passes(_ value: JSONValue, _ run: inout MatchRun) -> Bool {
        switch self {
        case .compared(let comparison, let other): return comparison.holds(Collation.compare(value, other))
        case .among(let values):
            guard case .array(let items) = value else { return values.contains(value) }
            run.take(items.count)
            return items.contains { values.contains($0) }
        case .exists(let exists): return exists
        case .type(let name): return name.utf8.elementsEqual(Self.type(of: value).utf8)
        case .remainder(let divisor, let remainder):
            guard case .number(let number) = value, let whole = Int64(number.text) else { return false }
            // The smallest integer divided by -1 has no quotient.
            return whole.remainderReportingOverflow(dividingBy: divisor).partialValue == remainder
        case .size(let size): return value.asArray?.count == size
        case .matches(let pattern): return value.asString.map { pattern.matches($0, &run) } ?? false
        case .beginsWith(let beginning): return value.asString?.utf8.starts(with: beginning.utf8) ?? false
        case .hasAll(let wanted):
            run.take(wanted.count * (value.asArray?.count ?? 0))
            return !run.isOver && Self.hasAll(wanted, value)
        case .anyElement(let condition): return value.asArray?.contains { condition.matches($0, &run) } ?? false
        case .everyElement(let condition):
            guard let items = value.asArray, !items.isEmpty else { return false }
            return items.allSatisfy { condition.matches($0, &run) }
        case .anyKey(let condition): return value.asObject?.members.contains { condition.matches(.string($0.key), &run) } ?? false
        case .not(let test): return !test.passes(value, &run)
        }
    }

    private static func hasAll(_ wanted: [JSONValue], _ value: JSONValue) -> Bool {
        guard !wanted.isEmpty, let items = value.asArray else { return false }
        if wanted.allSatisfy({ one in items.contains { Collation.compare($0, one) == 0 } }) { return true }
        // A single list may also equal the value itself.
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

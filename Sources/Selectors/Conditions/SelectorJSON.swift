import Documents

extension Condition {
    /// The equivalent selector.
    var json: JSONValue {
        switch self {
        case .all(let parts): parts.isEmpty ? [:] : ["$and": .array(parts.map(\.json))]
        case .any(let parts): ["$or": .array(parts.map(\.json))]
        case .field(let path, let test):
            // Conditions on a whole element have no enclosing name.
            path.names.isEmpty ? test.json : .object(JSONObject([JSONObject.Member(key: path.text, value: test.json)]))
        }
    }
}

extension Test {
    fileprivate var json: JSONValue {
        switch self {
        case .compared(let comparison, let value): named(comparison.rawValue, value)
        case .among(let values): named("$in", .array(values.listed))
        case .not(.among(let values)): named("$nin", .array(values.listed))
        case .exists(let exists): named("$exists", .bool(exists))
        case .type(let type): named("$type", .string(type))
        case .remainder(let divisor, let remainder): named("$mod", [.int(divisor), .int(remainder)])
        case .size(let size): named("$size", .int(size))
        case .matches(let pattern): named("$regex", .string(pattern.text))
        case .beginsWith(let text): named("$beginsWith", .string(text))
        case .hasAll(let values): named("$all", .array(values))
        case .anyElement(let condition): named("$elemMatch", condition.json)
        case .everyElement(let condition): named("$allMatch", condition.json)
        case .anyKey(let condition): named("$keyMapMatch", condition.json)
        case .not(let test): named("$not", test.json)
        }
    }

    private func named(_ name: String, _ value: JSONValue) -> JSONValue { .object(JSONObject([JSONObject.Member(key: name, value: value)])) }
}

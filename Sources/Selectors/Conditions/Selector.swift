import Documents

/// A CouchDB selector: selects documents by their fields. A value type without I/O.
package struct Selector: Sendable {
    package let condition: Condition
    /// The members of a document that it depends on; others need not be read.
    package let roots: [String]

    /// - Throws: ``SelectorError`` if it is not a selector, or exceeds ``SelectorLimits``.
    package init(_ json: JSONValue) throws(SelectorError) {
        guard case .object(let object) = json else {
            throw SelectorError("invalid_selector_json", "Selector must be a JSON object, not: \(SelectorError.cut(json.text))")
        }
        var reader = SelectorReader()
        condition = object.isEmpty ? .all([]) : try reader.read(json, at: .whole, isNegated: false, isElement: false, depth: 1)
        roots = condition.roots
    }

    /// The only ids that it can select, if it names them and there are at most `limit`.
    package func ids(limit: Int) -> [String]? { condition.ids(limit) }

    /// The selector in its normalised form.
    package var json: JSONValue { condition.json }
}

/// Parses a selector from JSON, pushing negations down: `{"$not": {"a": {"$gt": 1}}}` becomes `{"a": {"$lte": 1}}`, so that a document without the
/// field is not selected in either case.
private struct SelectorReader {
    private var conditions = 0

    /// - Parameters:
    ///   - path: the enclosing fields.
    ///   - isElement: inside `$elemMatch` and similar operators, where conditions may apply to the whole element.
    mutating func read(_ json: JSONValue, at path: FieldPath, isNegated: Bool, isElement: Bool, depth: Int) throws(SelectorError) -> Condition {
        guard depth <= SelectorLimits.depth else {
            throw SelectorError("invalid_selector", "the selector is nested deeper than selector_depth = \(SelectorLimits.depth)")
        }
        conditions += 1
        guard conditions <= SelectorLimits.conditions else {
            throw SelectorError("invalid_selector", "the selector has more conditions than selector_conditions = \(SelectorLimits.conditions)")
        }
        // A bare value means equality.
        guard case .object(let object) = json, let first = object.members.first else {
            return try leaf(.compared(.equal, json), at: path, isNegated, isElement)
        }
        guard object.count == 1 else {
            var parts: [Condition] = []
            for member in object.members {
                parts.append(try self.member(member.key, member.value, at: path, isNegated: isNegated, isElement: isElement, depth: depth))
            }
            return isNegated ? .any(parts) : .all(parts)
        }
        return try member(first.key, first.value, at: path, isNegated: isNegated, isElement: isElement, depth: depth)
    }

    private mutating func member(
        _ key: String, _ argument: JSONValue, at path: FieldPath, isNegated: Bool, isElement: Bool, depth: Int
    ) throws(SelectorError) -> Condition {
        guard key.utf8.first == UInt8(ascii: "$") else {
            let inner = path.appending(try FieldPath(parsing: key))
            return try read(argument, at: inner, isNegated: isNegated, isElement: isElement, depth: depth + 1)
        }
        switch key {
        case "$and", "$or", "$nor":
            guard let items = argument.asArray else { throw .badArgument(key, "a list", argument.text) }
            let isInner = key == "$nor" ? !isNegated : isNegated
            var parts: [Condition] = []
            for item in items {
                parts.append(try read(item, at: path, isNegated: isInner, isElement: isElement, depth: depth + 1))
            }
            return (key == "$or") != isNegated ? .any(parts) : .all(parts)
        case "$not":
            guard case .object = argument else { throw .badArgument(key, "an object", argument.text) }
            return try read(argument, at: path, isNegated: !isNegated, isElement: isElement, depth: depth + 1)
        case "$elemMatch", "$allMatch", "$keyMapMatch":
            guard case .object = argument else { throw .badArgument(key, "an object", argument.text) }
            let inner = try read(argument, at: .whole, isNegated: false, isElement: true, depth: depth + 1)
            let test: Test = key == "$elemMatch" ? .anyElement(inner) : key == "$allMatch" ? .everyElement(inner) : .anyKey(inner)
            return try leaf(test, at: path, isNegated, isElement)
        default: return try leaf(try OperatorReader.test(key, argument), at: path, isNegated, isElement)
        }
    }

    private func leaf(_ test: Test, at path: FieldPath, _ isNegated: Bool, _ isElement: Bool) throws(SelectorError) -> Condition {
        guard isElement || !path.names.isEmpty else {
            throw SelectorError("invalid_selector", "One or more conditions is missing a field name.")
        }
        return .field(path, isNegated ? test.negated : test)
    }
}

extension Test {
    /// All possible values, if the condition lists them.
    fileprivate func strings(_ limit: Int) -> [String]? {
        switch self {
        case .compared(.equal, let value): [value].compactMap(\.asString)
        case .among(let values): values.listed.count <= limit ? values.listed.compactMap(\.asString) : nil
        default: nil
        }
    }

    fileprivate var negated: Test {
        switch self {
        case .compared(let comparison, let value): .compared(comparison.negated, value)
        case .exists(let exists): .exists(!exists)
        case .not(let test): test
        default: .not(self)
        }
    }
}

extension Condition {
    fileprivate func ids(_ limit: Int) -> [String]? {
        switch self {
        case .all(let parts): parts.lazy.compactMap { $0.ids(limit) }.first
        case .any: nil
        case .field(let path, let test):
            if path == FieldPath(names: ["_id"]) { test.strings(limit) } else { nil }
        }
    }

    /// The top-level members of the fields that it uses.
    fileprivate var roots: [String] {
        var found: [String] = []
        collectRoots(into: &found)
        return found
    }

    private func collectRoots(into found: inout [String]) {
        switch self {
        case .all(let parts), .any(let parts):
            for part in parts { part.collectRoots(into: &found) }
        case .field(let path, _):
            guard let root = path.names.first, !found.contains(where: { $0.utf8.elementsEqual(root.utf8) }) else { return }
            found.append(root)
        }
    }
}

import Documents

/// Fields in order, all with the same direction: of a sort or of an index.
package struct SortOrder: Sendable, Equatable {
    package let paths: [FieldPath]
    package let isDescending: Bool

    package static let none = SortOrder()

    private init() { (paths, isDescending) = ([], false) }

    /// - Parameter json: `["name", {"name": "desc"}, …]`.
    package init(_ json: JSONValue, limit: Int = SelectorLimits.fields) throws(SelectorError) {
        guard let items = json.asArray else {
            throw SelectorError("invalid_sort_json", "Sort must be an array of sort specs, not: \(SelectorError.cut(json.text))")
        }
        guard items.count <= limit else { throw SelectorError("invalid_sort_json", "\(items.count) fields are more than \(limit)") }
        var paths: [FieldPath] = []
        var directions: [Bool] = []
        for item in items {
            let (name, isDescending) = try Self.field(item)
            paths.append(try FieldPath(parsing: name))
            directions.append(isDescending)
        }
        guard Set(directions).count <= 1 else {
            throw SelectorError("unsupported_mixed_sort", "Sorts currently only support a single direction for all fields.")
        }
        self.paths = paths
        isDescending = directions.first ?? false
    }

    private static func field(_ json: JSONValue) throws(SelectorError) -> (String, Bool) {
        if let name = json.asString { return (name, false) }
        guard let object = json.asObject, object.count == 1, let member = object.members.first, let direction = member.value.asString else {
            throw SelectorError("invalid_sort_field", "Invalid sort field: \(SelectorError.cut(json.text))")
        }
        switch direction {
        case "asc": return (member.key, false)
        case "desc": return (member.key, true)
        default: throw SelectorError("invalid_sort_dir", "Invalid sort direction: \(SelectorError.cut(json.text)), expected asc or desc")
        }
    }

    package var json: JSONValue {
        .array(paths.map { .object(JSONObject([JSONObject.Member(key: $0.text, value: isDescending ? "desc" : "asc")])) })
    }
}

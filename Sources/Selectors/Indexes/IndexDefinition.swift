import Documents

/// The content of an index: for each live document that has all of the fields and matches the partial filter, their values in order.
package struct IndexDefinition: Sendable {
    package let order: SortOrder
    /// Nil: all documents.
    package let partial: Selector?
    /// The members of a document that it depends on.
    package let roots: [String]

    /// - Parameter json: `{"fields": […], "partial_filter_selector": {…}}`.
    package init(_ json: JSONValue) throws(SelectorError) {
        guard let object = json.asObject else {
            throw SelectorError("invalid_index", "JSON indexes must be an object, not: \(SelectorError.cut(json.text))")
        }
        var fields: JSONValue?
        var partial: Selector?
        for member in object.members {
            switch member.key {
            case "fields": fields = member.value
            case "partial_filter_selector":
                let selector = try Selector(member.value)
                if member.value.asObject?.isEmpty == false { partial = selector }
            default: throw SelectorError("invalid_key", "Invalid key \(SelectorError.cut(member.key)) for this request.")
            }
        }
        guard let fields else { throw SelectorError("missing_required_key", "Missing required key: fields") }
        order = try SortOrder(fields, limit: SelectorLimits.indexFields)
        guard !order.paths.isEmpty else { throw SelectorError("invalid_index", "an index needs one field at least") }
        guard Set(order.paths).count == order.paths.count else { throw SelectorError("invalid_index", "an index has each field once") }
        self.partial = partial
        var roots = partial?.roots ?? []
        for path in order.paths where !roots.contains(where: { $0.utf8.elementsEqual(path.names[0].utf8) }) { roots.append(path.names[0]) }
        self.roots = roots
    }

    package var json: JSONValue {
        var object = JSONObject([JSONObject.Member(key: "fields", value: order.json)])
        if let partial { object["partial_filter_selector"] = partial.json }
        return .object(object)
    }

    /// The key of a document in the index; nil if the index does not contain it.
    package func key(of document: DocumentFields) -> [UInt8]? {
        // Documents that are too large to be read are in no index.
        (try? document.document(with: roots)).flatMap { key(in: $0) }
    }

    /// The same for a document of which at least ``roots`` were read.
    package func key(in document: JSONValue) -> [UInt8]? {
        if let partial {
            var budget = SelectorBudget(SelectorLimits.indexSteps)
            guard (try? partial.matches(document, &budget)) ?? false else { return nil }
        }
        return CollationKey.of(order.paths, in: document)
    }
}

import Encodings

/// `source_filter`: a filter in a remote CouchDB database, `DESIGN/NAME` or `{ filter: DESIGN/NAME, params: {…} }`.
package struct SourceFilterSettings: Sendable, ConfigurationSection {
    package var filter = Located("")
    /// Query parameters: a mapping from names to single values and lists of them; nil if there are none.
    package var params: ConfigurationNode?
    package internal(set) var position = SourcePosition.none

    package init() {}

    static let sectionName = "source_filter"
    static let keys: [Key<SourceFilterSettings>] = [
        Key("filter", \.filter, Form.text("the name of a filter").located, required: true, "DESIGN/NAME; other servers that speak the protocol have names of their own."),
        Key("params", optional: \.params, .params, "Parameters of the query, which the filter reads: single values, and lists, which are sent as JSON."),
    ]

    /// Names and texts, in the order of the file. A list is written as JSON, which is CouchDB's form in a query.
    package var parameters: [(name: String, value: String)] { (params?.entries ?? []).map { ($0.key, Self.text($0.value)) } }

    private static func text(_ node: ConfigurationNode) -> String {
        switch node.content {
        case .scalar(let scalar): scalar.text
        case .sequence(let elements): "[\(elements.map { $0.scalar?.json ?? "null" }.joined(separator: ","))]"
        case .mapping: ""
        }
    }

    /// Parameters of `_changes` that the replicator itself sets.
    package static let reservedParameters: Set<String> = [
        "att_encoding_info", "attachments", "conflicts", "descending", "doc_ids", "feed", "filter", "heartbeat", "include_docs", "last-event-id", "limit",
        "seq_interval", "since", "style", "timeout",
    ]

    package static func == (left: Self, right: Self) -> Bool { areSame(left, right) }

    fileprivate func checkName(_ reading: inout Reading) {
        if filter.value.utf8.first == UInt8(ascii: "_") {
            reading.report(
                at: filter.position, "\(ValueQuoting.quoted(filter.value)) is one of CouchDB's own: use selector or document_ids; views do not filter here")
        }
    }

    func check(_ reading: inout Reading) {
        for entry in params?.entries ?? [] {
            if Self.reservedParameters.contains(entry.key) {
                reading.report(at: entry.keyPosition, "the parameter \(ValueQuoting.quoted(entry.key)) of _changes is set by the replicator")
            }
            let values = if case .sequence(let elements) = entry.value.content { elements } else { [entry.value] }
            for value in values where value.scalar == nil { reading.report(at: value.position, "expected a single value or a list of them, as a query carries it") }
        }
    }
}

extension Form where Value == SourceFilterSettings {
    static let sourceFilter: Form<SourceFilterSettings> = {
        let either = Form<String>.text("the name of a filter").map { name, node in
            var settings = SourceFilterSettings()
            settings.filter = Located(name, at: node.position)
            settings.position = node.position
            return settings
        }.or(SourceFilterSettings.self) { settings, _ in settings }
        return Form<SourceFilterSettings>(
            shape: either.shape, expected: either.expected,
            read: { node, reading in
                let settings = either.read(node, &reading)
                settings?.checkName(&reading)
                return settings
            })
    }()
}

extension Form where Value == ConfigurationNode {
    static let selector = Form<ConfigurationNode>(
        shape: .params, expected: "a mapping: a selector of CouchDB",
        read: { node, reading in
            guard node.entries?.isEmpty == false else {
                reading.reportMismatch(node, expected: "a mapping: a selector of CouchDB")
                return nil
            }
            return node
        })
}

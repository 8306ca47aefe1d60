import Documents
import Encodings

/// What a CouchDB-like source is asked to leave out of its changes; the source applies it.
public enum SourceFilter: Sendable, Equatable {
    /// A selector in CouchDB's query language (`filter=_selector`).
    case selector(JSONValue)
    /// A filter function of a design document, `DESIGN/NAME`, or a filter of another implementation of the protocol; with the query's parameters.
    case named(String, parameters: [(name: String, value: String)])

    /// Equal for equal selections: the replication's progress is stored under it.
    var identity: String {
        switch self {
        case .selector(let selector): "selector " + selector.sorted.text
        case .named(let name, let parameters): "filter " + Self.query(name, parameters.sorted { ($0.name, $0.value) < ($1.name, $1.value) })
        }
    }

    /// In the form of a query, beginning with the filter's name.
    static func query(_ name: String, _ parameters: [(name: String, value: String)]) -> String {
        ([("filter", name)] + parameters).map { "\(PercentEncoding.encode($0.0))=\(PercentEncoding.encode($0.1))" }.joined(separator: "&")
    }

    public static func == (left: SourceFilter, right: SourceFilter) -> Bool { left.identity == right.identity }
}

extension JSONValue {
    /// With the members of every object sorted by name.
    fileprivate var sorted: JSONValue {
        switch self {
        case .array(let elements): .array(elements.map(\.sorted))
        case .object(let object):
            .object(JSONObject(object.members.map { JSONObject.Member(key: $0.key, value: $0.value.sorted) }.sorted { $0.key < $1.key }))
        default: self
        }
    }
}

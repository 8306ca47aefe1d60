import AgentConfiguration
import Documents
import Replication

extension SourceFilter {
    /// What the source is asked to leave out, according to a collection's settings.
    init?(_ settings: ReplicatedCollectionSettings) {
        if let selector = settings.selector {
            self = .selector(JSONValue(selector))
        } else if let filter = settings.sourceFilter {
            self = .named(filter.filter.value, parameters: filter.parameters)
        } else {
            return nil
        }
    }
}

extension JSONValue {
    /// A part of the configuration as JSON.
    init(_ node: ConfigurationNode) {
        switch node.content {
        case .mapping(let entries): self = .object(JSONObject(entries.map { JSONObject.Member(key: $0.key, value: JSONValue($0.value)) }))
        case .sequence(let elements): self = .array(elements.map { JSONValue($0) })
        case .scalar(let scalar):
            switch scalar.value {
            case .null: self = .null
            case .bool(let value): self = .bool(value)
            case .integer(let value): self = .int(value)
            case .number(let value): self = JSONNumber(value).map { .number($0) } ?? .null
            case .string(let value): self = .string(value)
            }
        }
    }
}

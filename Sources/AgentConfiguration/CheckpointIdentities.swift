import Encodings

extension AgentSettings {
    /// What a replicator's checkpoint is kept under, for one of its collections: with two of one kind each would go on from where the other
    /// was, past documents that it has not seen.
    private struct CheckpointIdentity: Hashable {
        var database: String
        var target: String
        var type: String
        var collection: CollectionReference
        var documentIDs: [String]
        var channels: [String]
        var sourceFilter: String?
        var pullFilter: String?
        var pullTransform: String?

        init(_ replicator: ReplicatorSettings, _ wanted: ReplicatedCollectionSettings) {
            database = replicator.database.value
            target = replicator.target.value.text
            type = replicator.direction.rawValue
            collection = wanted.collection.value
            documentIDs = wanted.documentIDs.map(\.value).sorted()
            channels = wanted.channels.map(\.value).sorted()
            sourceFilter = wanted.selector.map { "selector \($0.meaning)" }
                ?? wanted.sourceFilter.map { "filter \($0.filter.value) \($0.parameters.map { "\(JSONString.quoted($0.name)): \(JSONString.quoted($0.value))" }.sorted())" }
            pullFilter = wanted.pullFilter?.plugin.value
            pullTransform = wanted.pullTransform?.plugin.value
        }
    }

    /// Two replicators that would share a checkpoint.
    func checkCheckpoints(_ reading: inout Reading) {
        var first: [CheckpointIdentity: Located<String>] = [:]
        for replicator in replicators where !replicator.target.value.text.isEmpty {
            for wanted in replicator.collections {
                let identity = CheckpointIdentity(replicator, wanted)
                guard let other = first[identity] else {
                    first[identity] = replicator.name
                    continue
                }
                reading.problems.report(
                    at: replicator.name.position,
                    "the replicators \(Quoting.quoted(replicator.name.value)) and \(Quoting.quoted(other.value)) would share a checkpoint: both do "
                        + "\(identity.type) of \(identity.collection) in the database \(Quoting.quoted(identity.database)) with the same target, "
                        + "and with the same document_ids, channels, selector, source_filter, pull_filter and pull_transform; take the collection out of one of them, or give one another document_ids, channels, "
                        + "selector, source_filter or pull_filter")
                break
            }
        }
    }
}

extension ConfigurationNode {
    /// What it means, however it is written: by values, with the entries of every mapping in the order of their keys.
    fileprivate var meaning: String {
        switch content {
        case .scalar(let scalar):
            switch scalar.value {
            case .null: "null"
            case .bool(let value): "\(value)"
            case .integer(let value): "\(value)"
            case .number(let value): "\(value)"
            case .string(let value): JSONString.quoted(value)
            }
        case .sequence(let elements): "[\(elements.map(\.meaning).joined(separator: ","))]"
        case .mapping(let entries): "{\(entries.map { "\(JSONString.quoted($0.key)):\($0.value.meaning)" }.sorted().joined(separator: ","))}"
        }
    }
}

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
            sourceFilter = wanted.selector.map { "selector \($0.inOrder)" }
                ?? wanted.sourceFilter.map { "filter \($0.filter.value) \($0.params?.inOrder.description ?? "")" }
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
                        + "and with the same document_ids, channels, selector, source_filter, pull_filter and pull_transform; take the collection out of one of them, or give one another document_ids, channels "
                        + "or pull_filter")
                break
            }
        }
    }
}

extension ConfigurationNode {
    /// With the entries of every mapping in the order of their keys.
    fileprivate var inOrder: ConfigurationNode {
        switch content {
        case .scalar: self
        case .sequence(let elements): ConfigurationNode(.sequence(elements.map(\.inOrder)), at: position)
        case .mapping(let entries):
            ConfigurationNode(
                .mapping(
                    entries.map { Entry(key: $0.key, keyPosition: $0.keyPosition, value: $0.value.inOrder) }.sorted { $0.key < $1.key }), at: position)
        }
    }
}

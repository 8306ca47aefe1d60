import Encodings

extension AgentSettings {
    /// What identifies a replicator's checkpoint for one of its collections: if two replicators had the same identity, each would continue from the
    /// other's checkpoint and skip documents that it has not seen.
    private struct CheckpointIdentity: Hashable {
        var database: String
        var remote: String
        var type: String
        var collection: CollectionReference
        var documentIDs: [String]
        var channels: [String]
        var sourceFilter: String?
        var pullFilter: String?
        var pullTransform: String?

        init(_ replicator: ReplicatorSettings, _ wanted: ReplicatedCollectionSettings) {
            database = replicator.database.value
            remote = replicator.remoteKey
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

    /// Finds replicators that would share a checkpoint, or the records about two different remotes.
    func checkCheckpoints(_ reading: inout Reading) {
        let before = reading.failures
        checkRemotes(&reading)
        // If one remote is mistaken for the other, the shared checkpoint is merely a consequence.
        guard reading.failures == before else { return }
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
                    "the replicators \(ValueQuoting.quoted(replicator.name.value)) and \(ValueQuoting.quoted(other.value)) would share a checkpoint: both do "
                        + "\(identity.type) of \(identity.collection) in the database \(ValueQuoting.quoted(identity.database)) with the same "
                        + "\(replicator.remoteID == nil ? "target" : "remote_id"), and with the same document_ids, channels, selector, source_filter, "
                        + "pull_filter and pull_transform; take the collection out of one of them, or give one another document_ids, channels, "
                        + "selector, source_filter or pull_filter")
                break
            }
        }
    }

    /// What a remote database is known to have is recorded for each database under the remote's id, whichever replicator transferred it. If two
    /// remotes had the same id, each would be assumed to have what only the other one received.
    private func checkRemotes(_ reading: inout Reading) {
        struct Remote: Hashable {
            var database: String
            var key: String
        }
        var first: [Remote: ReplicatorSettings] = [:]
        for replicator in replicators where !replicator.target.value.text.isEmpty {
            let remote = Remote(database: replicator.database.value, key: replicator.remoteKey)
            guard let other = first[remote] else {
                first[remote] = replicator
                continue
            }
            let (mine, theirs) = (replicator.target.value.text, other.target.value.text)
            guard !mine.utf8.elementsEqual(theirs.utf8), let position = (replicator.remoteID ?? other.remoteID)?.position else { continue }
            reading.problems.report(
                at: position,
                "the replicators \(ValueQuoting.quoted(replicator.name.value)) and \(ValueQuoting.quoted(other.name.value)) of the database "
                    + "\(ValueQuoting.quoted(remote.database)) have the targets \(ValueQuoting.quoted(mine)) and \(ValueQuoting.quoted(theirs)), and know both as "
                    + "\(ValueQuoting.quoted(remote.key)) (remote_id): what one has sent would count as known to the other's remote, and never get there; "
                    + "give each remote database a remote_id of its own, and replicators with one remote database one target")
        }
    }
}

extension ConfigurationNode {
    /// The meaning, independent of notation: values, with the entries of every mapping ordered by key.
    fileprivate var meaning: String {
        switch content {
        case .scalar(let scalar): scalar.json
        case .sequence(let elements): "[\(elements.map(\.meaning).joined(separator: ","))]"
        case .mapping(let entries): "{\(entries.map { "\(JSONString.quoted($0.key)):\($0.value.meaning)" }.sorted().joined(separator: ","))}"
        }
    }
}

import DocumentStore
import Documents
import Interfaces

/// What one peer of a listener may do, over whichever protocol it comes.
extension PassiveConfiguration {
    /// Whose channels bound the peer; nil: it may pull everything. A principal with channels is bound to them also where the listener
    /// assigns none itself.
    package var channelPeer: ChannelPeer? {
        guard syncFunction != nil || principal.channels != nil else { return nil }
        return ChannelPeer(user: principal.name, listener: listener)
    }

    /// Whose right is missing: the listener's own rule is another matter than the user's. Nil where the peer may push.
    package var whyNothingMayBePushed: String? {
        if isReadOnly { return "this listener is read-only (read_only: true)" }
        guard principal.isReadOnly else { return nil }
        let user = principal.name.map { "the user \"\($0)\"" } ?? "this login"
        return "\(user) may only read here: the authenticator says read_only"
    }

    /// The peer's principal may be narrowed to some collections.
    package func mayUse(_ name: CollectionName) -> Bool {
        if let collections, !collections.contains(name) { return false }
        guard let allowed = principal.collections else { return true }
        return allowed.contains { $0.utf8.elementsEqual(name.description.utf8) || $0.utf8.elementsEqual(name.wireName.utf8) }
    }

    /// Whose checkpoints the peer reads and writes.
    package var checkpointOwner: CheckpointOwner { CheckpointOwner(user: principal.name, listener: listener) }

    /// How many it may store.
    package var checkpointBounds: CheckpointBounds {
        CheckpointBounds(count: limits.maximumCheckpoints, bytes: limits.maximumCheckpointsBytes)
    }

    /// Where a policy is asked about what the peer reads or writes.
    package func policyContext(_ collection: CollectionName, _ direction: Direction, remote: String) -> PolicyContext {
        PolicyContext(
            database: database.name, collection: collection, direction: direction, listener: listener, remote: remote, user: principal.name)
    }
}

extension DocumentFilter {
    /// One verdict for each document, whatever the filter does.
    package func allVerdicts(_ documents: [PolicyDocument], _ context: PolicyContext) async -> [FilterVerdict] {
        documents.isEmpty ? [] : await verdicts(documents, context)
    }
}

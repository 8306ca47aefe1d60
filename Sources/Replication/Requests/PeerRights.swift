import DocumentStore
import Documents
import Interfaces

/// What one peer of a listener may do, over any protocol.
extension PassiveConfiguration {
    /// The peer whose channels limit what can be pulled; nil if it may pull everything. A principal with channels is limited to them even if the
    /// listener assigns none itself.
    package var channelPeer: ChannelPeer? {
        guard syncFunction != nil || principal.channels != nil else { return nil }
        return ChannelPeer(user: principal.name, listener: listener)
    }

    /// Why the peer may not push, distinguishing the listener's own rule from the user's rights. Nil if it may.
    package var pushRefusalReason: String? {
        if isReadOnly { return "this listener is read-only (read_only: true)" }
        guard principal.isReadOnly else { return nil }
        let user = principal.name.map { "the user \"\($0)\"" } ?? "this login"
        return "\(user) may only read here: the authenticator says read_only"
    }

    /// Whether the peer may use a collection: its principal may be limited to some.
    package func mayUse(_ name: CollectionName) -> Bool {
        if let collections, !collections.contains(name) { return false }
        guard let allowed = principal.collections else { return true }
        return allowed.contains { $0.utf8.elementsEqual(name.description.utf8) || $0.utf8.elementsEqual(name.wireName.utf8) }
    }

    /// The owner of the checkpoints that the peer reads and writes.
    package var checkpointOwner: CheckpointOwner { CheckpointOwner(user: principal.name, listener: listener) }

    /// How many checkpoints it may store.
    package var checkpointBounds: CheckpointBounds {
        CheckpointBounds(count: limits.maximumCheckpoints, bytes: limits.maximumCheckpointsBytes)
    }

    /// The context for policies about what the peer reads or writes.
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

import Documents
import DocumentStore
import Interfaces

extension Replicator {
    /// Looks whether documents that could not be pushed are still to be: they may have been purged, or a filter keeps them back now.
    public nonisolated func reviewWaiting() async {
        for document in waiting.all.prefix(50) where document.direction == .push {
            guard let isPending = try? await isPending(document.id, in: document.collection), !isPending else { continue }
            waiting.forget { $0.direction == .push && $0.collection == document.collection && $0.id == document.id }
        }
    }

    /// Whether a document waits to be pushed: a look-up, however many wait.
    ///
    /// - Throws: ``StoreError``.
    public nonisolated func isPending(_ id: DocumentID, in name: CollectionName) async throws -> Bool {
        let database = configuration.database
        guard configuration.type.pushes, let wanted = configuration.collections.first(where: { $0.collection == name }),
            let collection = database.collection(name), wanted.documentIDs?.contains(id) ?? true
        else { return false }
        let checkpoint = ReplicationSession.checkpointID(configuration, wanted, privateUUID: database.privateUUID)
        let key = configuration.remoteKey
        let row = try await database.read { transaction -> ChangeRow? in
            let body = try transaction.checkpoint(id: checkpoint, collection: collection)?.body
            let since = body.map { CheckpointBody(parsing: $0).local } ?? 0
            return try transaction.changes(
                collection, since: since, limit: 1, includeBodies: wanted.pushFilter != nil, ids: [id], remote: transaction.existingRemote(for: key)
            ).first
        }
        guard let row, row.remoteRevision != row.revision else { return false }
        guard let filter = wanted.pushFilter else { return true }
        let context = PolicyContext(
            database: database.name, collection: name, direction: .push, replicator: configuration.name, remote: configuration.target)
        let document = PolicyDocument(id: row.id, revision: row.revision, isDeleted: row.isDeleted, body: row.body ?? [])
        return await filter.verdicts([document], context).first == .pass
    }
}

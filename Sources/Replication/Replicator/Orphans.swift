import Documents
import DocumentStore

extension Replicator {
    /// Passes to `body`, page by page, all documents that the remote took away and that stayed here, because the replicator does not purge or its
    /// pull filter keeps them. They receive no more changes, and edits pushed for them will be refused.
    public nonisolated func forEachOrphaned(_ body: ([(CollectionName, Exclusion)]) async throws -> Void) async throws {
        let (database, key, limit) = (configuration.database, configuration.remoteKey, 1_000)
        guard let remote = try await database.read({ try $0.existingRemote(for: key) }) else { return }
        for collection in configuration.collections.compactMap({ database.collection($0.collection) }) {
            var after: DocumentID?
            while true {
                let start = after
                let (rows, last) = try await database.read { transaction in
                    let rows = try transaction.exclusions(
                        collection, remote: remote, direction: .access, kind: .orphaned, after: start, limit: limit)
                    // A deleted document did not stay.
                    let here = try rows.filter { try transaction.document(collection, $0.id)?.isDeleted == false }
                    return (here, rows.last?.id)
                }
                guard let last else { break }
                after = last
                try await body(rows.map { (collection.name, $0) })
            }
        }
    }
}

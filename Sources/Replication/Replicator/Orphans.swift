import Documents
import DocumentStore

extension Replicator {
    /// Documents that the remote took away and that stayed here, because the replicator does not purge or its pull filter keeps
    /// them: nothing brings their changes, and what is pushed of them will be refused. All of them, some at a time.
    public nonisolated func eachOrphaned(_ body: ([(CollectionName, Exclusion)]) async throws -> Void) async throws {
        let (database, key, limit) = (configuration.database, configuration.remoteKey, 1_000)
        guard let remote = try await database.read({ try $0.existingRemote(for: key) }) else { return }
        for collection in configuration.collections.compactMap({ database.collection($0.collection) }) {
            var after: DocumentID?
            while true {
                let start = after
                let rows = try await database.read {
                    try $0.exclusions(collection, remote: remote, direction: .access, kind: .orphaned, after: start, limit: limit)
                }
                guard let last = rows.last else { break }
                after = last.id
                try await body(rows.map { (collection.name, $0) })
            }
        }
    }
}

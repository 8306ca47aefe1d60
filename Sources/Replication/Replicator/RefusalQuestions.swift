import DocumentStore
import Documents
import Interfaces

extension Replicator {
    /// A document that the peer refused.
    public struct Refusal: Sendable, Equatable {
        public var collection: CollectionName
        public var id: DocumentID
        public var revision: RevisionID?
        /// The peer's error: its domain, its number there, its words.
        public var domain: String
        public var code: Int
        public var reason: String
        public var tries: Int
        /// Seconds since 1970.
        public var since: Int64
    }

    /// Documents that the peer refused and that have not changed since. All of them, some at a time.
    public nonisolated func eachRefused(_ body: ([Refusal]) async throws -> Void) async throws {
        // What was refused before it became one that only pulls is nothing that it will offer.
        guard configuration.type.pushes else { return }
        let database = configuration.database
        let key = configuration.remoteKey
        guard let remote = try await database.read({ try $0.existingRemote(for: key) }) else { return }
        for collection in configuration.collections.compactMap({ database.collection($0.collection) }) {
            var after: DocumentID?
            while true {
                let start = after
                let (last, rows) = try await database.read { transaction in
                    let rows = try transaction.exclusions(
                        collection, remote: remote, direction: .push, kind: .refused, after: start, limit: 1_000)
                    return (rows.last?.id, try rows.filter { try transaction.isOwed($0, collection) })
                }
                guard let last else { break }
                after = last
                let page = rows.map { row in
                    Refusal(
                        collection: collection.name, id: row.id, revision: row.revision, domain: row.plugin, code: Int(row.version) ?? 0,
                        reason: row.error, tries: row.tries, since: row.since)
                }
                if !page.isEmpty { try await body(page) }
            }
        }
    }

    /// ``eachRefused(_:)`` at once.
    public nonisolated func refusedDocuments() async throws -> [Refusal] {
        var refused: [Refusal] = []
        try await eachRefused { refused += $0 }
        return refused
    }

    /// How many documents are on the list.
    public nonisolated func refusedCount() async throws -> Int { try await refused().count }

    /// How many documents are on the list, and since when the first of them.
    public nonisolated func refused() async throws -> Listed { try await listed(.refused, configuration.type.pushes ? [.push] : []) }
}

extension Replicator {
    /// Offers once more what the peer refused. False where there is no connection: the next one does it anyway.
    public func retryRefused() async -> Bool {
        for session in sessions { await session.retryRefused() }
        return !sessions.isEmpty
    }
}

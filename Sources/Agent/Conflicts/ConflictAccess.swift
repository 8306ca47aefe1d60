import Documents
import DocumentStore

/// Looks at the conflicts of one open database.
package struct ConflictAccess: Sendable {
    /// `max_conflict_rows`: conflicts in one answer, of each state.
    package static let maximumRows = 10_000
    /// `max_conflict_rows_with_bodies`: the same where their bodies are wanted.
    package static let maximumRowsWithBodies = 100
    /// `max_conflicts_of_document`: conflicts shown of a document that is named.
    package static let maximumOfDocument = 20

    package let database: Database
    /// Nil for all collections.
    package var collection: Collection?

    /// - Parameter name: `DB` or `DB.SCOPE.COLLECTION`, in its parts; the collection only where it was named.
    package init(_ database: Database, collection name: CollectionName? = nil) throws(AgentError) {
        self.database = database
        guard let name else { return }
        guard let found = database.collection(name) else {
            throw AgentError(.notFound, "database \(database.name) has no collection \(name)")
        }
        collection = found
    }

    private var collections: [Collection] { collection.map { [$0] } ?? database.collections }

    /// Conflicts that wait for a resolver.
    package func pending(limit: Int, includeBodies: Bool) async throws -> [JSONValue] {
        let limit = min(limit, includeBodies ? Self.maximumRowsWithBodies : Self.maximumRows)
        return try await database.read { [collections, database] transaction in
            var rows: [JSONValue] = []
            for collection in collections where rows.count < limit {
                for pending in try transaction.pendingConflicts(collection, limit: limit - rows.count) {
                    rows.append(try Self.json(pending, collection, database, includeBodies: includeBodies, transaction))
                }
            }
            return rows
        }
    }

    /// Decided conflicts, the newest first.
    package func decided(before: Int64?, limit: Int, includeBodies: Bool) async throws -> [JSONValue] {
        let limit = min(limit, includeBodies ? Self.maximumRowsWithBodies : Self.maximumRows)
        let name = database.name
        return try await database.read { [collection] transaction in
            try transaction.conflictHistory(collection, before: before, limit: limit, includeBodies: includeBodies).map {
                ConflictReports.json($0, database: name, includeBodies: includeBodies)
            }
        }
    }

    /// The conflict with a number of the history, and those of the document with this id.
    package func find(_ text: String) async throws -> [JSONValue] {
        let name = database.name
        let id = try? DocumentID(text)
        return try await database.read { [collection, collections, database] transaction in
            var found: [JSONValue] = []
            if let id {
                for collection in collections {
                    guard let pending = try transaction.pendingConflict(collection, id) else { continue }
                    found.append(try Self.json(pending, collection, database, includeBodies: true, transaction))
                }
            }
            if let number = Int64(text), let entry = try transaction.conflictHistoryEntry(number),
                collection == nil || collection == entry.collection
            {
                found.append(ConflictReports.json(entry, database: name, includeBodies: true))
            }
            if let id {
                found += try transaction.conflictHistory(collection, id: id, limit: Self.maximumOfDocument, includeBodies: true).map {
                    ConflictReports.json($0, database: name, includeBodies: true)
                }
            }
            return found
        }
    }

    private static func json(
        _ pending: PendingConflict, _ collection: Collection, _ database: Database, includeBodies: Bool, _ transaction: ReadTransaction
    ) throws(StoreError) -> JSONValue {
        ConflictReports.json(
            pending, database: database.name, collection: collection.name,
            remote: try pending.remoteID.flatMap { (id) throws(StoreError) in try transaction.remoteKey(id) },
            sides: includeBodies ? try transaction.conflict(collection, pending.id) : nil)
    }
}

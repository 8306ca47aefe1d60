import AgentConfiguration
import Documents
import DocumentStore

/// Reads the conflicts of one open database.
package struct ConflictAccess: Sendable {
    /// Rows that are read at once; fewer with bodies, to save memory.
    private static func page(includeBodies: Bool) -> Int { includeBodies ? 50 : 1_000 }

    package let database: Database
    /// Nil for all collections.
    package var collection: Collection?
    /// Names the replicators that conflicts come from.
    let settings: AgentSettings

    /// - Parameter name: the collection of `DB` or `DB.SCOPE.COLLECTION`; nil if none was named.
    package init(_ database: Database, collection name: CollectionName? = nil, settings: AgentSettings) throws(AgentError) {
        self.database = database
        self.settings = settings
        guard let name else { return }
        guard let found = database.collection(name) else {
            throw AgentError(.notFound, "database \(database.name) has no collection \(name)")
        }
        collection = found
    }

    var collections: [Collection] { collection.map { [$0] } ?? database.collections }

    /// Conflicts that wait for a resolver, in pages.
    package func forEachPending(
        limit: Int = .max, includeBodies: Bool, _ body: ([JSONValue]) async throws -> Void
    ) async throws {
        var left = limit
        for collection in collections {
            var after: DocumentID?
            while left > 0 {
                let (start, count) = (after, min(left, Self.page(includeBodies: includeBodies)))
                let (rows, last) = try await database.read { [self] transaction in
                    let page = try transaction.pendingConflicts(collection, after: start, limit: count)
                    return (
                        try page.map { try json($0, collection, includeBodies: includeBodies, transaction) }, page.last?.id
                    )
                }
                guard let last else { break }
                after = last
                left -= rows.count
                try await body(rows)
            }
        }
    }

    /// Decided conflicts, newest first, in pages.
    ///
    /// - Parameters:
    ///   - id: only this document's.
    ///   - before: only those with lower numbers.
    package func forEachDecided(
        id: DocumentID? = nil, before: Int64? = nil, limit: Int = .max, includeBodies: Bool, _ body: ([JSONValue]) async throws -> Void
    ) async throws {
        let name = database.name
        var (left, before) = (limit, before)
        while left > 0 {
            let (start, count) = (before, min(left, Self.page(includeBodies: includeBodies)))
            let page = try await database.read { [collection] in
                try $0.conflictHistory(collection, id: id, before: start, limit: count, includeBodies: includeBodies)
            }
            guard let last = page.last else { return }
            before = last.number
            left -= page.count
            try await body(page.map { ConflictReports.json($0, database: name, includeBodies: includeBodies) })
        }
    }

    /// The conflict with a given number in the history, or those of the document with a given id, with their bodies.
    ///
    /// - Parameter limit: how many decided conflicts of the document.
    package func forEachFound(_ text: String, limit: Int = .max, _ body: ([JSONValue]) async throws -> Void) async throws {
        let name = database.name
        let id = try? DocumentID(text)
        try await body(
            try await database.read { [self] transaction in
                var found: [JSONValue] = []
                if let id {
                    for collection in collections {
                        guard let pending = try transaction.pendingConflict(collection, id) else { continue }
                        found.append(try json(pending, collection, includeBodies: true, transaction))
                    }
                }
                if let number = Int64(text), let entry = try transaction.conflictHistoryEntry(number),
                    collection == nil || collection == entry.collection
                {
                    found.append(ConflictReports.json(entry, database: name, includeBodies: true))
                }
                return found
            })
        if let id { try await forEachDecided(id: id, limit: limit, includeBodies: true, body) }
    }

    private func json(
        _ pending: PendingConflict, _ collection: Collection, includeBodies: Bool, _ transaction: ReadTransaction
    ) throws(StoreError) -> JSONValue {
        let remote = try pending.remoteID.flatMap { (id) throws(StoreError) in try transaction.remoteKey(id) }
        let replicators = remote.map { settings.replicators(pulling: collection.name, of: database.name, from: $0) } ?? []
        return ConflictReports.json(
            pending, database: database.name, collection: collection.name, remote: remote,
            replicator: replicators.count == 1 ? replicators.first?.name.value : nil,
            sides: includeBodies ? try transaction.conflict(collection, pending.id) : nil)
    }
}

extension AgentSettings {
    /// The replicators that pull a collection of a database from a remote database, by the store's name for it. Two of them may share the remote, each with
    /// channels or documents of its own; one that only pushes brings no conflicts.
    func replicators(pulling collection: CollectionName, of database: String, from remote: String) -> [ReplicatorSettings] {
        replicators.filter { replicator in
            replicator.direction.pulls && replicator.database.value.utf8.elementsEqual(database.utf8) && replicator.knows(remote: remote)
                && replicator.collections.contains { CollectionName($0.collection.value) == collection }
        }
    }
}

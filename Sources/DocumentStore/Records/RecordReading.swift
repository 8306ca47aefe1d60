import Documents
import SQLite

// Checkpoints, local documents, exclusions, pending conflicts, blob references.
extension ReadTransaction {
    /// A checkpoint of our own replicators; `nil` if none is stored.
    public final func checkpoint(id: String, collection: Collection) throws(StoreError) -> StoredCheckpoint? {
        let statement = try active().cached("SELECT rev, body FROM checkpoints WHERE kind = 0 AND collection = ?1 AND id = ?2")
        statement.bind(1, Int64(collection.id))
        statement.bind(2, id)
        defer { statement.reset() }
        guard try session.step(statement) else { return nil }
        return StoredCheckpoint(revision: "\(statement.integer(0))-cc", body: statement.blob(1))
    }

    /// A checkpoint stored by a peer; `nil` if its owner has none with this id.
    public final func peerCheckpoint(_ owner: CheckpointOwner, id: String) throws(StoreError) -> StoredCheckpoint? {
        let statement = try active().cached("SELECT rev, body FROM peer_checkpoints WHERE owner = ?1 AND id = ?2")
        statement.bind(1, owner.key)
        statement.bind(2, id)
        defer { statement.reset() }
        guard try session.step(statement) else { return nil }
        return StoredCheckpoint(revision: "\(statement.integer(0))-cc", body: statement.blob(1))
    }

    /// The size of a checkpoint stored by a peer, in bytes; `nil` if its owner has none with this id.
    public final func peerCheckpointSize(_ owner: CheckpointOwner, id: String) throws(StoreError) -> Int? {
        try peerCheckpointEntry(owner, id: id)?.size
    }

    /// A checkpoint without its body; `nil` if its owner has none with this id.
    public final func peerCheckpointEntry(_ owner: CheckpointOwner, id: String) throws(StoreError) -> CheckpointEntry? {
        let statement = try active().cached("SELECT rev, length(body) FROM peer_checkpoints WHERE owner = ?1 AND id = ?2")
        statement.bind(1, owner.key)
        statement.bind(2, id)
        defer { statement.reset() }
        guard try session.step(statement) else { return nil }
        return CheckpointEntry(id: id, revision: "\(statement.integer(0))-cc", size: Int(clamping: statement.integer(1)))
    }

    /// The checkpoints of one owner with ids between two texts, both exclusive.
    ///
    /// - Parameter isDescending: in descending order of ids.
    public final func peerCheckpoints(
        _ owner: CheckpointOwner, after lower: String, before upper: String, isDescending: Bool = false, limit: Int
    ) throws(StoreError) -> [CheckpointEntry] {
        let order = isDescending ? " DESC" : ""
        let statement = try active().cached(
            "SELECT id, rev, length(body) FROM peer_checkpoints WHERE owner = ?1 AND id > ?2 AND id < ?3 ORDER BY id\(order) LIMIT ?4")
        statement.bind(1, owner.key)
        statement.bind(2, lower)
        statement.bind(3, upper)
        statement.bind(4, Int64(min(max(limit, 0), StoreLimits.maxRowsPerRead)))
        defer { statement.reset() }
        var found: [CheckpointEntry] = []
        while try session.step(statement) {
            found.append(CheckpointEntry(id: statement.text(0), revision: "\(statement.integer(1))-cc", size: Int(clamping: statement.integer(2))))
        }
        return found
    }

    /// A document that is never replicated; `nil` if there is none.
    public final func localDocument(_ collection: Collection, id: String) throws(StoreError) -> StoredLocalDocument? {
        let statement = try active().cached("SELECT rev, body FROM local_documents WHERE collection = ?1 AND id = ?2")
        statement.bind(1, Int64(collection.id))
        statement.bind(2, id)
        defer { statement.reset() }
        guard try session.step(statement) else { return nil }
        return StoredLocalDocument(revision: "0-\(statement.integer(0))", body: statement.blob(1))
    }

    /// The size of a document that is never replicated, in bytes; nil if there is none.
    public final func localDocumentSize(_ collection: Collection, id: String) throws(StoreError) -> Int? {
        let statement = try active().cached("SELECT length(body) FROM local_documents WHERE collection = ?1 AND id = ?2")
        statement.bind(1, Int64(collection.id))
        statement.bind(2, id)
        defer { statement.reset() }
        return try session.step(statement) ? Int(statement.integer(0)) : nil
    }

    /// Documents that are never replicated and whose ids start with `prefix`, in order of id.
    ///
    /// - Parameters:
    ///   - after: the last id of the previous page.
    ///   - maxBytes: limit for bodies; the document that exceeds it is the last one.
    public final func localDocuments(
        _ collection: Collection, prefix: String, after: String = "", limit: Int, maxBytes: Int = .max
    ) throws(StoreError) -> [(id: String, record: StoredLocalDocument)] {
        let statement = try active().cached(
            "SELECT id, rev, body FROM local_documents WHERE collection = ?1 AND id >= ?2 AND id > ?4 AND substr(id, 1, length(?2)) = ?2 ORDER BY id LIMIT ?3")
        statement.bind(1, Int64(collection.id))
        statement.bind(2, prefix)
        statement.bind(3, Int64(limit))
        statement.bind(4, after)
        defer { statement.reset() }
        var found: [(id: String, record: StoredLocalDocument)] = []
        var bytes = 0
        while bytes < maxBytes, try session.step(statement) {
            let body = statement.blob(2)
            bytes += body.count
            found.append((statement.text(0), StoredLocalDocument(revision: "0-\(statement.integer(1))", body: body)))
        }
        return found
    }

    /// Why the document is excluded; `nil` if it is not.
    public final func exclusion(
        _ collection: Collection, remote: RemoteID, direction: Exclusion.Direction, id: DocumentID
    ) throws(StoreError) -> Exclusion? {
        let statement = try tables(collection).statement(.exclusion)
        statement.bind(1, remote.number)
        statement.bind(2, direction.rawValue)
        statement.bind(3, id.text)
        defer { statement.reset() }
        return try session.step(statement) ? exclusion(statement) : nil
    }

    /// Excluded documents in order of id; `after` continues a list. If `remote` and `direction` are given, only their rows are read; otherwise the
    /// whole table is.
    ///
    /// - Parameter judge: leave out what this version of a plugin kept back.
    public final func exclusions(
        _ collection: Collection, remote: RemoteID? = nil, direction: Exclusion.Direction? = nil,
        kind: Exclusion.Kind? = nil, unlessBy judge: (plugin: String, version: String)? = nil, after: DocumentID? = nil, limit: Int
    ) throws(StoreError) -> [Exclusion] {
        _ = try tables(collection)
        var sql = """
            SELECT remote, direction, id, kind, sequence, remote_sequence, rev, error, plugin, version, tries, since \
            FROM exclusions_\(collection.id) WHERE id > ?1
            """
        if let remote { sql += " AND remote = \(remote.number)" }
        if let direction { sql += " AND direction = \(direction.rawValue)" }
        if let kind { sql += " AND kind = \(kind.rawValue)" }
        if judge != nil { sql += " AND (plugin <> ?3 OR version <> ?4)" }
        let statement = try session.prepare(sql + " ORDER BY id, remote, direction LIMIT ?2")
        statement.bind(1, after?.text ?? "")
        statement.bind(2, Int64(min(max(limit, 0), StoreLimits.maxRowsPerRead)))
        if let judge {
            statement.bind(3, judge.plugin)
            statement.bind(4, judge.version)
        }
        var rows: [Exclusion] = []
        while try session.step(statement) { rows.append(exclusion(statement)) }
        return rows
    }

    /// The total number of rows of ``exclusions(_:remote:direction:kind:unlessBy:after:limit:)``.
    public final func exclusionCount(
        _ collection: Collection, remote: RemoteID, direction: Exclusion.Direction, kind: Exclusion.Kind
    ) throws(StoreError) -> Int {
        _ = try tables(collection)
        let statement = try session.cached("SELECT count(*) FROM exclusions_\(collection.id) WHERE remote = ?1 AND direction = ?2 AND kind = ?3")
        statement.bind(1, remote.number)
        statement.bind(2, direction.rawValue)
        statement.bind(3, kind.rawValue)
        defer { statement.reset() }
        return try session.step(statement) ? Int(clamping: statement.integer(0)) : 0
    }

    /// The number of exclusions of a kind in the given directions, and the oldest one.
    ///
    /// - Parameter cause: only exclusions with this cause.
    public final func exclusionAge(
        _ collection: Collection, remote: RemoteID, kind: Exclusion.Kind, directions: [Exclusion.Direction], by cause: Exclusion.Cause? = nil
    ) throws(StoreError) -> (count: Int, oldest: (since: Int64, id: DocumentID, error: String)?) {
        _ = try tables(collection)
        let list = directions.map { "\($0.rawValue)" }.joined(separator: ", ")
        let bound =
            switch cause {
            case nil: ""
            case .plugin: " AND plugin <> ''"
            case .blob: " AND plugin = '' AND version <> '\(Exclusion.sizeMark)'"
            case .size: " AND plugin = '' AND version = '\(Exclusion.sizeMark)'"
            }
        // With min(), SQLite returns the other columns of the row that has the minimum.
        let statement = try session.cached(
            "SELECT count(*), min(since), id, error FROM exclusions_\(collection.id) WHERE remote = ?1 AND kind = ?2 AND direction IN (\(list))\(bound)")
        statement.bind(1, remote.number)
        statement.bind(2, kind.rawValue)
        defer { statement.reset() }
        guard try session.step(statement), statement.integer(0) > 0 else { return (0, nil) }
        return (Int(clamping: statement.integer(0)), (statement.integer(1), DocumentID(stored: statement.text(2)), statement.text(3)))
    }

    private func exclusion(_ statement: Statement) -> Exclusion {
        Exclusion(
            remote: RemoteID(statement.integer(0)),
            direction: Exclusion.Direction(rawValue: statement.integer(1)) ?? .push,
            kind: Exclusion.Kind(rawValue: statement.integer(3)) ?? .held,
            id: DocumentID(stored: statement.text(2)),
            sequence: SequenceNumber(clamping: statement.integer(4)),
            remoteSequence: statement.text(5),
            revision: statement.textIfPresent(6).map { RevisionID(stored: $0) },
            error: statement.text(7),
            plugin: statement.text(8),
            version: statement.text(9),
            tries: Int(clamping: statement.integer(10)),
            since: statement.integer(11)
        )
    }

    /// Unresolved conflicts with the last failure of their resolver, in order of document id.
    public final func pendingConflicts(
        _ collection: Collection, after: DocumentID? = nil, limit: Int
    ) throws(StoreError) -> [PendingConflict] {
        let statement = try tables(collection).statement(.conflicts)
        statement.bind(1, after?.text ?? "")
        statement.bind(2, Int64(min(max(limit, 0), StoreLimits.maxRowsPerRead)))
        defer { statement.reset() }
        var rows: [PendingConflict] = []
        while try session.step(statement) { rows.append(pendingConflict(statement)) }
        return rows
    }

    /// One document's unresolved conflict; nil if it has none.
    public final func pendingConflict(_ collection: Collection, _ id: DocumentID) throws(StoreError) -> PendingConflict? {
        let statement = try tables(collection).statement(.pendingConflict)
        statement.bind(1, id.text)
        defer { statement.reset() }
        return try session.step(statement) ? pendingConflict(statement) : nil
    }

    private func pendingConflict(_ statement: Statement) -> PendingConflict {
        PendingConflict(
            id: DocumentID(stored: statement.text(0)),
            local: RevisionID(stored: statement.text(1)),
            remote: RevisionID(stored: statement.text(2)),
            remoteID: statement.isNull(3) ? nil : RemoteID(statement.integer(3)),
            error: statement.text(4),
            plugin: statement.text(5),
            version: statement.text(6),
            tries: Int(clamping: statement.integer(7)),
            since: statement.integer(8)
        )
    }

    /// Whether a stored body refers to the blob.
    public final func isBlobReferenced(_ digest: BlobDigest) throws(StoreError) -> Bool {
        for collection in try collections() {
            let statement = try tables(collection).statement(.blobReferenced)
            statement.bind(1, digest.bytes)
            defer { statement.reset() }
            if try session.step(statement) { return true }
        }
        return false
    }

    /// The collections in this transaction's snapshot.
    final func collections() throws(StoreError) -> [Collection] {
        let statement = try active().cached("SELECT id, scope, name FROM collections ORDER BY id")
        defer { statement.reset() }
        var found: [Collection] = []
        while try session.step(statement) {
            found.append(Collection(
                id: Int(clamping: statement.integer(0)),
                name: CollectionName(storedScope: statement.text(1), name: statement.text(2))))
        }
        return found
    }

    /// The number of conflicts that wait for a decision, and the time of the oldest, in seconds since 1970.
    package final func pendingConflictCount(_ collection: Collection) throws(StoreError) -> (count: Int, since: Int64?) {
        let statement = try session.cached("SELECT count(*), min(since) FROM conflicts_\(collection.id)")
        defer { statement.reset() }
        guard try session.step(statement) else { return (0, nil) }
        return (Int(clamping: statement.integer(0)), statement.isNull(1) ? nil : statement.integer(1))
    }

    final func statistics() throws(StoreError) -> [CollectionStatistics] {
        var found: [CollectionStatistics] = []
        for collection in try collections() {
            let n = collection.id
            let statement = try session.cached("""
                SELECT documents, deleted, last_sequence, (SELECT count(*) FROM conflicts_\(n)), \
                (SELECT count(*) FROM exclusions_\(n) WHERE kind = 1), \
                (SELECT count(*) FROM exclusions_\(n) WHERE kind = 0), \
                (SELECT count(*) FROM routes INDEXED BY routes_failed WHERE collection = \(n) AND error <> ''), \
                (SELECT min(since) FROM conflicts_\(n)) \
                FROM collections WHERE id = \(n)
                """)
            defer { statement.reset() }
            guard try session.step(statement) else { continue }
            found.append(CollectionStatistics(
                name: collection.name,
                documents: Int(clamping: statement.integer(0)),
                deleted: Int(clamping: statement.integer(1)),
                lastSequence: SequenceNumber(clamping: statement.integer(2)),
                conflictsPending: Int(clamping: statement.integer(3)),
                held: Int(clamping: statement.integer(4)),
                rejected: Int(clamping: statement.integer(5)),
                unrouted: Int(clamping: statement.integer(6)),
                conflictsPendingSince: statement.isNull(7) ? nil : statement.integer(7)
            ))
        }
        return found
    }
}

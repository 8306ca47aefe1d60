import Documents
import SQLite

/// Records other than documents: checkpoints, local documents, exclusions and failed resolvers.
extension WriteTransaction {
    // MARK: checkpoints and local documents

    /// Stores a checkpoint of our own replicators, replacing any previous one.
    @discardableResult
    public func setCheckpoint(id: String, collection: Collection, body: [UInt8]) throws(StoreError) -> String {
        try checkLocal(id, body)
        let statement = try active().cached("""
            INSERT INTO checkpoints(kind, collection, id, rev, body) VALUES(0, ?1, ?2, 1, ?3) \
            ON CONFLICT(kind, collection, id) DO UPDATE SET rev = rev + 1, body = ?3 RETURNING rev
            """)
        statement.bind(1, Int64(collection.id))
        statement.bind(2, id)
        statement.bind(3, body)
        return "\(try number(statement))-cc"
    }

    /// Removes a checkpoint of our own replicators, if there is one.
    public func removeCheckpoint(id: String, collection: Collection) throws(StoreError) {
        let session = try active()
        let statement = try session.cached("DELETE FROM checkpoints WHERE kind = 0 AND collection = ?1 AND id = ?2")
        statement.bind(1, Int64(collection.id))
        statement.bind(2, id)
        try session.run(statement)
    }

    /// Stores a peer's checkpoint if `expectedRevision` is the current token (`nil` or empty: none is stored). The owner's checkpoints not written
    /// for the longest time are dropped to make room for it.
    /// - Returns: the new token.
    /// - Throws: `StoreError.checkpointConflict` with the current token.
    public func setPeerCheckpoint(
        _ owner: CheckpointOwner, id: String, body: [UInt8], expectedRevision: String?, within bounds: CheckpointBounds
    ) throws(StoreError) -> String {
        let stored = try peerCheckpoint(owner, id: id)
        let expected = expectedRevision.flatMap { $0.isEmpty ? nil : $0 }
        guard stored?.revision == expected else { throw .checkpointConflict(id: id, current: stored?.revision) }
        try checkLocal(id, body)
        let total = try session.cached("""
            INSERT INTO checkpoint_owners(owner, writes, count, bytes) VALUES(?1, 1, ?2, ?3) \
            ON CONFLICT(owner) DO UPDATE SET writes = writes + 1, count = count + ?2, bytes = bytes + ?3 RETURNING writes
            """)
        total.bind(1, owner.key)
        total.bind(2, stored == nil ? 1 : 0)
        total.bind(3, Int64(body.count - (stored?.body.count ?? 0)))
        let write = try number(total)
        let statement = try session.cached("""
            INSERT INTO peer_checkpoints(owner, id, used, rev, body) VALUES(?1, ?2, ?3, 1, ?4) \
            ON CONFLICT(owner, id) DO UPDATE SET used = ?3, rev = rev + 1, body = ?4 RETURNING rev
            """)
        statement.bind(1, owner.key)
        statement.bind(2, id)
        statement.bind(3, write)
        statement.bind(4, body)
        let token = "\(try number(statement))-cc"
        while try !fits(owner, bounds), try dropOldest(owner, before: write) {}
        return token
    }

    private func fits(_ owner: CheckpointOwner, _ bounds: CheckpointBounds) throws(StoreError) -> Bool {
        let statement = try session.cached("SELECT count, bytes FROM checkpoint_owners WHERE owner = ?1")
        statement.bind(1, owner.key)
        defer { statement.reset() }
        guard try session.step(statement) else { return true }
        return statement.integer(0) <= Int64(bounds.count) && statement.integer(1) <= Int64(bounds.bytes)
    }

    /// Removes the owner's checkpoint that was not written for the longest time.
    /// - Returns: false if there is none but the newest.
    private func dropOldest(_ owner: CheckpointOwner, before write: Int64) throws(StoreError) -> Bool {
        let find = try session.cached(
            "SELECT id, length(body) FROM peer_checkpoints WHERE owner = ?1 AND used < ?2 ORDER BY used LIMIT 1")
        find.bind(1, owner.key)
        find.bind(2, write)
        let oldest: (id: String, bytes: Int64)
        do {
            defer { find.reset() }
            guard try session.step(find) else { return false }
            oldest = (find.text(0), find.integer(1))
        }
        let drop = try session.cached("DELETE FROM peer_checkpoints WHERE owner = ?1 AND id = ?2")
        drop.bind(1, owner.key)
        drop.bind(2, oldest.id)
        try session.run(drop)
        let total = try session.cached("UPDATE checkpoint_owners SET count = count - 1, bytes = bytes - ?2 WHERE owner = ?1")
        total.bind(1, owner.key)
        total.bind(2, oldest.bytes)
        try session.run(total)
        return true
    }

    /// Stores (`nil`: deletes) a document that is never replicated, if `expectedRevision` is the current token.
    /// - Returns: the new token, `0-0` after a deletion.
    /// - Throws: `StoreError.checkpointConflict` with the current token.
    @discardableResult
    public func putLocalDocument(
        _ collection: Collection, id: String, body: [UInt8]?, expectedRevision: String?
    ) throws(StoreError) -> String {
        let current = try localDocument(collection, id: id)?.revision
        let expected = expectedRevision.flatMap { $0.isEmpty ? nil : $0 }
        guard current == expected else { throw .checkpointConflict(id: id, current: current) }
        guard let body else {
            let statement = try session.cached("DELETE FROM local_documents WHERE collection = ?1 AND id = ?2")
            statement.bind(1, Int64(collection.id))
            statement.bind(2, id)
            try session.run(statement)
            return "0-0"
        }
        try checkLocal(id, body)
        let statement = try session.cached("""
            INSERT INTO local_documents(collection, id, rev, body) VALUES(?1, ?2, 1, ?3) \
            ON CONFLICT(collection, id) DO UPDATE SET rev = rev + 1, body = ?3 RETURNING rev
            """)
        statement.bind(1, Int64(collection.id))
        statement.bind(2, id)
        statement.bind(3, body)
        return "0-\(try number(statement))"
    }

    private func checkLocal(_ id: String, _ body: [UInt8]) throws(StoreError) {
        let bytes = id.utf8.count
        guard bytes > 0 && bytes <= StoreLimits.maxLocalIDBytes else {
            throw .localIDInvalid(bytes: bytes, limit: StoreLimits.maxLocalIDBytes)
        }
        guard body.count <= StoreLimits.maxLocalBodyBytes else {
            throw .localBodyTooLarge(id: id, bytes: body.count, limit: StoreLimits.maxLocalBodyBytes)
        }
    }

    private func number(_ statement: Statement) throws(StoreError) -> Int64 {
        defer { statement.reset() }
        guard try session.step(statement) else { throw session.damaged("no number returned by: \(statement.sql)") }
        let number = statement.integer(0)
        // The statement takes effect only when it has run to completion.
        _ = try session.step(statement)
        return number
    }

    // MARK: exclusions

    /// Records documents as excluded; a row for the same remote, direction and document is replaced. If the kind is the same, it counts as the same
    /// exclusion retried: tries are added up, and it keeps its first time; for a refusal by the peer, only if the revision is the same.
    public func exclude(_ collection: Collection, _ rows: [Exclusion]) throws(StoreError) {
        let statement = try tables(collection).statement(.exclude)
        for row in rows {
            statement.bind(1, row.remote.number)
            statement.bind(2, row.direction.rawValue)
            statement.bind(3, row.id.text)
            statement.bind(4, row.kind.rawValue)
            statement.bind(5, Int64(clamping: row.sequence))
            statement.bind(6, row.remoteSequence)
            statement.bind(7, row.revision?.text)
            statement.bind(8, row.error.cut(StoreLimits.maxErrorTextBytes))
            statement.bind(9, row.plugin)
            statement.bind(10, row.version)
            statement.bind(11, Int64(row.tries))
            statement.bind(12, row.since == 0 ? state.now : row.since)
            try session.run(statement)
            state.rows += 1
        }
    }

    /// Rewrites existing data, to find out whether the disk accepts it.
    func tryWriting() throws(StoreError) {
        try session.execute("UPDATE properties SET value = value WHERE key = 'public_uuid'")
        state.rows += 1
    }

    /// Ends the exclusion of these documents.
    public func unexclude(
        _ collection: Collection, remote: RemoteID, direction: Exclusion.Direction, ids: [DocumentID]
    ) throws(StoreError) {
        let statement = try tables(collection).statement(.unexclude)
        for id in ids {
            statement.bind(1, remote.number)
            statement.bind(2, direction.rawValue)
            statement.bind(3, id.text)
            try session.run(statement)
            state.rows += 1
        }
    }

    // MARK: failed resolvers

    /// Records that the resolver of a conflict failed; `tries` increases by one.
    public func setPendingConflict(
        _ collection: Collection, _ id: DocumentID, error: String, plugin: String, version: String
    ) throws(StoreError) {
        let statement = try tables(collection).statement(.conflictFailure)
        statement.bind(1, id.text)
        statement.bind(2, error.cut(StoreLimits.maxErrorTextBytes))
        statement.bind(3, plugin)
        statement.bind(4, version)
        try session.run(statement)
    }
}

extension String {
    /// At most this many bytes, in whole characters.
    func cut(_ limit: Int) -> String {
        if utf8.count <= limit { return self }
        var end = utf8.index(startIndex, offsetBy: limit)
        while end > startIndex, UTF8.isContinuation(utf8[end]) { end = utf8.index(before: end) }
        return String(self[..<end])
    }
}

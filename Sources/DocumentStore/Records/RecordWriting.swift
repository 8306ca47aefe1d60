import Documents
import SQLite

/// What is kept beside documents: checkpoints, local documents, exclusions and failed resolvers.
extension WriteTransaction {
    // MARK: checkpoints and local documents

    /// Stores a checkpoint if `expectedRevision` is the present token (`nil` or empty: none is stored).
    /// - Returns: the new token.
    /// - Throws: `StoreError.checkpointConflict` with the present token.
    public func setCheckpoint(
        _ kind: CheckpointKind, id: String, collection: Collection?, body: [UInt8], expectedRevision: String?
    ) throws(StoreError) -> String {
        let current = try checkpoint(kind, id: id, collection: collection)?.revision
        let expected = expectedRevision.flatMap { $0.isEmpty ? nil : $0 }
        guard current == expected else { throw .checkpointConflict(id: id, current: current) }
        return try setCheckpoint(kind, id: id, collection: collection, body: body)
    }

    /// Stores a checkpoint whatever was there.
    @discardableResult
    public func setCheckpoint(
        _ kind: CheckpointKind, id: String, collection: Collection?, body: [UInt8]
    ) throws(StoreError) -> String {
        try checkLocal(id, body)
        let statement = try active().cached("""
            INSERT INTO checkpoints(kind, collection, id, rev, body) VALUES(?1, ?2, ?3, 1, ?4) \
            ON CONFLICT(kind, collection, id) DO UPDATE SET rev = rev + 1, body = ?4 RETURNING rev
            """)
        statement.bind(1, kind.rawValue)
        statement.bind(2, Int64(collection?.id ?? 0))
        statement.bind(3, id)
        statement.bind(4, body)
        return "\(try number(statement))-cc"
    }

    /// Stores (`nil`: deletes) a document that is never replicated, if `expectedRevision` is the present token.
    /// - Returns: the new token, `0-0` after a deletion.
    /// - Throws: `StoreError.checkpointConflict` with the present token.
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
            throw .bodyTooLarge(id: id, bytes: body.count, limit: StoreLimits.maxLocalBodyBytes)
        }
    }

    private func number(_ statement: Statement) throws(StoreError) -> Int64 {
        defer { statement.reset() }
        guard try session.step(statement) else { throw session.damaged("no number returned by: \(statement.sql)") }
        let number = statement.integer(0)
        // The statement takes effect only when it has run to its end.
        _ = try session.step(statement)
        return number
    }

    // MARK: exclusions

    /// Records documents as excluded; a row for the same remote, direction and document is replaced.
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

    /// Records that the resolver of a conflict failed; `tries` grows by one.
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
    /// At most so many bytes, whole characters.
    func cut(_ limit: Int) -> String {
        if utf8.count <= limit { return self }
        var end = utf8.index(startIndex, offsetBy: limit)
        while end > startIndex, UTF8.isContinuation(utf8[end]) { end = utf8.index(before: end) }
        return String(self[..<end])
    }
}

import Documents

/// When documents are to be purged that say so themselves (`_exp`). A table of its own: few documents have such a time, and it is no part of
/// a revision.
enum ExpiryTable {
    /// Made where they are missing, also in a database of an earlier version: nothing that was there is changed.
    static let statements = [
        """
        CREATE TABLE IF NOT EXISTS expiries(
            collection INTEGER NOT NULL, id TEXT NOT NULL, expires INTEGER NOT NULL, PRIMARY KEY(collection, id)) WITHOUT ROWID
        """,
        "CREATE INDEX IF NOT EXISTS expiries_due ON expiries(expires)",
    ]
}

extension ReadTransaction {
    /// When the document is to be purged, in seconds since 1970; nil: not.
    public final func purgeTime(_ collection: Collection, _ id: DocumentID) throws(StoreError) -> Int64? {
        let statement = try active().cached("SELECT expires FROM expiries WHERE collection = ?1 AND id = ?2")
        statement.bind(1, Int64(collection.id))
        statement.bind(2, id.text)
        defer { statement.reset() }
        return try session.step(statement) ? statement.integer(0) : nil
    }

    /// The next time at which a document of any collection is to be purged.
    public final func nextPurgeTime() throws(StoreError) -> Int64? {
        let statement = try active().cached("SELECT expires FROM expiries ORDER BY expires LIMIT 1")
        defer { statement.reset() }
        return try session.step(statement) ? statement.integer(0) : nil
    }
}

extension WriteTransaction {
    /// Lengths of time begin now.
    public func setExpiry(_ collection: Collection, _ id: DocumentID, _ expiry: DocumentExpiry) throws(StoreError) {
        guard let time = expiry.due(now: state.now) else { return try dropPurgeTime(collection, id) }
        let statement = try active().cached("INSERT OR REPLACE INTO expiries(collection, id, expires) VALUES(?1, ?2, ?3)")
        statement.bind(1, Int64(collection.id))
        statement.bind(2, id.text)
        statement.bind(3, time)
        try session.run(statement)
        state.rows += 1
    }

    func dropPurgeTime(_ collection: Collection, _ id: DocumentID) throws(StoreError) {
        let statement = try active().cached("DELETE FROM expiries WHERE collection = ?1 AND id = ?2")
        statement.bind(1, Int64(collection.id))
        statement.bind(2, id.text)
        try session.run(statement)
        state.rows += 1
    }

    /// Purges documents whose time has come. One that was deleted meanwhile stays deleted: its tombstone tells peers.
    ///
    /// - Returns: how many rows were looked at, and the documents that have gone.
    func purgeDue(now: Int64, limit: Int) throws(StoreError) -> (seen: Int, purged: [(CollectionName, DocumentID)]) {
        let due = try session.cached("SELECT collection, id FROM expiries WHERE expires <= ?1 ORDER BY expires LIMIT ?2")
        due.bind(1, now)
        due.bind(2, Int64(limit))
        var found: [(Int64, DocumentID)] = []
        do {
            defer { due.reset() }
            while try session.step(due) { found.append((due.integer(0), DocumentID(stored: due.text(1)))) }
        }
        let collections = try collections()
        var purged: [(CollectionName, DocumentID)] = []
        for (number, id) in found {
            guard let collection = collections.first(where: { Int64($0.id) == number }) else { continue }
            try dropPurgeTime(collection, id)
            guard let row = try row(collection, id), !row.isDeleted else { continue }
            if try purge(collection, id) { purged.append((collection.name, id)) }
        }
        return (found.count, purged)
    }
}

extension Database {
    /// Purges the documents whose `_exp` has come, a bounded number at a time so that other writes go on in between.
    ///
    /// - Parameter now: seconds since 1970.
    /// - Returns: how many have gone, by collection.
    public func purgeExpired(now: Int64) async throws -> [CollectionName: Int] {
        var counts: [CollectionName: Int] = [:]
        while true {
            let next = try await read { try $0.nextPurgeTime() }
            guard let next, next <= now else { return counts }
            let (_, purged) = try await write { try $0.purgeDue(now: now, limit: StoreLimits.expiriesPerCommit) }
            for (name, _) in purged { counts[name, default: 0] += 1 }
        }
    }
}

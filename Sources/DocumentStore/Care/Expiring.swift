import Documents

/// When documents with their own expiry (`_exp`) are to be purged. A separate table: few documents have one, and it is not part of a revision.
enum ExpiryTable {
    /// Created if missing, also in a database of an earlier version: existing data is not changed.
    static let statements = [
        """
        CREATE TABLE IF NOT EXISTS expiries(
            collection INTEGER NOT NULL, id TEXT NOT NULL, expires INTEGER NOT NULL, PRIMARY KEY(collection, id)) WITHOUT ROWID
        """,
        "CREATE INDEX IF NOT EXISTS expiries_due ON expiries(expires)",
        // For branches besides the current revision: they apply to a branch that has become current by then. Negative: the time has come, and an
        // undecided conflict keeps it from applying.
        """
        CREATE TABLE IF NOT EXISTS branch_expiries(
            collection INTEGER NOT NULL, id TEXT NOT NULL, revision TEXT NOT NULL, expires INTEGER NOT NULL,
            PRIMARY KEY(collection, id, revision)) WITHOUT ROWID
        """,
        "CREATE INDEX IF NOT EXISTS branch_expiries_due ON branch_expiries(expires)",
    ]
}

extension ReadTransaction {
    /// When the document is to be purged, in seconds since 1970; nil if never.
    public final func purgeTime(_ collection: Collection, _ id: DocumentID) throws(StoreError) -> Int64? {
        let statement = try active().cached("SELECT expires FROM expiries WHERE collection = ?1 AND id = ?2")
        statement.bind(1, Int64(collection.id))
        statement.bind(2, id.text)
        defer { statement.reset() }
        if try session.step(statement) { return statement.integer(0) }
        return try branchPurgeTime(collection, id)
    }

    /// For a current revision that arrived as a branch.
    private func branchPurgeTime(_ collection: Collection, _ id: DocumentID) throws(StoreError) -> Int64? {
        let statement = try active().cached("SELECT expires, revision FROM branch_expiries WHERE collection = ?1 AND id = ?2")
        statement.bind(1, Int64(collection.id))
        statement.bind(2, id.text)
        defer { statement.reset() }
        guard try session.step(statement) else { return nil }
        let current = try row(collection, id)?.revision
        repeat {
            if RevisionID(stored: statement.text(1)) == current { return Int64(clamping: statement.integer(0).magnitude) }
        } while try session.step(statement)
        return nil
    }

    /// The earliest time at which a document of any collection is to be purged.
    public final func nextPurgeTime() throws(StoreError) -> Int64? {
        let statement = try active().cached(
            "SELECT expires FROM (SELECT * FROM (SELECT expires FROM expiries ORDER BY expires LIMIT 1) "
                + "UNION ALL SELECT * FROM (SELECT expires FROM branch_expiries WHERE expires >= 0 ORDER BY expires LIMIT 1)) ORDER BY expires LIMIT 1")
        defer { statement.reset() }
        return try session.step(statement) ? statement.integer(0) : nil
    }
}

extension WriteTransaction {
    /// Sets the expiry of a document; durations start now.
    public func setExpiry(_ collection: Collection, _ id: DocumentID, _ expiry: DocumentExpiry) throws(StoreError) {
        guard let time = expiry.due(now: state.now) else { return try dropPurgeTime(collection, id) }
        let statement = try active().cached("INSERT OR REPLACE INTO expiries(collection, id, expires) VALUES(?1, ?2, ?3)")
        statement.bind(1, Int64(collection.id))
        statement.bind(2, id.text)
        statement.bind(3, time)
        try session.run(statement)
        state.rows += 1
    }

    /// Sets the expiry of a branch that may become current later: if another revision wins, that revision's own expiry applies.
    public func setExpiry(_ collection: Collection, _ id: DocumentID, _ expiry: DocumentExpiry, ofBranch revision: RevisionID) throws(StoreError) {
        guard let time = expiry.due(now: state.now) else { return }
        let statement = try active().cached("INSERT OR REPLACE INTO branch_expiries(collection, id, revision, expires) VALUES(?1, ?2, ?3, ?4)")
        statement.bind(1, Int64(collection.id))
        statement.bind(2, id.text)
        statement.bind(3, revision.text)
        statement.bind(4, time)
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

    /// The conflict of a document is over: branches whose time came in the meantime are considered again.
    func resumeBranchPurges(_ collection: Collection, _ id: DocumentID) throws(StoreError) {
        let statement = try active().cached("UPDATE branch_expiries SET expires = -expires WHERE collection = ?1 AND id = ?2 AND expires < 0")
        statement.bind(1, Int64(collection.id))
        statement.bind(2, id.text)
        try session.run(statement)
    }

    /// Another revision takes over the body of a branch.
    func moveBranchPurge(_ collection: Collection, _ id: DocumentID, from revision: RevisionID, to other: RevisionID) throws(StoreError) {
        let statement = try active().cached("UPDATE OR REPLACE branch_expiries SET revision = ?4 WHERE collection = ?1 AND id = ?2 AND revision = ?3")
        statement.bind(1, Int64(collection.id))
        statement.bind(2, id.text)
        statement.bind(3, revision.text)
        statement.bind(4, other.text)
        try session.run(statement)
    }

    /// Drops the branch expiries of a document that is gone.
    func dropBranchPurges(_ collection: Collection, _ id: DocumentID) throws(StoreError) {
        let statement = try active().cached("DELETE FROM branch_expiries WHERE collection = ?1 AND id = ?2")
        statement.bind(1, Int64(collection.id))
        statement.bind(2, id.text)
        try session.run(statement)
    }

    /// Purges documents whose time has come. One that was deleted in the meantime stays deleted: peers need its tombstone.
    ///
    /// - Returns: how many rows were processed, and the purged documents.
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
            if try purge(collection, id) {
                try noteExpired(collection, id, at: now, by: .document)
                purged.append((collection.name, id))
            }
        }
        let branches = try purgeDueBranches(now: now, limit: limit, collections)
        return (found.count + branches.seen, purged + branches.purged)
    }

    private func purgeDueBranches(
        now: Int64, limit: Int, _ collections: [Collection]
    ) throws(StoreError) -> (seen: Int, purged: [(CollectionName, DocumentID)]) {
        let due = try session.cached("SELECT collection, id, revision FROM branch_expiries WHERE expires BETWEEN 0 AND ?1 ORDER BY expires LIMIT ?2")
        due.bind(1, now)
        due.bind(2, Int64(limit))
        var found: [(collection: Int64, id: DocumentID, revision: RevisionID)] = []
        do {
            defer { due.reset() }
            while try session.step(due) {
                found.append((due.integer(0), DocumentID(stored: due.text(1)), RevisionID(stored: due.text(2))))
            }
        }
        var purged: [(CollectionName, DocumentID)] = []
        for row in found {
            let collection = collections.first { Int64($0.id) == row.collection }
            let current = try collection.flatMap { (collection) throws(StoreError) in try self.row(collection, row.id) }
            state.rows += 1
            if current?.isConflicted == true {
                // The winning revision is not decided yet.
                let wait = try session.cached("UPDATE branch_expiries SET expires = -expires WHERE collection = ?1 AND id = ?2 AND revision = ?3")
                wait.bind(1, row.collection)
                wait.bind(2, row.id.text)
                wait.bind(3, row.revision.text)
                try session.run(wait)
                continue
            }
            let drop = try session.cached("DELETE FROM branch_expiries WHERE collection = ?1 AND id = ?2 AND revision = ?3")
            drop.bind(1, row.collection)
            drop.bind(2, row.id.text)
            drop.bind(3, row.revision.text)
            try session.run(drop)
            guard let collection, let current, current.revision == row.revision, !current.isDeleted else { continue }
            if try purge(collection, row.id) {
                try noteExpired(collection, row.id, at: now, by: .document)
                purged.append((collection.name, row.id))
            }
        }
        return (found.count, purged)
    }
}

extension Database {
    /// Purges the documents whose `_exp` has come, a limited number at a time so that other writes can proceed in between.
    ///
    /// - Parameter now: seconds since 1970.
    /// - Returns: the number of documents purged, by collection.
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

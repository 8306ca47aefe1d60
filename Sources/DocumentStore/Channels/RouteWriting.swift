import Documents
import SQLite

// Assignments of sync functions to documents.
extension WriteTransaction {
    /// Assigns the current revision of a document to channels, in the transaction that stores it or later.
    ///
    /// - Throws: `StoreError.notFound`; `.conflict` if `revision` is not the current one.
    public func route(_ collection: Collection, _ id: DocumentID, _ revision: RevisionID, _ route: DocumentRoute) throws(StoreError) {
        guard let row = try row(collection, id) else { throw .notFound(id: id) }
        guard row.revision == revision else { throw .conflict(id: id, current: row.revision) }
        let set = try session.cached("""
            INSERT OR REPLACE INTO routes(collection, id, rev, expires, plugin, version, error) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)
            """)
        set.bind(1, Int64(collection.id))
        set.bind(2, id.text)
        set.bind(3, revision.text)
        if let expires = route.expires { set.bind(4, expires) } else { set.bindNull(4) }
        set.bind(5, route.plugin)
        set.bind(6, route.version)
        set.bind(7, route.error.cut(StoreLimits.maxErrorTextBytes))
        try session.run(set)
        try assign(route.channels, collection, id, at: row.sequence)
        try grant(route.grants(isDeleted: row.isDeleted), collection, origin: id.text, at: { row.sequence })
        state.rows += 1
    }

    /// Replaces the assignment of a revision. If that changes what peers may access, the document moves to a new sequence, because they have passed
    /// the old one.
    ///
    /// - Returns: whether it did; also false if the revision is not the current one, or has no assignment yet, since that has its own turn.
    public func reroute(_ collection: Collection, _ id: DocumentID, _ revision: RevisionID, _ route: DocumentRoute) throws(StoreError) -> Bool {
        guard let differs = try differs(collection, id, revision, from: route) else { return false }
        if differs { try touch(collection, id) }
        try self.route(collection, id, revision, route)
        return differs
    }

    /// Records the channels and roles that an authenticator reports for a peer. New ones begin, and ones no longer reported end, each at a sequence
    /// of its own; on the first visit, all of them count as having always existed.
    public func setAccess(of peer: ChannelPeer, _ collection: Collection, channels: [String], roles: [String]) throws(StoreError) {
        let grantee = peer.ownKey
        let grants = Set(channels.map { Grant(grantee: grantee, target: "c/\($0)") } + roles.map { Grant(grantee: grantee, target: "r/\($0)") })
        let known = try accessRow(collection, grantee, "") != nil
        if !known { try setAccess(collection, grantee, "", granted: 0) }
        var sequence: Int64?
        try grant(grants, collection, origin: "s/\(grantee)", at: { () throws(StoreError) in
            if !known { return 0 }
            if let sequence { return sequence }
            let next = try self.nextSequence(collection)
            sequence = next
            return next
        })
    }

    /// Takes a sequence without a document, so that observers of changes look again.
    @discardableResult
    public func signalChange(_ collection: Collection) throws(StoreError) -> SequenceNumber {
        SequenceNumber(try nextSequence(collection))
    }

    /// Moves a document to a new sequence without changing it: peers are told of it again.
    public func touch(_ collection: Collection, _ id: DocumentID) throws(StoreError) {
        let tables = try tables(collection)
        guard let row = try row(collection, id) else { return }
        let sequence = try nextSequence(collection)
        let statement = try session.cached("UPDATE documents_\(collection.id) SET sequence = ?2 WHERE sequence = ?1")
        statement.bind(1, row.sequence)
        statement.bind(2, sequence)
        try session.run(statement)
        tables.index.set(row.slot, sequence)
        state.rows += 1
    }

    /// The document is deleted at this sequence: its grants end too, even if no sync function is asked about that.
    func endGrants(_ collection: Collection, _ id: DocumentID, at sequence: Int64) throws(StoreError) {
        try grant([], collection, origin: id.text, at: { sequence })
    }

    /// Removes the assignment of a document that goes away; its grants end.
    func dropRoute(_ collection: Collection, _ id: DocumentID) throws(StoreError) {
        guard try routedRevision(collection, id) != nil else { return }
        try grant([], collection, origin: id.text, at: { () throws(StoreError) in try self.nextSequence(collection) })
        for table in ["routes", "channels"] {
            let statement = try session.cached("DELETE FROM \(table) WHERE collection = ?1 AND id = ?2")
            statement.bind(1, Int64(collection.id))
            statement.bind(2, id.text)
            try session.run(statement)
        }
    }

    // MARK: expiry

    /// Deletes documents whose time has come, as Couchbase Server does: each is replaced by a tombstone, which peers get.
    ///
    /// - Parameter now: Unix seconds.
    /// - Returns: the documents; if there are `limit` of them, there may be more.
    public func expire(now: Int64, limit: Int) throws(StoreError) -> [(CollectionName, DocumentID)] {
        let due = try session.cached("SELECT collection, id, rev FROM routes WHERE expires <= ?1 ORDER BY expires LIMIT ?2")
        due.bind(1, now)
        due.bind(2, Int64(limit))
        var found: [(Int64, DocumentID, RevisionID)] = []
        do {
            defer { due.reset() }
            while try session.step(due) {
                found.append((due.integer(0), DocumentID(stored: due.text(1)), RevisionID(stored: due.text(2))))
            }
        }
        let collections = try collections()
        var expired: [(CollectionName, DocumentID)] = []
        for (number, id, revision) in found {
            let clear = try session.cached("UPDATE routes SET expires = NULL WHERE collection = ?1 AND id = ?2")
            clear.bind(1, number)
            clear.bind(2, id.text)
            try session.run(clear)
            guard let collection = collections.first(where: { Int64($0.id) == number }), let row = try row(collection, id) else { continue }
            expired.append((collection.name, id))
            // A newer revision has an expiry of its own, or none.
            guard row.revision == revision, !row.isDeleted else { continue }
            _ = try save(collection, id: id, body: Array("{}".utf8), deleted: true, parent: revision)
        }
        return expired
    }

    // MARK: parts

    func nextSequence(_ collection: Collection) throws(StoreError) -> Int64 {
        var counters = try counters(collection)
        counters.lastSequence += 1
        counters.isChanged = true
        state.counters[collection.id] = counters
        return counters.lastSequence
    }

    private func assign(_ channels: Set<String>, _ collection: Collection, _ id: DocumentID, at sequence: Int64) throws(StoreError) {
        let stored = try self.channels(of: id, collection)
        let wanted = Set(channels.map { ExactName($0) })
        for known in stored where known.left == nil && !wanted.contains(ExactName(known.channel)) {
            let leave = try session.cached("UPDATE channels SET left = ?4 WHERE collection = ?1 AND id = ?2 AND channel = ?3")
            try run(leave, collection, id, known.channel, sequence)
        }
        for channel in channels where !stored.contains(where: { $0.channel.utf8.elementsEqual(channel.utf8) && $0.left == nil }) {
            let enter = try session.cached("""
                INSERT INTO channels(collection, id, channel, entered) VALUES(?1, ?2, ?3, ?4) \
                ON CONFLICT(collection, id, channel) DO UPDATE SET left = NULL
                """)
            try run(enter, collection, id, channel, sequence)
        }
    }

    private func run(
        _ statement: Statement, _ collection: Collection, _ id: DocumentID, _ channel: String, _ sequence: Int64
    ) throws(StoreError) {
        statement.bind(1, Int64(collection.id))
        statement.bind(2, id.text)
        statement.bind(3, channel)
        statement.bind(4, sequence)
        try session.run(statement)
    }

    /// Replaces the grants of one origin. Access begins with its first grant and ends with its last.
    private func grant(
        _ wanted: Set<Grant>, _ collection: Collection, origin: String, at sequence: () throws(StoreError) -> Int64
    ) throws(StoreError) {
        let number = Int64(collection.id)
        let stored = try grants(collection, origin: origin)
        for grant in wanted.subtracting(stored) {
            let add = try session.cached("INSERT INTO grants(collection, origin, grantee, target) VALUES(?1, ?2, ?3, ?4)")
            add.bind(1, number)
            add.bind(2, origin)
            add.bind(3, grant.grantee)
            add.bind(4, grant.target)
            try session.run(add)
            let present = try accessRow(collection, grant.grantee, grant.target)
            if present == nil || present?.revoked != nil { try setAccess(collection, grant.grantee, grant.target, granted: try sequence()) }
        }
        for grant in stored.subtracting(wanted) {
            let drop = try session.cached("DELETE FROM grants WHERE collection = ?1 AND origin = ?2 AND grantee = ?3 AND target = ?4")
            drop.bind(1, number)
            drop.bind(2, origin)
            drop.bind(3, grant.grantee)
            drop.bind(4, grant.target)
            try session.run(drop)
            let other = try session.cached("SELECT 1 FROM grants WHERE collection = ?1 AND grantee = ?2 AND target = ?3 LIMIT 1")
            other.bind(1, number)
            other.bind(2, grant.grantee)
            other.bind(3, grant.target)
            defer { other.reset() }
            if try session.step(other) { continue }
            let end = try session.cached(
                "UPDATE access SET revoked = ?4 WHERE collection = ?1 AND grantee = ?2 AND target = ?3 AND revoked IS NULL")
            end.bind(1, number)
            end.bind(2, grant.grantee)
            end.bind(3, grant.target)
            end.bind(4, try sequence())
            try session.run(end)
        }
    }

    private func setAccess(_ collection: Collection, _ grantee: String, _ target: String, granted: Int64) throws(StoreError) {
        let set = try session.cached("""
            INSERT INTO access(collection, grantee, target, first, granted) VALUES(?1, ?2, ?3, ?4, ?4) \
            ON CONFLICT(collection, grantee, target) DO UPDATE SET granted = ?4, revoked = NULL
            """)
        set.bind(1, Int64(collection.id))
        set.bind(2, grantee)
        set.bind(3, target)
        set.bind(4, granted)
        try session.run(set)
    }
}

extension Database {
    /// Deletes the documents whose time has come, a limited number at a time so that other writes can proceed in between.
    ///
    /// - Parameter now: Unix seconds.
    public func expireDocuments(now: Int64) async throws -> Int {
        var count = 0
        while true {
            let expired = try await write { try $0.expire(now: now, limit: StoreLimits.expiriesPerCommit).count }
            count += expired
            if expired < StoreLimits.expiriesPerCommit { return count }
        }
    }
}

import Documents
import SQLite

// Assignments by sync functions, and what peers may pull because of them.
extension ReadTransaction {
    /// The channels of the document's current revision; nil if it has no assignment.
    public final func assignedChannels(_ collection: Collection, _ id: DocumentID) throws(StoreError) -> Set<String>? {
        guard let row = try row(collection, id), try routedRevision(collection, id) == row.revision else { return nil }
        return Set(try channels(of: id, collection).filter { $0.left == nil }.map(\.channel))
    }

    /// When the document expires, in Unix seconds.
    public final func expiry(_ collection: Collection, _ id: DocumentID) throws(StoreError) -> Int64? {
        let statement = try active().cached("SELECT expires FROM routes WHERE collection = ?1 AND id = ?2")
        statement.bind(1, Int64(collection.id))
        statement.bind(2, id.text)
        defer { statement.reset() }
        guard try session.step(statement), !statement.isNull(0) else { return nil }
        return statement.integer(0)
    }

    /// What the peer may pull, according to its own channels and roles, its user's, and those of its roles.
    public final func channelAccess(_ collection: Collection, of peer: ChannelPeer) throws(StoreError) -> ChannelAccess {
        var access = ChannelAccess(entries: [ChannelAccess.Entry(channel: "!", first: 0, granted: 0)], roles: [])
        var roles: [AccessRow] = []
        for grantee in [peer.ownKey, peer.userKey] {
            for row in try accessRows(collection, grantee) {
                if row.isRole { roles.append(row) } else { access.entries.append(row.entry) }
            }
        }
        for role in roles {
            if role.entry.revoked == nil, !access.roles.contains(where: { $0.utf8.elementsEqual(role.entry.channel.utf8) }) { access.roles.append(role.entry.channel) }
            for row in try accessRows(collection, "r/\(role.entry.channel)") where !row.isRole {
                // While both existed. If one was granted again after the other had ended, that end still counts.
                let revoked = [role.entry.revoked, row.entry.revoked].compactMap(\.self).min()
                if let revoked, revoked <= max(role.first, row.first) { continue }
                access.entries.append(
                    ChannelAccess.Entry(
                        channel: row.entry.channel, first: max(role.first, row.first), granted: max(role.entry.granted, row.entry.granted),
                        revoked: revoked))
            }
        }
        access.entries.sort { ($0.channel, $0.granted) < ($1.channel, $1.granted) }
        access.roles.sort()
        return access
    }

    /// The channels that a user with a new login may pull now, without the public one, in ascending order; `*` stands for all documents.
    ///
    /// - Parameters:
    ///   - user: nil for anonymous peers.
    ///   - said: the channels that the login brings.
    ///   - roles: the roles that the login brings.
    public final func channels(
        _ collection: Collection, of user: String?, login said: [String], roles: [String]
    ) throws(StoreError) -> [String] {
        var found = Set(said.map { ExactName($0) })
        var held = Set(roles.map { ExactName($0) })
        for row in try accessRows(collection, "u/\(user ?? ChannelPeer.guest)") where row.entry.revoked == nil {
            if row.isRole { held.insert(ExactName(row.entry.channel)) } else { found.insert(ExactName(row.entry.channel)) }
        }
        for role in held {
            for row in try accessRows(collection, "r/\(role.text)") where !row.isRole && row.entry.revoked == nil {
                found.insert(ExactName(row.entry.channel))
            }
        }
        found.remove(ExactName("!"))
        return found.map(\.text).sorted()
    }

    /// Whether a peer with this access may currently see the document's current revision. A revision without an assignment is visible only to peers
    /// with access to everything.
    ///
    /// - Parameter revision: the current one.
    public final func isVisible(
        _ collection: Collection, _ id: DocumentID, _ revision: RevisionID, to access: ChannelAccess
    ) throws(StoreError) -> Bool {
        if access.hasEverything { return true }
        guard try routedRevision(collection, id) == revision else { return false }
        return access.isVisible(try channels(of: id, collection))
    }

    /// Where a document that a peer with this access may not see appears as a removal in the peer's feed; nil if it does not.
    ///
    /// - Parameter revision: the current one.
    public final func departure(
        _ collection: Collection, _ id: DocumentID, _ revision: RevisionID, from access: ChannelAccess
    ) throws(StoreError) -> ChannelDeparture? {
        guard try routedRevision(collection, id) == revision else { return nil }
        return AccessEvents(access).departure(try channels(of: id, collection))
    }

    /// Documents that could not be assigned, in order of id.
    public final func unassigned(_ collection: Collection, after: DocumentID? = nil, limit: Int) throws(StoreError) -> [(DocumentID, DocumentRoute)] {
        let statement = try active().cached("""
            SELECT id, plugin, version, error FROM routes INDEXED BY routes_failed \
            WHERE collection = ?1 AND id > ?2 AND error <> '' ORDER BY id LIMIT ?3
            """)
        statement.bind(1, Int64(collection.id))
        statement.bind(2, after?.text ?? "")
        statement.bind(3, Int64(min(max(limit, 0), StoreLimits.maxRowsPerRead)))
        defer { statement.reset() }
        var found: [(DocumentID, DocumentRoute)] = []
        while try session.step(statement) {
            found.append((
                DocumentID(stored: statement.text(0)),
                DocumentRoute(plugin: statement.text(1), version: statement.text(2), error: statement.text(3))))
        }
        return found
    }

    /// Why the document could not be assigned; nil if it was.
    public final func unassigned(_ collection: Collection, _ id: DocumentID) throws(StoreError) -> DocumentRoute? {
        let statement = try active().cached("SELECT plugin, version, error FROM routes WHERE collection = ?1 AND id = ?2 AND error <> ''")
        statement.bind(1, Int64(collection.id))
        statement.bind(2, id.text)
        defer { statement.reset() }
        guard try session.step(statement) else { return nil }
        return DocumentRoute(plugin: statement.text(0), version: statement.text(1), error: statement.text(2))
    }

    // MARK: rows

    struct ChannelRow {
        var channel: String
        var entered: Int64
        var left: Int64?
    }

    final func channels(of id: DocumentID, _ collection: Collection) throws(StoreError) -> [ChannelRow] {
        let statement = try active().cached("SELECT channel, entered, left FROM channels WHERE collection = ?1 AND id = ?2")
        statement.bind(1, Int64(collection.id))
        statement.bind(2, id.text)
        defer { statement.reset() }
        var found: [ChannelRow] = []
        while try session.step(statement) {
            found.append(ChannelRow(
                channel: statement.text(0), entered: statement.integer(1), left: statement.isNull(2) ? nil : statement.integer(2)))
        }
        return found
    }

    /// The revision that was last assigned.
    public final func routedRevision(_ collection: Collection, _ id: DocumentID) throws(StoreError) -> RevisionID? {
        let statement = try active().cached("SELECT rev FROM routes WHERE collection = ?1 AND id = ?2")
        statement.bind(1, Int64(collection.id))
        statement.bind(2, id.text)
        defer { statement.reset() }
        return try session.step(statement) ? RevisionID(stored: statement.text(0)) : nil
    }

    private struct AccessRow {
        var isRole: Bool
        var entry: ChannelAccess.Entry
        var first: SequenceNumber { entry.first }
    }

    private func accessRows(_ collection: Collection, _ grantee: String) throws(StoreError) -> [AccessRow] {
        let statement = try active().cached(
            "SELECT target, first, granted, revoked FROM access WHERE collection = ?1 AND grantee = ?2 AND target <> ''")
        statement.bind(1, Int64(collection.id))
        statement.bind(2, grantee)
        defer { statement.reset() }
        var found: [AccessRow] = []
        while try session.step(statement) {
            let target = statement.text(0)
            found.append(AccessRow(
                isRole: target.utf8.starts(with: "r/".utf8),
                entry: ChannelAccess.Entry(
                    channel: String(target.dropFirst(2)), first: SequenceNumber(clamping: statement.integer(1)),
                    granted: SequenceNumber(clamping: statement.integer(2)),
                    revoked: statement.isNull(3) ? nil : SequenceNumber(clamping: statement.integer(3)))))
        }
        return found
    }

    final func accessRow(_ collection: Collection, _ grantee: String, _ target: String) throws(StoreError) -> (granted: Int64, revoked: Int64?)? {
        let statement = try active().cached("SELECT granted, revoked FROM access WHERE collection = ?1 AND grantee = ?2 AND target = ?3")
        statement.bind(1, Int64(collection.id))
        statement.bind(2, grantee)
        statement.bind(3, target)
        defer { statement.reset() }
        guard try session.step(statement) else { return nil }
        return (statement.integer(0), statement.isNull(1) ? nil : statement.integer(1))
    }
}

import Documents

/// Something that a document, or an authenticator, grants to a user or role.
struct Grant: Hashable {
    var grantee: String
    var target: String

    static func == (left: Self, right: Self) -> Bool {
        ExactName(left.grantee) == ExactName(right.grantee) && ExactName(left.target) == ExactName(right.target)
    }

    func hash(into hasher: inout Hasher) {
        hasher.combine(ExactName(grantee))
        hasher.combine(ExactName(target))
    }
}

extension DocumentRoute {
    /// A deleted document grants nothing, whatever the function says about its last body.
    func grants(isDeleted: Bool) -> Set<Grant> {
        var grants: Set<Grant> = []
        if isDeleted { return grants }
        for (user, channels) in access {
            let grantee = user.utf8.starts(with: "role:".utf8) ? "r/\(user.dropFirst(5))" : "u/\(user)"
            for channel in channels { grants.insert(Grant(grantee: grantee, target: "c/\(channel)")) }
        }
        for (user, roles) in roles {
            for role in roles { grants.insert(Grant(grantee: "u/\(user)", target: "r/\(role)")) }
        }
        return grants
    }
}

// New assignments by a sync function to documents that it, or an earlier one, has already assigned.
extension ReadTransaction {
    /// Whether an assignment changes what peers may access: the revision's channels, or its grants.
    ///
    /// - Returns: nil if the revision is not the current one, or has no assignment yet.
    public final func differs(
        _ collection: Collection, _ id: DocumentID, _ revision: RevisionID, from route: DocumentRoute
    ) throws(StoreError) -> Bool? {
        guard let row = try row(collection, id), row.revision == revision, try routedRevision(collection, id) == revision else { return nil }
        let channels = Set(try channels(of: id, collection).filter { $0.left == nil }.map { ExactName($0.channel) })
        if channels != Set(route.channels.map { ExactName($0) }) { return true }
        return try grants(collection, origin: id.text) != route.grants(isDeleted: row.isDeleted)
    }

    /// Finds a document whose channels were assigned by another function, or by another version of this one. Documents that could not be assigned are
    /// in no channel, and are retried separately.
    ///
    /// - Parameters:
    ///   - start: where to start, in order of id; nil for the beginning.
    ///   - limit: number of documents to examine.
    /// - Returns: the first one found; or where to continue, nil at the end.
    public final func routed(
        _ collection: Collection, notBy plugin: String, version: String, from start: DocumentID? = nil, limit: Int = StoreLimits.maxRowsPerRead
    ) throws(StoreError) -> (found: DocumentID?, next: DocumentID?) {
        let statement = try active().cached("""
            SELECT id, error = '' AND (plugin <> ?2 OR version <> ?3) FROM routes WHERE collection = ?1 AND id >= ?4 ORDER BY id LIMIT ?5
            """)
        statement.bind(1, Int64(collection.id))
        statement.bind(2, plugin)
        statement.bind(3, version)
        statement.bind(4, start?.text ?? "")
        statement.bind(5, Int64(max(limit, 2)))
        defer { statement.reset() }
        var count = 0
        while try session.step(statement) {
            count += 1
            let isLast = count == max(limit, 2), isOther = statement.integer(1) != 0
            guard isOther || isLast else { continue }
            let id = DocumentID(stored: statement.text(0))
            return isOther ? (id, nil) : (nil, id)
        }
        return (nil, nil)
    }

    final func grants(_ collection: Collection, origin: String) throws(StoreError) -> Set<Grant> {
        let list = try active().cached("SELECT grantee, target FROM grants WHERE collection = ?1 AND origin = ?2")
        list.bind(1, Int64(collection.id))
        list.bind(2, origin)
        defer { list.reset() }
        var stored: Set<Grant> = []
        while try session.step(list) { stored.insert(Grant(grantee: list.text(0), target: list.text(1))) }
        return stored
    }
}

import Documents

/// What somebody gets by a document, or by an authenticator.
struct Grant: Hashable {
    var grantee: String
    var target: String
}

extension DocumentRoute {
    /// What is deleted grants nothing, whatever the function says of its last body.
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

// What a sync function says anew of documents that it, or one before it, has assigned.
extension ReadTransaction {
    /// Whether a route changes what peers may have of a revision: its channels, or what it grants.
    ///
    /// - Returns: nil where the revision is not the current one, or was not assigned yet.
    public final func differs(
        _ collection: Collection, _ id: DocumentID, _ revision: RevisionID, from route: DocumentRoute
    ) throws(StoreError) -> Bool? {
        guard let row = try row(collection, id), row.revision == revision, try routedRevision(collection, id) == revision else { return nil }
        let channels = Set(try channels(of: id, collection).filter { $0.left == nil }.map(\.channel))
        if channels != route.channels { return true }
        return try grants(collection, origin: id.text) != route.grants(isDeleted: row.isDeleted)
    }

    /// Whether documents are in the channels that another function gave them, or another version of this one. What could not be assigned is
    /// in none, and is asked about again by itself.
    ///
    /// - Complexity: looks at documents until it finds one.
    public final func hasRoutes(_ collection: Collection, notBy plugin: String, version: String) throws(StoreError) -> Bool {
        let statement = try active().cached("""
            SELECT 1 FROM routes WHERE collection = ?1 AND error = '' AND (plugin <> ?2 OR version <> ?3) LIMIT 1
            """)
        statement.bind(1, Int64(collection.id))
        statement.bind(2, plugin)
        statement.bind(3, version)
        defer { statement.reset() }
        return try session.step(statement)
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

import Documents

// A local edit that is based on a revision which is no longer current.
extension ReadTransaction {
    /// The conflict between the current revision (the local side) and an edit of an older one (the remote side).
    ///
    /// Nil if there is nothing to decide: no such document, `parent` unknown, or `parent` current.
    /// - Parameter body: must be one that `save` accepts.
    public final func saveConflict(
        _ collection: Collection, id: DocumentID, body: [UInt8], deleted: Bool, parent: RevisionID
    ) throws(StoreError) -> Conflict? {
        guard let row = try row(collection, id), row.revision != parent else { return nil }
        let tree = try tree(collection, of: row, id)
        guard tree.contains(parent) else { return nil }
        let ancestor = tree.commonAncestor(of: row.revision, and: parent)
        guard let local = try self.body(collection, id, row.revision, row: row) else { return nil }
        let canonical: [UInt8]
        do { canonical = try CanonicalJSON.scanned(body).bytes } catch {
            throw .bodyInvalid(id: id, detail: "\(error)")
        }
        return Conflict(
            id: id, local: Conflict.Side(revision: row.revision, isDeleted: row.isDeleted, body: local, version: tree.vector(of: row.revision)?.current),
            remote: Conflict.Side(
                revision: RevisionDigest.revision(parent: parent, deleted: deleted, canonicalBody: canonical), isDeleted: deleted,
                body: body),
            base: try base(collection, id, ancestor, row: row), baseRevision: ancestor, remoteID: nil)
    }
}

extension WriteTransaction {
    /// Ends a conflict found by `saveConflict`: the result follows the current revision, if that is still the one that the resolver saw. If the local
    /// side wins, nothing changes.
    /// - Throws: `StoreError.conflictMoved`; otherwise the errors of `save`.
    public func resolveSave(_ collection: Collection, _ conflict: Conflict, _ resolution: Resolution) throws(StoreError) -> SavedRevision {
        guard let row = try row(collection, conflict.id), row.revision == conflict.local.revision else {
            throw .conflictMoved(id: conflict.id, local: try row(collection, conflict.id)?.revision, remote: nil)
        }
        let (body, isDeleted): ([UInt8], Bool)
        switch resolution {
        case .localWins: return SavedRevision(revision: row.revision, sequence: SequenceNumber(row.sequence))
        case .remoteWins: (body, isDeleted) = (conflict.remote.body, conflict.remote.isDeleted)
        case .merged(let merged): (body, isDeleted) = (merged, false)
        case .delete: (body, isDeleted) = (Array("{}".utf8), true)
        }
        if isDeleted && row.isDeleted { return SavedRevision(revision: row.revision, sequence: SequenceNumber(row.sequence)) }
        return try save(collection, id: conflict.id, body: body, deleted: isDeleted, parent: row.revision)
    }
}

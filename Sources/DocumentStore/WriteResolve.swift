import Documents
import SQLite

extension WriteTransaction {
    /// Ends a conflict, if it is still between the two revisions the resolver saw.
    ///
    /// The remote branch survives, the local one is removed. Unless the remote side wins as it is, a new revision
    /// becomes its child, so that it goes to that remote as an ordinary update (replication.md section 8).
    /// - Throws: `StoreError.conflictMoved` with the present sides; for `.merged` also the errors of `save`.
    @discardableResult
    public func resolveConflict(
        _ collection: Collection, id: DocumentID, expectedLocal: RevisionID, expectedRemote: RevisionID,
        resolution: Resolution
    ) throws(StoreError) -> SavedRevision {
        guard let row = try row(collection, id) else { throw .conflictMoved(id: id, local: nil, remote: nil) }
        var tree = try tree(of: row, id)
        var remotes = row.remotes
        remotes.spellOut(row.revision)
        guard let record = try conflictRecord(collection, id), let sides = record.sides(tree, remotes) else {
            throw .conflictMoved(id: id, local: row.revision, remote: nil)
        }
        guard sides.local.revision == expectedLocal && sides.remote.revision == expectedRemote else {
            throw .conflictMoved(id: id, local: sides.local.revision, remote: sides.remote.revision)
        }
        let new = try resolved(collection, id, row, sides, resolution)
        // Where the branches had grown on, what is between fork and leaf goes with the leaf.
        tree.removeBranch(sides.local.revision)
        if let new { try add(new, history: [sides.remote.revision], to: &tree, id) }
        let rest = record.next(tree, result: new?.revision ?? sides.remote.revision)
        let sequence = try place(
            collection, id, row, &tree, new, remotes: remotes, record: rest, previous: record)
        guard let winner = tree.winner else { throw session.damaged("document \(id) has no revisions") }
        return SavedRevision(revision: winner.revision, sequence: sequence ?? SequenceNumber(row.sequence))
    }

    /// The revision to be added on top of the remote one; `nil` if that one stays as it is.
    private func resolved(
        _ collection: Collection, _ id: DocumentID, _ row: Row,
        _ sides: (local: RevisionTree.Leaf, remote: RevisionTree.Leaf), _ resolution: Resolution
    ) throws(StoreError) -> NewRevision? {
        let result: [UInt8]
        var isDeleted = false
        switch resolution {
        case .remoteWins:
            return nil
        case .localWins:
            // Both deleted: the remote tombstone says it all.
            if sides.local.isDeleted && sides.remote.isDeleted { return nil }
            isDeleted = sides.local.isDeleted
            guard let local = try body(collection, id, sides.local.revision, row: row) ?? (isDeleted ? Array("{}".utf8) : nil) else {
                throw session.damaged("document \(id) lacks the body of revision \(sides.local.revision)")
            }
            result = local
        case .merged(let merged):
            result = merged
        case .delete:
            if sides.remote.isDeleted { return nil }
            isDeleted = true
            result = Array("{}".utf8)
        }
        let scan = try scan(result, id, allowAttachments: resolution == .localWins)
        let canonical = try canonical(result, scan, id)
        return NewRevision(
            revision: RevisionDigest.revision(parent: sides.remote.revision, deleted: isDeleted, canonicalBody: canonical),
            isDeleted: isDeleted, body: result, hasBlobs: scan.mayHoldBlobs)
    }
}

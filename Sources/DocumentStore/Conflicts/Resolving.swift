import Documents
import SQLite

extension WriteTransaction {
    /// Ends a conflict, if it is still between the two revisions the resolver saw.
    ///
    /// Of a pulled conflict the remote branch survives, the local one is removed. Unless the remote side wins as it is, a new
    /// revision becomes its child, so that it goes to that remote as an ordinary update (replication.md section 8). Of a
    /// pushed one the greater of the two survives: peers that hold the other follow upwards.
    /// - Parameter keepsGreater: of two branches that are nobody's own the greater one survives as well: at a peer that keeps every branch
    ///   the others end below it.
    /// - Throws: `StoreError.conflictMoved` with the present sides; for `.merged` also the errors of `save`.
    @discardableResult
    public func resolveConflict(
        _ collection: Collection, id: DocumentID, expectedLocal: RevisionID, expectedRemote: RevisionID,
        resolution: Resolution, keepsGreater: Bool = false
    ) throws(StoreError) -> SavedRevision {
        guard let row = try row(collection, id) else { throw .conflictMoved(id: id, local: nil, remote: nil) }
        var tree = try tree(collection, of: row, id)
        var remotes = row.remotes
        remotes.spellOut(row.revision)
        guard let record = try conflictRecord(collection, id), let sides = record.sides(tree, remotes) else {
            throw .conflictMoved(id: id, local: row.revision, remote: nil)
        }
        guard sides.local.revision == expectedLocal && sides.remote.revision == expectedRemote else {
            throw .conflictMoved(id: id, local: sides.local.revision, remote: sides.remote.revision)
        }
        let isLocalKept = (record.remoteID == .pusher || keepsGreater && record.remoteID == nil) && sides.remote.revision < sides.local.revision
        let survivor = isLocalKept ? sides.local : sides.remote
        let new: NewRevision?
        if isLocalKept, record.remoteID == nil, resolution == .localWins {
            new = nil
        } else {
            new = try resolved(collection, id, row, sides, survivor, resolution)
        }
        // Where the branches had grown on, what is between fork and leaf goes with the leaf.
        tree.removeBranch(isLocalKept ? sides.remote.revision : sides.local.revision)
        if let new { try add(new, history: [survivor.revision], to: &tree, id) }
        let rest = record.next(tree, result: new?.revision ?? survivor.revision)
        let sequence = try place(
            collection, id, row, &tree, new, remotes: remotes, record: rest, previous: record)
        guard let winner = tree.winner else { throw session.damaged("document \(id) has no revisions") }
        return SavedRevision(revision: winner.revision, sequence: sequence ?? SequenceNumber(row.sequence))
    }

    /// The revision to be added on top of the surviving one; `nil` if that one stays as it is.
    private func resolved(
        _ collection: Collection, _ id: DocumentID, _ row: Row,
        _ sides: (local: RevisionTree.Leaf, remote: RevisionTree.Leaf), _ survivor: RevisionTree.Leaf, _ resolution: Resolution
    ) throws(StoreError) -> NewRevision? {
        let result: [UInt8]
        var isDeleted = false
        func winner(_ side: RevisionTree.Leaf) throws(StoreError) -> [UInt8] {
            guard let body = try body(collection, id, side.revision, row: row) ?? (side.isDeleted ? Array("{}".utf8) : nil) else {
                throw .documentDamaged(id: id, detail: "the body of revision \(side.revision) is missing")
            }
            return body
        }
        switch resolution {
        case .remoteWins where survivor.revision == sides.remote.revision:
            return nil
        case .localWins, .remoteWins:
            let side = resolution == .localWins ? sides.local : sides.remote
            // Both deleted: the surviving tombstone says it all.
            if side.isDeleted && survivor.isDeleted { return nil }
            isDeleted = side.isDeleted
            result = try winner(side)
        case .merged(let merged):
            result = merged
        case .delete:
            if survivor.isDeleted { return nil }
            isDeleted = true
            result = Array("{}".utf8)
        }
        var isMerge = false
        if case .merged = resolution { isMerge = true }
        let scan = try scan(result, id, isPeers: !isMerge)
        let canonical = try canonical(result, scan, id)
        return NewRevision(
            revision: RevisionDigest.revision(parent: survivor.revision, deleted: isDeleted, canonicalBody: canonical),
            isDeleted: isDeleted, body: result, hasBlobs: scan.mayHoldBlobs)
    }
}

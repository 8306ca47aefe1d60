import Documents
import SQLite

extension WriteTransaction {
    /// Ends a conflict, if it is still between the two revisions that the resolver saw.
    ///
    /// In a pulled conflict the remote branch survives, and the local one is removed. Unless the remote side wins unchanged, a new revision becomes
    /// its child, so that it goes to that remote as an ordinary update (replication.md section 8). In a pushed conflict the greater of the two
    /// survives: peers with the other one then see revisions increase. Between two branches without an owner, the one that a remote has survives, if
    /// the other is not known to be at one.
    ///
    /// Peers refuse children of revisions at `DocumentLimits.revisionGeneration`. If that would be the result, the other branch survives; if that has
    /// no room either, or its remote accepts only descendants of its own branch, the survivor is left unchanged.
    /// - Parameter keepsGreater: of two branches without an owner, the greater one survives as well: at a peer that keeps every branch, the others
    ///   end below it.
    /// - Parameter isRemoteSideDoubtful: the remote may have lost its side. Once the conflict is over, it is not known to have any revision, so that it is
    ///   offered the result even if that is its own side.
    /// - Parameter isByHand: a person decided: if another remote has the local side, the result is a revision that this one takes as well.
    /// - Throws: `StoreError.conflictMoved` with the current sides; for `.merged` also the errors of `save`.
    @discardableResult
    public func resolveConflict(
        _ collection: Collection, id: DocumentID, expectedLocal: RevisionID, expectedRemote: RevisionID,
        resolution: Resolution, keepsGreater: Bool = false, isRemoteSideDoubtful: Bool = false, isByHand: Bool = false
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
        let isKnown = (local: remotes.know(sides.local, beside: sides.remote, tree), remote: remotes.know(sides.remote, beside: sides.local, tree))
        var isLocalKept: Bool
        switch record.remoteID {
        // A remote that refuses conflicts accepts only descendants of its own branch.
        case .pusher? where state.keepers.areSeen && isKnown.local != isKnown.remote: isLocalKept = isKnown.local
        case nil where !keepsGreater: isLocalKept = isKnown.local && !isKnown.remote
        case .pusher?, nil: isLocalKept = sides.remote.revision < sides.local.revision
        // Another remote that has our side is brought the result of a person's decision, too: without a later generation, it would refuse that, and the person
        // would be asked again. Not for resolvers, which give the same answer again: in a ring, each machine would make a revision of its own.
        case _?:
            isLocalKept = isByHand && !keepsGreater && resolution != .delete && isKnown.local && sides.local.hasRoom
                && !sides.local.isDeleted && !sides.remote.isDeleted && sides.local.revision.generation >= sides.remote.revision.generation
        }
        let isBodyKept = resolution == .delete || resolution == (isLocalKept ? .localWins : .remoteWins)
        if record.remoteID == nil || record.remoteID == .pusher, !isBodyKept, !(isLocalKept ? sides.local : sides.remote).hasRoom,
            (isLocalKept ? sides.remote : sides.local).hasRoom {
            isLocalKept.toggle()
        }
        let survivor = isLocalKept ? sides.local : sides.remote
        let new: NewRevision?
        if isLocalKept, record.remoteID == nil, resolution == .localWins {
            new = nil
        } else {
            new = try resolved(collection, id, row, sides, survivor, resolution, hasVectors: tree.hasVectors)
        }
        let loser = isLocalKept ? sides.remote : sides.local
        let vectors = (survivor: tree.nearestVector(of: survivor.revision), loser: tree.nearestVector(of: loser.revision))
        try give(up: loser, in: &tree, id)
        if let new { try add(new, history: [survivor.revision], to: &tree, id) }
        try noteDecision(new?.revision ?? survivor.revision, survivor.revision, vectors.survivor, over: loser.revision, vectors.loser, in: &tree)
        let rest = record.next(tree, result: new?.revision ?? survivor.revision)
        if isRemoteSideDoubtful, rest == nil, let remote = record.remoteID { remotes.forget(remote) }
        let sequence = try place(
            collection, id, row, &tree, new, remotes: remotes, record: rest, previous: record)
        // Its body is now on top of the surviving branch, and so is its expiry.
        if resolution == .remoteWins, let new { try moveBranchPurge(collection, id, from: sides.remote.revision, to: new.revision) }
        guard let winner = tree.current else { throw session.damaged("document \(id) has no revisions") }
        return SavedRevision(revision: winner.revision, sequence: sequence ?? SequenceNumber(row.sequence))
    }

    /// Moves a document that is read beside a tombstone on top of it: that is the one of a remote which accepts only its successors, and the pull does not
    /// bring it because it is here. The content becomes a new revision below it, and its branch ends, as if a conflict between the two had been decided for
    /// the document.
    ///
    /// A document that another remote has, too, stays as it is unless its versions can say that the result replaces it: that remote would refuse the
    /// result, and the two would be in each other's way for ever.
    /// - Parameter current: the revision that the remote refused.
    /// - Returns: false if nothing can be done. True if the document was moved, or has changed in the meantime.
    public func moveDocument(
        _ collection: Collection, _ id: DocumentID, _ current: RevisionID, below tombstone: RevisionID, of remote: RemoteID
    ) throws(StoreError) -> Bool {
        guard let row = try row(collection, id), row.revision == current else { return true }
        guard !row.isDeleted, !row.isConflicted else { return false }
        var tree = try tree(collection, of: row, id)
        var remotes = row.remotes
        remotes.spellOut(current)
        guard tree.isTombstone(tombstone), remotes.set(remote, tombstone) else { return false }
        // It was given up here for the one on which the document was created.
        if let end = tree.endOfBranch(of: tombstone), end != tombstone { tree.removeBranch(end, keeping: [tombstone]) }
        guard let local = tree.leaves.first(where: { $0.revision == current }), let survivor = tree.leaves.first(where: { $0.revision == tombstone })
        else { return false }
        let vectors = (survivor: tree.nearestVector(of: tombstone), loser: tree.nearestVector(of: current))
        var others = remotes
        others.forget(remote)
        guard vectors.loser != nil || !others.know(local, beside: survivor, tree),
            let new = try resolved(collection, id, row, (local, survivor), survivor, .localWins, hasVectors: tree.hasVectors)
        else { return false }
        // The tombstone stays: what it ended must not come back.
        let kept = tree.ancestors(of: current).first { tree.isDeleted($0) == true }
        if state.keepers.areSeen { try end(current, in: &tree, id) } else { tree.removeBranch(current, keeping: Set([kept].compactMap(\.self))) }
        try add(new, history: [tombstone], to: &tree, id)
        try noteDecision(new.revision, tombstone, vectors.survivor, over: current, vectors.loser, in: &tree)
        _ = try place(collection, id, row, &tree, new, remotes: remotes, record: nil, previous: nil)
        return true
    }

    /// The result of a decision supersedes both sides: a peer with version vectors that has either one considers it newer.
    func noteDecision(
        _ result: RevisionID, _ survivor: RevisionID, _ survivors: VersionVector?, over loser: RevisionID, _ losers: VersionVector?,
        in tree: inout RevisionTree
    ) throws(StoreError) {
        let standing = (survivor: VectorVersion(standingFor: survivor), loser: VectorVersion(standingFor: loser))
        // Between versions that stand for tree revisions, these peers consider the one with the higher generation newer. If no such peer has
        // connected, nothing is compared in this way.
        if survivors == nil, losers == nil, !state.versions.isInUse || VectorVersion(standingFor: result) > standing.loser { return }
        let sides = (survivor: survivors ?? VersionVector(standing.survivor), loser: losers ?? VersionVector(standing.loser))
        if result == survivor, var vector = survivors, vector.standsFor(sides.loser) {
            vector.absorb(sides.loser)
            tree.setVector(vector, of: result)
        } else {
            let version = try version(for: result, knowing: [sides.survivor, sides.loser], in: tree)
            tree.setVector(.merge(version, [sides.survivor, sides.loser]), of: result)
        }
    }

    /// The revision to be added on top of the surviving one; `nil` if that one stays unchanged.
    private func resolved(
        _ collection: Collection, _ id: DocumentID, _ row: Row,
        _ sides: (local: RevisionTree.Leaf, remote: RevisionTree.Leaf), _ survivor: RevisionTree.Leaf, _ resolution: Resolution,
        hasVectors: Bool
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
        // A peer accepts a live revision alongside its deletion, so it may have ours by now, as the winner. From then on it has to be sent a deletion
        // that supersedes both: unlike with revision ids, it will never be asked for ours again.
        case .remoteWins where hasVectors && survivor.revision == sides.remote.revision && survivor.isDeleted && !sides.local.isDeleted:
            isDeleted = true
            result = try winner(survivor)
        case .remoteWins where survivor.revision == sides.remote.revision:
            return nil
        case .localWins, .remoteWins:
            let side = resolution == .localWins ? sides.local : sides.remote
            // Both are deleted: the surviving tombstone is sufficient.
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
        guard survivor.hasRoom || isDeleted && !survivor.isDeleted else { return nil }
        var isPeers = true
        if case .merged = resolution { isPeers = try hasAttachments(result, of: sides, collection, id, row) }
        let (scan, canonical) = try scanned(result, id, isPeers: isPeers)
        return NewRevision(
            revision: RevisionDigest.revision(parent: survivor.revision, deleted: isDeleted, canonicalBody: canonical),
            isDeleted: isDeleted, body: result, hasBlobs: scan.mayHoldBlobs, isOurs: true)
    }

    /// Anything in a peer's `_attachments` is accepted, and a resolver may pass it on. What the resolver creates itself has to be valid.
    private func hasAttachments(
        _ merged: [UInt8], of sides: (local: RevisionTree.Leaf, remote: RevisionTree.Leaf), _ collection: Collection, _ id: DocumentID, _ row: Row
    ) throws(StoreError) -> Bool {
        guard let made = (try? JSONValue(stored: merged))?["_attachments"] else { return false }
        for side in [sides.remote, sides.local] {
            guard let body = try body(collection, id, side.revision, row: row) else { continue }
            if (try? JSONValue(stored: body))?["_attachments"] == made { return true }
        }
        return false
    }
}

extension RevisionTree.Leaf {
    /// Whether peers accept any child of this revision.
    fileprivate var hasRoom: Bool { revision.generation < DocumentLimits.revisionGeneration }
}

extension KnownRemotes {
    /// Whether a remote is known to have had a revision of that branch.
    fileprivate func know(_ branch: RevisionTree.Leaf, beside other: RevisionTree.Leaf, _ tree: RevisionTree) -> Bool {
        entries.contains { entry in
            guard let known = entry.revision else { return false }
            return (known == branch.revision || tree.isAncestor(known, of: branch.revision)) && !tree.isAncestor(known, of: other.revision)
        }
    }
}

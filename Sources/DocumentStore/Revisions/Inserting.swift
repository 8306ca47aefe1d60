import Documents
import SQLite

// Revisions made elsewhere.
extension WriteTransaction {
    /// Stores a peer's revision, unless it is already stored, and records it as the remote's current one.
    ///
    /// A revision that descends from the current one becomes the current one. For any other revision, it depends on `conflicts`:
    /// - `.refuse` (passive side): it is accepted only if the document is a tombstone with which it has no history in common, or if it is a tombstone
    ///   that ends another branch.
    /// - `.storePushed` (passive side with a resolver): if `.refuse` would refuse it, it becomes a branch of its own and a conflict is recorded.
    /// - `.store` (active side): it becomes a branch of its own and a conflict is recorded, except when the local document is what the remote had
    ///   before (the remote switched branches: ours follows, also to a tombstone that is already here, or from a tombstone to what was created on
    ///   it), when both sides are deleted, or when it continues from another tombstone than ours.
    ///
    /// Of two tombstones both are kept, so that nothing that either of them ended comes back, and the greater is the current one; but a remote that
    /// has one revision of each document is followed to a lesser one: it would refuse ours. A revision that the remote has abandoned since offering
    /// it is not stored. Nor is a side of a conflict whose generation is so high that no decision could follow it.
    ///
    /// - Throws: `StoreError.bodyTooLarge`, `.bodyInvalid`, `.reservedKey`, `.historyInvalid`, `.tooManyBranches`.
    public func insert(
        _ incoming: IncomingRevision, into collection: Collection, conflicts: ConflictHandling
    ) throws(StoreError) -> InsertOutcome {
        if incoming.revision.kind == .version {
            guard incoming.vector != nil else {
                throw .historyInvalid(id: incoming.id, revision: incoming.revision, detail: "a version has to come with its vector")
            }
            guard let located = try locate(incoming, in: collection) else { return .alreadyPresent }
            return try insert(located, into: collection, conflicts: conflicts)
        }
        if !incoming.isDeleted { try checkAdmission(.peers, bytes: incoming.body.count) }
        let tables = try tables(collection)
        let id = incoming.id
        let body = incoming.body.isEmpty ? Array("{}".utf8) : incoming.body
        var mayHoldBlobs = incoming.hasBlobs
        if incoming.isValidated {
            guard body.count <= session.options.maxBodyBytes else {
                throw .bodyTooLarge(id: id, bytes: body.count, limit: session.options.maxBodyBytes)
            }
        } else {
            mayHoldBlobs = try scan(body, id, isPeers: true).mayHoldBlobs
        }
        guard incoming.history.count <= StoreLimits.maxIncomingHistory else {
            throw .historyInvalid(
                id: id, revision: incoming.revision,
                detail: "it has \(incoming.history.count) entries, more than \(StoreLimits.maxIncomingHistory) (max_received_history)")
        }
        let digests = mayHoldBlobs ? try blobs(in: body, id) : []
        let new = NewRevision(
            revision: incoming.revision, isDeleted: incoming.isDeleted, body: body, hasBlobs: !digests.isEmpty, vector: incoming.vector?.vector,
            isOurs: incoming.isLocallyGenerated)
        if let vector = incoming.vector?.vector { try observe(vector, from: incoming.sender) }

        switch try lookUp(tables, id) {
        case .present(let row):
            return try insert(new, incoming, row, collection, tables, conflicts)
        case .absent(let slot):
            try checkGeneration(incoming)
            var flags: Int64 = incoming.isDeleted ? DocumentFlags.deleted : 0
            if !digests.isEmpty { flags |= DocumentFlags.blobs }
            let sequence = try insertNew(
                collection, tables, id, slot: slot, incoming.revision, flags: flags,
                tree: try newTree(new, incoming.history, id),
                remotes: incoming.remote.map { KnownRemotes.current($0) } ?? KnownRemotes.none, body: body)
            if !digests.isEmpty { try addBlobs(tables, id, digests) }
            return .inserted(sequence: SequenceNumber(sequence))
        }
    }

    /// Checked on entry only: a revision that is already stored remains acceptable.
    private func checkGeneration(_ incoming: IncomingRevision) throws(StoreError) {
        guard incoming.isDeleted || incoming.revision.generation <= DocumentLimits.revisionGeneration else {
            throw .historyInvalid(
                id: incoming.id, revision: incoming.revision,
                detail: "its generation is above revisionGeneration = \(DocumentLimits.revisionGeneration)")
        }
    }

    /// A side of a conflict, even a deletion, needs room above it: a decision may put a live revision on top, which peers would refuse beyond the
    /// limit.
    private func checkDecidability(_ incoming: IncomingRevision) throws(StoreError) {
        guard incoming.revision.generation < DocumentLimits.revisionGeneration else {
            throw .historyInvalid(
                id: incoming.id, revision: incoming.revision,
                detail: "it is beside what is here, and no decision between them can follow a generation of "
                    + "revisionGeneration = \(DocumentLimits.revisionGeneration) or more; delete or purge the document on one of the two sides")
        }
    }

    private func newTree(_ new: NewRevision, _ history: RevisionHistory, _ id: DocumentID) throws(StoreError) -> [UInt8]? {
        if history.isEmpty {
            guard let vector = new.vector else { return new.isOurs ? try firstTree(new.revision, isDeleted: new.isDeleted) : nil }
            // Most documents are new and have no ancestors.
            if let encoded = RevisionTree.encoded(new.revision, isDeleted: new.isDeleted, vector: vector) { return encoded }
        }
        var tree = RevisionTree()
        try add(new, history: history, to: &tree, id)
        tree.prune(depth: session.options.historyDepth)
        return StoredTree.encode(tree)
    }

    /// The document exists.
    private func insert(
        _ new: NewRevision, _ incoming: IncomingRevision, _ row: Row, _ collection: Collection,
        _ tables: CollectionTables, _ conflicts: ConflictHandling
    ) throws(StoreError) -> InsertOutcome {
        let id = incoming.id
        var row = row
        if let vector = new.vector, row.revision == new.revision || row.tree != nil { try adopt(vector, new.revision, collection, tables, &row, id) }
        if new.revision == row.revision {
            if let remote = incoming.remote { try setRemote(tables, id, row, remote, new.revision) }
            return .alreadyPresent
        }
        // A damaged document is repaired by an incoming revision, unless that would drop a branch that waits for its resolver.
        let (known, isRebuilt) = row.isConflicted ? (try tree(collection, of: row, id), false) : try treeToWrite(collection, row, id)
        if !incoming.mayLookUpHistory(in: known) {
            throw .historyInvalid(id: id, revision: new.revision, detail: "the generations of its history do not fall")
        }
        let place = IncomingPlace(incoming, row, known, conflicts)
        var tree = place.tree
        let (isHere, replaced, hasWon, ancestor) = (place.isHere, place.replaced, place.hasWon, place.ancestor)
        let (descends, goesOn, fits) = (place.descends, place.goesOn, place.fits)
        if let deletion = place.revivedDeletion {
            var remotes = row.remotes
            remotes.spellOut(row.revision)
            try note(new.revision, of: incoming, in: &remotes)
            let sequence = try self.place(collection, id, row, &tree, nil, remotes: remotes, record: nil, previous: nil)
            return conflicts == .store ? .inserted(sequence: sequence ?? SequenceNumber(row.sequence)) : .ended(current: deletion)
        }
        if isHere, !hasWon, !place.comesBack {
            if conflicts == .refuse {
                let refusal = place.refusal(of: incoming, row)
                if refusal != .alreadyPresent { return refusal }
            }
            guard conflicts == .store, let remote = incoming.remote, row.isLeft(by: remote, for: new.revision, in: tree),
                incoming.leaves(row, for: new.revision, isHere: true)
            else {
                if let remote = incoming.remote { try setRemote(tables, id, row, remote, new.revision) }
                return .alreadyPresent
            }
        } else if !isHere {
            try checkGeneration(incoming)
        }
        if new.isDeleted, place.standIns.isEmpty, let outcome = try endBranch(new, incoming, row, collection, tree) { return outcome }
        if !fits && conflicts == .refuse { return .conflict(current: row.revision) }
        var remotes = row.remotes
        remotes.spellOut(row.revision)
        let remoteBefore = incoming.remote.flatMap { remotes.revision($0, current: row.revision) }
        // It was in transit for long, perhaps behind a slow filter: by now the remote has another one, and ours came from that. A descendant of the
        // remote's last known revision is newer, however, even if the remote was known to have an earlier one when it was offered.
        if !descends, !incoming.isDisputed, !incoming.wasOffered(after: remoteBefore), remoteBefore.map({ !incoming.history.contains($0) }) ?? true {
            return .alreadyPresent
        }
        try note(new.revision, of: incoming, in: &remotes)
        if !isHere { try add(new, history: incoming.history, to: &tree, id) }
        // Otherwise only the end of its branch would be left, and the document would be gone although nobody deleted it.
        let isRevived = place.comesBack || hasWon && !new.isDeleted && tree.reviveBranch(new.revision)
        for leaf in replaced { tree.removeBranch(leaf) }

        let previous = row.isConflicted ? try conflictRecord(collection, id) : nil
        var record = previous?.settled(&tree, remotes, newest: new.revision, kept: incoming.peerLeaves)
        if conflicts == .store && !descends || conflicts == .storePushed && !fits {
            let isSynced = remoteBefore == row.revision && !row.isConflicted
            let switched = isSynced && !incoming.isDisputed && !incoming.peerLeaves.contains(row.revision) && incoming.leaves(row, for: new.revision, isHere: isHere)
            // Created by a peer that never had the document, or after a deletion of which the remote had another tombstone than ours. The tombstone stays
            // alongside it, as it does at the remote.
            let isRemoteDeleted = remoteBefore.map { $0 == row.revision || tree.isTombstone($0) } ?? false
            let isCreatedOnTombstone = isRemoteDeleted && !row.isConflicted && row.isDeleted && !new.isDeleted && ancestor == nil
            if row.isDeleted, new.isDeleted, !row.isConflicted {
                if new.revision < row.revision, incoming.remote != nil, incoming.peerHasOne {
                    if switched { remotes.leave(row.revision) }
                    try end(row.revision, in: &tree, id)
                }
            } else if goesOn {
                // Readers get the live revision; the tombstone stays alongside it.
            } else if switched, !isCreatedOnTombstone, new.revision < row.revision, let left = tree.leaves.first(where: { $0.revision == row.revision }) {
                remotes.leave(left.revision)
                let isOfTrees = tree.nearestVector(of: new.revision) == nil && tree.nearestVector(of: left.revision) == nil
                // Otherwise peers that keep every branch, and those with version vectors, would continue to read it.
                try give(up: left, in: &tree, id)
                if isOfTrees { try noteDecision(new.revision, new.revision, nil, over: left.revision, nil, in: &tree) }
            } else if !isCreatedOnTombstone, switched {
                tree.removeBranch(row.revision)
            } else if !isCreatedOnTombstone {
                if !isHere { try checkDecidability(incoming) }
                if record == nil {
                    record = ConflictRecord(
                        local: row.revision, remoteID: conflicts == .storePushed ? .pusher : incoming.remote, remote: new.revision,
                        since: state.now
                    ).still(tree, remotes)
                }
            }
        }
        let sequence = try self.place(
            collection, id, row, &tree, isHere && !isRevived ? nil : new, remotes: remotes, record: record, previous: previous)
        if isRebuilt { session.problems.forget(collection.name, id) }
        if let sides = record?.sides(tree, remotes) {
            return .insertedConflict(local: sides.local.revision, remote: sides.remote.revision, sequence: sequence)
        }
        return .inserted(sequence: sequence ?? SequenceNumber(row.sequence))
    }

    /// Notes that the remote has the revision, if it came from one.
    private func note(_ revision: RevisionID, of incoming: IncomingRevision, in remotes: inout KnownRemotes) throws(StoreError) {
        guard let remote = incoming.remote, !remotes.set(remote, revision) else { return }
        throw .tooManyBranches(id: incoming.id, limit: StoreLimits.maxRemotesPerDocument)
    }

    /// Records what a peer knows about the versions of a stored revision. Another name of the current revision need not be announced: every peer that
    /// has the revision has it under one name or the other. A revision based on a renamed ancestor is offered again: a peer that knew the ancestor by
    /// the other name can now tell that the revision is newer.
    private func adopt(
        _ vector: VersionVector, _ revision: RevisionID, _ collection: Collection, _ tables: CollectionTables, _ row: inout Row, _ id: DocumentID
    ) throws(StoreError) {
        var tree = try treeToWrite(collection, row, id).tree
        guard adopt(vector, of: revision, in: &tree) else { return }
        row.tree = StoredTree.encode(tree)
        let isAncestor = tree.isAncestor(revision, of: row.revision)
        let statement = try tables.statement(isAncestor ? .move : .update)
        statement.bind(1, row.sequence)
        statement.bind(2, row.flags)
        statement.bind(3, row.tree)
        statement.bind(4, row.remotes.encoded())
        if isAncestor {
            row.sequence = try nextSequence(collection)
            statement.bind(5, row.sequence)
            tables.index.set(row.slot, row.sequence)
        }
        try session.run(statement)
        state.rows += 1
    }

    /// Takes a tombstone that ends one of several branches, which is not a side of a conflict: only live revisions are in conflict with each other.
    ///
    /// - Returns: nil for one that is to be treated like any other revision.
    private func endBranch(
        _ new: NewRevision, _ incoming: IncomingRevision, _ row: Row, _ collection: Collection, _ tree: RevisionTree
    ) throws(StoreError) -> InsertOutcome? {
        if case .document = incoming.deletion { return nil }
        let ancestor = incoming.history.first { tree.contains($0) }
        let isHere = ancestor.map { tree.isLeaf($0) && tree.isDeleted($0) == false } ?? false
        let hasLiveBranch = tree.leaves.contains { !$0.isDeleted && $0.revision != ancestor }
        if case .otherLeaf = incoming.deletion {
            guard hasLiveBranch, isHere else { return .alreadyPresent }
        } else if !hasLiveBranch {
            return nil
        }
        // It ends nothing here, and could become current by the document's next deletion.
        if !isHere, !tree.contains(new.revision) { try checkDecidability(incoming) }
        let id = incoming.id
        var (tree, remotes) = (tree, row.remotes)
        remotes.spellOut(row.revision)
        try add(new, history: incoming.history, to: &tree, id)
        let previous = row.isConflicted ? try conflictRecord(collection, id) : nil
        let record = previous?.without(new.revision, tree, remotes)
        let sequence = try place(collection, id, row, &tree, new, remotes: remotes, record: record, previous: previous)
        if let sides = record?.sides(tree, remotes) {
            return .insertedConflict(local: sides.local.revision, remote: sides.remote.revision, sequence: sequence)
        }
        return .inserted(sequence: sequence ?? SequenceNumber(row.sequence))
    }
}

extension ReadTransaction.Row {
    /// Whether the remote was known to have the current revision, and offers another leaf that is here: then it has switched to that one.
    func isLeft(by remote: RemoteID, for leaf: RevisionID, in tree: RevisionTree) -> Bool {
        leaf != revision && !isDeleted && !isConflicted && remotes.revision(remote, current: revision) == revision && tree.isLeaf(leaf)
    }
}

extension IncomingRevision {
    /// Whether the remote abandoned the branch that it shared with us, and nothing was edited here, so that we follow. Only if it had that branch
    /// when it offered this revision. It switched to a lesser revision because the other one ended there, by a deletion or a decision: a peer that
    /// still has both reads the greater. Each revision is abandoned in this way only once: otherwise two revisions could chase each other forever in
    /// a ring of agents, each following the next. The second time it is a conflict, whose decision ends that. A revision that the remote has ended,
    /// as far as we are told, cannot come back, so we may follow any number of times; the same goes for a tombstone that was beside it all along.
    fileprivate func leaves(_ row: ReadTransaction.Row, for new: RevisionID, isHere: Bool) -> Bool {
        if endedLeaves.contains(row.revision) { return true }
        return peerHad != .unknown && wasOffered(after: row.revision)
            && (row.revision < new || isHere && isDeleted || peerHasOne && !row.remotes.left.contains(row.revision))
    }
}

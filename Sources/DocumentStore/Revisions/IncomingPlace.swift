import Documents

/// The place of an incoming revision in the document's tree. Determined without the revision's body.
struct IncomingPlace {
    /// The document's tree, without a branch that lost a decision here and that the peer continues.
    let tree: RevisionTree
    let isHere: Bool
    /// Leaves that are, or stand for, ancestors of it, as its history says and the tree here does not.
    let standIns: [RevisionID]
    /// Leaves that its version vector covers, whatever branch it belongs to itself.
    let replaced: [RevisionID]
    /// A branch alongside the current revision may have won elsewhere.
    let hasWon: Bool
    /// It was given up here for a revision that does not cover it, and the peer has it after all: a tombstone, or what is to be decided once more.
    let comesBack: Bool
    /// A deletion of this revision that lost a decision here, and counts again; ``tree`` has it as a leaf.
    let revivedDeletion: RevisionID?
    /// Its newest ancestor that is here.
    let ancestor: RevisionID?
    let descends: Bool
    /// It was created on top of a tombstone, and the tombstone here is merely a different one; or nobody deleted the document.
    let goesOn: Bool
    /// It is not in conflict with anything here.
    let fits: Bool

    init(_ incoming: IncomingRevision, _ row: ReadTransaction.Row, _ known: RevisionTree, _ conflicts: ConflictHandling) {
        var tree = known
        let revision = incoming.revision
        // A peer that keeps one branch may continue the one that lost a decision here. A peer that keeps every branch just has not learned yet that
        // it ended. A branch that was deleted before it lost stays deleted; it becomes the peer's again if the peer reports each of its tombstones.
        let isOfRemote = conflicts == .store && incoming.remote != nil
        let isNobodysDeletion = tree.isNobodysDeletion(row.revision)
        let mayComeBack = incoming.isDeleted && row.isDeleted && isOfRemote
        var comesBack = false
        var revivedDeletion: RevisionID?
        if isNobodysDeletion, !incoming.isDeleted, tree.isDeleted(revision) == false {
            comesBack = tree.reviveBranch(revision)
            if !comesBack { revivedDeletion = tree.reviveDeletion(of: revision) }
        } else if incoming.isResumed {
            tree.removeDeadBranches(of: revision, but: row.revision)
        } else if case .document = incoming.deletion, case let ends = tree.endsOfBranch(of: revision), !ends.isEmpty, !ends.contains(row.revision) {
            if incoming.vector != nil {
                // Where the decision was made by revision ids, no vector tells the peer of it.
                let isLive = !incoming.isDeleted && isOfRemote && incoming.peerHasOne && tree.isDeleted(revision) == false
                comesBack = (mayComeBack || isLive) && tree.isGivenUp(revision, for: row.revision)
                if comesBack { for end in ends { tree.removeBranch(end, keeping: [revision]) } }
            } else if mayComeBack || !row.isDeleted && incoming.history.contains(row.revision) || !ends.contains(where: tree.endsTombstone) {
                // Also a deletion that lost to what is current, if the peer has it as a successor of that.
                for end in ends { tree.removeBranch(end) }
            }
        }
        let isHere = tree.contains(revision)
        let ancestor = incoming.history.first { tree.contains($0) }
        var standIns = incoming.vector == nil ? tree.standIns(for: incoming.history, of: revision) : []
        // An ancestor that had been forgotten here, and that a peer brought back in the meantime.
        if incoming.vector == nil, isHere ? tree.isLeaf(revision) : ancestor != row.revision, incoming.history.contains(row.revision) { standIns.append(row.revision) }
        let replaced = incoming.vector.map { vector in tree.known(tree.leaves.map(\.revision).filter { $0 != revision }, to: vector) } ?? standIns
        hasWon = isHere && replaced.contains(row.revision) && !tree.isAncestor(revision, of: row.revision)
        descends = ancestor == row.revision || replaced.contains(row.revision)
        // Once all branches are deleted, there is nothing left to decide, though an earlier version may have recorded a conflict between them.
        let isOver = row.isDeleted && (!row.isConflicted || tree.leaves.allSatisfy(\.isDeleted))
        goesOn = isNobodysDeletion || isOver && ancestor.map { tree.isTombstone($0) } == true
        // What a passive side accepts without a resolver, it accepts with one as well.
        let isRecreated = row.isDeleted && ancestor == nil && !(incoming.missesDeletion && !incoming.isDeleted)
        fits = descends || goesOn || isRecreated || incoming.isDeleted && ancestor.map { tree.isLeaf($0) } == true
        (self.tree, self.isHere, self.standIns, self.replaced, self.ancestor) = (tree, isHere, standIns, replaced, ancestor)
        (self.comesBack, self.revivedDeletion) = (comesBack, revivedDeletion)
    }

    /// The answer of a side that refuses conflicts, for a revision that is here and is not the current one.
    func refusal(of incoming: IncomingRevision, _ row: ReadTransaction.Row) -> InsertOutcome {
        // Judging by versions, the sender takes a tombstone alongside ours to be newer than what it knows of, and would send it again and again.
        if incoming.vector != nil, row.isDeleted, tree.isTombstone(incoming.revision) { return .alreadyPresent }
        // Another branch has become current here, which its sender does not know yet.
        if tree.isAncestor(incoming.revision, of: row.revision) { return .alreadyPresent }
        let isDeleted = tree.leaves.contains { $0.isDeleted && !tree.isEnd($0.revision) && tree.isAncestor(incoming.revision, of: $0.revision) }
        return isDeleted ? .ended(current: row.revision) : .conflict(current: row.revision)
    }
}

extension IncomingRevision {
    /// Whether the answer may depend on which ids of the history are known here: with one of each generation, a sender learns little by guessing. Not
    /// examined where the parent is known, as almost always, because then the rest is not looked up.
    func mayLookUpHistory(in tree: RevisionTree) -> Bool {
        guard vector == nil, let parent = history.first, !tree.contains(parent) else { return true }
        return history.descends(from: revision)
    }
}

extension ReadTransaction {
    /// The result of ``WriteTransaction/insert(_:into:conflicts:)`` with `.refuse` for a revision that is not a deletion, if that is certain without
    /// its body: it is in conflict, or already present. Nil if it may be stored, or if only the body or the writer can tell.
    ///
    /// - Parameters:
    ///   - incoming: its body is ignored.
    ///   - bytes: upper bound of the body's size.
    public final func refusal(of incoming: IncomingRevision, bytes: Int, in collection: Collection) throws(StoreError) -> InsertOutcome? {
        guard !incoming.isDeleted, incoming.remote == nil, incoming.history.count <= StoreLimits.maxIncomingHistory,
            bytes <= session.options.maxBodyBytes, session.options.refusal(.peers, bytes + WriteTransaction.bytesBesideBody) == nil,
            let row = try row(collection, incoming.id)
        else { return nil }
        // An incoming revision may repair a damaged document.
        guard let tree = try? StoredTree.decode(row.tree, incoming.id, only: row.revision, deleted: row.isDeleted) else { return nil }
        var incoming = incoming
        if let vector = incoming.vector {
            // What it says about versions that were made here, and any new versions that it reports, are for the writer to examine.
            guard try !isOfOwnSources(vector.vector) else { return nil }
            switch tree.place(of: vector, current: row.revision) {
            case .superseded: return .alreadyPresent
            case .here(let revision):
                guard let known = tree.vector(of: revision), known == vector.vector || known.knows(all: vector.vector) else { return nil }
                (incoming.revision, incoming.history) = (revision, [])
            case .below(let parent):
                incoming.take(vector, below: parent, tree)
                if tree.contains(incoming.revision) { return nil }
            }
        } else if incoming.revision.kind == .version {
            return nil
        }
        if incoming.revision == row.revision { return .alreadyPresent }
        // The writer says what is wrong with it.
        if !incoming.mayLookUpHistory(in: tree) { return nil }
        let place = IncomingPlace(incoming, row, tree, .refuse)
        if place.revivedDeletion != nil { return nil }
        if place.isHere, !place.hasWon, !place.comesBack { return place.refusal(of: incoming, row) }
        guard !place.fits, incoming.revision.generation <= DocumentLimits.revisionGeneration else { return nil }
        return .conflict(current: row.revision)
    }

    /// Whether any of its versions were made under a source id that this database uses or used, as far as these ids are durable: no versions were
    /// made under others yet.
    private func isOfOwnSources(_ vector: VersionVector) throws(StoreError) -> Bool {
        let names = [try property(VersionProperty.source) ?? ""] + (try property(VersionProperty.givenUp) ?? "").split(separator: ",").map(String.init)
        let own = names.compactMap { SourceID(text: $0) }
        return ([vector.current] + vector.others).contains { own.contains($0.source) }
    }
}

extension RevisionTree {
    /// Removes a revision with all that is based on it, if each of its branches has ended or was deleted, and none of them is the current one.
    fileprivate mutating func removeDeadBranches(of revision: RevisionID, but current: RevisionID) {
        let ends = leaves.filter { $0.revision == revision || isAncestor(revision, of: $0.revision) }
        guard ends.allSatisfy({ $0.isDeleted && $0.revision != current }) else { return }
        for end in ends { removeBranch(end.revision) }
    }
}

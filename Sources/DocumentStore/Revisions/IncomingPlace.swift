import Documents

/// What the tree of a document says of a revision that comes to it. Nothing of it needs the revision's body.
struct IncomingPlace {
    /// Without a branch that lost a decision here and that the peer goes on with.
    let tree: RevisionTree
    let isHere: Bool
    let standIns: [RevisionID]
    /// Leaves that it knows of by its version vector, whatever branch of the tree it is of.
    let replaced: [RevisionID]
    /// What was beside the current revision may have won elsewhere.
    let hasWon: Bool
    /// The newest of its ancestors that is here.
    let ancestor: RevisionID?
    let descends: Bool
    /// Somebody made it on top of a deletion, of which ours is but another one.
    let goesOn: Bool
    /// It is in conflict with nothing that is here.
    let fits: Bool

    init(_ incoming: IncomingRevision, _ row: ReadTransaction.Row, _ known: RevisionTree, _ conflicts: ConflictHandling) {
        var tree = known
        let revision = incoming.revision
        // A peer with one branch goes on with what lost a decision here. One that keeps every branch has just not heard yet that it ended.
        // What was deleted before it lost stays deleted, and becomes the peer's once more if that tells each of its tombstones.
        if case .document = incoming.deletion, incoming.vector == nil, let end = tree.endOfBranch(of: revision), end != row.revision,
            !tree.endsTombstone(end) || incoming.isDeleted && row.isDeleted && conflicts == .store && incoming.remote != nil {
            tree.removeBranch(end)
        }
        let (isHere, standIns) = (tree.contains(revision), incoming.vector == nil ? tree.standIns(for: incoming.history, of: revision) : [])
        let replaced = incoming.vector.map { vector in tree.known(tree.leaves.map(\.revision).filter { $0 != revision }, to: vector) } ?? standIns
        hasWon = isHere && replaced.contains(row.revision) && !tree.isAncestor(revision, of: row.revision)
        let ancestor = incoming.history.first { tree.contains($0) }
        descends = ancestor == row.revision || replaced.contains(row.revision)
        goesOn = row.isDeleted && !row.isConflicted && ancestor.map { tree.isTombstone($0) } == true
        // What a passive side takes without a resolver, it takes with one as well.
        let isRecreated = row.isDeleted && ancestor == nil && !(incoming.missesDeletion && !incoming.isDeleted)
        fits = descends || goesOn || isRecreated || incoming.isDeleted && ancestor.map { tree.isLeaf($0) } == true
        (self.tree, self.isHere, self.standIns, self.replaced, self.ancestor) = (tree, isHere, standIns, replaced, ancestor)
    }

    /// What a side that refuses conflicts says of a revision that is here and is not the current one.
    func refusal(of incoming: IncomingRevision, _ row: ReadTransaction.Row) -> InsertOutcome {
        // By versions a deletion beside ours is newer than what its sender knows of, and comes again and again.
        if incoming.vector != nil, row.isDeleted, tree.isTombstone(incoming.revision) { return .alreadyPresent }
        // It is beside what is current here since, and its sender does not know of that yet.
        return tree.isAncestor(incoming.revision, of: row.revision) ? .alreadyPresent : .conflict(current: row.revision)
    }
}

extension ReadTransaction {
    /// What ``WriteTransaction/insert(_:into:conflicts:)`` would say with `.refuse` of a revision that is no deletion, where that is certain
    /// before anybody has its body: it is in conflict, or here already. Nil where it may be stored, or where only the body or the writer can tell.
    ///
    /// - Parameters:
    ///   - incoming: its body is not looked at.
    ///   - bytes: what the body may come to.
    public final func refusal(of incoming: IncomingRevision, bytes: Int, in collection: Collection) throws(StoreError) -> InsertOutcome? {
        guard !incoming.isDeleted, incoming.remote == nil, incoming.history.count <= StoreLimits.maxIncomingHistory,
            bytes <= session.options.maxBodyBytes, session.options.refusal(.peers, bytes + WriteTransaction.bytesBesideBody) == nil,
            let row = try row(collection, incoming.id)
        else { return nil }
        // What comes may repair a damaged document.
        guard let tree = try? StoredTree.decode(row.tree, incoming.id, only: row.revision, deleted: row.isDeleted) else { return nil }
        var incoming = incoming
        if let vector = incoming.vector {
            // What it says of versions that were made here is for the writer to look at, and what it has to say that is new.
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
        let place = IncomingPlace(incoming, row, tree, .refuse)
        if place.isHere, !place.hasWon { return place.refusal(of: incoming, row) }
        guard !place.fits, incoming.revision.generation <= DocumentLimits.revisionGeneration else { return nil }
        return .conflict(current: row.revision)
    }

    /// Whether versions of it were made under a name that this database has or had, as far as that is durable: others have no versions yet.
    private func isOfOwnSources(_ vector: VersionVector) throws(StoreError) -> Bool {
        let names = [try property(VersionProperty.source) ?? ""] + (try property(VersionProperty.givenUp) ?? "").split(separator: ",").map(String.init)
        let own = names.compactMap { SourceID(text: $0) }
        return ([vector.current] + vector.others).contains { own.contains($0.source) }
    }
}

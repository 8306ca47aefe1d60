import Documents

// Revisions by the names that peers with version vectors use for them.
extension ReadTransaction {
    /// The revision that a peer means. It need not be stored any more if it is named by its id; nil for a version that is not here.
    public final func revision(named name: RevisionID, _ collection: Collection, _ id: DocumentID) throws(StoreError) -> RevisionID? {
        guard name.kind == .version else { return name }
        guard let row = try row(collection, id) else { return nil }
        return try revision(named: name, collection, id, row)
    }

    final func revision(named name: RevisionID, _ collection: Collection, _ id: DocumentID, _ row: Row) throws(StoreError) -> RevisionID? {
        guard name.kind == .version else { return name }
        return try tree(collection, of: row, id).revision(named: name)
    }

    /// The peers' name for the current revision; nil for a document that does not exist.
    public final func currentName(_ collection: Collection, _ id: DocumentID, _ naming: RevisionNaming) throws(StoreError) -> RevisionID? {
        guard let row = try row(collection, id) else { return nil }
        return try name(of: row.revision, collection, id, row, naming)
    }

    final func name(
        of revision: RevisionID, _ collection: Collection, _ id: DocumentID, _ row: Row, _ naming: RevisionNaming
    ) throws(StoreError) -> RevisionID {
        guard row.tree != nil else { return revision.named(naming) }
        return naming == .trees ? revision : try tree(collection, of: row, id).name(of: revision, naming)
    }

    /// The version vector of the current revision; nil if it has none.
    public final func currentVector(_ collection: Collection, _ id: DocumentID) throws(StoreError) -> VersionVector? {
        guard let row = try row(collection, id), row.tree != nil else { return nil }
        return try tree(collection, of: row, id).vector(of: row.revision)
    }
}

extension WriteTransaction {
    /// Places a revision with a version vector in the tree: determines its id there, and its ancestors.
    ///
    /// - Parameter isUnaware: its sender may not see the stored document, and has not named its revision: the new revision replaces nothing, and is put
    ///   beside it.
    /// - Returns: the revision to insert; nil if a leaf already covers it.
    public func locate(
        _ incoming: IncomingRevision, in collection: Collection, isUnaware: Bool = false
    ) throws(StoreError) -> IncomingRevision? {
        var located = incoming
        let row = try row(collection, incoming.id)
        var tree = RevisionTree()
        // A damaged tree is rebuilt from the current revision when it is written.
        if let row { tree = try treeToWrite(collection, row, incoming.id).tree }
        located.offeredBefore = incoming.offeredBefore.map { tree.revision(named: $0) ?? $0 }
        if case .had(let name) = incoming.peerHad { located.peerHad = tree.revision(named: name).map { .had($0) } ?? .unknown }
        guard var vector = incoming.vector else { return located }
        guard let row else {
            located.take(vector, below: nil, tree)
            return located
        }
        if isUnaware {
            vector = vector.alone
            located.vector = vector
            located.take(vector, below: nil, tree)
            return located
        }
        // All versions ever made with our own source id are known here.
        if let real = vector.withoutFabricated(of: try ownSources(), isReal: tree.mentions) {
            try observe(vector.vector, from: incoming.sender)
            vector = real
            located.vector = real
            located.isDisputed = true
        }
        switch tree.place(of: vector, current: row.revision) {
        case .superseded: return nil
        case .here(let revision): (located.revision, located.history) = (revision, [])
        case .below(let parent): located.take(vector, below: parent, tree)
        }
        return located
    }

    /// Adds what a peer knows about the versions of a stored revision.
    ///
    /// - Returns: whether anything was new.
    func adopt(_ vector: VersionVector, of revision: RevisionID, in tree: inout RevisionTree) -> Bool {
        guard tree.contains(revision) else { return false }
        guard var known = tree.vector(of: revision) else {
            tree.setVector(vector, of: revision)
            return true
        }
        if vector == known || known.knows(all: vector) { return false }
        // One revision has two names: everybody uses the later one.
        if vector.current <= known.current {
            known.absorb(vector)
        } else {
            var later = vector
            later.absorb(known)
            known = later
        }
        tree.setVector(known, of: revision)
        // Its descendants cover it under both names.
        for leaf in tree.leaves where leaf.revision != revision && tree.isAncestor(revision, of: leaf.revision) {
            guard var vector = tree.vector(of: leaf.revision) else { continue }
            vector.take(older: [known.current] + known.others)
            tree.setVector(vector, of: leaf.revision)
        }
        return true
    }
}

extension IncomingRevision {
    /// Gives the revision its place in the tree: an id and ancestors.
    mutating func take(_ vector: VectorHistory, below parent: RevisionID?, _ tree: RevisionTree) {
        // The id that it has elsewhere, so that peers with revision trees see the same id everywhere. It may belong to another branch than the
        // revision that it replaces, if it is the result of a decision between the two.
        if let place = vector.place {
            (revision, history) = (place.revision, tree.contains(place.revision) ? [] : place.history)
            return
        }
        let below = parent ?? vector.revisions.first
        revision = RevisionTree.revision(of: vector.vector.current, below: below, isDeleted: isDeleted)
        history = parent.map { [$0] } ?? vector.revisions
    }
}

import Documents
import DocumentStore

// What the engine does not look into: how versions are called, and what their names say.

extension Version {
    /// It is named by an id of revision trees, and not by a version.
    var isOfTree: Bool { kind == .tree }
}

extension OutgoingDocument {
    /// Everything by the names of a peer that has version vectors.
    mutating func takeNames(_ tree: RevisionTree, _ naming: RevisionNaming, _ historyLimit: Int) {
        self.vector = tree.vectorHistory(of: self.version, self.history, naming, historyLimit)
        if let end = self.peersEnd {
            // The vector may say that its branch is over. It does not where both ended by themselves.
            let isSaid = self.vector?.vector.knows(tree.vector(of: end.version)?.current ?? VectorVersion(standingFor: end.version)) == true
            self.peersEnd = isSaid ? nil : end.named(tree, naming, historyLimit)
        }
        // Versions may have come for ancestors of a revision that has only an id: the history of an id is read as ids.
        let names = self.vector == nil ? .trees : naming
        self.version = tree.name(of: self.version, names)
        self.history = self.history.map { tree.name(of: $0, names) }
        self.peerVersion = self.peerVersion.map { tree.name(of: $0, names) }
    }

    /// Whether the other revision is an ancestor, be it one that its history leaves out.
    func mayDescend(from other: Version) -> Bool {
        self.history.contains(other) || (self.history.last ?? self.version).generation > other.generation
    }
}

extension BranchEnd {
    /// By the names of a peer that has version vectors.
    func named(_ tree: RevisionTree, _ naming: RevisionNaming, _ historyLimit: Int) -> BranchEnd {
        let vector = tree.vectorHistory(of: version, history, naming, historyLimit)
        let names = vector == nil ? .trees : naming
        return BranchEnd(version: tree.name(of: version, names), history: history.map { tree.name(of: $0, names) }, vector: vector)
    }
}

extension RevisionTree {
    /// What a peer that has version vectors is told of the versions behind a revision; nil for one that it knows by its id.
    ///
    /// - Parameter history: its ancestors, as they go to the peer.
    fileprivate func vectorHistory(of revision: Version, _ history: [Version], _ naming: RevisionNaming, _ limit: Int) -> VectorHistory? {
        let own = vector(of: revision)
        guard var vector = own ?? (naming == .versionsOnly ? VersionVector(VectorVersion(standingFor: revision)) : nil) else { return nil }
        let ancestors = unversionedAncestors(of: revision, limit: limit)
        if naming == .versionsOnly, hasSeveralLeaves, isDeleted(revision) == false { vector.take(older: tombstones(beside: vector.current)) }
        // By whichever name the peer knows them.
        if naming == .versionsOnly, own != nil, let nearest = ancestors.first { vector.take(older: [VectorVersion(standingFor: nearest)]) }
        var named = VectorHistory(vector, revisions: RevisionHistory(ancestors))
        if own != nil { named.place = VectorHistory.TreePlace(revision: revision, history: RevisionHistory(history)) }
        return named
    }

    /// What lives is read in place of the tombstones beside it, as where somebody made a document anew who never had the one that was deleted. A peer that
    /// has such a tombstone takes for newer what knows of it, and by its own rule keeps it against anything else.
    private func tombstones(beside version: VectorVersion) -> [VectorVersion] {
        var versions: [VectorVersion] = []
        for leaf in leaves where leaf.isDeleted {
            let vector = comparableVector(of: leaf.revision)
            versions += [vector.current] + vector.others
        }
        // Of what stands for revisions of trees none knows of another.
        return versions.filter { $0.source != .revisionTree || version.source != .revisionTree }
    }
}

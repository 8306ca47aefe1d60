import Documents
import DocumentStore

// What the engine treats as opaque: how versions are named, and what their names say.

extension Version {
    /// Whether it is named by a revision-tree id rather than a version.
    var namesTreeRevision: Bool { kind == .tree }

    /// The tombstone in which the branch ends if this revision, by which it is current, loses a decision: the same on every machine.
    var endOfBranch: Version { RevisionTree.end(of: self) }
}

extension OutgoingDocument {
    /// Translates all names to those used by a peer with version vectors.
    mutating func takeNames(_ tree: RevisionTree, _ naming: RevisionNaming, _ historyLimit: Int) {
        self.vector = tree.vectorHistory(of: self.version, self.history, naming, historyLimit)
        if let end = self.peerBranchEnd {
            // The vector may already imply that the branch is over. It does not if both branches ended independently.
            let isSaid = self.vector?.vector.knows(tree.vector(of: end.version)?.current ?? VectorVersion(standingFor: end.version)) == true
            self.peerBranchEnd = isSaid ? nil : end.named(tree, naming, historyLimit)
        }
        // Versions may have been assigned to ancestors of a revision that only has an id: the history of an id is read as ids.
        let names = self.vector == nil ? .trees : naming
        self.version = tree.name(of: self.version, names)
        self.history = self.history.map { tree.name(of: $0, names) }
        self.peerVersion = self.peerVersion.map { tree.name(of: $0, names) }
    }

    /// Whether the other revision may be an ancestor, even one that its history leaves out.
    func mayDescend(from other: Version) -> Bool {
        self.history.contains(other) || (self.history.last ?? self.version).generation > other.generation
    }
}

extension BranchEnd {
    /// The same with the names used by a peer with version vectors.
    func named(_ tree: RevisionTree, _ naming: RevisionNaming, _ historyLimit: Int) -> BranchEnd {
        let vector = tree.vectorHistory(of: version, history, naming, historyLimit)
        let names = vector == nil ? .trees : naming
        return BranchEnd(version: tree.name(of: version, names), history: history.map { tree.name(of: $0, names) }, vector: vector)
    }
}

extension RevisionTree {
    /// What a peer with version vectors is told of the versions behind a revision; nil for one that it knows by its id.
    ///
    /// - Parameter history: its ancestors, as sent to the peer.
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

    /// A live revision replaces the tombstones beside it, for example if somebody who never had the deleted document created it again. A peer with
    /// such a tombstone considers a revision newer if its vector covers the tombstone, and otherwise keeps the tombstone, by its own rule.
    private func tombstones(beside version: VectorVersion) -> [VectorVersion] {
        var versions: [VectorVersion] = []
        for leaf in leaves where leaf.isDeleted {
            // Of a tombstone that was given up for another one, the peer may know nothing but the tombstone itself.
            let isGivenUp = isEnd(leaf.revision) && endsTombstone(leaf.revision)
            let vector = comparableVector(of: isGivenUp ? parent(of: leaf.revision) ?? leaf.revision : leaf.revision)
            versions += [vector.current] + vector.others
        }
        // Versions that stand for tree revisions do not cover one another.
        return versions.filter { $0.source != .revisionTree || version.source != .revisionTree }
    }
}

// A document's revisions have their places in the tree. Those that a peer of version vectors made, and those that were made on top of
// them, have a version vector as well: it names them to such peers.
extension RevisionTree {
    public var hasVectors: Bool { !vectors.isEmpty }

    public func vector(of revision: RevisionID) -> VersionVector? { vectors.isEmpty ? nil : vectors[revision] }

    /// Gives a revision of the tree its vector.
    public mutating func setVector(_ vector: VersionVector, of revision: RevisionID) {
        guard contains(revision) else { return }
        vectors.set(vector, of: revision)
    }

    /// The vector of the revision, or else of its newest ancestor that has one.
    public func nearestVector(of revision: RevisionID) -> VersionVector? {
        if vectors.isEmpty { return nil }
        return vectors[revision] ?? ancestors(of: revision).lazy.compactMap { vectors[$0] }.first
    }

    /// What a revision is compared by where it has no vector.
    public func comparableVector(of revision: RevisionID) -> VersionVector {
        vector(of: revision) ?? VersionVector(VectorVersion(standingFor: revision))
    }

    // MARK: Names

    /// What a peer calls a revision.
    public func name(of revision: RevisionID, _ naming: RevisionNaming = .vectors) -> RevisionID {
        guard naming != .trees else { return revision }
        return vector(of: revision).map { RevisionID($0.current) } ?? revision.named(naming)
    }

    /// The revision that such a peer means; nil for one that is not here.
    public func revision(named name: RevisionID) -> RevisionID? {
        guard name.kind == .version else { return contains(name) ? name : nil }
        return name.version.flatMap { revision(of: $0) }
    }

    private func revision(of version: VectorVersion) -> RevisionID? {
        if let found = vectors.revision(of: version) { return found }
        guard version.source == .revisionTree else { return nil }
        return entries.lazy.map(\.revision).first { VectorVersion(standingFor: $0) == version }
    }

    /// Ancestors of a revision that have no versions, newest first: the end of its history for peers of version vectors.
    public func unversionedAncestors(of revision: RevisionID, limit: Int) -> [RevisionID] {
        Array(ancestors(of: revision).lazy.filter { vectors[$0] == nil }.prefix(limit))
    }

    /// Whether a revision here is, or knows of, exactly this version.
    public func mentions(_ version: VectorVersion) -> Bool {
        vectors.values.contains { $0.current == version || $0.merged.contains(version) || $0.older.contains(version) }
    }

    // MARK: Revisions of such peers

    /// How a revision that comes with a version vector stands to the tree.
    public enum VectorPlace: Sendable, Equatable {
        /// It is this one.
        case here(RevisionID)
        /// A leaf knows of it: it was superseded, or lost a conflict.
        case superseded
        /// It is the child of this one; nil: it has no ancestor here.
        case below(RevisionID?)
    }

    /// - Parameter current: the revision that is read; it comes first among those that it may descend from.
    public func place(of history: VectorHistory, current: RevisionID) -> VectorPlace {
        let version = history.vector.current
        if let here = revision(of: version) { return .here(here) }
        let ends = [current] + leaves.map(\.revision).filter { $0 != current }
        if ends.contains(where: { vectors[$0]?.knows(version) == true }) { return .superseded }
        let mentioned = mentioned(in: history)
        return .below(
            ends.first { isKnown($0, to: history, mentioned) } ?? entries.lazy.map(\.revision).first { isKnown($0, to: history, mentioned) })
    }

    /// Those of the revisions that went into one that comes with this vector.
    public func known(_ revisions: [RevisionID], to history: VectorHistory) -> [RevisionID] {
        let mentioned = mentioned(in: history)
        return revisions.filter { isKnown($0, to: history, mentioned) }
    }

    /// Whether it came by the version alone that stands for this id: a peer of version vectors carried it here that does not tell ids, and both
    /// are the same revision.
    public func isStandIn(_ revision: RevisionID, for id: RevisionID) -> Bool {
        !vectors.isEmpty && vectors[revision]?.current.stands(for: id) == true
    }

    /// The leaves that stand for one of these ancestors of a revision.
    public func standIns(for history: RevisionHistory, of revision: RevisionID) -> [RevisionID] {
        if vectors.isEmpty { return [] }
        return leaves.map(\.revision).filter { leaf in leaf != revision && history.contains { self.isStandIn(leaf, for: $0) } }
    }

    private func isKnown(_ revision: RevisionID, to history: VectorHistory, _ mentioned: Mentioned) -> Bool {
        let index = index(of: revision)
        // The peer may have it from a time before it had a version.
        if let index, mentioned.itself.contains(index) { return true }
        if let vector = vectors[revision] { return history.knows(vector.current) || history.names(standIn: vector.current) }
        return index.map(mentioned.ancestors.contains) ?? false || history.knows(VectorVersion(standingFor: revision))
    }

    /// The revisions here that a history names by their ids, also as the place that the revision has in another tree, and what is above them: looked up
    /// once, since a peer may name a thousand in a tree of thousands.
    private struct Mentioned {
        var itself: Set<Int> = []
        var ancestors: Set<Int> = []
    }

    private func mentioned(in history: VectorHistory) -> Mentioned {
        var mentioned = Mentioned()
        func add(_ revisions: RevisionHistory) {
            for revision in revisions {
                guard let index = index(of: revision), mentioned.itself.insert(index).inserted else { continue }
                var parent = Int(nodes[index].parent)
                while parent >= 0, mentioned.ancestors.insert(parent).inserted { parent = Int(nodes[parent].parent) }
            }
        }
        add(history.revisions)
        // Which may have another version there: two agents that spoke by ids have each given it one.
        if let place = history.place { add(place.history) }
        return mentioned
    }

    /// The id of a revision that a peer of version vectors made, as a child of one here: the same wherever it gets the same parent.
    public static func revision(of version: VectorVersion, below parent: RevisionID?, isDeleted: Bool) -> RevisionID {
        RevisionDigest.revision(parent: parent, deleted: isDeleted, canonicalBody: Array(version.description.utf8))
    }
}

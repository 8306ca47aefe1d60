// All of a document's revisions have their places in the tree. Those that a peer with version vectors made, and those based on them, also have a
// version vector, which names them for such peers.
extension RevisionTree {
    public var hasVectors: Bool { !vectors.isEmpty }

    public func vector(of revision: RevisionID) -> VersionVector? { vectors.isEmpty ? nil : vectors[revision] }

    /// Assigns a vector to a revision of the tree.
    public mutating func setVector(_ vector: VersionVector, of revision: RevisionID) {
        guard contains(revision) else { return }
        vectors.set(vector, of: revision)
    }

    /// The vector of the revision, or else of its newest ancestor that has one.
    public func nearestVector(of revision: RevisionID) -> VersionVector? {
        if vectors.isEmpty { return nil }
        return vectors[revision] ?? ancestors(of: revision).lazy.compactMap { vectors[$0] }.first
    }

    /// The vector by which a revision without one of its own is compared.
    public func comparableVector(of revision: RevisionID) -> VersionVector {
        vector(of: revision) ?? VersionVector(VectorVersion(standingFor: revision))
    }

    // MARK: Names

    /// A peer's name for a revision.
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

    /// Ancestors of a revision that have no version, newest first: the last part of its history for peers with version vectors.
    public func unversionedAncestors(of revision: RevisionID, limit: Int) -> [RevisionID] {
        Array(ancestors(of: revision).lazy.filter { vectors[$0] == nil }.prefix(limit))
    }

    /// Whether exactly this version is the one of a revision here, or in its vector.
    public func mentions(_ version: VectorVersion) -> Bool {
        vectors.values.contains { $0.current == version || $0.merged.contains(version) || $0.older.contains(version) }
    }

    // MARK: - Revisions from such peers

    /// How a revision received with a version vector relates to the tree.
    public enum VectorPlace: Sendable, Equatable {
        /// It is this one.
        case here(RevisionID)
        /// A leaf's vector covers it: it was superseded, or lost a conflict.
        case superseded
        /// It is a child of this revision; nil: it has no ancestor here.
        case below(RevisionID?)
    }

    /// - Parameter current: the revision that is read; it takes precedence among possible parents.
    public func place(of history: VectorHistory, current: RevisionID) -> VectorPlace {
        let version = history.vector.current
        if let here = revision(of: version) { return .here(here) }
        // One revision has two names, of which this is the earlier one.
        if let place = history.place?.revision, vectors[place]?.knows(version) == true { return .here(place) }
        let ends = [current] + leaves.map(\.revision).filter { $0 != current }
        if ends.contains(where: { isSuperseded(history, by: $0) }) { return .superseded }
        let mentioned = mentioned(in: history)
        return .below(
            ends.first { isKnown($0, to: history, mentioned) } ?? entries.lazy.map(\.revision).first { isKnown($0, to: history, mentioned) })
    }

    /// Whether the leaf's vector covers a received one, and counts where each covers the other's current version.
    private func isSuperseded(_ history: VectorHistory, by leaf: RevisionID) -> Bool {
        guard let vector = vectors[leaf], vector.knows(history.vector.current) else { return false }
        return !history.knows(vector.current) || vector.isLater(thanCrossed: history.vector)
    }

    /// Of these revisions, those that are covered by this vector.
    public func known(_ revisions: [RevisionID], to history: VectorHistory) -> [RevisionID] {
        let mentioned = mentioned(in: history)
        return revisions.filter { isKnown($0, to: history, mentioned) }
    }

    /// Whether the revision arrived only with the version that stands for this id: a peer with version vectors, which does not pass on ids, brought
    /// it here, and both are the same revision.
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
        // The peer may have it from before it had a version.
        if let index, mentioned.itself.contains(index) { return true }
        if let vector = vectors[revision] { return history.knows(vector.current) || history.names(standIn: vector.current) }
        return index.map(mentioned.ancestors.contains) ?? false || history.knows(VectorVersion(standingFor: revision))
    }

    /// The revisions here that a history names by their ids, including the revision's place in another tree, and all their ancestors. Looked up once,
    /// since a peer may name a thousand in a tree of thousands.
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
        // It may have another version there: two agents that communicated by ids have each assigned one.
        if let place = history.place { add(place.history) }
        return mentioned
    }

    /// The id of a revision made by a peer with version vectors, as a child of one here: the same wherever it gets the same parent.
    public static func revision(of version: VectorVersion, below parent: RevisionID?, isDeleted: Bool) -> RevisionID {
        RevisionDigest.revision(parent: parent, deleted: isDeleted, canonicalBody: Array(version.description.utf8))
    }
}

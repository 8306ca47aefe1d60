// Branches that lost a decision, and are kept with a tombstone for peers that still have them.
extension RevisionTree {
    /// The tombstone that ends a branch in favour of another one: the same wherever that is decided, and different from the tombstone of a user who
    /// deletes the same revision.
    public static func end(of leaf: RevisionID) -> RevisionID {
        RevisionDigest.revision(parent: leaf, deleted: true, canonicalBody: Array(#"{"ended":true}"#.utf8))
    }

    public func isEnd(_ leaf: RevisionID) -> Bool { parent(of: leaf).map { Self.end(of: $0) == leaf } ?? false }

    /// Whether a document of which this leaf is read was deleted by nobody, although it is not there: all its branches ended here in favour of others, which
    /// have yet to come. Two machines that decide one conflict differently tell of both ends.
    public func isNobodysDeletion(_ current: RevisionID) -> Bool { isDeleted(current) == true && isEnd(current) }

    /// The leaf that is read: the winner, ignoring ends of branches that lost a decision while any other leaf exists, since these say nothing about
    /// the document. nil for an empty tree.
    public var current: Leaf? {
        let leaves = self.leaves
        return leaves.first { !$0.isDeleted || !isEnd($0.revision) } ?? leaves.first
    }

    /// Ends a branch. Of the ended branches, the newest `limit` are kept.
    public mutating func endBranch(_ leaf: RevisionID, limit: Int) throws(RevisionTreeError) {
        try insert(Self.end(of: leaf), history: [leaf], isDeleted: true)
        let ends = leaves.filter { $0.isDeleted && isEnd($0.revision) }
        for end in ends.dropFirst(max(limit, 1)) { removeBranch(end.revision) }
    }

    /// The tombstones that ended the branches of a revision, the greatest first: several if it went on elsewhere after it had ended here, and that ended
    /// too. Empty if a branch continues or was deleted by somebody, or if the revision is not here.
    public func endsOfBranch(of revision: RevisionID) -> [RevisionID] {
        guard contains(revision) else { return [] }
        let ends = leaves.filter { $0.revision == revision || isAncestor(revision, of: $0.revision) }
        return ends.allSatisfy { $0.isDeleted && isEnd($0.revision) } ? ends.map(\.revision) : []
    }

    /// The greatest of ``endsOfBranch(of:)``.
    public func endOfBranch(of revision: RevisionID) -> RevisionID? { endsOfBranch(of: revision).first }

    /// Handles a revision that won elsewhere while everything based on it lost a decision here: it becomes a leaf again, and the ends are removed. If
    /// it has a live descendant, or one that was deleted, nothing changes.
    ///
    /// - Returns: whether it became a leaf.
    public mutating func reviveBranch(_ revision: RevisionID) -> Bool {
        let ends = leaves.filter { isAncestor(revision, of: $0.revision) }.map(\.revision)
        guard !ends.isEmpty, ends.allSatisfy({ isDeleted($0) == true && isEnd($0) && !endsTombstone($0) }) else { return false }
        for end in ends { removeBranch(end, keeping: [revision]) }
        return true
    }

    /// Handles a live revision that has come while every branch is ended, although it was deleted here before it lost a decision: the deletion counts
    /// again, since the peer has gone back behind it and will not bring what it lost to.
    ///
    /// - Returns: the deletion, which is a leaf now; nil if the revision was not deleted.
    public mutating func reviveDeletion(of revision: RevisionID) -> RevisionID? {
        guard let end = leaves.first(where: { isAncestor(revision, of: $0.revision) && isEnd($0.revision) && endsTombstone($0.revision) }),
            let deletion = parent(of: end.revision)
        else { return nil }
        removeBranch(end.revision, keeping: [deletion])
        return deletion
    }

    /// Whether the branch had been deleted before it was ended.
    public func endsTombstone(_ end: RevisionID) -> Bool { parent(of: end).map { isDeleted($0) == true } ?? false }

    /// Whether it was ended in favour of the current one, which does not cover it.
    public func isGivenUp(_ revision: RevisionID, for current: RevisionID) -> Bool {
        guard let end = endOfBranch(of: revision), end != current, parent(of: end) == revision else { return false }
        return vector(of: current)?.knows(comparableVector(of: revision).current) != true
    }

    /// A tombstone without children, except possibly the end of its branch.
    public func isTombstone(_ revision: RevisionID) -> Bool {
        guard isDeleted(revision) == true else { return false }
        return isLeaf(revision) || endOfBranch(of: revision).map { parent(of: $0) == revision } ?? false
    }
}

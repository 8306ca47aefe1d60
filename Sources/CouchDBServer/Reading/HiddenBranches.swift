import Documents

/// A client restricted by channels or a filter must not learn which branches a document has besides those that it may read: a revision id is a digest
/// of the revision's contents, and any client that knows it can end the branch. Revisions created for such a client get a reduced tree first, so that
/// nothing derived from it can reveal the other branches.
extension FoundRevision {
    /// - Parameter others: further leaves that the client may learn of.
    mutating func hideBranches(but others: some Sequence<RevisionID> = []) {
        guard let tree, tree.hasSeveralLeaves || !tree.isLeaf(revision) else { return }
        self.tree = tree.branches(to: [revision] + others)
    }
}

extension FoundDocument {
    /// The revisions that were found are those that the client may read.
    mutating func hideBranches(but others: [RevisionID] = []) {
        let shown = revisions.map(\.revision) + others
        for index in revisions.indices { revisions[index].hideBranches(but: shown) }
    }
}

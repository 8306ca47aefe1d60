import Documents

/// A client that is bound to channels or by a filter must not learn which branches a document has beside those that it may have: the id of a
/// revision is a digest of what stands in it, and whoever knows it can end the branch. Wherever revisions are made for such a client, their tree
/// is cut down first, so that nothing that is made of it can tell of the others.
extension FoundRevision {
    /// - Parameter others: leaves that the client may hear of as well.
    mutating func hideBranches(but others: some Sequence<RevisionID> = []) {
        guard let tree, tree.hasSeveralLeaves || !tree.isLeaf(revision) else { return }
        self.tree = tree.branches(to: [revision] + others)
    }
}

extension FoundDocument {
    /// What was found is what the client may have.
    mutating func hideBranches(but others: [RevisionID] = []) {
        let shown = revisions.map(\.revision) + others
        for index in revisions.indices { revisions[index].hideBranches(but: shown) }
    }
}

import Documents
import DocumentStore

/// What a client that is bound to channels hears of branches that others ended.
///
/// Channels are assigned to current revisions, so that nobody knows any more who was to have the content of another one. But a client that had one
/// keeps it as its own winner until it hears of its end: it gets the tombstone, with its history and without content. Of a document that left the
/// client's channels it hears only what ended with that very change: which branches it had of what came later is not known, and what others do
/// there is not for it.
extension RevisionTree {
    /// Deleted leaves beside the current revision, greatest first.
    func endedLeaves(beside current: RevisionID) -> [RevisionID] {
        leaves.filter { $0.isDeleted && $0.revision != current }.map(\.revision).sorted(by: >)
    }

    /// Deleted leaves in whose place the current revision came: what they ended was the winner before.
    ///
    /// The current revision has left the client's channels. Of a document that went on along its own branch nothing is to be told.
    func endedWinners(before current: RevisionID) -> [RevisionID] {
        endedLeaves(beside: current).filter { leaf in
            guard let ended = ancestors(of: leaf).first(where: { isDeleted($0) == false }) else { return false }
            let shared = commonAncestor(of: leaf, and: current)
            // The oldest revision of the current branch that the other one did not share: at that time it was no more.
            let rival = ([current] + ancestors(of: current)).prefix { $0 != shared }.last ?? current
            return ended > rival
        }
    }

    /// One leaf with its history, without the branches beside it.
    func branch(_ leaf: RevisionID) -> RevisionTree? {
        var branch = RevisionTree()
        let history = ancestors(of: leaf, limit: DocumentLimits.historyRevisions)
        // What is stored may have gaps anywhere.
        guard (try? branch.insert(leaf, history: history, isDeleted: isDeleted(leaf) ?? false, depth: 1)) != nil else { return nil }
        return branch
    }
}

extension FoundRevision {
    /// The tombstone of a branch, without its content and without what stands beside it.
    ///
    /// - Parameter sequence: where the client hears of it.
    init(ended revision: RevisionID, of id: DocumentID, at sequence: SequenceNumber, in tree: RevisionTree?) {
        self.init(
            id: id, revision: revision, isDeleted: true, body: Array("{}".utf8), sequence: sequence, tree: tree?.branch(revision), hasBlobs: false)
    }
}

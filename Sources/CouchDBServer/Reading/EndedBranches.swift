import Documents
import DocumentStore

/// What a client restricted to channels learns about branches that others have ended.
///
/// Channels are assigned to current revisions, so for any other revision it is not recorded who may read it. But a client that received such a
/// revision keeps it as its own winner until it learns that the branch has ended: so it gets the tombstone, with its history and without content.
/// For a document that left the client's channels, it learns only what ended with that very change: which of the later branches it had is unknown,
/// and what others do there is not for it.
extension RevisionTree {
    /// Deleted leaves other than the current revision, greatest first.
    func endedLeaves(beside current: RevisionID) -> [RevisionID] {
        leaves.filter { $0.isDeleted && $0.revision != current }.map(\.revision).sorted(by: >)
    }

    /// Deleted leaves that were replaced by the current revision: what they ended was the winner before.
    ///
    /// The current revision has left the client's channels. If the document simply went on along its own branch, there is nothing to report.
    func endedWinners(before current: RevisionID) -> [RevisionID] {
        endedLeaves(beside: current).filter { leaf in
            guard let ended = ancestors(of: leaf).first(where: { isDeleted($0) == false }) else { return false }
            let shared = commonAncestor(of: leaf, and: current)
            // The oldest revision of the current branch that the other branch does not share: the current branch had come no further at that time.
            let rival = ([current] + ancestors(of: current)).prefix { $0 != shared }.last ?? current
            return ended > rival
        }
    }

    /// A single leaf with its history, without other branches.
    func branch(_ leaf: RevisionID) -> RevisionTree? {
        var branch = RevisionTree()
        let history = ancestors(of: leaf, limit: DocumentLimits.historyRevisions)
        // Stored trees may have gaps anywhere.
        guard (try? branch.insert(leaf, history: history, isDeleted: isDeleted(leaf) ?? false, depth: 1)) != nil else { return nil }
        return branch
    }
}

extension FoundRevision {
    /// The tombstone of a branch, without its content and without other branches.
    ///
    /// - Parameter sequence: the sequence at which the client learns of it.
    init(ended revision: RevisionID, of id: DocumentID, at sequence: SequenceNumber, in tree: RevisionTree?) {
        self.init(
            id: id, revision: revision, isDeleted: true, body: Array("{}".utf8), sequence: sequence, tree: tree?.branch(revision), hasBlobs: false)
    }
}

import Documents
import Synchronization

/// Whether there are peers that keep every branch of a document, as CouchDB and PouchDB do. In that case a branch that loses a decision is ended with
/// a tombstone: otherwise a peer that has it would bring it back again and again, and read it instead of the decision.
final class BranchKeepers: Sendable {
    static let property = "branch_keepers"

    private let seen: Atomic<Bool>

    init(_ seen: Bool) { self.seen = Atomic(seen) }

    var areSeen: Bool { seen.load(ordering: .relaxed) }
    /// Returns false if it was already known.
    func note() -> Bool { !seen.exchange(true, ordering: .relaxed) }
}

extension Database {
    /// A peer that keeps every branch has connected.
    public func noteBranchKeeper() async {
        guard keepers.note() else { return }
        // If this cannot be written, it is known until the next start, and then again from the peer's next request.
        try? await write { try $0.setProperty(BranchKeepers.property, "1") }
    }
}

extension WriteTransaction {
    /// Removes the loser of a decision from a tree.
    func give(up loser: RevisionTree.Leaf, in tree: inout RevisionTree, _ id: DocumentID) throws(StoreError) {
        guard state.keepers.areSeen, !loser.isDeleted else {
            // If the branch had grown, everything between the fork and the leaf goes too.
            tree.removeBranch(loser.revision)
            return
        }
        try end(loser.revision, in: &tree, id)
    }

    /// Ends a branch in a tree with a tombstone that marks it as the loser.
    func end(_ leaf: RevisionID, in tree: inout RevisionTree, _ id: DocumentID) throws(StoreError) {
        do { try tree.endBranch(leaf, limit: StoreLimits.endedBranches) } catch {
            throw .historyInvalid(id: id, revision: leaf, detail: "\(error)")
        }
    }
}

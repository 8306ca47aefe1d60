import Documents
import Synchronization

/// Whether peers come here that keep every branch of a document, as CouchDB and PouchDB do. A branch that loses a decision ends with a
/// tombstone then: a peer that has it would bring it back for ever, and read it instead of what was decided.
final class BranchKeepers: Sendable {
    static let property = "branch_keepers"

    private let seen: Atomic<Bool>

    init(_ seen: Bool) { self.seen = Atomic(seen) }

    var areSeen: Bool { seen.load(ordering: .relaxed) }
    /// False if it was known.
    func note() -> Bool { !seen.exchange(true, ordering: .relaxed) }
}

extension Database {
    /// A peer came that keeps every branch.
    public func noteBranchKeeper() async {
        guard keepers.note() else { return }
        // Where this cannot be written, it is known until the next start, and then from the peer's next request.
        try? await write { try $0.setProperty(BranchKeepers.property, "1") }
    }
}

extension WriteTransaction {
    /// Takes what lost a decision out of a tree.
    func give(up loser: RevisionTree.Leaf, in tree: inout RevisionTree, _ id: DocumentID) throws(StoreError) {
        guard state.keepers.areSeen, !loser.isDeleted else {
            // Where the branch had grown on, what is between fork and leaf goes with the leaf.
            tree.removeBranch(loser.revision)
            return
        }
        try end(loser.revision, in: &tree, id)
    }

    /// Keeps a branch in a tree with a tombstone that says that it lost.
    func end(_ leaf: RevisionID, in tree: inout RevisionTree, _ id: DocumentID) throws(StoreError) {
        do { try tree.endBranch(leaf, limit: StoreLimits.endedBranches) } catch {
            throw .historyInvalid(id: id, revision: leaf, detail: "\(error)")
        }
    }
}

import Documents
import DocumentStore
import Interfaces

extension ConflictDecider {
    /// Stands for the plugin in the history where a person decided: no plugin can have this name.
    public static let byHand = "(by hand)"

    /// Commits what a person decided, if the conflict still is between the two revisions that they saw. It is committed, recorded and told as
    /// a resolver's decision is.
    ///
    /// - Returns: what became current, and the number in the history; nil where none is kept.
    /// - Throws: `StoreError.conflictMoved` with the present sides, none where no conflict waits; for a body also the errors of `save`.
    public func decide(
        _ id: DocumentID, local: RevisionID, remote: RevisionID, byHand decision: ConflictDecision
    ) async throws -> (saved: SavedRevision, number: Int64?) {
        guard let conflict = try await database.read({ try $0.conflict(collection, id) }) else {
            throw StoreError.conflictMoved(id: id, local: nil, remote: nil)
        }
        guard let resolution = decision.resolution, conflict.local.revision == local, conflict.remote.revision == remote else {
            throw StoreError.conflictMoved(id: id, local: conflict.local.revision, remote: conflict.remote.revision)
        }
        let answer = Answer(conflict: conflict, decision: decision, resolution: resolution, plugin: Self.byHand, version: "", microseconds: 0)
        let (saved, number) = try await database.write { transaction in
            let saved = try transaction.resolveConflict(
                collection, id: id, expectedLocal: local, expectedRemote: remote, resolution: resolution, keepsGreater: keepsGreater)
            return (saved, try record(answer, saved.revision, transaction))
        }
        tell(answer, saved.revision, number)
        return (saved, number)
    }
}

import Documents
import DocumentStore
import Interfaces

extension ConflictDecider {
    /// Takes the place of the plugin in the history if a person decided: no plugin can have this name.
    public static let byHand = "(by hand)"

    /// Commits a person's decision, if the conflict is still between the two revisions that the person saw. It is committed, recorded and reported
    /// like a resolver's decision.
    ///
    /// - Returns: the revision that became current, and its number in the history; nil if no history is kept.
    /// - Throws: `StoreError.conflictMoved` with the current sides, none if there is no conflict any more; with a body, also the errors of `save`.
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
                collection, id: id, expectedLocal: local, expectedRemote: remote, resolution: resolution, keepsGreater: keepsGreater, isByHand: true)
            return (saved, try record(answer, saved.revision, transaction))
        }
        tell(answer, saved.revision, number)
        return (saved, number)
    }
}

import Documents
import DocumentStore
import Interfaces

/// Saves documents, and asks the resolver if the edit is based on a revision that is no longer current. The stored document is the local side, the
/// edit the remote one.
///
/// Without `_rev`, or with one that the document never had, it is unknown what the caller has seen: such an edit is refused, as it is without a
/// resolver. So is an edit on which the resolver fails: the caller still has it, and learns why.
public struct SaveDecider: Sendable {
    private let decider: ConflictDecider

    /// - Parameter decider: its context names neither a replicator nor a listener.
    public init(_ decider: ConflictDecider) { self.decider = decider }

    /// - Parameter expiry: the edit's `_exp`. It is set in the saving transaction: a moment later somebody else may have edited the document, and
    ///   been told that it will be kept. An edit that loses to the stored document does not change the expiry.
    /// - Throws: `StoreError` as `WriteTransaction.save` does, or ``PolicyFailure``.
    public func save(id: DocumentID, body: [UInt8], deleted: Bool, parent: RevisionID?, expiry: DocumentExpiry? = nil) async throws -> SavedRevision {
        let collection = decider.collection
        for _ in 1...max(1, decider.attempts) {
            do {
                return try await decider.database.write {
                    let saved = try $0.save(collection, id: id, body: body, deleted: deleted, parent: parent)
                    if let expiry { try $0.setExpiry(collection, id, expiry) }
                    return saved
                }
            } catch let error as StoreError {
                guard case .conflict = error, let parent, let saved = try await decide(id, body, deleted, parent, expiry) else { throw error }
                if case .saved(let revision) = saved { return revision }
            }
        }
        throw decider.tooManyChanges
    }

    private enum Step {
        case saved(SavedRevision)
        /// The document changed in the meantime.
        case moved
    }

    /// Nil if there is nothing to decide.
    private func decide(_ id: DocumentID, _ body: [UInt8], _ deleted: Bool, _ parent: RevisionID, _ expiry: DocumentExpiry?) async throws -> Step? {
        let collection = decider.collection
        let found = try await decider.database.read {
            try $0.saveConflict(collection, id: id, body: body.isEmpty ? Array("{}".utf8) : body, deleted: deleted, parent: parent)
        }
        guard let conflict = found else { return nil }
        // The caller is present and learns of the failure, so the default rule does not replace the resolver.
        let answer = try await decider.resolverAnswer(conflict).get()
        let decider = decider
        do {
            let (saved, number) = try await decider.database.write { transaction in
                let saved = try transaction.resolveSave(collection, conflict, answer.resolution)
                if let expiry, answer.resolution != .localWins { try transaction.setExpiry(collection, id, expiry) }
                return (saved, try decider.record(answer, saved.revision, transaction))
            }
            decider.tell(answer, saved.revision, number)
            return .saved(saved)
        } catch StoreError.conflictMoved {
            return .moved
        } catch let error as StoreError where error.concernsOneDocument {
            throw decider.failure("the resolver's answer for \(id) cannot be stored: \(error)")
        }
    }
}

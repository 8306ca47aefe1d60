// For CouchDBServer: peers that use HTTP requests. The counterpart for Couchbase Lite sessions is Driver/Passive/PassiveService.
import DocumentStore
import Documents
import Interfaces

/// The answers to a peer that writes documents which it may not see.
///
/// The answer must not reveal that such a document exists, so it is the answer for a document that does not exist: an edit of a revision is a
/// conflict, whatever a filter or the sync function would say; a new document is refused if they refuse it as new. If they would accept it, the
/// failure reveals that the id is taken, and nothing else.
extension PeerWriting {
    /// Edits of a revision that were refused.
    func hideRefusals(_ steps: [Step], _ outcomes: inout [Outcome]) async throws {
        let refused = steps.filter { step in
            guard case .some(.some) = step.parent, case .refused(let error) = outcomes[step.index] else { return false }
            return error.code == 403
        }
        let hidden = try await hidden(refused.map(\.revision.id))
        for step in refused where hidden.contains(step.revision.id) { outcomes[step.index] = .conflict }
    }

    /// Documents that were to be created, and whose ids are taken.
    func hideConflicts(_ writes: [Write], _ outcomes: inout [Outcome]) async throws {
        let taken = writes.indices.filter { index in
            guard case .edit(nil) = writes[index].revision, case .conflict = outcomes[index] else { return false }
            return true
        }
        let hidden = try await hidden(taken.map { writes[$0].id })
        var steps: [Step] = []
        for index in taken where hidden.contains(writes[index].id) {
            guard let checked = check(writes[index], nil, [], &outcomes[index]) else { continue }
            steps.append(Step(index: index, revision: checked, parent: .some(nil)))
        }
        // Those that pass remain conflicts.
        steps = await filter(steps, &outcomes)
        _ = try await judge(steps, nil, &outcomes, showsPresent: false)
    }

    /// Branches that edits name and that the peer may not see: it cannot have read here what it claims to edit.
    func hiddenBranches(_ edits: [Write]) async throws -> Set<SenderView.Branch> {
        guard !edits.isEmpty, let view = try await view() else { return [] }
        let collection = collection
        let named = try await peer.database.read { transaction in
            try edits.compactMap { edit -> SenderView.Branch? in
                guard case .edit(let parent?) = edit.revision else { return nil }
                return try SenderView.branch(edit.id, nil, CollectionOfOne(parent), collection, transaction)
            }
        }
        guard !named.isEmpty else { return [] }
        return Set(named).subtracting(try await view.shown(named))
    }

    /// Documents about which the peer is not believed any more, because it has named too many revisions that do not exist.
    func distrusted(_ edits: [Write]) async throws -> Set<DocumentID> {
        guard peer.hiddenAccount(remote).isExhausted else { return [] }
        return try await hidden(edits.map(\.id))
    }

    /// Counts edits that name a revision which a hidden document does not have. Revisions made elsewhere are counted when they are stored.
    func noteWrongNames(_ writes: [Write], _ outcomes: [Outcome]) async throws {
        let wrong = zip(writes, outcomes).compactMap { write, outcome -> DocumentID? in
            guard case .edit(.some) = write.revision, case .conflict = outcome else { return nil }
            return write.id
        }
        let hidden = try await hidden(wrong)
        for id in wrong where hidden.contains(id) { peer.hiddenAccount(remote).note() }
    }

    /// Of these documents, those that the peer may not see.
    private func hidden(_ ids: [DocumentID]) async throws -> Set<DocumentID> {
        guard !ids.isEmpty, let view = try await view() else { return [] }
        let visible = try await view.visible(ids)
        return Set(ids).filter { visible[$0] == nil }
    }
}

// For CouchDBServer: peers that speak in requests. A session of Couchbase Lite has Driver/Passive/PassiveService.
import DocumentStore
import Documents
import Interfaces

/// What a peer is answered that writes a document which it may not see.
///
/// The answer must not tell that there is one, so it is the one that a document gets which is not here: an edit of a revision is a conflict,
/// whatever a filter or the sync function would say; a document that is to be new is refused where they refuse it as new. Where they would take it, that
/// it cannot be made tells that the id is taken, and nothing else.
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

    /// Documents that were to be new, and whose ids are taken.
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
        // Those that pass stay conflicts.
        steps = await filter(steps, &outcomes)
        _ = try await judge(steps, nil, &outcomes, showsPresent: false)
    }

    /// Branches that edits name and the peer may not see: it cannot have read here what it says it edits.
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

    /// Documents of which nothing is believed that the peer says, because it has named too many revisions that are not there.
    func distrusted(_ edits: [Write]) async throws -> Set<DocumentID> {
        guard peer.hiddenAccount(remote).isExhausted else { return [] }
        return try await hidden(edits.map(\.id))
    }

    /// Counts edits of revisions that hidden documents do not have. Revisions made elsewhere are counted where they are stored.
    func noteWrongNames(_ writes: [Write], _ outcomes: [Outcome]) async throws {
        let wrong = zip(writes, outcomes).compactMap { write, outcome -> DocumentID? in
            guard case .edit(.some) = write.revision, case .conflict = outcome else { return nil }
            return write.id
        }
        let hidden = try await hidden(wrong)
        for id in wrong where hidden.contains(id) { peer.hiddenAccount(remote).note() }
    }

    /// Those of the documents that the peer may not see.
    private func hidden(_ ids: [DocumentID]) async throws -> Set<DocumentID> {
        guard !ids.isEmpty, let view = try await view() else { return [] }
        let visible = try await view.visible(ids)
        return Set(ids).filter { visible[$0] == nil }
    }
}

import Documents
import DocumentStore
import Interfaces

/// Conflicts that a pull or a peer's push brought, or that an earlier run left.
extension ReplicationSession {
    /// Queues conflicts for a decision; one task a collection works through them.
    func decide(_ sync: CollectionSync, _ ids: [DocumentID]) {
        guard let decider = sync.resolver else { return }
        sync.conflicts.append(contentsOf: ids)
        guard !sync.isDeciding else { return }
        sync.isDeciding = true
        work {
            while !sync.conflicts.isEmpty, !self.hasEnded {
                let batch = Array(sync.conflicts.prefix(50))
                sync.conflicts.removeFirst(batch.count)
                do {
                    for outcome in try await decider.decide(batch) { self.note(sync, outcome) }
                } catch {
                    self.fail(error)
                    break
                }
            }
            sync.isDeciding = false
            // What was decided may be to push: it is read before a one-shot push ends.
            if let feed = sync.push {
                feed.reachedEnd = false
                feed.isCaughtUp = false
                feed.wake()
            }
        }
    }

    private func note(_ sync: CollectionSync, _ outcome: ConflictDecider.Outcome) {
        if outcome.isDecided { counters.update { $0.resolved += 1 } }
        guard outcome.isDecided || outcome.failure != nil else { return }
        report(
            DocumentEvent(
                id: outcome.id, collection: sync.collection.name, direction: .pull,
                error: outcome.failure.map {
                    ReplicationError(domain: .plugin, code: 409, message: "conflict pending: \($0.kind): \($0.message)")
                }))
    }

    /// Decides what is still open from earlier.
    func takeUpConflicts(_ sync: CollectionSync) async {
        guard let decider = sync.resolver else { return }
        var after: DocumentID?
        repeat {
            guard let page = try? await decider.conflicted(after: after, limit: 200), !hasEnded else { return }
            if !page.ids.isEmpty { decide(sync, page.ids) }
            after = page.next
        } while after != nil && !hasEnded
    }
}

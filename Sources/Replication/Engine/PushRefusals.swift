import Documents
import Interfaces

// What the peer refused, and what it brings of the same documents.
extension PushMachine {
    /// Puts a document on the list of what was kept back, because the peer refused it.
    mutating func list(_ document: OutgoingDocument, _ error: ReplicationError, _ actions: inout [PushAction]) {
        // What was acknowledged of it is noted first: it takes it off the list that it goes on now.
        note(&actions)
        hasKeptBack = true
        if refused.count < settings.limits.refusedDocuments { refused.insert(document.id) }
        actions.append(.list([KeptBack(document: document, refusal: error)]))
    }

    mutating func accept(pulled revisions: [(DocumentID, Version)], _ actions: inout [PushAction]) {
        // What was refused is not what is here any more.
        let changed = refused.isEmpty ? [] : revisions.compactMap { refused.remove($0.0) }
        if !changed.isEmpty { actions.append(.unlist(changed)) }
        for (id, version) in revisions {
            guard settings.style == .propose else { echoes.add(id, version); continue }
            acknowledged.supersede(id, by: version)
            if case .awaitingPull? = ledger.phase(of: id) { ledger.finishWaiting(id) }
        }
    }

    /// - Parameter isFinal: the document is given up; else its sequence stays open, and it is offered again later.
    mutating func fail(_ document: OutgoingDocument, _ error: ReplicationError, isFinal: Bool, _ actions: inout [PushAction]) {
        ledger.count { $0.failed += 1 }
        report(document, error, &actions)
        if isFinal {
            list(document, error, &actions)
            return ledger.move(document.id, to: .listing(document))
        }
        if !error.isTransient { list(document, error, &actions) }
        ledger.park(document.id, { .deferred($0) })
        if settings.isContinuous, let seconds = retry.start() { actions.append(.startRetryTimer(seconds: seconds)) }
    }
}

import Documents
import Interfaces

/// Documents that the filter keeps back, and documents for a pulling peer about which it could not decide.
extension PushMachine {
    mutating func keepBack(_ kept: [KeptBack], _ actions: inout [PushAction]) {
        if kept.isEmpty { return }
        for each in kept {
            ledger.count { $0.add(keptBack: each.failure) }
            if let failure = each.failure { report(each.document, ReplicationError(failure), &actions) }
        }
        guard settings.style == .propose else {
            for each in kept { ledger.finish(each.document.id) }
            return
        }
        // Acknowledgements for these documents are recorded first: recording them takes the documents off the list on which they are put here.
        note(&actions)
        hasKeptBack = true
        for each in kept { ledger.move(each.document.id, to: .excluding(each.document)) }
        actions.append(.exclude(kept))
    }

    /// An earlier filter had let it pass, and the peer no longer waits for it. Documents after it may have been offered without a resume position:
    /// for a peer that comes back, it is on the listener's list.
    mutating func accept(keptBack id: DocumentID, _ failure: PolicyFailure?, by version: String, _ actions: inout [PushAction]) {
        guard case .sent(var document)? = ledger.phase(of: id) else { return }
        document.judgedBy = version
        guard settings.style == .announce, let failure, held.room > 0 else {
            return keepBack([KeptBack(document: document, cause: failure.map { .failed($0) } ?? .rejected)], &actions)
        }
        ledger.finish(id)
        let stall = FeedReader.Stall(id: id, version: document.version, failure: failure)
        hold(Judgement.Undecided(document: document, stall: stall, position: FeedPosition(max(1, document.sequence) - 1)), &actions)
    }

    /// The document is kept from the peer until the filter decides about it.
    mutating func hold(_ undecided: Judgement.Undecided, _ actions: inout [PushAction]) {
        ledger.forget(undecided.document.id)
        if held.isEmpty { retry.reset() }
        if held.add(undecided.stall, before: undecided.position.sequence) { report(undecided: undecided, &actions) }
        // Another version of the filter is asked at once; this one may have run out of time or memory.
        if settings.isContinuous, let seconds = retry.start() { actions.append(.startRetryTimer(seconds: seconds)) }
    }

    /// A subscription that has ended gets nothing more: the next one resumes before these documents.
    mutating func requestHeldAgain() {
        if isOver { held = HeldDocuments(limit: settings.limits.heldDocuments) } else { ledger.callBack(held.ids) }
    }

    mutating func report(undecided: Judgement.Undecided, _ actions: inout [PushAction]) {
        ledger.count { $0.held += 1 }
        report(undecided.document, ReplicationError(undecided.stall.failure), &actions)
    }

    func report(_ document: OutgoingDocument, _ error: ReplicationError?, kept: KeptByPeer? = nil, _ actions: inout [PushAction]) {
        var event = DocumentEvent(pushed: document, settings.collection, error)
        event.kept = kept
        actions.append(.report(event))
    }
}

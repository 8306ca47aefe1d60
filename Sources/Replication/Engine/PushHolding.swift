import Documents
import Interfaces

/// Documents that a peer pulls and about which its filter could not decide.
extension PushMachine {
    mutating func hold(_ undecided: Judgement.Undecided, _ actions: inout [PushAction]) {
        ledger.forget(undecided.document.id)
        if held.isEmpty { retry.reset() }
        if held.add(undecided.stall, before: undecided.position.sequence) { report(undecided: undecided, &actions) }
        // Another version of the filter is asked at once; this one may have lacked time or memory.
        if settings.isContinuous, let seconds = retry.start() { actions.append(.startRetryTimer(seconds: seconds)) }
    }

    /// A subscription that is over gets nothing more: the next one begins before them.
    mutating func askAgainAboutHeld() {
        if isOver { held = HeldDocuments(limit: settings.limits.heldDocuments) } else { ledger.callBack(held.ids) }
    }

    mutating func report(undecided: Judgement.Undecided, _ actions: inout [PushAction]) {
        ledger.count { $0.held += 1 }
        report(undecided.document, ReplicationError(undecided.stall.failure), &actions)
    }

    func report(_ document: OutgoingDocument, _ error: ReplicationError?, _ actions: inout [PushAction]) {
        actions.append(.report(DocumentEvent(pushed: document, settings.collection, error)))
    }
}

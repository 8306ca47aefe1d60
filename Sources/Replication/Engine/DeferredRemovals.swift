import Documents
import Interfaces

/// Removals of documents that are on their way to the peer.
///
/// The edit itself may be what takes a document out of the user's channels, and the removal may overtake the acknowledgement of the edit. Only the
/// answer says whether the edit is lost with the document. Until then the removal, and its sequence in the pull's checkpoint, stays open; a peer that
/// never answers would block the pull forever. So the connection ends if nothing happens for `removal_wait`: on the next one, the peer is offered the
/// edit again, and reports the removal again.
extension PushMachine {
    mutating func applyRemovals(_ actions: inout [PushAction]) {
        if removals.isEmpty { return }
        var (free, owed) = ([Removal](), [Removal]())
        for each in removals {
            if ledger.phase(of: each.id)?.awaitsAnswer ?? false { owed.append(each) } else { free.append(each) }
        }
        removals = owed
        for each in free { removalWatch.forget(each.id) }
        if !free.isEmpty { actions.append(.applyRemovals(free)) }
        if !owed.isEmpty, !removalWatch.isUnderWay {
            removalWatch.begin(owed.map(\.id), ledger)
            actions.append(.watchRemovals(seconds: settings.limits.removalWaitSeconds))
        }
    }

    /// The time is up; removals that still wait are watched for another period.
    mutating func checkRemovals(isMoving: Bool, _ actions: inout [PushAction]) {
        guard !isMoving, let stuck = removals.first(where: { removalWatch.isStuck($0.id, ledger) }) else {
            removalWatch.end()
            return
        }
        let what = ledger.phase(of: stuck.id).map(RemovalWatch.words) ?? ""
        actions.append(
            .fail(
                ReplicationError(
                    network: .timeout,
                    message: "the remote took document \"\(stuck.id.text)\" away, \(what), and there was no answer for "
                        + "removal_wait = \(settings.limits.removalWaitSeconds) seconds: until then it is not known what becomes of the edit; reconnecting")))
    }
}

/// Detects whether a peer is making progress with documents whose removals wait for its answers.
struct RemovalWatch {
    private struct Beginning {
        /// The step that each document was at, for removals that still wait.
        var steps: [DocumentID: Int] = [:]
        let answers: Int
    }

    /// Number of answers from the peer to the push, about any document.
    var answers = 0
    /// The start of the current watch.
    private var beginning: Beginning?

    var isUnderWay: Bool { beginning != nil }

    mutating func begin(_ ids: [DocumentID], _ ledger: PushLedger) {
        var beginning = Beginning(answers: answers)
        for id in ids { beginning.steps[id] = ledger.phase(of: id).map(Self.step) }
        self.beginning = beginning
    }

    /// Its removal no longer waits.
    mutating func forget(_ id: DocumentID) { beginning?.steps[id] = nil }

    mutating func end() { beginning = nil }

    /// Whether nothing has happened to the document since the watch began, and it is the peer's turn.
    func isStuck(_ id: DocumentID, _ ledger: PushLedger) -> Bool {
        guard let beginning, let phase = ledger.phase(of: id), phase.awaitsAnswer, beginning.steps[id] == Self.step(phase) else { return false }
        return switch phase {
        case .offered, .sent: true
        // Its turn comes once the peer has answered about others.
        case .ready, .wanted: answers == beginning.answers
        case .judging, .excluding, .comparing, .due, .reading, .deferred, .awaitingPull: false
        }
    }

    /// What the peer owes, in words for the operator.
    static func words(_ phase: PushLedger.Phase) -> String {
        switch phase {
        case .offered: "which has an edit that it was offered"
        case .sent: "which has an edit that it was sent"
        case .judging, .excluding, .ready, .comparing, .wanted, .due, .reading, .deferred, .awaitingPull:
            "which has an edit that waits for answers about others"
        }
    }

    /// The order in which a document goes through the steps while its answer is outstanding.
    private static func step(_ phase: PushLedger.Phase) -> Int {
        switch phase {
        case .judging, .excluding, .due, .reading, .deferred, .awaitingPull: 0
        case .ready: 1
        case .offered: 2
        case .comparing: 3
        case .wanted: 4
        case .sent: 5
        }
    }
}

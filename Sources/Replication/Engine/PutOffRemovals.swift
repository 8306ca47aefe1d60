import Documents
import Interfaces

/// Removals of documents that are on their way to the peer.
///
/// An edit may itself be what takes a document out of the user's channels, and the news of that may overtake the acknowledgement. Only the answer
/// says whether the edit is lost with the document. Until then the removal is open, and with it its sequence in the pull's checkpoint; a peer that
/// never answers would hold up the pull for good. So the connection ends where nothing comes of it for `removal_wait`: on the next one the peer is
/// asked once more, and tells of the removal once more.
extension PushMachine {
    mutating func takeAway(_ actions: inout [PushAction]) {
        if removals.isEmpty { return }
        var (free, owed) = ([Removal](), [Removal]())
        for each in removals {
            if ledger.phase(of: each.id)?.awaitsAnswer ?? false { owed.append(each) } else { free.append(each) }
        }
        removals = owed
        for each in free { removalWatch.forget(each.id) }
        if !free.isEmpty { actions.append(.takeAway(free)) }
        if !owed.isEmpty, !removalWatch.isUnderWay {
            removalWatch.begin(owed.map(\.id), ledger)
            actions.append(.watchRemovals(seconds: settings.limits.removalWaitSeconds))
        }
    }

    /// The time is over; what waits still is watched anew.
    mutating func lookAtRemovals(isMoving: Bool, _ actions: inout [PushAction]) {
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
                        + "removal_wait = \(settings.limits.removalWaitSeconds) seconds: what is to become of the edit cannot be told before; connecting anew")))
    }
}

/// What shows that a peer goes on with the documents whose removals wait for its answers.
struct RemovalWatch {
    private struct Beginning {
        /// How far each document was, as far as its removal waits still.
        var steps: [DocumentID: Int] = [:]
        let answers: Int
    }

    /// Answers of the peer to the push, about whatever documents.
    var answers = 0
    /// Of the watch that is under way.
    private var beginning: Beginning?

    var isUnderWay: Bool { beginning != nil }

    mutating func begin(_ ids: [DocumentID], _ ledger: PushLedger) {
        var beginning = Beginning(answers: answers)
        for id in ids { beginning.steps[id] = ledger.phase(of: id).map(Self.step) }
        self.beginning = beginning
    }

    /// Its removal waits no longer.
    mutating func forget(_ id: DocumentID) { beginning?.steps[id] = nil }

    mutating func end() { beginning = nil }

    /// Whether nothing has come of the document since the watch began, and it is the peer's to go on.
    func isStuck(_ id: DocumentID, _ ledger: PushLedger) -> Bool {
        guard let beginning, let phase = ledger.phase(of: id), phase.awaitsAnswer, beginning.steps[id] == Self.step(phase) else { return false }
        return switch phase {
        case .offered, .sent: true
        // Its turn comes when the peer has answered about others.
        case .ready, .wanted: answers == beginning.answers
        case .judging, .listing, .comparing, .due, .reading, .deferred, .awaitingPull: false
        }
    }

    /// What the peer owes, for the operator.
    static func words(_ phase: PushLedger.Phase) -> String {
        switch phase {
        case .offered: "which has an edit that it was offered"
        case .sent: "which has an edit that it was sent"
        case .judging, .listing, .ready, .comparing, .wanted, .due, .reading, .deferred, .awaitingPull:
            "which has an edit that waits for answers about others"
        }
    }

    /// In the order in which a document goes through them while its answer is waited for.
    private static func step(_ phase: PushLedger.Phase) -> Int {
        switch phase {
        case .judging, .listing, .due, .reading, .deferred, .awaitingPull: 0
        case .ready: 1
        case .offered: 2
        case .comparing: 3
        case .wanted: 4
        case .sent: 5
        }
    }
}

import Documents
import DocumentStore
import Interfaces

// What follows from the outcome of revisions, removals and conflicts: counting, answering and reporting.
extension PullMachine {
    /// These revisions are stored, or will not be: each is counted, the peer is answered, and its sequence is complete or stays open.
    mutating func settle(_ ended: [Insertion], _ actions: inout [PullAction]) {
        var came: [(DocumentID, Version)] = []
        var peerHad: [PeerRevision] = []
        var met: [(DocumentID, Version)] = []
        var listed: Set<DocumentID> = []
        var wereHere: [(DocumentID, Version)] = []
        var (over, staying) = ([FetchID](), [FetchID]())
        var refused: [NotTaken] = []
        for each in ended {
            asked.end(each.id, each.version)
            if let fetch = each.fetch { if each.end.leavesBlobs { staying.append(fetch) } else { over.append(fetch) } }
            guard let settlement = settlement(of: each, &actions) else { continue }
            if let handle = each.replyTo { actions.append(.settle(handle, settlement)) }
            counts.completed += 1
            switch each.end {
            case .postponed(let error): postpone(each.sequence, error, bytes: each.bytes, isDeleted: each.isDeleted, &actions)
            case .stored, .held, .rejected(_, isListed: true), .undecided(_, isListed: true):
                complete(each.sequence)
                came.append((each.id, each.version))
                peerHad.append(each.peerHad)
                if case .stored = each.end { listed.remove(each.id) } else { listed.insert(each.id) }
                if case .stored(.alreadyPresent) = each.end { wereHere.append((each.id, each.version)) }
                if case .stored(.conflict(let current)) = each.end { met.append((each.id, current)) }
                if case .stored(.ended(let current)) = each.end {
                    met.append((each.id, current))
                    wereHere.append((each.id, each.version))
                }
            case .refused(let error):
                complete(each.sequence)
                refused.append(NotTaken(id: each.id, revision: each.version, sequence: each.sequence, error: error))
            default: complete(each.sequence)
            }
        }
        listNotTaken(refused, &actions)
        let here = wereHere.isEmpty ? [] : Set(wereHere.map(\.0))
        if !came.isEmpty { actions.append(.notifyPush(came, listed: listed, peerHad: peerHad, here: here)) }
        if !wereHere.isEmpty { actions.append(.notifyPushOfAlreadyHere(wereHere)) }
        if !met.isEmpty { actions.append(.notifyPushOfRefusal(met)) }
        if !over.isEmpty || !staying.isEmpty { actions.append(.releaseBlobs(over, staying: staying)) }
    }

    /// Counts and reports a revision, and passes it on if something follows: a decision or a removal.
    ///
    /// - Returns: what the peer is told. It need not retry what is on our list; otherwise it keeps what is held, and gives up what is refused. Nil for a
    ///   removal, which is answered once it has been carried out.
    private mutating func settlement(of each: Insertion, _ actions: inout [PullAction]) -> Settlement? {
        switch each.end {
        case .stored(.alreadyPresent): return .alreadyHere
        case .stored(.inserted):
            counts.pulled += 1
            fitted(isDeleted: each.isDeleted)
            report(each.id, nil, isDeleted: each.isDeleted, &actions)
            return .stored
        case .stored(.insertedConflict):
            counts.pulled += 1
            fitted(isDeleted: each.isDeleted)
            // Without a resolver the decision is made elsewhere: a replicator here brought the other branch.
            if settings.hasResolver { queueDecision(each.id, &actions) }
            return .stored
        case .stored(.conflict), .stored(.ended):
            counts.failed += 1
            // The current revision is named only to peers with access to the document: they learn it from the answer to a proposal.
            let error = ReplicationError.conflict("document \(each.id) has another revision here")
            if settings.isPassive { report(each.id, error, isDeleted: each.isDeleted, &actions) }
            return .refused(error)
        case .rejected(_, isListed: true):
            counts.rejected += 1
            return .kept(.rejected)
        case .rejected(let reason, isListed: false):
            counts.rejected += 1
            let error = ReplicationError.forbidden(reason)
            if settings.isPassive { report(each.id, error, isDeleted: each.isDeleted, &actions) }
            return .refused(error)
        case .undecided(let failure, let isListed):
            countHeld(each.id)
            report(each.id, ReplicationError(failure), isDeleted: each.isDeleted, &actions)
            return isListed ? .kept(.held) : .refused(.busy(failure))
        case .held(let error, let reason):
            countHeld(each.id)
            // Requesting a too large revision again would only transfer it again.
            report(each.id, error, isDeleted: each.isDeleted, isHeldAgain: each.wasKeptBack && reason == .blob, &actions)
            return .kept(reason)
        case .refused(let error), .postponed(let error):
            counts.failed += 1
            report(each.id, error, isDeleted: each.isDeleted, &actions)
            return .refused(error)
        case .isRemoval:
            removals.append(Removal(id: each.id, sequence: each.sequence, replyTo: each.replyTo))
            return nil
        }
    }

    private mutating func countHeld(_ id: DocumentID) { if !settings.heldBefore.contains(id) { counts.held += 1 } }

    mutating func acceptRemovals(_ taken: [RemovalOutcome], _ actions: inout [PullAction]) {
        removalsUnderWay -= taken.count
        for each in taken {
            complete(each.removal.sequence)
            counts.completed += 1
            if case .purged = each.end { counts.accessRemoved += 1 }
            if case .rejected = each.end { counts.rejected += 1 }
            if case .failed = each.end { counts.held += 1 }
            if let handle = each.removal.replyTo { actions.append(.settle(handle, .stored)) }
            if let event = each.event(settings.collection) { actions.append(.report(event)) }
        }
    }

    /// Has the conflict decided, at once or after a pause. A listener's peers wait for its decisions, and a one-shot ends with them.
    private mutating func queueDecision(_ id: DocumentID, _ actions: inout [PullAction]) {
        guard !settings.isPassive, settings.isContinuous else { return conflicts.append(id) }
        switch pauses.turn(of: id) {
        case .now: return conflicts.append(id)
        case .later: return
        case .after(let seconds): actions.append(.pauseDecision(id, seconds: seconds))
        }
        timePauses(&actions)
    }

    private mutating func timePauses(_ actions: inout [PullAction]) {
        if pauses.startInterval() { actions.append(.startPauseTimer(seconds: DecisionPauses.intervalSeconds)) }
    }

    mutating func endPauses(_ actions: inout [PullAction]) {
        conflicts += pauses.elapsed()
        timePauses(&actions)
    }

    mutating func acceptDecisions(_ outcomes: [ConflictDecider.Outcome], _ actions: inout [PullAction]) {
        isDeciding = false
        for outcome in outcomes where outcome.isDecided || outcome.failure != nil {
            if outcome.isDecided {
                counts.resolved += 1
                pauses.decided(outcome.id)
            }
            report(outcome.id, outcome.failure.map(ReplicationError.undecided), &actions)
        }
        timePauses(&actions)
        actions.append(.notifyPushOfDecision(outcomes.compactMap { $0.isDecided ? $0.id : nil }))
    }

    /// A row that cannot be accepted.
    mutating func fail(_ id: DocumentID?, at sequence: RemoteSequence?, _ why: String, _ refused: inout [NotTaken], _ actions: inout [PullAction]) {
        counts.failed += 1
        guard let id else { return actions.append(.warn("a row of changes was refused: \(why)")) }
        report(id, .malformed(why), &actions)
        refused.append(NotTaken(id: id, sequence: sequence, error: .malformed(why)))
    }

    /// Puts documents on the list of those that cannot be stored here, if the checkpoint passes them and no other list has them: one that is too large is
    /// requested again under other limits, and what the peer does not have, or withholds, is its own matter.
    ///
    /// - Parameter gone: documents that are deleted at the peer.
    func listNotTaken(_ refused: [NotTaken], gone: [DocumentID] = [], _ actions: inout [PullAction]) {
        if settings.isPassive { return }
        if !gone.isEmpty { actions.append(.forgetNotTaken(gone)) }
        let listed = refused.filter { !$0.error.isTransient && !$0.error.exceedsLocalSize && $0.error.domain != .plugin && !$0.error.isNotGiven }
        if !listed.isEmpty { actions.append(.noteNotTaken(listed)) }
    }

    /// Something has to be offered again, which the peer does only on another connection.
    mutating func requestReconnect(_ actions: inout [PullAction]) {
        if settings.isPassive || willReconnect { return }
        willReconnect = true
        actions.append(.reconnectLater)
    }

    func report(_ id: DocumentID?, _ error: ReplicationError?, isDeleted: Bool = false, isHeldAgain: Bool = false, _ actions: inout [PullAction]) {
        guard let id else { return }
        var event = DocumentEvent(id: id, collection: settings.collection, direction: .pull, isDeleted: isDeleted, error: error)
        event.isHeldAgain = isHeldAgain
        actions.append(.report(event))
    }
}

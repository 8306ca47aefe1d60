import Documents
import DocumentStore
import Interfaces

/// Whether a peer accepts anything from us.
enum PushBarrier {
    /// Documents are offered. An earlier refusal stands until the peer has accepted something.
    case down(refusal: ReplicationError?)
    /// Nothing is offered at the moment.
    case up(refusal: ReplicationError)

    var isUp: Bool { if case .up = self { true } else { false } }

    var refusal: ReplicationError? {
        switch self {
        case .down(let refusal): refusal
        case .up(let refusal): refusal
        }
    }

    /// The peer is offered something again.
    mutating func lower() { self = .down(refusal: refusal) }

    /// The peer accepted something. A document that was in flight when the others were refused says nothing about those.
    mutating func taken() { if case .down(.some) = self { self = .down(refusal: nil) } }
}

// Documents that the peer refused, revisions of them that it sends itself, and documents that it no longer gets.
extension PushMachine {
    mutating func refuse(_ id: DocumentID, _ error: ReplicationError, _ actions: inout [PushAction]) {
        guard let phase = ledger.phase(of: id), var document = phase.document else { return }
        if case .sent = phase, !error.isConflict { document.wasWanted = true }
        removalWatch.answers += 1
        if settings.isContinuous, error.isClockSkew, let time = document.latestTime { actions.append(.awaitTime(id, time)) }
        if settings.style == .announce {
            // The peer's own business: it knows what it refused, and its checkpoint reflects it. The operator may want to know.
            if !error.isTransient { report(document, error, &actions) }
            declinedDocuments.note(document, .refused(error))
            if document.isEndOfBranch { return ledger.readAgainForRest(id, peerVersion: document.version) }
            ledger.finish(id)
        } else if document.isDecidedEnd, !error.isTransient {
            ledger.readAgainForRest(id)
        } else if error.isConflict {
            if case .sent = phase, compareWithPeers(document, &actions) { return }
            lose(document, to: nil, &actions)
        } else if error.isForbidden, !document.wasForbidden {
            ledger.readAgainForRest(id, wasForbidden: true)
        } else {
            fail(document, error, isFinal: !error.isTransient, &actions)
        }
    }

    /// The peer took the proposal, which names what it has, but not our revision, which does not descend from that. If what it has is a tombstone that is
    /// here, the pull does not bring another revision. It makes no difference which of two tombstones a peer keeps; and a document can be created on
    /// either.
    private mutating func compareWithPeers(_ document: OutgoingDocument, _ actions: inout [PushAction]) -> Bool {
        guard let theirs = document.peerVersion, !document.history.contains(theirs),
            document.offersBefore + 1 < settings.limits.offersPerDocument
        else { return false }
        var document = document
        document.offersBefore += 1
        document.wasSent = true
        ledger.move(document.id, to: .comparing(document))
        actions.append(.compare([(document, theirs)]))
        return true
    }

    /// The document was not sent, for a reason that lies here.
    mutating func giveUp(_ id: DocumentID, _ error: ReplicationError, _ actions: inout [PushAction]) {
        guard case .sent(let document)? = ledger.phase(of: id) else { return }
        report(document, error, &actions)
        declinedDocuments.note(document, .refused(error))
        ledger.finish(id)
    }

    /// A peer that fails on one row of a list refuses the whole list and moves past it: Couchbase Lite 4.1 does so for a document that it has under a
    /// revision id from before it used versions. The others are sent in lists of half the size, until that document is alone.
    mutating func refuse(_ list: ChangeListID, _ error: ReplicationError, _ actions: inout [PushAction]) {
        let ids = lists.take(list)
        if ids.count == 1 { return refuse(ids[0], error, &actions) }
        for id in ids {
            guard case .offered(var document)? = ledger.phase(of: id) else { continue }
            document.rowsOfList = ids.count / 2
            offerAgain(document)
        }
    }

    /// Puts a document on the kept-back list because the peer refused it.
    mutating func exclude(_ document: OutgoingDocument, _ error: ReplicationError, _ actions: inout [PushAction]) {
        // Acknowledgements are recorded first: recording one takes the document off the list on which it is put here.
        note(&actions)
        hasKeptBack = true
        if error.isOfOwnBlob { ownBlobs.note(document) }
        refused.note(document)
        actions.append(.exclude([KeptBack(document: document, cause: .refused(error))]))
    }

    /// - Parameters:
    ///   - peerHad: for each revision, what the peer was known to have when it offered it; empty if that is unknown.
    ///   - here: documents of which the revision was here already.
    mutating func accept(
        pulled revisions: [(DocumentID, Version)], listed: Set<DocumentID>, _ peerHad: [PeerRevision], here: Set<DocumentID>, _ actions: inout [PushAction]
    ) {
        // The refused revision is no longer the current one.
        let changed = refused.isEmpty ? [] : revisions.compactMap { refused.remove($0.0) }
        if !changed.isEmpty { actions.append(.unlist(changed)) }
        if hasKeptBack { actions.append(.unlistSettled(revisions.map(\.0))) }
        for (index, (id, version)) in revisions.enumerated() {
            guard settings.style == .propose else {
                echoes.add(id, version)
                if feed.isReading || nextPage != nil || ledger.phase(of: id) != nil { overtaken.add(id) }
                continue
            }
            // The store has recorded a stored one as the peer's. Of the others it knows nothing, and what the peer acknowledged is the best that is known.
            returned.forget(id)
            if !listed.contains(id) { noteStored(id, version, after: index < peerHad.count ? peerHad[index] : .unknown) }
            switch ledger.phase(of: id) {
            // It brought nothing: whatever waits for the peer's revision goes on waiting.
            case _ where here.contains(id): break
            case .awaitingPull: ledger.finishWaiting(id)
            // It may have been refused because of the revision that is here now. One that is held or rejected is not: offering ours again would make the peer
            // send it again, and so on.
            case .deferred: if !listed.contains(id) { ledger.callBack([id]) }
            default: break
            }
        }
    }

    /// A revision of the peer's is stored here. What the peer acknowledged before it offered that one no longer applies; what it acknowledges later does.
    private mutating func noteStored(_ id: DocumentID, _ version: Version, after peerHad: PeerRevision) {
        let underWay = ledger.phase(of: id)?.document.flatMap { $0.isEndOfBranch ? nil : $0.version }
        let ours = acknowledged.version(of: id) ?? underWay ?? crossed.acknowledged(id)
        guard peerHad != .unknown, let ours, ours != version, peerHad != .had(ours) else {
            crossed.forget(id)
            return acknowledged.supersede(id, by: version)
        }
        crossed.note(id, version, and: ours)
        guard crossed.acknowledged(id) != nil, acknowledged.version(of: id) == nil else { return }
        // It was recorded before this revision was stored, which took its place in the record.
        acknowledged.add(id, ours)
        ledger.callBack([id])
    }

    /// These were the reason for which the peer's own revisions were refused. It is offered them each time, however often it has had them: it may have dropped
    /// them since, in favour of what others decided.
    mutating func announceAgain(_ revisions: [(DocumentID, Version)]) {
        guard settings.style == .announce, !isOver else { return }
        echoes.meet(revisions)
        ledger.callBack(revisions.map(\.0))
    }

    /// The peer's current revisions of these documents are here, and others may be current: it may have gone back to a branch that ended here, and has to
    /// be offered what is current.
    mutating func lookAgain(_ revisions: [(DocumentID, Version)]) {
        // The peer would tell the parent once more.
        if settings.limits.hasPlanted(.forgottenParent) { return }
        let revisions = revisions.filter { returned.insert($0.0, $0.1) }
        guard settings.style == .propose else {
            if isOver { return }
            // It may have sent the current revision itself, and left it.
            for (id, _) in revisions { echoes.answered(id) }
            return ledger.callBack(revisions.map(\.0))
        }
        let free = revisions.filter {
            switch ledger.phase(of: $0.0) {
            case nil, .deferred: true
            default: false
            }
        }
        for (id, version) in free { acknowledged.supersede(id, by: version) }
        ledger.callBack(free.map(\.0))
    }

    /// The document was dropped here, while the filter judged it or the peer considered it, in favour of a revision that does not descend from it and
    /// comes next. The peer would take the dropped one for our decision, and drop what became of it.
    func isGivenUp(_ document: OutgoingDocument) -> Bool {
        guard settings.style == .announce, document.visibility == .visible, let next = nextPage?.documents else { return false }
        let newer = settings.hasFilter ? next.first { $0.id == document.id } : next.first.flatMap { $0.id == document.id ? $0 : nil }
        return newer.map { $0.version != document.version && !$0.mayDescend(from: document.version) } ?? false
    }

    mutating func accept(_ comparison: Comparison, of id: DocumentID, _ actions: inout [PushAction]) {
        guard case .comparing(var document)? = ledger.phase(of: id) else { return }
        if document.wasSent, !document.isDeleted {
            switch comparison {
            // A tombstone has no body.
            case .goesOn, .ended: break
            default: return lose(document, to: nil, &actions)
            }
        }
        switch comparison {
        case .newer(let history):
            if !settings.limits.hasPlanted(.forgottenParent) { (document.peerVersion, document.history) = (history.last, history) }
            offerAgain(document)
        case .same(let version):
            (document.version, document.isEndOfBranch) = (version, false)
            peerHas(document, &actions)
        // The peer's deletion is known here, and the document is there nevertheless: nothing is lost if the peer takes ours for its successor.
        case .goesOn(let tombstone, _) where document.peerVersion != tombstone:
            document.peerVersion = tombstone
            offerAgain(document)
        // As such it was refused: a peer that does not know the tombstone below it takes it for an edit of what was deleted. Without what was before, it
        // was created on the peer's tombstone.
        case .goesOn(let tombstone, let history?) where recreations.history(of: id, document.version) == nil:
            recreations.note(id, document.version, since: history)
            ledger.readAgainForRest(id, peerVersion: tombstone)
        // Its history since the deletion was not enough if the peer has more of it than is known here: it is created anew. To move it below the peer's
        // tombstone comes last: whoever wrote the revision could not go on from it.
        case .goesOn(let tombstone, .some) where recreations.history(of: id, document.version)?.isEmpty == false:
            recreations.note(id, document.version, since: [])
            ledger.readAgainForRest(id, peerVersion: tombstone)
        case .goesOn(let tombstone, _):
            ledger.move(id, to: .comparing(document))
            actions.append(.move(document, below: tombstone))
        case .covered(let theirs): ledger.readAgainForRest(id, peerVersion: theirs)
        // The newer revision here was already read, or will be.
        case .older: ledger.finish(id)
        // A decision creates a new revision, which is pushed in its turn.
        case .branches where settings.pulls: ledger.finish(id)
        // The peer would not learn it otherwise: its branch would remain beside ours forever.
        case .ended(let end): offerAgain(document.endOfBranch(end))
        case .branches, .unknown: lose(document, to: nil, &actions)
        }
    }

    /// The new revision is read in its turn.
    mutating func accept(moved id: DocumentID, _ isMoved: Bool, _ actions: inout [PushAction]) {
        guard case .comparing(let document)? = ledger.phase(of: id) else { return }
        if isMoved { return ledger.finish(id) }
        guard let tombstone = document.peerVersion, recreations.history(of: id, document.version)?.isEmpty != true else {
            return lose(document, to: document.peerVersion, &actions)
        }
        // Another remote has it, too, so that it stays as it is: for this one, it is created anew.
        recreations.note(id, document.version, since: [])
        ledger.readAgainForRest(id, peerVersion: tombstone)
    }

    /// The peer holds a revision that ours is not known to descend from.
    mutating func lose(_ document: OutgoingDocument, to current: Version?, _ actions: inout [PushAction]) {
        if settings.limits.hasPlanted(.hopedForPull), settings.pulls { return ledger.finish(document.id) }
        if settings.pulls, !document.isAfterPull { return ledger.park(document.id, { .awaitingPull($0) }) }
        let name = current.map { " (\($0))" } ?? ""
        let why = settings.pulls ? "which the pull does not bring; it is offered again later" : "and this replicator does not pull"
        let error = ReplicationError.conflict("the peer holds another revision\(name), \(why)")
        fail(document, error, isFinal: !settings.pulls, &actions)
    }

    /// The peer's revision is current here again, while another revision is in flight or was just acknowledged: then the peer has that one.
    mutating func accept(known rows: [FeedPage.Known]) {
        for row in rows {
            var document = OutgoingDocument(sequence: row.sequence, id: row.id, version: row.version)
            switch ledger.phase(of: row.id) {
            case nil:
                guard let version = acknowledged.version(of: row.id) ?? returned.version(of: row.id), version != row.version else { continue }
                ledger.read(row.sequence)
                ledger.readAgain(document, peerVersion: version)
            // These are read again anyway.
            case .due, .deferred, .awaitingPull: continue
            default:
                ledger.read(row.sequence)
                _ = ledger.begin(&document)
            }
        }
    }

    /// The peer accepts nothing from us. The pull continues; documents to push wait, and are offered again from time to time.
    mutating func forbid(_ ids: [DocumentID], _ error: ReplicationError, _ actions: inout [PushAction]) {
        guard settings.pulls else { return actions.append(.fail(error)) }
        barrier = .up(refusal: error)
        park(ids)
        if settings.isContinuous, let seconds = retry.start() { actions.append(.startRetryTimer(seconds: seconds)) }
    }

    mutating func retryElapsed() {
        retry.elapsed()
        tryAgain()
        requestHeldAgain()
    }

    mutating func tryAgain() {
        barrier.lower()
        ledger.wakeDeferred()
    }

    mutating func park(_ ids: [DocumentID]) {
        for id in ids where ledger.phase(of: id)?.document != nil { ledger.park(id, { .deferred($0) }) }
    }

    /// - Parameter isFinal: the document is given up; otherwise its sequence stays open, and it is offered again later.
    mutating func fail(_ document: OutgoingDocument, _ error: ReplicationError, isFinal: Bool, _ actions: inout [PushAction]) {
        ledger.count { if error.isOfOwnBlob { $0.held += 1 } else { $0.failed += 1 } }
        report(document, error, &actions)
        if isFinal {
            exclude(document, error, &actions)
            // A refusal because of the peer's clock has a retry time of its own.
            let hasTime = error.isClockSkew && document.latestTime != nil
            if settings.isContinuous, !hasTime, let (attempts, seconds) = refused.wait(document.id) {
                actions.append(.startRefusedTimer(attempts: attempts, seconds: seconds))
            }
            return ledger.move(document.id, to: .excluding(document))
        }
        if !error.isTransient { exclude(document, error, &actions) }
        // By then the peer may take it in a way in which it did not before.
        recreations.forget(document.id)
        ledger.park(document.id, { .deferred($0) })
        if settings.isContinuous, let seconds = retry.start() { actions.append(.startRetryTimer(seconds: seconds)) }
    }
}

import Documents
import DocumentStore
import Interfaces

/// Takes the documents of one collection from one peer: answers its offers, and brings the revisions it sends into the store, by way of the
/// ``InsertionMachine``. Only once the store's commit is durable are answers sent and sequences completed. The machine does no I/O: events
/// go in, actions come out.
///
/// Everything about one document happens in order of arrival: a revision waits for the batch that contains an earlier revision of its document, and a
/// removal waits for every revision that was requested before it.
struct PullMachine {
    let settings: PullSettings
    var counts = ReplicationCounts()
    /// Set only if we are active and have subscribed to the peer's changes.
    private(set) var tracker: RemoteSequenceTracker?

    private var lists: WaitingLists
    /// Rows whose revision was requested and has not arrived.
    var asked = RequestedRows()
    /// Passive: number of revisions that the peer was told to send. Only a hint: it may skip those that changed in the meantime.
    private var expected = 0
    private var insertion: InsertionMachine
    /// Documents that the peer took away, to be removed once nothing of them is under way.
    var removals: [Removal] = []
    var removalsUnderWay = 0

    /// The peer sent the empty list that ends its backlog.
    private var isBacklogOver = false
    /// Judges again what is on the list of held revisions.
    private var heldReview = PagedReview(isDue: false)
    /// Finds the conflicts that are still pending, from earlier runs or because a resolver failed.
    private var conflictReview = PagedReview(isDue: false)
    /// Documents whose conflict is to be decided next.
    var conflicts: [DocumentID] = []
    /// Documents whose conflict is decided later, because its results were undone too often.
    var pauses: DecisionPauses
    /// One batch of conflicts at a time is being decided.
    var isDeciding = false
    /// What we pushed on this connection: the peer announces it to us as well, and it is not fetched.
    private var echoes: EchoMemory
    /// What the peer offered although it is here. Offered once more, it is requested: it may tell more than its name does.
    private var offered: SeenRevisions
    /// The reconnect is requested once for all documents that need it.
    var willReconnect = false
    /// Set while there is no space here for incoming documents.
    var spaceWait: SpaceWait?

    init(_ settings: PullSettings) {
        self.settings = settings
        lists = WaitingLists(settings.limits)
        insertion = InsertionMachine(settings)
        pauses = DecisionPauses(limit: settings.limits.echoMemory / 10)
        echoes = EchoMemory(limit: settings.limits.echoMemory)
        offered = SeenRevisions(limit: settings.limits.echoMemory)
    }

    /// We subscribed to the peer's changes after this sequence.
    mutating func subscribe(since: RemoteSequence?) { tracker = RemoteSequenceTracker(from: since) }

    // MARK: - What others may ask

    var isSubscribed: Bool { tracker != nil }

    /// The peer announced the end of its backlog, and every list before it is answered.
    var isCaughtUp: Bool { isBacklogOver && lists.isIdle }

    /// The peer owes something that it was asked for: revisions, or the rest of its backlog. Not while something is being stored here, since the peer
    /// may be waiting for our answer.
    var isOwed: Bool { isSubscribed && !isStoring && (!asked.isEmpty || !isBacklogOver && lists.isIdle) }

    /// The peer's lists wait until revisions that it was asked for have arrived: nothing is under way here that could let them go on.
    var waitsForRevisions: Bool { lists.areHeldUp && !asked.isEmpty && !isStoring }

    /// Nothing that arrived is under way.
    var isDrained: Bool { lists.isIdle && asked.isEmpty && insertion.isEmpty && removals.isEmpty && removalsUnderWay == 0 }

    /// Revisions are being stored, or conflicts being decided.
    var isStoring: Bool { !insertion.isEmpty || !conflicts.isEmpty || isDeciding }

    /// Everything that the peer announced is here, or there is no space for it, and nothing of it is waiting to be processed or decided.
    var isComplete: Bool {
        (!isSubscribed || isCaughtUp) && isDrained && conflicts.isEmpty && !isDeciding && heldReview.isOver && conflictReview.isOver
    }

    /// Whether only the store refuses revisions, and always those in conflict: they need no body.
    var refusesConflictsAlone: Bool { settings.isPassive && !settings.hasFilter && !settings.hasSyncFunction && !insertion.decidesPushes }

    /// Those of the documents with a revision on its way into the store; nil if there are too many revisions to search through.
    func onTheWay(of ids: Set<DocumentID>) -> Set<DocumentID>? { insertion.underWay(among: ids) }

    /// Body bytes received and not stored yet, plus the overhead of conflicts that wait for their decision.
    var bufferedBytes: Int { insertion.bytes + lists.bytes + conflicts.count * settings.limits.bufferedMessageOverhead }

    /// The part of ``bufferedBytes`` that outlives the connection, until policies and the store are done with it.
    var bytesElsewhere: Int { insertion.bytesElsewhere }

    // MARK: - Events

    mutating func handle(_ event: PullEvent, _ actions: inout [PullAction]) {
        switch event {
        case .started:
            if !settings.reviewsHeld { insertion.mayHaveHeld = true }
            review(held: true, conflicts: true)
        case .listArrived(let list): acceptList(list, &actions)
        case .listRead(.success(let rows)): acceptRows(rows, &actions)
        case .listRead(.failure(let error)): refuseList(lists.finish()?.handle, error, &actions)
        case .missing(let needs): answerOffers(needs, &actions)
        case .proposalsChecked(let verdicts): answerProposals(verdicts, &actions)
        case .listFailed(let error):
            actions.append(.refuseList(lists.finish()?.handle, .storeIsBusy))
            if !settings.isPassive { actions.append(.fail(error)) }
        case .arrived(let revision): acceptRevision(revision, &actions)
        case .arrivedBodiless(let revision, let outcome):
            if arrived(revision) == nil { counts.total += 1 }
            settle([Insertion(revision, .stored(outcome))], &actions)
        case .arrivalRefused(let sequence, let id, let error, let isFinal): refuse(sequence, id, error, isFinal: isFinal, &actions)
        case .outOfSpace(let sequence, let id, let error, let bytes): refuse(sequence, id, error, isFinal: false, bytes: bytes, &actions)
        case .withdrawn(let sequence):
            // A revision that arrived nevertheless completes its sequence when it is stored.
            if giveUp(sequence) != nil {
                complete(sequence)
                counts.completed += 1
            }
        case .insertion(let event):
            var ended: [Insertion] = []
            insertion.handle(event, &ended, &actions)
            if case .failed(_, let error) = event, !settings.isPassive, (error as? StoreError)?.isOutOfSpace != true { actions.append(.fail(error)) }
            settle(ended, &actions)
        case .removalsApplied(let taken): acceptRemovals(taken, &actions)
        case .removalsAreDue(let due):
            counts.total += UInt64(due.count)
            removals += due
        case .decided(let outcomes): acceptDecisions(outcomes, &actions)
        case .pausesElapsed: endPauses(&actions)
        case .filterChanged:
            insertion.filterChanged()
            review(held: true, conflicts: false)
        case .resolverChanged: review(held: false, conflicts: true)
        case .heldRead(let page): acceptHeld(page, &actions)
        case .conflictsRead(let page):
            conflictReview.accept(next: page.next)
            conflicts += page.ids
        case .pushed(let id, let version): return echoes.add(id, version)
        case .peerPulls: insertion.peerPulls = true
        case .spaceChecked(let isThere): finishSpaceCheck(isThere: isThere, &actions)
        }
        advance(&actions)
    }

    private mutating func advance(_ actions: inout [PullAction]) {
        insertion.advance(expectsMore: !asked.isEmpty || expected > 0, &actions)
        applyRemovals(&actions)
        if conflicts.isEmpty, case .page(let after) = conflictReview.begin() { actions.append(.readConflicts(after: after)) }
        if !isDeciding, !conflicts.isEmpty {
            isDeciding = true
            let some = Array(conflicts.prefix(settings.limits.conflictsAtOnce))
            conflicts.removeFirst(some.count)
            actions.append(.decide(some))
        }
        // Removals are carried out before a later list can bring the document back.
        if removals.isEmpty, removalsUnderWay == 0, mayRequestMore, let list = lists.begin() { actions.append(.readList(list)) }
        if !heldReview.isOver, canReview, case .page(let after) = heldReview.begin() { actions.append(.readHeld(after: after)) }
    }

    /// Whether more revisions may be requested: each may become another conflict, and deciding may be slow.
    private var mayRequestMore: Bool { asked.count + insertion.count + conflicts.count < settings.limits.requestedRevisions }

    /// Whether a page of the list of held revisions may be read: not while too much is under way, and not before everything that an earlier version of
    /// the filter kept back has reached the list.
    private var canReview: Bool { mayRequestMore && insertion.bytes < settings.limits.insertionBatchBytes && !insertion.isKeepingBack }

    private mutating func applyRemovals(_ actions: inout [PullAction]) {
        guard !removals.isEmpty else { return }
        var free: [Removal] = []
        removals.removeAll { removal in
            guard settings.limits.hasPlanted(.overtakingPurge) || !asked.contains(removal.id) && !insertion.contains(removal.id) else { return false }
            free.append(removal)
            return true
        }
        guard !free.isEmpty else { return }
        removalsUnderWay += free.count
        actions.append(.applyRemovals(free))
    }

    private mutating func review(held: Bool, conflicts: Bool) {
        if held, settings.keepsLists, settings.reviewsHeld { heldReview.restart() }
        if conflicts, settings.hasResolver { conflictReview.restart() }
    }

    // MARK: - Lists

    private mutating func acceptList(_ list: IncomingList, _ actions: inout [PullAction]) {
        do throws(ReplicationError) { try lists.append(list) } catch { refuseList(list.handle, error, &actions) }
    }

    private func refuseList(_ handle: AnswerHandle?, _ error: ReplicationError, _ actions: inout [PullAction]) {
        actions.append(.refuseList(handle, error))
        // An unanswered list would leave a gap in what was pulled.
        if !settings.isPassive { actions.append(.fail(error)) }
    }

    /// A list was parsed: the store is asked which of its revisions are missing here, or which of its proposals can be accepted.
    private mutating func acceptRows(_ rows: ListRows, _ actions: inout [PullAction]) {
        guard lists.ask(rows) != nil else { return }
        switch rows {
        case .proposed(let rows):
            var proposals: [Proposal] = []
            for case .row(let row) in rows { proposals.append(Proposal(id: row.id, revision: row.revision, parent: row.parent, vector: row.vector)) }
            actions.append(.checkProposals(proposals))
        case .offered(let rows) where rows.isEmpty:
            isBacklogOver = true
            if let handle = lists.finish()?.handle { actions.append(.answerChanges(handle, [])) }
        case .offered(let rows): acceptOffers(rows, &actions)
        }
    }

    private mutating func acceptOffers(_ rows: [RowResult<OfferedRow>], _ actions: inout [PullAction]) {
        // In order of arrival, and all before any can be completed: otherwise a checkpoint could pass a row of this list.
        for (index, row) in rows.enumerated() {
            guard let sequence = row.sequence, tracker?.begin(sequence) == false, case .row(let told) = row else { continue }
            let why: String
            switch whatStands(at: sequence, told.id, rows[..<index]) {
            case .same: continue
            case .another: why = "stands for two documents"
            case .unknown: why = "came again, for document \(told.id), before what it stands for is done"
            }
            return refuseList(lists.finish()?.handle, .malformed("sequence \(sequence) of the peer \(why)"), &actions)
        }
        counts.total += UInt64(rows.count)
        var offers: [RevisionOffer] = []
        var named: [DocumentID] = []
        for case .bad(_, _, let id?, _) in rows { named.append(id) }
        for case .row(let row) in rows where !row.isAccessRemoved {
            named.append(row.id)
            offers.append(
                RevisionOffer(id: row.id, revision: row.revision, isDeletion: row.isDeletion, isEcho: echoes.holds(row.id, row.revision)))
        }
        actions.append(.findMissing(offers, named: named))
    }

    private enum OpenRow {
        case same, another
        /// The row's document was not recorded: it is on its way into the store, or will be requested again on another connection.
        case unknown
    }

    /// Whether a row with a sequence that is already open repeats the open row, or is about another document.
    private func whatStands(at sequence: RemoteSequence, _ id: DocumentID, _ earlier: ArraySlice<RowResult<OfferedRow>>) -> OpenRow {
        if let asked = asked.document(at: sequence) { return asked == id ? .same : .another }
        for case .row(let other) in earlier where other.sequence == sequence { return other.id == id ? .same : .another }
        // Nothing that happens to it counts any more.
        if tracker?.isLeft(sequence) == true { return .same }
        // Requested and on its way into the store, or about to be taken away.
        return insertion.contains(id) || removals.contains { $0.id == id } || removalsUnderWay > 0 ? .same : .unknown
    }

    /// The store knows which revisions of the list are missing: the peer is asked for those, and the sequences of the others are complete.
    private mutating func answerOffers(_ needs: [RevisionNeed], _ actions: inout [PullAction]) {
        guard case (let list, .offered(let rows))? = lists.asking else { return }
        _ = lists.finish()
        var next = needs.makeIterator()
        var answers: [ChangeAnswer] = []
        answers.reserveCapacity(rows.count)
        var (refused, gone, wereHere): ([NotTaken], [DocumentID], [(DocumentID, Version)]) = ([], [], [])
        for result in rows {
            switch result {
            case .row(let row):
                let need = row.isAccessRemoved ? nil : next.next()
                let isFirst = need == .haveEarlier && !settings.insists && offered.insert(row.id, row.revision)
                if isFirst { wereHere.append((row.id, row.revision)) }
                answers.append(answer(row, need == .haveEarlier && !isFirst ? .need(ancestors: []) : need))
            case .bad(let why, let sequence, let id, let isGone):
                if isGone { gone += [id].compactMap(\.self) } else { fail(id, at: sequence, why, &refused, &actions) }
                complete(sequence)
                counts.completed += 1
                answers.append(.notWanted)
            }
        }
        listNotTaken(refused, gone: gone, &actions)
        if !wereHere.isEmpty { actions.append(.notifyPushOfAlreadyHere(wereHere)) }
        actions.append(.answerChanges(list.handle, answers))
    }

    /// - Parameter need: nil for a removal, about which the store is not asked.
    private mutating func answer(_ row: OfferedRow, _ need: RevisionNeed?) -> ChangeAnswer {
        let isWanted = settings.documentIDs?.contains(row.id) ?? true
        if row.isAccessRemoved, isWanted, !settings.asksOnly {
            // Complete once it has been carried out.
            removals.append(Removal(id: row.id, sequence: row.sequence))
            return .notWanted
        }
        guard isWanted, case .need(let ancestors, let known)? = need, !settings.asksOnly else {
            if isWanted, case .need? = need { counts.rejected += 1 }
            complete(row.sequence)
            counts.completed += 1
            return .notWanted
        }
        let isRepeated = asked.document(at: row.sequence) != nil
        if !isRepeated, mayFit(row) {
            asked.ask(row.sequence, row.id, row.revision, peerHad: known)
            return .wanted(ancestors: ancestors)
        }
        counts.completed += 1
        // A repeated row is completed by the revision that was requested for the first one.
        if isRepeated { return .notWanted }
        leaveOpen(row.sequence)
        return .notNow
    }

    private mutating func answerProposals(_ verdicts: [ProposalVerdict], _ actions: inout [PullAction]) {
        guard case (let list, .proposed(let rows))? = lists.asking else { return }
        _ = lists.finish()
        var refusesPush = false
        if case .passive(let refuses) = settings.role { refusesPush = refuses }
        var next = verdicts.makeIterator()
        var (met, wereHere): ([(DocumentID, Version)], [(DocumentID, Version)]) = ([], [])
        let answers = rows.map { result -> ProposalAnswer in
            guard case .row(let row) = result, let verdict = next.next() else {
                if case .bad(let why, _, _, _) = result { actions.append(.warn("a proposal was refused: \(why)")) }
                return .unreadable
            }
            switch verdict {
            // A conflict of which the peer ends one side is decided here.
            case .conflict where insertion.decidesPushes && !refusesPush && row.parent?.endOfBranch != row.revision, .accept:
                expected += 1
                return .send
            case .have, .haveNewer:
                if verdict == .haveNewer { wereHere.append((row.id, row.revision)) }
                return .have
            case .conflict(let current):
                met.append((row.id, current))
                return .conflict(current: current)
            }
        }
        actions.append(.answerProposals(list.handle, answers, namesCurrent: list.wantsCurrentVersions))
        if !wereHere.isEmpty { actions.append(.notifyPushOfAlreadyHere(wereHere)) }
        if !met.isEmpty { actions.append(.notifyPushOfRefusal(met)) }
    }

    /// A revision arrived. Returns nil for one that was not requested and is not counted.
    private mutating func arrived(_ revision: ReceivedRevision) -> RequestedRow? {
        guard settings.isPassive else { return asked.arrived(revision) }
        expected = max(0, expected - 1)
        return nil
    }

    /// A revision will not come. Returns nil for one that was not requested and is not counted.
    private mutating func giveUp(_ sequence: RemoteSequence?) -> RequestedRow? {
        guard settings.isPassive else { return asked.giveUp(sequence) }
        expected = max(0, expected - 1)
        return nil
    }

    mutating func complete(_ sequence: RemoteSequence?) { if let sequence { tracker?.complete(sequence) } }

    /// Leaves a sequence open, so that no checkpoint of this connection passes it.
    mutating func leaveOpen(_ sequence: RemoteSequence?) { if let sequence { tracker?.leave(sequence) } }

    private mutating func acceptRevision(_ revision: ReceivedRevision, _ actions: inout [PullAction]) {
        let row = arrived(revision)
        if row == nil, settings.refusesUnsolicited {
            actions.append(.warn("a revision was refused: nobody asked for document \(revision.id) under this sequence"))
            if let handle = revision.replyTo { actions.append(.settle(handle, .refused(.unsolicitedRevision(for: revision.id)))) }
            // The peer used the sequence of a revision that it owes us: that one is not going to come.
            if let id = asked.document(at: revision.sequence) {
                refuse(revision.sequence, id, .receivedInstead(of: id, revision.id), isFinal: false, &actions)
            }
            return
        }
        var revision = revision
        if let row { revision.fillIn(from: row) } else { counts.total += 1 }
        insertion.add(revision)
    }

    private mutating func refuse(
        _ sequence: RemoteSequence?, _ id: DocumentID?, _ error: ReplicationError, isFinal: Bool, bytes: Int = 0, _ actions: inout [PullAction]
    ) {
        let row = giveUp(sequence)
        let wasAsked = row != nil
        var error = error
        // Whatever the error: the revision is owed, and is retried with the usual delay.
        if wasAsked, !isFinal { error.isTransient = true }
        if wasAsked, isFinal { complete(sequence) }
        if !wasAsked { counts.total += 1 }
        counts.failed += 1
        counts.completed += 1
        report(id, error, &actions)
        if let row, isFinal { listNotTaken([NotTaken(id: row.id, revision: row.revision, sequence: sequence, error: error)], &actions) }
        if wasAsked, !isFinal { postpone(sequence, error, bytes: bytes, &actions) }
    }

    /// Held revisions go through the same steps as those that arrive, except for the check of their bodies.
    private mutating func acceptHeld(_ page: HeldRevisions.Page, _ actions: inout [PullAction]) {
        heldReview.accept(next: page.next)
        if page.isAny { insertion.mayHaveHeld = true }
        let again = insertion.add(again: page.revisions, &actions)
        counts.total += UInt64(again.count)
        for revision in again { asked.retriedFromKeptBack(revision) }
    }
}

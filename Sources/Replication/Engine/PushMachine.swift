import Documents
import DocumentStore
import Interfaces

/// Sends the documents of one collection to one peer: reads the change feed, asks the filter, offers documents, and sends those that are wanted. It
/// does no I/O: events go in, actions come out. The ``PushLedger`` knows how far each document has got.
///
/// At most one revision of a document is under way. A document that changes in the meantime is read again when its trip is over, so the peer always
/// gets the newest revision, and its acknowledgements for one document arrive in order.
struct PushMachine {
    let settings: PushSettings
    var ledger: PushLedger
    private(set) var feed: FeedReader
    /// For a peer that pulls: documents on which the filter fails.
    var held: HeldDocuments
    var lists: OfferedLists
    var acknowledged = AcknowledgedVersions()
    private(set) var unanswered: UnansweredPushes
    var retry: RetryDelay
    var echoes: EchoMemory
    var overtaken: OvertakenDocuments
    var crossed: CrossedRevisions
    var fetchedDeletions: FetchedDeletions
    var returned: ReturnedDocuments
    var recreations: Recreations
    /// For a peer that pulls: documents that were announced to it and that it has not taken.
    var declinedDocuments: DeclinedDocuments
    /// The page about which the filter is being asked.
    private var judging: JudgedPage?
    /// A page that was read, to be judged when the one before it has been.
    var nextPage: PushPage?
    /// The peer was told that its backlog has ended. That is said once.
    private var announcedCaughtUp = false
    /// Judges again the documents that were kept back earlier.
    private var review: PagedReview
    /// Documents may be on the kept-back list for this peer: those that it gets after all have to be taken off.
    var hasKeptBack = false
    /// Documents put on the list on this connection because the peer refused them.
    var refused: RefusedRetries
    var ownBlobs: OwnBlobWaits
    var barrier = PushBarrier.down(refusal: nil)
    /// Documents that the peer took away while it owes an answer about them.
    var removals: [Removal] = []
    var removalWatch = RemovalWatch()
    private var isPullComplete: Bool
    /// Memory is short: nothing more is read while anything is being worked on.
    private var isThrottled = false

    init(_ settings: PushSettings, from position: FeedPosition, generation: Int = 0, unanswered: UnansweredPushes = UnansweredPushes()) {
        self.settings = settings
        self.unanswered = unanswered
        feed = FeedReader(from: position)
        held = HeldDocuments(limit: settings.limits.heldDocuments)
        declinedDocuments = DeclinedDocuments(limit: WaitingDocuments.limit, behind: position.sequence)
        lists = OfferedLists(generation: generation)
        ledger = PushLedger(from: position.sequence, settings.limits)
        echoes = EchoMemory(limit: settings.limits.echoMemory)
        overtaken = OvertakenDocuments(limit: settings.limits.echoMemory)
        crossed = CrossedRevisions(limit: settings.limits.echoMemory)
        fetchedDeletions = FetchedDeletions(limit: settings.limits.echoMemory)
        returned = ReturnedDocuments(limit: settings.limits.echoMemory, times: settings.limits.offersPerDocument)
        recreations = Recreations(limit: settings.limits.echoMemory / 10)
        refused = RefusedRetries(settings.limits)
        ownBlobs = OwnBlobWaits(limit: settings.limits.refusedDocuments)
        retry = RetryDelay(first: settings.limits.deferralSeconds, longest: settings.limits.maximumDeferralSeconds)
        review = PagedReview(isDue: settings.style == .propose)
        isPullComplete = !settings.pulls
    }

    /// Acknowledged versions that are not recorded yet, for a connection that ends.
    mutating func takeUnrecorded() -> AcknowledgedVersions.Batch? { acknowledged.take(endsExclusions: hasKeptBack) }

    /// What the next connection has to know of what this one sent.
    mutating func takeUnanswered() -> UnansweredPushes {
        unanswered.note(ledger.sent)
        return unanswered
    }

    /// The feed was read to its end, as far as possible.
    var isCaughtUp: Bool {
        judging == nil && !feed.isReading && nextPage == nil && (barrier.isUp || !ledger.hasDue && review.isOver && (feed.isAtEnd || isOver))
    }

    /// No document is being worked on. Some may wait for a timer, and while the peer accepts nothing at all, nothing is read again.
    var isDrained: Bool { ledger.active == (barrier.isUp ? ledger.dueCount : 0) && lists.isEmpty }
    var isIdle: Bool { isCaughtUp && isDrained }

    /// A one-shot push has done everything it can. Documents that still wait are left for the next run.
    var isFinished: Bool {
        !settings.isContinuous && isIdle && (settings.style == .announce ? announcedCaughtUp : isPullComplete && acknowledged.isEmpty)
    }

    /// A peer's one-shot subscription ends with the caught-up marker; later changes are left for its next one.
    var isOver: Bool { settings.style == .announce && !settings.isContinuous && announcedCaughtUp }

    private var isFull: Bool {
        lists.count >= settings.limits.changeListsInFlight || ledger.inFlight + ledger.wantedCount >= settings.limits.revisionsInFlight
            || ledger.bytesAtHand >= settings.limits.revisionBytesInFlight || isThrottled && ledger.active > ledger.dueCount
    }

    mutating func handle(_ event: PushEvent, _ actions: inout [PushAction]) {
        switch event {
        case .storeChanged(let sequence): feed.storeChanged(sequence)
        case .decided(let ids):
            feed.checkAgain()
            if hasKeptBack, !ids.isEmpty { actions.append(.unlistSettled(ids)) }
        case .filterChanged:
            feed.endStall()
            requestHeldAgain()
            if settings.style == .propose { review.restart() }
            judging?.isStale = true
        case .read(let page): acceptFeed(page)
        case .readAgain(let asked, let found): acceptAgain(asked, found)
        case .keptBackRead(let page): acceptKeptBack(page, &actions)
        case .judged(let verdicts, let version): acceptVerdicts(verdicts, by: version, &actions)
        case .keptBack(let id, let failure, let version): accept(keptBack: id, failure, by: version, &actions)
        case .retryRefused:
            if settings.style == .propose { review.restart() }
            tryAgain()
        // A document that the peer refused may already be under way again.
        case .excluded(let ids): for id in ids { if case .excluding? = ledger.phase(of: id) { ledger.finish(id) } }
        case .answered(let list, let answers): acceptAnswers(answers, to: list, &actions)
        case .changeListRefused(let list, let error): refuse(list, error, &actions)
        case .forbidden(let list, let ids, let error): forbid((list.map { lists.take($0) } ?? []) + ids, error, &actions)
        case .withdrawn(let id): if case .sent? = ledger.phase(of: id) { ledger.finish(id) }
        case .unsent(let id, let error): giveUp(id, error, &actions)
        case .compared(let results): for (id, comparison) in results { accept(comparison, of: id, &actions) }
        case .moved(let id, let isMoved): accept(moved: id, isMoved, &actions)
        case .acknowledged(let id, let taking): acknowledge(id, taking, &actions)
        case .refused(let id, let error): refuse(id, error, &actions)
        case .noted(let batch): acknowledged.noted(batch)
        case .messageMade(let id): ledger.releaseBody(of: id)
        case .recordNow: note(&actions)
        case .pulled(let revisions, let listed, let peerHad, let here): accept(pulled: revisions, listed: listed, peerHad, here: here, &actions)
        case .alreadyHere(let revisions): lookAgain(revisions)
        case .refusedInFavourOf(let revisions): announceAgain(revisions)
        case .pullIsComplete(let isComplete): isPullComplete = isComplete
        case .throttled(let isShort): isThrottled = isShort
        case .blobMended(let digest): ledger.callBack(ownBlobs.take(digest))
        case .retryIsDue: retryElapsed()
        case .refusedAreDue(let attempts): ledger.callBack(refused.take(attempts))
        case .retryTimeReached(let ids): if !isOver { ledger.callBack(ids) }
        case .removalsArrived(let taken): removals += taken
        case .removalsWereWatched(let isMoving): checkRemovals(isMoving: isMoving, &actions)
        }
        advance(&actions)
        applyRemovals(&actions)
    }

    /// Does whatever can be done now, beginning with the last step of a document's way: what leaves a step makes room for the one before it.
    private mutating func advance(_ actions: inout [PushAction]) {
        send(&actions)
        offer(&actions)
        judge(&actions)
        read(&actions)
        guard isCaughtUp else { return }
        // Where the end of a branch was announced, the document itself is yet to come, and belongs to the backlog.
        if settings.style == .announce, !announcedCaughtUp, lists.ready.isEmpty, !ledger.hasEndsOfBranches {
            announcedCaughtUp = true
            actions.append(.announceCaughtUp)
        }
        guard isDrained else { return }
        overtaken.removeAll()
        if settings.pulls, isPullComplete, ledger.waiting > 0 {
            // The peer's answer that it holds another revision may have come only after the pull had brought that revision.
            ledger.wakeAwaitingPull()
            read(&actions)
        }
        note(&actions)
    }

    /// Sends what the peer wants, as far as the limits in flight allow.
    private mutating func send(_ actions: inout [PushAction]) {
        while var document = ledger.sendNext() {
            if isGivenUp(document) {
                actions.append(.withdraw(document))
                ledger.finish(document.id)
                continue
            }
            if settings.pulls { actions.append(.notifyPull(document.id, document.version)) }
            let freshness: Freshness = overtaken.take(document.id) ? .overtakenByPeer : document.newestWhenRead < feed.newest ? .storeHasChanged : .current
            // An unnecessary write would copy the document.
            if freshness != document.freshness { document.freshness = freshness }
            actions.append(.send(document))
        }
    }

    private mutating func read(_ actions: inout [PushAction]) {
        // One page may be read while the filter judges another.
        guard !feed.isReading, nextPage == nil, lists.ready.isEmpty, !isFull, !barrier.isUp else { return }
        if ledger.hasDue {
            let due = ledger.takeDue(limit: settings.limits.rowsReadAgain)
            feed.reading = .again(due.map(\.id))
            actions.append(.readAgain(due.map { ($0.id, acknowledged.version(of: $0.id) ?? $0.peerVersion ?? returned.version(of: $0.id)) }))
        } else if !review.isOver {
            // Documents that an earlier version of the filter is just keeping back must be on the list before it is read.
            guard ledger.excluding == 0, case .page(let after) = review.begin() else { return }
            feed.reading = .keptBack
            actions.append(.readKeptBack(after: after))
        } else if !feed.isAtEnd, !isOver {
            feed.reading = .feed(isStale: false)
            actions.append(.read(feed.position, limit: settings.limits.rowsPerChangeList, isBacklog: !announcedCaughtUp))
        }
    }

    private mutating func offer(_ actions: inout [PushAction]) {
        if barrier.isUp { return park(lists.takeReady()) }
        guard !lists.ready.isEmpty, let (list, documents) = lists.begin(settings.limits) else { return }
        for document in documents { ledger.move(document.id, to: .offered(document)) }
        actions.append(.offer(list, documents))
    }

    /// Has the store record what the peer acknowledged.
    mutating func note(_ actions: inout [PushAction]) {
        if let batch = takeUnrecorded() { actions.append(.note(batch)) }
    }

    private mutating func acceptFeed(_ page: FeedPage) {
        let from = feed.position
        guard feed.accept(page) else { return }
        if settings.style == .propose {
            // Begun before the position is claimed, so that a checkpoint saved in between does not pass them.
            for index in page.documents.indices { ledger.read(page.documents[index].sequence) }
            accept(known: page.known)
            ledger.read(through: page.next.sequence)
        }
        if !page.documents.isEmpty { nextPage = PushPage(documents: page.documents, from: from) }
    }

    private mutating func acceptAgain(_ asked: [DocumentID], _ found: [OutgoingDocument]) {
        // Too large to be read in one go: the rest is read next.
        if case .again(let due) = feed.reading { ledger.postpone(due.filter { !asked.contains($0) }) }
        feed.reading = .nothing
        let rows = Dictionary(found.map { ($0.id, $0) }) { first, _ in first }
        var documents: [OutgoingDocument] = []
        for id in asked {
            guard let parked = ledger.readAgain(id, rows[id]), var document = rows[id] else {
                held.release(id)
                continue
            }
            // A document further ahead is announced in its turn: otherwise the peer's checkpoint would skip everything in between.
            guard settings.style == .propose || document.sequence <= feed.position.sequence else { ledger.skip(document); continue }
            document.peerVersion = parked.peerVersion ?? document.peerVersion
            (document.isAfterPull, document.wasForbidden) = (parked.wasOfferedAfterPull, parked.wasForbidden)
            documents.append(document)
        }
        if !documents.isEmpty { nextPage = PushPage(documents: documents) }
    }

    private mutating func acceptKeptBack(_ page: KeptBackPage, _ actions: inout [PushAction]) {
        feed.reading = .nothing
        review.accept(next: page.next)
        hasKeptBack = hasKeptBack || page.isAny
        if !page.settled.isEmpty { actions.append(.unlist(page.settled)) }
        let known = page.documents.filter { $0.sequence <= feed.position.sequence } // The others are about to be read anyway.
        for document in known { ledger.read(document.sequence) }
        if !known.isEmpty { nextPage = PushPage(documents: known) }
    }

    private mutating func judge(_ actions: inout [PushAction]) {
        while judging == nil, lists.ready.isEmpty, let page = nextPage {
            if let stall = feed.stall, let from = page.from {
                if let first = page.documents.first(where: { !echoes.holds($0) }), first.id == stall.id, first.version == stall.version {
                    _ = feed.stall(at: stall, from)
                    nextPage = nil
                    return
                }
                feed.endStall()
            }
            let (now, rest) = candidates(page)
            nextPage = rest
            // Removals need no approval by the filter.
            let visible = settings.hasFilter ? now.filter { $0.visibility == .visible } : []
            if visible.isEmpty {
                for document in now { pass(document) }
                offer(&actions)
            } else {
                for document in now { ledger.move(document.id, to: .judging(document)) }
                judging = JudgedPage(page: PushPage(documents: now, from: page.from))
                actions.append(.judge(visible))
            }
            if rest != nil, now.isEmpty { return }
        }
    }

    private mutating func pass(_ document: OutgoingDocument) {
        ledger.count { $0.total += 1 }
        // The end of the peer's branch goes first: offering the document says nothing about that branch, which would remain beside ours forever.
        if let end = document.peerBranchEnd ?? crossed.takeEnd(for: document) { return offerAgain(document.endOfBranch(end)) }
        var document = document
        if let history = recreations.history(of: document.id, document.version) { document.history = history }
        guard !held.isEmpty else { return offerAgain(document) }
        held.release(document.id)
        document.low = held.low(document)
        offerAgain(document)
    }

    /// Puts a document in the next list, for the first time or once more.
    mutating func offerAgain(_ document: OutgoingDocument) {
        ledger.move(document.id, to: .ready(document))
        lists.append(document)
    }

    private mutating func acceptVerdicts(_ verdicts: [FilterVerdict], by version: String, _ actions: inout [PushAction]) {
        guard let page = judging?.page else { return }
        if judging?.isStale == true {
            judging?.isStale = false
            return actions.append(.judge(page.documents.filter { $0.visibility == .visible }))
        }
        judging = nil
        let style = settings.limits.hasPlanted(.passedFailingFilter) ? .propose : settings.style
        let judgement = Judgement(page, verdicts, by: version, style, room: held.room)
        // Held before the others pass: documents after a held one carry the position from which the peer has to resume.
        for each in judgement.undecided { hold(each, &actions) }
        for each in judgement.kept { held.release(each.document.id) }
        for document in judgement.passed { pass(document) }
        if let stall = judgement.stall {
            for document in stall.notExamined { ledger.forget(document.id) }
            nextPage = nextPage?.remains(before: stall.at.position)
            if feed.stall(at: stall.at.stall, stall.at.position) { report(undecided: stall.at, &actions) }
        }
        // The trips of these documents begin and end here.
        ledger.count { $0.total += UInt64(judgement.kept.count) }
        keepBack(judgement.kept, &actions)
    }

    private mutating func acceptAnswers(_ answers: [OfferAnswer], to list: ChangeListID, _ actions: inout [PushAction]) {
        var questions: [(OutgoingDocument, Version)] = []
        var (forbidden, refusal): ([DocumentID], ReplicationError?) = ([], nil)
        removalWatch.answers += 1
        for (id, answer) in zip(lists.take(list), answers) {
            guard case .offered(var document)? = ledger.phase(of: id) else { continue }
            switch answer {
            case .wanted(let known):
                document.cutHistory(known)
                if settings.style == .announce, document.isDeleted { fetchedDeletions.add(document) }
                ledger.want(document)
            case .has:
                if unanswered.take(document) { countPushed(document, &actions) }
                peerHas(document, &actions)
            case .conflict where document.isDecidedEnd: ledger.readAgainForRest(id)
            case .declined where document.isEndOfBranch: ledger.readAgainForRest(id, peerVersion: document.version)
            case .declined:
                if settings.style == .announce { declinedDocuments.note(document, .declined) }
                ledger.finish(id)
            case .conflict(let current?) where document.offersBefore + 1 < settings.limits.offersPerDocument:
                document.offersBefore += 1
                ledger.move(id, to: .comparing(document))
                questions.append((document, current))
            case .conflict(let current): lose(document, to: current, &actions)
            case .refused(let error): refuse(id, error, &actions)
            case .forbidden(let error):
                forbidden.append(id)
                refusal = error
            }
        }
        if let refusal { forbid(forbidden, refusal, &actions) }
        if !questions.isEmpty { actions.append(.compare(questions)) }
    }

    /// The peer has the document: that is remembered, and the trip is over, or goes on after the end of a branch.
    mutating func peerHas(_ document: OutgoingDocument, _ actions: inout [PushAction]) {
        barrier.taken()
        let stale = settings.limits.hasPlanted(.staleMark) ? document.history.first : nil
        if settings.style == .propose { acknowledged.add(document.id, stale ?? document.version) } else { pullerHas(document) }
        crossed.acknowledge(document.id, document.version)
        returned.forget(document.id)
        recreations.forget(document.id)
        if settings.pulls { actions.append(.notifyPull(document.id, document.version)) }
        if document.isEndOfBranch {
            ledger.readAgainForRest(document.id, peerVersion: document.version)
        } else {
            ledger.finish(document.id, peerVersion: document.version)
        }
        // The document changes quickly: the store must record what the peer holds before that revision is pruned.
        if settings.style == .propose, ledger.hasDue { note(&actions) }
    }

    private mutating func countPushed(_ document: OutgoingDocument, kept: KeptByPeer? = nil, _ actions: inout [PushAction]) {
        ledger.count { $0.pushed += 1 }
        report(document, nil, kept: kept, &actions)
    }

    private mutating func acknowledge(_ id: DocumentID, _ taking: PeerTaking, _ actions: inout [PushAction]) {
        guard case .sent(let document)? = ledger.phase(of: id) else { return }
        removalWatch.answers += 1
        let kept: KeptByPeer? = if case .kept(let reason) = taking { KeptByPeer(reason, document.version) } else { nil }
        // What the peer had, from somebody else, does not count as received there, and not as pushed here.
        let wasUnanswered = unanswered.take(document)
        if taking != .alreadyHeld || wasUnanswered { countPushed(document, kept: kept, &actions) }
        peerHas(document, &actions)
        if let kept, settings.style == .announce, !document.isEndOfBranch { declinedDocuments.note(document, .kept(kept)) }
        if ledger.waiting == 0 { retry.reset() }
        if acknowledged.unsavedCount >= settings.limits.unsavedMarks { note(&actions) }
    }
}

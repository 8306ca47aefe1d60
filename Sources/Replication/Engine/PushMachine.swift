import Documents
import DocumentStore
import Interfaces

/// Gets the documents of one collection to one peer: reads the change feed, has the filter asked, offers, and sends what is
/// wanted. It does no I/O: events go in, actions come out. How far each document is, the ``PushLedger`` knows.
///
/// At most one revision of a document is under way. What changes meanwhile is read again when the trip is over, so the
/// peer always gets the newest, and its acknowledgements of one document come in order.
struct PushMachine {
    let settings: PushSettings
    var ledger: PushLedger
    private(set) var feed: FeedReader
    /// Of a peer that pulls: what the filter fails on.
    var held: HeldDocuments
    var lists: OfferedLists
    var acknowledged = AcknowledgedVersions()
    var retry: RetryDelay
    var echoes: EchoMemory
    var fetchedDeletions: FetchedDeletions
    /// Of a peer that pulls: what it was told of and has not taken.
    var untaken: UntakenDocuments
    private var judging: JudgedPage?
    /// Read, and to be judged when the page before it is.
    var nextPage: PushPage?
    private var announcedCaughtUp = false
    private var review: KeptBackReview
    var hasKeptBack = false
    /// Put on the list on this connection because the peer refused them.
    var refused: RefusedRetries
    var ownBlobs: OwnBlobWaits
    var barrier = PushBarrier.down(refusal: nil)
    /// What the peer took away while it owes an answer about it.
    var removals: [Removal] = []
    var removalWatch = RemovalWatch()
    private var isPullComplete: Bool
    private var isThrottled = false

    init(_ settings: PushSettings, from position: FeedPosition, generation: Int = 0) {
        self.settings = settings
        feed = FeedReader(from: position)
        held = HeldDocuments(limit: settings.limits.heldDocuments)
        untaken = UntakenDocuments(limit: WaitingDocuments.limit, behind: position.sequence)
        lists = OfferedLists(generation: generation)
        ledger = PushLedger(from: position.sequence, settings.limits)
        echoes = EchoMemory(limit: settings.limits.echoMemory)
        fetchedDeletions = FetchedDeletions(limit: settings.limits.echoMemory)
        refused = RefusedRetries(settings.limits)
        ownBlobs = OwnBlobWaits(limit: settings.limits.refusedDocuments)
        retry = RetryDelay(first: settings.limits.deferralSeconds, longest: settings.limits.maximumDeferralSeconds)
        review = KeptBackReview(isDue: settings.style == .propose)
        isPullComplete = !settings.pulls
    }

    /// What was acknowledged and is not noted, for a connection that ends.
    mutating func takeUnnoted() -> AcknowledgedVersions.Batch? { acknowledged.take(endsExclusions: hasKeptBack) }

    /// The feed was read to its end, as far as it can be.
    var isCaughtUp: Bool {
        judging == nil && !feed.isReading && nextPage == nil && (barrier.isUp || !ledger.hasDue && review.isOver && (feed.isAtEnd || isOver))
    }

    /// Nobody works on a document. Some may wait for their time, and while the peer takes nothing at all nothing is read again.
    var isDrained: Bool { ledger.active == (barrier.isUp ? ledger.dueCount : 0) && lists.isEmpty }
    var isIdle: Bool { isCaughtUp && isDrained }

    /// A push that is not continuous has done all it can. What waits is for the next run.
    var isFinished: Bool {
        !settings.isContinuous && isIdle && (settings.style == .announce ? announcedCaughtUp : isPullComplete && acknowledged.isEmpty)
    }

    /// A peer's one-shot subscription ends with the marker; what changes later is for the next one.
    var isOver: Bool { settings.style == .announce && !settings.isContinuous && announcedCaughtUp }

    private var isFull: Bool {
        lists.count >= settings.limits.changeListsInFlight || ledger.inFlight + ledger.wantedCount >= settings.limits.revisionsInFlight
            || ledger.bytesAtHand >= settings.limits.revisionBytesInFlight || isThrottled && ledger.active > ledger.dueCount
    }

    mutating func handle(_ event: PushEvent, _ actions: inout [PushAction]) {
        switch event {
        case .storeChanged(let sequence): feed.storeChanged(sequence)
        case .decided(let ids):
            feed.lookAgain()
            if hasKeptBack, !ids.isEmpty { actions.append(.unlistSettled(ids)) }
        case .filterChanged:
            feed.goOn()
            askAgainAboutHeld()
            if settings.style == .propose { review.restart() }
            judging?.isStale = true
        case .read(let page): accept(page)
        case .readAgain(let asked, let found): acceptAgain(asked, found)
        case .keptBackRead(let page): accept(page, &actions)
        case .judged(let verdicts, let version): accept(verdicts, by: version, &actions)
        case .keptBack(let id, let failure, let version): accept(keptBack: id, failure, by: version, &actions)
        case .retryRefused:
            if settings.style == .propose { review.restart() }
            tryAgain()
        // What the peer refused may be on its way again already.
        case .listed(let ids): for id in ids { if case .listing? = ledger.phase(of: id) { ledger.finish(id) } }
        case .answered(let list, let answers): accept(answers, to: list, &actions)
        case .listRefused(let list, let error): refuse(list, error, &actions)
        case .forbidden(let list, let ids, let error): forbid((list.map { lists.take($0) } ?? []) + ids, error, &actions)
        case .withdrawn(let id): if case .sent? = ledger.phase(of: id) { ledger.finish(id) }
        case .compared(let results): for (id, comparison) in results { accept(comparison, of: id, &actions) }
        case .acknowledged(let id): acknowledge(id, kept: nil, &actions)
        case .keptThere(let id, let reason): acknowledge(id, kept: reason, &actions)
        case .refused(let id, let error): refuse(id, error, &actions)
        case .noted(let batch): acknowledged.noted(batch)
        case .noteNow: note(&actions)
        case .pulled(let revisions): accept(pulled: revisions, &actions)
        case .met(let revisions): if settings.style == .announce, !isOver { ledger.callBack(echoes.meet(revisions)) }
        case .pullIsComplete(let isComplete): isPullComplete = isComplete
        case .throttled(let isShort): isThrottled = isShort
        case .blobMended(let digest): ledger.callBack(ownBlobs.take(digest))
        case .retryIsDue: retryElapsed()
        case .refusedAreDue(let attempts): ledger.callBack(refused.take(attempts))
        case .timeHasCome(let ids): if !isOver { ledger.callBack(ids) }
        case .takenAway(let taken): removals += taken
        case .removalsWereWatched(let isMoving): lookAtRemovals(isMoving: isMoving, &actions)
        }
        advance(&actions)
        takeAway(&actions)
    }

    private mutating func advance(_ actions: inout [PushAction]) {
        while let document = ledger.sendNext() {
            if isGivenUp(document) {
                actions.append(.withdraw(document))
                ledger.finish(document.id)
                continue
            }
            if settings.pulls { actions.append(.tellPull(document.id, document.version)) }
            actions.append(.send(document))
        }
        offer(&actions)
        judge(&actions)
        read(&actions)
        guard isCaughtUp else { return }
        // The document itself follows the end of a branch.
        if settings.style == .announce, !announcedCaughtUp, lists.ready.isEmpty, !ledger.hasEndsOfBranches {
            announcedCaughtUp = true
            actions.append(.announceCaughtUp)
        }
        guard isDrained else { return }
        if settings.pulls, isPullComplete, ledger.waiting > 0 {
            // Perhaps the pull brought it before the peer's answer came.
            ledger.wakeAwaitingPull()
            read(&actions)
        }
        note(&actions)
    }

    private mutating func read(_ actions: inout [PushAction]) {
        // A page may be read while the filter looks at another.
        guard !feed.isReading, nextPage == nil, lists.ready.isEmpty, !isFull, !barrier.isUp else { return }
        if ledger.hasDue {
            let due = ledger.takeDue(limit: settings.limits.rowsReadAgain)
            feed.reading = .again(due.map(\.id))
            actions.append(.readAgain(due.map { ($0.id, acknowledged.version(of: $0.id) ?? $0.peerVersion) }))
        } else if !review.isOver {
            // What an earlier version of the filter kept back just now has to be on the list when it is read.
            guard ledger.listing == 0, let after = review.begin() else { return }
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

    mutating func note(_ actions: inout [PushAction]) {
        if let batch = takeUnnoted() { actions.append(.note(batch)) }
    }

    private mutating func accept(_ page: FeedPage) {
        let from = feed.position
        guard feed.accept(page) else { return }
        if settings.style == .propose {
            // Begun before the position is claimed, so that a checkpoint saved meanwhile does not pass them.
            for index in page.documents.indices { ledger.read(page.documents[index].sequence) }
            accept(known: page.known)
            ledger.read(through: page.next.sequence)
        }
        if !page.documents.isEmpty { nextPage = PushPage(documents: page.documents, from: from) }
    }

    private mutating func acceptAgain(_ asked: [DocumentID], _ found: [OutgoingDocument]) {
        // Too large to be read at once: the rest comes next.
        if case .again(let due) = feed.reading { ledger.postpone(due.filter { !asked.contains($0) }) }
        feed.reading = .nothing
        let rows = Dictionary(found.map { ($0.id, $0) }) { first, _ in first }
        var documents: [OutgoingDocument] = []
        for id in asked {
            guard let parked = ledger.readAgain(id, rows[id]), var document = rows[id] else {
                held.release(id)
                continue
            }
            // What lies ahead is told in its turn: the peer's checkpoint would pass what lies between.
            guard settings.style == .propose || document.sequence <= feed.position.sequence else { ledger.skip(document); continue }
            document.peerVersion = parked.peerVersion ?? document.peerVersion
            (document.isAfterPull, document.wasForbidden) = (parked.wasOfferedAfterPull, parked.wasForbidden)
            documents.append(document)
        }
        if !documents.isEmpty { nextPage = PushPage(documents: documents) }
    }

    private mutating func accept(_ page: KeptBackPage, _ actions: inout [PushAction]) {
        feed.reading = .nothing
        review.accept(next: page.next)
        hasKeptBack = hasKeptBack || page.isAny
        if !page.settled.isEmpty { actions.append(.unlist(page.settled)) }
        let known = page.documents.filter { $0.sequence <= feed.position.sequence }  // The others are about to be read anyway.
        for document in known { ledger.read(document.sequence) }
        if !known.isEmpty { nextPage = PushPage(documents: known) }
    }

    /// Those of a page that begin a trip now. What is announced is announced in order, since the peer's checkpoint follows it: a
    /// document that is under way ends the page, and the rest waits.
    private mutating func candidates(_ page: PushPage) -> (now: [OutgoingDocument], rest: PushPage?) {
        var now: [OutgoingDocument] = []
        now.reserveCapacity(page.documents.count)
        var begun: [DocumentID: Version] = [:]
        for index in page.documents.indices {
            var document = page.documents[index]
            // The peer loses what it gave us, and gets it back when it may have it again.
            if document.news != .visible { echoes.left(document.id) }
            if echoes.holds(document), !settings.limits.has(.echo) {
                held.release(document.id)
                ledger.skip(document)
                continue
            }
            if settings.style == .announce {
                // A feed of channels tells of a document twice when access to it is newer than the document.
                let earlier = page.from?.channels == nil ? nil : begun.updateValue(document.version, forKey: document.id)
                if document.news == .visible, earlier == document.version { continue }
                let isFree = ledger.isFree(document.id) || settings.limits.has(.overtakingPurge)
                guard isFree, earlier == nil else {
                    let from = index == 0 ? page.from : page.from?.behind(page.documents[index - 1])
                    return (now, PushPage(documents: Array(page.documents[index...]), from: from))
                }
                if document.news == .visible { echoes.offered(document.id) }
            } else {
                guard ledger.mayBegin(&document) else { continue }
                if let known = acknowledged.version(of: document.id), known != document.peerVersion {
                    // The row was read without it, and its history may end before it: once more, down to there.
                    guard known == document.version || document.history.contains(known) else {
                        ledger.readAgain(document, peerVersion: known)
                        continue
                    }
                    (document.peerVersion, document.peersEnd) = (known, nil)
                }
                if document.peerVersion == document.version {
                    ledger.skip(document)
                    continue
                }
            }
            now.append(document)
        }
        return (now, nil)
    }

    private mutating func judge(_ actions: inout [PushAction]) {
        while judging == nil, lists.ready.isEmpty, let page = nextPage {
            if let stall = feed.stall, let from = page.from {
                if let first = page.documents.first(where: { !echoes.holds($0) }), first.id == stall.id, first.version == stall.version {
                    _ = feed.stand(at: stall, from)
                    nextPage = nil
                    return
                }
                feed.goOn()
            }
            let (now, rest) = candidates(page)
            nextPage = rest
            // Nobody asks whether a document may go away.
            let visible = settings.hasFilter ? now.filter { $0.news == .visible } : []
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
        // Else its branch would stay beside ours for good: what is offered says nothing of it.
        if let end = document.peersEnd { return offerAgain(document.endOfBranch(end)) }
        guard !held.isEmpty else { return offerAgain(document) }
        held.release(document.id)
        var document = document
        document.low = held.low(document)
        offerAgain(document)
    }

    mutating func offerAgain(_ document: OutgoingDocument) {
        ledger.move(document.id, to: .ready(document))
        lists.append(document)
    }

    private mutating func accept(_ verdicts: [FilterVerdict], by version: String, _ actions: inout [PushAction]) {
        guard let page = judging?.page else { return }
        if judging?.isStale == true {
            judging?.isStale = false
            return actions.append(.judge(page.documents.filter { $0.news == .visible }))
        }
        judging = nil
        let style = settings.limits.has(.passedFailingFilter) ? .propose : settings.style
        let judgement = Judgement(page, verdicts, by: version, style, room: held.room)
        // Before those behind them pass: they have to say so.
        for each in judgement.undecided { hold(each, &actions) }
        for each in judgement.kept { held.release(each.document.id) }
        for document in judgement.passed { pass(document) }
        if let standstill = judgement.standstill {
            for document in standstill.notLookedAt { ledger.forget(document.id) }
            nextPage = nextPage?.remains(before: standstill.at.position)
            if feed.stand(at: standstill.at.stall, standstill.at.position) { report(undecided: standstill.at, &actions) }
        }
        // These begin and end their trips here.
        ledger.count { $0.total += UInt64(judgement.kept.count) }
        keepBack(judgement.kept, &actions)
    }

    private mutating func accept(_ answers: [OfferAnswer], to list: ListID, _ actions: inout [PushAction]) {
        var questions: [(OutgoingDocument, Version)] = []
        var (forbidden, refusal): ([DocumentID], ReplicationError?) = ([], nil)
        removalWatch.answers += 1
        for (id, answer) in zip(lists.take(list), answers) {
            guard case .offered(var document)? = ledger.phase(of: id) else { continue }
            switch answer {
            case .wanted(let known):
                document.cutHistory(known)
                if settings.style == .announce, document.isDeleted { fetchedDeletions.add(id) }
                ledger.want(document)
            case .has: hold(document, &actions)
            case .declined where document.isEndOfBranch: ledger.goOn(id, peerVersion: document.version)
            case .declined:
                if settings.style == .announce { untaken.note(document, .declined) }
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

    mutating func hold(_ document: OutgoingDocument, _ actions: inout [PushAction]) {
        barrier.taken()
        let stale = settings.limits.has(.staleMark) ? document.history.first : nil
        if settings.style == .propose { acknowledged.add(document.id, stale ?? document.version) } else { told(document) }
        if settings.pulls { actions.append(.tellPull(document.id, document.version)) }
        if document.isEndOfBranch {
            ledger.goOn(document.id, peerVersion: document.version)
        } else {
            ledger.finish(document.id, peerVersion: document.version)
        }
        // It changes fast: what the peer holds is to be known to the store before it is pruned there.
        if settings.style == .propose, ledger.hasDue { note(&actions) }
    }

    private mutating func acknowledge(_ id: DocumentID, kept reason: KeptThere.Reason?, _ actions: inout [PushAction]) {
        guard case .sent(let document)? = ledger.phase(of: id) else { return }
        removalWatch.answers += 1
        ledger.count { $0.pushed += 1 }
        let kept = reason.map { KeptThere($0, document.version) }
        report(document, nil, kept: kept, &actions)
        hold(document, &actions)
        if let kept, settings.style == .announce, !document.isEndOfBranch { untaken.note(document, .kept(kept)) }
        if ledger.waiting == 0 { retry.reset() }
        if acknowledged.unsavedCount >= settings.limits.unsavedMarks { note(&actions) }
    }
}

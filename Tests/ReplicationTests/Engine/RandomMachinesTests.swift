import DocumentStore
import Documents
import Interfaces
import NIOCore
import TestRandomness
import Testing

@testable import Replication

/// A push and a pull against a store and a peer of a few lines each, with events in any order: whatever happens, everything ends.
@Suite struct RandomMachinesTests {
    /// Things that wait to happen. One of them is chosen at a time, so that answers come in any order.
    private enum Due {
        case push(PushEvent)
        case pull(PullEvent)
        /// Reads from the store when its turn comes: what the store holds by then counts.
        case read(SequenceNumber, limit: Int)
        case readAgain([DocumentID])
        case compare([(OutgoingDocument, Version)])
        /// The push is told whether the pull is complete.
        case pullIsComplete
    }

    private struct World {
        var random: SeededGenerator
        var push: PushMachine
        var pull: PullMachine
        var due: [Due] = []
        var pushActions: [PushAction] = []
        var pullActions: [PullAction] = []
        /// Our documents: the newest row of each, and what the peer has of it.
        var rows: [DocumentID: (sequence: SequenceNumber, version: Version)] = [:]
        var newest: SequenceNumber = 0
        var peer: [DocumentID: Version] = [:]
        /// Revisions that need not reach the peer: on the list, refused permanently, or settled by the pull.
        var settled: Set<Version> = []
        /// Offered to the peer, which may still want it or owes the acknowledgement.
        var underWay: [DocumentID: Version] = [:]
        var lastOffered: [DocumentID: Version] = [:]
        /// Sent to the peer, which owes the acknowledgement.
        var sent: Set<DocumentID> = []

        /// The peer's rows so far, those that are durable here or need not be, and those of the list that the pull is looking at.
        var remote: UInt64 = 0
        var here: Set<UInt64> = []
        var offered: [RowResult<OfferedRow>] = []
        /// The percentage of the peer's revisions that find no room here.
        var outOfSpace = 0
        /// How far the claims of the pull's checkpoint have been checked.
        var claimed: UInt64 = 0
        var wasComplete = false
        var failure: String?

        init(seed: UInt64, isContinuous: Bool = true) {
            random = SeededGenerator(seed: seed)
            var limits = ReplicationLimits()
            limits.rowsPerChangeList = 4
            limits.changeListsInFlight = 2
            limits.revisionsInFlight = 3
            limits.rowsReadAgain = 2
            limits.requestedRevisions = 6
            limits.insertionBatchRows = 2
            limits.insertionBatch = 3
            push = PushMachine(
                PushSettings(collection: .default, style: .propose, isContinuous: isContinuous, hasFilter: true, pulls: true, limits: limits),
                from: FeedPosition(0))
            pull = PullMachine(
                PullSettings(
                    collection: .default, role: .active, hasFilter: true, hasSyncFunction: false, hasResolver: true, keepsLists: true, documentIDs: nil, limits: limits))
            pull.subscribe(since: nil)
            due = [.push(.decided([])), .pull(.started)]
        }

        mutating func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &random) < percent }

        // MARK: What happens by itself

        mutating func save() {
            newest += 1
            rows[doc("d\(Int.random(in: 0..<12, using: &random))")] = (newest, rev("\(newest)-a"))
            due.append(.push(.storeChanged(newest: newest)))
        }

        mutating func offer() {
            due.append(.pull(.listArrived(IncomingList(handle: AnswerHandle(number: 1), content: offeredList.content))))
        }

        mutating func happen() {
            switch Int.random(in: 0..<10, using: &random) {
            case 0..<4: save()
            case 4..<6: offer()
            case 6: due.append(.push(.filterChanged))
            case 7: due.append(.pull(.filterChanged))
            case 8: due.append(.push(.throttled(chance(50))))
            default: due.append(.push(.recordNow))
            }
        }

        // MARK: Steps

        mutating func step() {
            // Frames, reads and writes may overtake each other, but each kind keeps its own order.
            let index = Int.random(in: 0..<due.count, using: &random)
            switch due.remove(at: index) {
            case .push(let event):
                // Documents that wait for the pull are settled by it.
                if case .pulled(let revisions, _, _, _) = event {
                    for (id, _) in revisions { if let version = lastOffered[id] { settled.insert(version) } }
                }
                switch event {
                case .acknowledged(let id, _), .refused(let id, _), .keptBack(let id, _, _), .withdrawn(let id): sent.remove(id)
                default: break
                }
                push.handle(event, &pushActions)
            case .pull(let event): pull.handle(event, &pullActions)
            case .read(let from, let limit):
                let found = rows.filter { $0.value.sequence > from }.sorted { $0.value.sequence < $1.value.sequence }.prefix(limit)
                var page = FeedPage(next: FeedPosition(found.last?.value.sequence ?? max(from, newest)), isEnd: found.isEmpty, newest: newest)
                page.documents = found.map { outgoing($0.key, $0.value) }
                push.handle(.read(page), &pushActions)
            case .readAgain(let ids):
                push.handle(.readAgain(ids, ids.compactMap { id in rows[id].map { outgoing(id, $0) } }), &pushActions)
            case .compare(let questions):
                push.handle(
                    .compared(questions.map { question in
                        let answers: [Comparison] = [.newer(history: [question.1]), .goesOn(beside: question.1), .older, .branches, .unknown]
                        let answer = answers[Int.random(in: answers.indices, using: &random)]
                        if answer == .older || answer == .branches { settled.insert(question.0.version) }
                        return (question.0.id, answer)
                    }), &pushActions)
            case .pullIsComplete: push.handle(.pullIsComplete(pull.isComplete), &pushActions)
            }
            perform()
            check()
        }

        func outgoing(_ id: DocumentID, _ row: (sequence: SequenceNumber, version: Version)) -> OutgoingDocument {
            OutgoingDocument(sequence: row.sequence, id: id, version: row.version, body: [1, 2, 3])
        }

        mutating func verdict() -> FilterVerdict { chance(70) ? .pass : chance(50) ? .reject : .failed(failing) }

        mutating func perform() {
            for action in pushActions { perform(action) }
            pushActions = []
            for action in pullActions { perform(action) }
            pullActions = []
            if pull.isComplete != wasComplete {
                wasComplete.toggle()
                due.append(.pullIsComplete)
            }
        }

        mutating func perform(_ action: PushAction) {
            switch action {
            case .read(let position, let limit, _): due.append(.read(position.sequence, limit: limit))
            case .readAgain(let wanted): due.append(.readAgain(wanted.map(\.0)))
            case .readKeptBack: due.append(.push(.keptBackRead(KeptBackPage(isAny: true))))
            case .judge(let documents): due.append(.push(.judged(documents.map { _ in verdict() })))
            case .exclude(let kept):
                for each in kept { settled.insert(each.document.version) }
                due.append(.push(.excluded(kept.map(\.document.id))))
            case .offer(let list, let documents):
                for document in documents {
                    if underWay[document.id] != nil { failure = "two revisions of \(document.id) are under way" }
                    underWay[document.id] = document.version
                    lastOffered[document.id] = document.version
                }
                if chance(5) {
                    // For the moment the peer accepts nothing at all.
                    for document in documents { underWay[document.id] = nil }
                    return due.append(.push(.forbidden(list, [], http(403))))
                }
                var answers: [OfferAnswer] = []
                for document in documents {
                    let answer: OfferAnswer =
                        switch Int.random(in: 0..<10, using: &random) {
                        case 0: .has
                        case 1: .declined
                        case 2: .conflict(current: rev("1-x"))
                        case 3: .refused(http(chance(50) ? 503 : 403))
                        default: .wanted(known: [])
                        }
                    answers.append(answer)
                    switch answer {
                    case .wanted: continue
                    case .has: peer[document.id] = document.version
                    case .declined: settled.insert(document.version)
                    case .refused(let error) where error.code != 503: settled.insert(document.version)
                    case .forbidden, .refused, .conflict: break
                    }
                    underWay[document.id] = nil
                }
                due.append(.push(.answered(list, answers)))
            case .compare(let questions): due.append(.compare(questions))
            case .move(let document, _):
                settled.insert(document.version)
                due.append(.push(.moved(document.id, chance(50))))
            case .send(let document):
                underWay[document.id] = nil
                sent.insert(document.id)
                let code = chance(50) ? 503 : 413
                // Looked at once more before it is sent: by now another filter may be in force, or the document may have changed.
                if chance(10) {
                    due.append(.push(.keptBack(document.id, chance(50) ? nil : failing, by: "2")))
                } else if rows[document.id]?.version != document.version, chance(20) {
                    due.append(.push(.withdrawn(document.id)))
                } else if chance(80) {
                    peer[document.id] = document.version
                    due.append(.push(.acknowledged(document.id)))
                } else {
                    if code == 413 { settled.insert(document.version) }
                    due.append(.push(.refused(document.id, http(code))))
                }
            case .withdraw(let document):
                underWay[document.id] = nil
                settled.insert(document.version)
            case .note(let batch): due.append(.push(.noted(batch)))
            case .startRetryTimer: due.append(.push(.retryIsDue))
            case .startRefusedTimer(let attempts, _): due.append(.push(.refusedAreDue(attempts: attempts)))
            case .awaitTime(let id, _): due.append(.push(.retryTimeReached([id])))
            case .notifyPull(let id, let version): due.append(.pull(.pushed(id, version)))
            case .applyRemovals(let removals):
                for each in removals {
                    here.insert(each.sequence?.integer ?? 0)
                    if sent.contains(each.id) { failure = "\(each.id) is taken away while the peer owes an answer about it" }
                }
                due.append(.pull(.removalsApplied(removals.map { RemovalOutcome(removal: $0, end: .purged) })))
            case .unlist, .unlistSettled, .announceCaughtUp, .watchRemovals, .report: break
            case .fail(let error): failure = "the push ends with \(error)"
            }
        }

        mutating func perform(_ action: PullAction) {
            switch action {
            case .readList:
                let rows = (0..<Int.random(in: 0...3, using: &random)).map { _ -> RowResult<OfferedRow> in
                    remote += 1
                    if chance(5) {
                        here.insert(remote)
                        return .bad("no id", sequence: RemoteSequence(json: "\(remote)"))
                    }
                    let id = "d\(Int.random(in: 0..<12, using: &random))"
                    let isRemoved = chance(10)
                    let isDeletion = !isRemoved && chance(outOfSpace)
                    return .row(row(Int(remote), id, "\(remote)-x", isDeletion: isDeletion, isAccessRemoved: isRemoved))
                }
                offered = rows
                due.append(.pull(.listRead(.success(.offered(rows)))))
            case .findMissing(let offers, _):
                var needs: [RevisionNeed] = []
                for offer in offers {
                    let sequence = UInt64(offer.revision.generation)
                    guard chance(80) else {
                        here.insert(sequence)
                        needs.append(.have)
                        continue
                    }
                    needs.append(.need(ancestors: []))
                }
                due.append(.pull(.missing(needs)))
            case .answerChanges(_, let answers):
                for case (.row(let row), .wanted) in zip(offered, answers) {
                    if chance(90) {
                        due.append(.pull(.arrived(received(Int(row.sequence.json) ?? 0, row.id.text, row.revision.text))))
                    } else {
                        here.insert(row.sequence.integer ?? 0)
                        due.append(.pull(.withdrawn(row.sequence)))
                    }
                }
            case .check(let batch, let revisions):
                let outcomes = revisions.map { revision -> CheckOutcome in
                    let sequence = Int(revision.sequence?.json ?? "") ?? 0
                    let blobs = chance(20) ? [BlobReference(digest: digest(1), length: 1, contentType: nil)] : []
                    return .checked(checked(sequence, revision.id.text, revision.revision.text, blobs: blobs))
                }
                due.append(.pull(.insertion(.checked(batch, outcomes))))
            case .fetchBlobs(let fetch, _): due.append(.pull(.insertion(.blobsFetched(fetch, chance(80) ? nil : http(413)))))
            case .judge(let batch, let revisions):
                due.append(.pull(.insertion(.judged(batch, revisions.map { _ in verdict() }, plugin: "f", version: "1"))))
            case .keep(let batch, let held):
                for each in held { here.insert(each.revision.sequence?.integer ?? 0) }
                due.append(.pull(.insertion(.kept(batch))))
            case .store(let batch, let revisions, _, _):
                let full = StoreError.diskFull(path: "db", detail: "the quota is reached")
                if chance(outOfSpace / 4) { return due.append(.pull(.insertion(.failed(batch, full)))) }
                let outcomes = revisions.map { each -> StoreOutcome in
                    if chance(outOfSpace) { return .failed(full) }
                    here.insert(each.revision.sequence?.integer ?? 0)
                    return .stored(
                        chance(30)
                            ? .insertedConflict(local: each.revision.revision, remote: each.revision.revision, sequence: nil)
                            : .inserted(sequence: 1))
                }
                due.append(.pull(.insertion(.stored(batch, outcomes))))
            case .applyRemovals(let removals): due.append(.push(.removalsArrived(removals)))
            case .decide(let ids): due.append(.pull(.decided(ids.map { ConflictDecider.Outcome(id: $0, failure: nil, isDecided: true) })))
            case .readHeld: due.append(.pull(.heldRead(HeldRevisions.Page(revisions: [], isAny: false))))
            case .readConflicts: due.append(.pull(.conflictsRead(ConflictDecider.Page(ids: []))))
            case .notifyPush(let revisions, let listed, let peerHad, let here): due.append(.push(.pulled(revisions, listed: listed, peerHad: peerHad, here: here)))
            case .notifyPushOfAlreadyHere(let revisions): due.append(.push(.alreadyHere(revisions)))
            case .notifyPushOfRefusal(let revisions): due.append(.push(.refusedInFavourOf(revisions)))
            case .notifyPushOfDecision(let ids): due.append(.push(.decided(ids)))
            case .startFlushTimer: due.append(.pull(.insertion(.flushIsDue)))
            case .fail(let error): failure = "\(error)"
            case .checkForSpace: due.append(.pull(.spaceChecked(isThere: chance(80))))
            case .pauseDecision, .startPauseTimer, .checkProposals, .answerProposals, .assign, .refuseList, .settle, .report, .warn, .reconnectLater, .reconnectNow, .releaseBlobs, .fetchAttachments, .noteNotTaken, .forgetNotTaken: break
            }
        }

        // MARK: What must hold

        mutating func check() {
            let (ledger, counts) = (push.ledger, push.ledger.counts)
            if counts.completed > counts.total || pull.counts.completed > pull.counts.total { failure = "more was completed than begun" }
            if ledger.inFlight > push.settings.limits.revisionsInFlight { failure = "\(ledger.inFlight) revisions are in flight" }
            if [ledger.active, ledger.waiting, ledger.inFlight, ledger.bytesAtHand, ledger.excluding].contains(where: { $0 < 0 }) {
                failure = "a count is negative"
            }
            for (id, row) in rows where row.sequence <= ledger.completedThrough && !isDone(id, row.version) {
                failure = "sequence \(row.sequence) of \(id) is claimed, and the peer does not have it"
            }
            let through = pull.tracker?.completedThrough?.integer ?? 0
            while claimed < through, failure == nil {
                claimed += 1
                if !here.contains(claimed) { failure = "the peer's \(through) is claimed, and \(claimed) is not here" }
            }
        }

        func isDone(_ id: DocumentID, _ version: Version) -> Bool { peer[id] == version || settled.contains(version) }

        /// Lets this many things happen by themselves, each with this chance in a hundred before the next step.
        mutating func live(through events: Int, chance percent: Int) {
            var events = events
            while events > 0, failure == nil {
                if due.isEmpty || chance(percent) {
                    happen()
                    events -= 1
                } else {
                    step()
                }
            }
        }

        /// Lets everything that is under way come to its end, with nothing new happening.
        mutating func settle() {
            due.append(.push(.throttled(false)))
            var steps = 0
            while failure == nil {
                if due.isEmpty {
                    if pull.isCaughtUp { break }
                    offer()
                }
                step()
                steps += 1
                if steps > 50_000 { failure = "it does not come to an end" }
            }
            guard failure == nil else { return }
            // If there are several such events, the last one counts.
            due.append(.push(.throttled(false)))
            while !due.isEmpty, failure == nil { step() }
        }
    }

    /// A one-shot run has no timer for trying again: it ends with what is left, even if the peer accepts nothing any more.
    @Test func aOneShotRunEnds() {
        let first = UInt64.random(in: 0..<1 << 32)
        for seed in first..<first + 200 {
            var world = World(seed: seed, isContinuous: false)
            world.live(through: 60, chance: 40)
            world.settle()
            let ledger = world.push.ledger
            #expect(world.failure == nil && world.push.isFinished && world.pull.isComplete, "seed \(seed)")
            #expect(ledger.inFlight == 0 && ledger.bytesAtHand == 0 && ledger.counts.completed == ledger.counts.total, "seed \(seed)")
            if world.failure != nil || !world.push.isFinished { return }
        }
    }

    /// This holds even if there is no room for some rows, which no checkpoint passes (see ``World/check()``); any number of them take the place of one row.
    @Test(arguments: [0, 20]) func everythingThatBeginsEnds(_ outOfSpace: Int) {
        let first = UInt64.random(in: 0..<1 << 32)
        for seed in first..<first + 60 {
            var world = World(seed: seed)
            world.outOfSpace = outOfSpace
            world.live(through: 200, chance: 25)
            world.settle()
            let (push, pull) = (world.push, world.pull)
            let ledger = push.ledger
            #expect(world.failure == nil, "seed \(seed)")
            #expect(ledger.active == 0 && ledger.waiting == 0 && ledger.inFlight == 0 && ledger.inFlightBytes == 0, "seed \(seed)")
            #expect(ledger.bytesAtHand == 0 && ledger.excluding == 0 && ledger.counts.completed == ledger.counts.total, "seed \(seed)")
            #expect(push.isIdle && ledger.completedThrough == world.newest, "seed \(seed)")
            #expect(pull.isComplete && pull.bufferedBytes == 0 && pull.counts.completed == pull.counts.total, "seed \(seed)")
            let open = pull.spaceWait == nil ? 0 : 1
            #expect(pull.tracker?.outstanding == open, "seed \(seed)")
            #expect(open == 1 || pull.tracker?.completedThrough?.integer ?? 0 == world.remote, "seed \(seed)")
            if world.failure != nil || !push.isIdle || !pull.isComplete { return }
        }
    }
}

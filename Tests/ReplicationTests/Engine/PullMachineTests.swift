import DocumentStore
import Documents
import Interfaces
import Testing

@testable import Replication

/// What a pull asks for, event by event.
@Suite struct PullMachineTests {
    @Test func aRevisionIsOfferedRequestedCheckedStoredAndSettled() {
        var pull = PullRun()
        #expect(pull.on(.listArrived(offeredList)) == ["read list"])
        #expect(pull.on(.listRead(.success(.offered([.row(row(1, "a")), .row(row(2, "b"))])))) == ["missing a b"])
        #expect(pull.on(.missing([.need(ancestors: []), .have])) == ["answer +-"])
        // What was requested and has not arrived is not on its way into the store.
        #expect(pull.through == nil && !pull.machine.isDrained && !pull.machine.isStoring)
        #expect(pull.on(.arrived(received(1, "a"))) == ["check a@1-a"])
        #expect(pull.machine.isStoring)
        #expect(pull.on(.checked(pull.batch, [.checked(checked(1, "a"))])) == ["store a@1-a"])
        #expect(pull.through == nil && !pull.machine.isDrained && pull.machine.isStoring)
        #expect(
            pull.on(.stored(pull.batch, [.stored(.inserted(sequence: 7))])) == ["report a ok", "settle 1", "tell push a@1-a"])
        #expect(pull.through == "2" && pull.machine.isDrained && !pull.machine.isCaughtUp && !pull.machine.isStoring)
        pull.on(.listArrived(IncomingList(handle: nil, content: offeredList.content)))
        pull.on(.listRead(.success(.offered([]))))
        #expect(pull.machine.isCaughtUp && pull.machine.isComplete && pull.machine.bufferedBytes == 0)
        #expect(pull.counts.total == 2 && pull.counts.completed == 2 && pull.counts.pulled == 1)
    }

    /// A peer owes nothing while it waits for us: while a list is looked up here, or a revision is being stored.
    @Test func thePeerOwesWhatWasRequestedAndTheRestOfItsBacklog() {
        #expect(!PullRun(passive: true).machine.isOwed)
        var pull = PullRun()
        #expect(pull.machine.isOwed)
        pull.on(.listArrived(offeredList))
        #expect(!pull.machine.isOwed)
        pull.on(.listRead(.success(.offered([.row(row(1, "a"))]))))
        pull.on(.missing([.need(ancestors: [])]))
        #expect(pull.machine.isOwed)
        pull.on(.arrived(received(1, "a")))
        #expect(!pull.machine.isOwed)
        pull.on(.checked(pull.batch, [.checked(checked(1, "a"))]))
        pull.on(.stored(pull.batch, [.stored(.alreadyPresent)]))
        #expect(pull.machine.isOwed)
        pull.on(.listArrived(IncomingList(handle: nil, content: offeredList.content)))
        pull.on(.listRead(.success(.offered([]))))
        #expect(!pull.machine.isOwed)
    }

    @Test func aRevisionComesWithWhatThePeerHadWhenItOfferedIt() {
        var pull = PullRun()
        pull.on(.listArrived(offeredList))
        pull.on(.listRead(.success(.offered([.row(row(1, "a"))]))))
        pull.on(.missing([.need(ancestors: [], known: .had(rev("1-z")))]))
        pull.on(.arrived(received(1, "a")))
        guard case .check(_, let revisions)? = pull.last.first else { Issue.record("\(pull.last)"); return }
        #expect(revisions.map(\.peerHad) == [.had(rev("1-z"))])
    }

    /// Any of these may move the mark of what the peer has before this one is stored.
    @Test func aRevisionComesWithWhatWasOfferedBeforeItAndIsStillOnItsWay() {
        var pull = PullRun(filter: true)
        pull.on(.started)
        pull.offer(row(1, "a", "2-a"), row(2, "a", "2-b"), row(3, "b"))
        pull.on(.withdrawn(RemoteSequence(json: "1")))
        pull.offer(row(4, "a", "2-c"))
        func offeredBefore(_ revision: ReceivedRevision) -> [String]? {
            pull.on(.arrived(revision))
            pull.on(.flushIsDue)
            guard case .check(_, let revisions)? = pull.last.first else { return nil }
            return revisions.first?.offeredBefore.map(\.text)
        }
        #expect(offeredBefore(received(4, "a", "2-c")) == ["2-b"])
        // A revision from the list of what was held back was offered before anything that is requested now.
        pull.on(.heldRead(HeldRevisions.Page(revisions: [checked(9, "b", "2-z")], isAny: true)))
        let batch = pull.batch
        pull.on(.judged(batch, [.pass], plugin: "f", version: "2"))
        pull.on(.stored(batch, [.stored(.alreadyPresent)]))
        #expect(offeredBefore(received(3, "b")) == ["2-z"])
    }

    /// Otherwise a server could get round the selection of documents by sending what it has not offered, and skip another document by using its sequence.
    @Test func aRevisionThatNobodyAskedForIsRefused() {
        var pull = PullRun(documentIDs: [doc("a")], refusesUnsolicited: true)
        pull.offer(row(1, "a"))
        #expect(pull.on(.arrived(received(7, "evil"))).contains { $0.hasPrefix("settle 7") })
        #expect(pull.machine.bufferedBytes == 0 && pull.counts.total == 1 && pull.through == nil && !pull.machine.isDrained)
        // It came in place of the requested one, which will not come any more: nothing waits for that one, and it is requested again.
        let words = pull.on(.arrived(received(1, "evil")))
        #expect(words.contains { $0.hasPrefix("settle 1") } && words.contains("report a 502") && words.contains("come back"))
        #expect(pull.machine.bufferedBytes == 0 && pull.counts.failed == 1 && pull.through == nil && pull.machine.isDrained)
    }

    /// A peer that cannot send a document at the moment has not lost it: the checkpoint does not pass it, and on the next connection it is requested again.
    @Test func whatThePeerCannotSendYetIsRequestedAgain() {
        var pull = PullRun()
        pull.offer(row(1, "a"), row(2, "b"))
        #expect(pull.on(.arrivalRefused(RemoteSequence(json: "1"), doc("a"), http(503), isFinal: false)).contains("come back"))
        pull.on(.withdrawn(RemoteSequence(json: "2")))
        #expect(pull.through == nil && pull.counts.failed == 1)
    }

    @Test func theCheckpointWaitsForTheEarliestRow() {
        var pull = PullRun()
        pull.offer(row(1, "a"), row(2, "b"))
        pull.arrive(received(1, "a"))
        pull.on(.flushIsDue)
        let first = pull.batch
        pull.arrive(received(2, "b"))
        pull.on(.flushIsDue)
        let second = pull.batch
        pull.on(.checked(first, [.checked(checked(1, "a"))]))
        pull.on(.checked(second, [.checked(checked(2, "b"))]))
        pull.on(.stored(second, [.stored(.alreadyPresent)]))
        #expect(pull.through == nil)
        // A revision that cannot be stored as it is would be no better the second time.
        pull.on(.stored(first, [.failed(.blobMissing(digest: "x"))]))
        #expect(pull.through == "2" && pull.counts.failed == 1 && pull.counts.completed == 2)
    }

    @Test func aRowThatThePeerWithdrawsIsDone() {
        var pull = PullRun()
        pull.offer(row(1, "a"))
        pull.on(.withdrawn(RemoteSequence(json: "1")))
        #expect(pull.through == "1" && pull.machine.isDrained && pull.counts.completed == 1)
    }

    @Test func aWithdrawalOrARefusedCopyDoesNotSettleARevisionThatIsBeingStored() {
        var pull = PullRun()
        pull.offer(row(1, "a"))
        pull.arrive(received(1, "a"))
        pull.on(.withdrawn(RemoteSequence(json: "1")))
        #expect(pull.through == nil)
        pull.on(.arrivalRefused(RemoteSequence(json: "1"), doc("a"), http(400), isFinal: true))
        #expect(pull.through == nil)
        #expect(pull.counts.completed <= pull.counts.total)
    }

    @Test func aRevisionThatCannotBeStoredForTheMomentKeepsItsRowOpen() {
        var pull = PullRun()
        pull.offer(row(1, "a"), row(2, "b"))
        pull.on(.arrivalRefused(RemoteSequence(json: "1"), doc("a"), http(503), isFinal: false))
        pull.on(.arrivalRefused(RemoteSequence(json: "2"), doc("b"), http(413), isFinal: true))
        #expect(pull.through == nil && pull.machine.isDrained && pull.counts.failed == 2 && pull.counts.completed == 2)
    }

    @Test func aListThatCannotBeReadEndsAPullButNotAListener() {
        // Otherwise what follows would be pulled, and the checkpoint would pass what was in the list.
        var pull = PullRun()
        pull.on(.listArrived(offeredList))
        #expect(pull.on(.listRead(.failure(.malformed("no JSON")))) == ["refuse 400", "fail"])
        var passive = PullRun(passive: true)
        passive.on(.listArrived(offeredList))
        #expect(passive.on(.listRead(.failure(.malformed("no JSON")))) == ["refuse 400"])
        #expect(passive.machine.isDrained)
    }

    @Test func aStoreThatCannotAnswerAListEndsAPullButNotAListener() {
        var pull = PullRun()
        pull.on(.listArrived(offeredList))
        pull.on(.listRead(.success(.offered([.row(row(1, "a"))]))))
        #expect(pull.on(.listFailed(StoreError.diskFull(path: "", detail: ""))) == ["refuse 503", "fail"])
        #expect(pull.through == nil)
        var passive = PullRun(passive: true)
        passive.on(.listArrived(offeredList))
        passive.on(.listRead(.success(.proposed([]))))
        #expect(passive.on(.listFailed(StoreError.diskFull(path: "", detail: ""))) == ["refuse 503"])
    }

    @Test func moreListsThanMayWaitEndAPull() {
        var pull = PullRun { $0.maximumWaitingChangeLists = 1 }
        pull.on(.listArrived(offeredList))
        pull.on(.listArrived(offeredList))
        #expect(pull.on(.listArrived(offeredList)) == ["refuse 503", "fail"])
    }

    @Test func listsWaitForRoomAndContinueWhenThereIsSome() {
        var pull = PullRun { $0.requestedRevisions = 1 }
        pull.offer(row(1, "a"))
        #expect(pull.on(.listArrived(offeredList)) == [])
        #expect(!pull.machine.isDrained)
        #expect(pull.on(.withdrawn(RemoteSequence(json: "1"))) == ["read list"])
    }

    /// Meanwhile, the connection has to be read.
    @Test func aListWaitsForRevisionsOnlyWhileTheyHaveNotArrived() {
        var pull = PullRun { $0.requestedRevisions = 1 }
        pull.offer(row(1, "a"))
        #expect(!pull.machine.waitsForRevisions)
        pull.on(.listArrived(offeredList))
        #expect(pull.machine.waitsForRevisions)
        pull.arrive(received(1, "a"))
        #expect(!pull.machine.waitsForRevisions)
    }

    @Test func anUnreadableRowIsAnsweredOnItsOwn() {
        var pull = PullRun()
        pull.on(.listArrived(offeredList))
        pull.on(.listRead(.success(.offered([.bad("no id", sequence: RemoteSequence(json: "1")), .row(row(2, "b"))]))))
        #expect(pull.on(.missing([.need(ancestors: [])])) == ["warn", "answer -+"])
        #expect(pull.through == "1" && pull.counts.failed == 1)
    }

    @Test func onlySelectedDocumentsAreRequested() {
        var pull = PullRun(documentIDs: [doc("b")])
        #expect(pull.offer(row(1, "a"), row(2, "b")) == ["answer -+"])
        #expect(pull.through == "1")
    }

    @Test func aRepeatedRowIsRequestedOnce() {
        var pull = PullRun()
        #expect(pull.offer(row(1, "a"), row(1, "a")) == ["answer +-"])
        pull.on(.withdrawn(RemoteSequence(json: "1")))
        #expect(pull.machine.isDrained && pull.counts.completed == 2 && pull.counts.total == 2)
    }

    @Test func twoDocumentsUnderOneSequenceEndAPull() {
        var pull = PullRun()
        // In the same list, in another list while the first is requested, and while it is on its way into the store.
        for isListed in [true, false] {
            var pull = pull
            if !isListed { pull.offer(row(1, "a")) }
            pull.on(.listArrived(offeredList))
            let rows = isListed ? [row(1, "a"), row(1, "b")] : [row(1, "b")]
            #expect(pull.on(.listRead(.success(.offered(rows.map { .row($0) })))) == ["refuse 400", "fail"])
        }
        pull.offer(row(1, "a"))
        pull.on(.arrived(received(1, "a")))
        pull.on(.listArrived(offeredList))
        var same = pull
        #expect(same.on(.listRead(.success(.offered([.row(row(1, "a"))])))) == ["missing a"])
        #expect(pull.on(.listRead(.success(.offered([.row(row(1, "b"))])))) == ["refuse 400", "fail"])
    }

    /// If a row is repeated, the error says that a sequence stands for two documents only if it does.
    @Test func theErrorAboutAnOpenSequenceIsTrue() {
        func words(_ rows: [OfferedRow], _ pull: PullRun) -> String? {
            var pull = pull
            pull.on(.listArrived(offeredList))
            pull.on(.listRead(.success(.offered(rows.map { .row($0) }))))
            for case .refuseList(_, let error) in pull.last { return error.message }
            return nil
        }
        #expect(words([row(1, "a"), row(1, "b")], PullRun()) == "sequence 1 of the peer stands for two documents")
        var pull = PullRun()
        pull.offer(row(1, "a"))
        #expect(words([row(1, "b")], pull) == "sequence 1 of the peer stands for two documents")
        // It did not arrive, and is requested again on the next connection.
        pull.on(.arrivalRefused(RemoteSequence(json: "1"), doc("a"), http(503), isFinal: false))
        #expect(words([row(1, "a")], pull) == "sequence 1 of the peer came again, for document a, before what it stands for is done")
    }

    /// If a peer sends something newer than what it offered, nothing of the offer is left open.
    @Test func aRevisionSentInPlaceOfTheOfferedOneSettlesIt() {
        var asked = RequestedRows()
        asked.ask(RemoteSequence(json: "1"), doc("a"), rev("1-a"), peerHad: .none)
        asked.ask(RemoteSequence(json: "2"), doc("a"), rev("2-a"), peerHad: .none)
        for sequence in 1...2 { _ = asked.arrived(received(sequence, "a", "7-a")) }
        for _ in 1...2 { asked.end(doc("a"), rev("7-a")) }
        asked.ask(RemoteSequence(json: "3"), doc("a"), rev("8-a"), peerHad: .none)
        #expect(asked.arrived(received(3, "a", "8-a"))?.offeredBefore == [])
    }

    // MARK: - Removals

    @Test func aRemovalWaitsForRevisionsRequestedEarlier() {
        var pull = PullRun()
        pull.offer(row(1, "a"))
        #expect(pull.offer(row(2, "a", isAccessRemoved: true)) == ["answer -"])
        // Nothing that follows may overtake the removal, either.
        #expect(pull.on(.listArrived(offeredList)) == [])
        pull.on(.arrived(received(1, "a")))
        pull.on(.checked(pull.batch, [.checked(checked(1, "a"))]))
        #expect(pull.last.map(\.words) == ["store a@1-a"])
        #expect(pull.on(.stored(pull.batch, [.stored(.inserted(sequence: 1))])).last == "take away a")
        #expect(pull.through == "1")
        #expect(pull.on(.removalsApplied([RemovalOutcome(removal: Removal(id: doc("a"), sequence: RemoteSequence(json: "2")), end: .purged)])) == ["report a removed", "read list"])
        #expect(pull.machine.counts.accessRemoved == 1)
        #expect(pull.through == "2" && pull.counts.completed == 2)
    }

    @Test func aRevisionThatSaysThatTheDocumentIsGoneIsARemoval() {
        var pull = PullRun()
        pull.offer(row(1, "a"))
        pull.arrive(received(1, "a"))
        #expect(pull.on(.checked(pull.batch, [.checked(checked(1, "a", isRemoval: true))])) == ["take away a"])
        #expect(pull.through == nil && !pull.machine.isDrained)
        let removal = Removal(id: doc("a"), sequence: RemoteSequence(json: "1"), replyTo: AnswerHandle(number: 1))
        #expect(pull.on(.removalsApplied([RemovalOutcome(removal: removal, end: .purged)])) == ["settle 1", "report a removed"])
        #expect(pull.through == "1" && pull.machine.isDrained && pull.counts.completed == pull.counts.total)
    }

    // MARK: - Conflicts and what was kept back

    /// A delta whose revision is in conflict is not made into a body. The peer, the push and the counts see the same as if it were.
    @Test func aRevisionWithoutABodyIsSettledAsItWouldBeWithOne() {
        for outcome in [InsertOutcome.conflict(current: rev("2-b")), .alreadyPresent] {
            var whole = PullRun(passive: true, resolver: false)
            whole.on(.arrived(received(1, "a")))
            whole.on(.checked(whole.batch, [.checked(checked(1, "a"))]))
            let words = whole.on(.stored(whole.batch, [.stored(outcome)]))
            var bodiless = PullRun(passive: true, resolver: false)
            #expect(bodiless.machine.refusesConflictsAlone && !words.isEmpty)
            #expect(bodiless.on(.arrivedBodiless(received(1, "a"), outcome)) == words)
            #expect(bodiless.counts == whole.counts && bodiless.machine.isDrained)
        }
        // If a filter or sync function also decides, or if conflicts are accepted, the outcome is not known in advance.
        for pull in [PullRun(), PullRun(passive: true), PullRun(passive: true, filter: true, resolver: false), PullRun(passive: true, sync: true, resolver: false)] {
            #expect(!pull.machine.refusesConflictsAlone)
        }
    }

    @Test func conflictsAreDecidedAFewAtATimeAndThePushIsTold() {
        var pull = PullRun { $0.conflictsAtOnce = 2 }
        #expect(pull.on(.started) == ["conflicts", "held"])
        #expect(pull.on(.heldRead(HeldRevisions.Page(revisions: [], isAny: false))) == [])
        let ids = ["a", "b", "c"].map(doc)
        #expect(pull.on(.conflictsRead(ConflictDecider.Page(ids: ids))) == ["decide a b"])
        #expect(!pull.machine.isComplete && pull.machine.isStoring)
        let outcomes = [
            ConflictDecider.Outcome(id: doc("a"), failure: nil, isDecided: true),
            ConflictDecider.Outcome(id: doc("b"), failure: failing, isDecided: false),
        ]
        #expect(pull.on(.decided(outcomes)) == ["report a ok", "report b 409", "tell push", "decide c"])
        // The last one no longer waits: it is with the resolver.
        #expect(pull.machine.conflicts.isEmpty && pull.machine.isStoring)
        pull.on(.decided([ConflictDecider.Outcome(id: doc("c"), failure: nil, isDecided: true)]))
        #expect(pull.counts.resolved == 2 && !pull.machine.isStoring)
        pull.on(.listArrived(offeredList))
        pull.on(.listRead(.success(.offered([]))))
        #expect(pull.machine.isComplete)
    }

    /// A resolver may take its time; until it is done, no more is requested than there is room for.
    @Test(arguments: [true, false]) func conflictsThatWaitForTheirDecisionTakeRoom(_ passive: Bool) {
        var pull = PullRun(passive: passive) {
            $0.requestedRevisions = 3
            $0.conflictsAtOnce = 1
        }
        for number in 1...4 {
            if !passive { pull.offer(row(number, "d\(number)", "2-b")) }
            pull.arrive(received(number, "d\(number)", "2-b"))
            pull.on(.checked(pull.batch, [.checked(checked(number, "d\(number)", "2-b"))]))
            let outcome = InsertOutcome.insertedConflict(local: rev("2-a"), remote: rev("2-b"), sequence: 1)
            pull.on(.stored(pull.batch, [.stored(outcome)]))
        }
        // One is with the resolver, three wait.
        #expect(pull.machine.bufferedBytes == 3 * pull.machine.settings.limits.bufferedMessageOverhead)
        #expect(pull.on(.listArrived(offeredList)) == [])
        let decided = ConflictDecider.Outcome(id: doc("d1"), failure: nil, isDecided: true)
        #expect(pull.on(.decided([decided])) == ["report d1 ok", "tell push", "decide d2", "read list"])
    }

    @Test func pagesOfDocumentsKeptBackWaitForRoom() {
        var pull = PullRun(filter: true) { $0.requestedRevisions = 2 }
        pull.on(.started)
        let revisions = [checked(1, "a"), checked(2, "b")]
        #expect(
            pull.on(.heldRead(HeldRevisions.Page(revisions: revisions, next: doc("b"), isAny: true))) == ["judge a@1-a b@1-a"])
        let batch = pull.batch
        #expect(pull.on(.conflictsRead(ConflictDecider.Page(ids: []))) == [])
        pull.on(.judged(batch, [.pass, .pass], plugin: "f", version: "2"))
        #expect(pull.on(.stored(batch, [.stored(.alreadyPresent), .stored(.alreadyPresent)])).last == "held b")
        #expect(pull.counts.total == 2 && pull.counts.completed == 2)
    }

    // MARK: - A listener

    @Test func aPeerThatPushesIsAnsweredAndSettled() {
        var pull = PullRun(passive: true, resolver: false)
        let proposal = ProposedRow(id: doc("a"), revision: rev("1-a"), parent: nil, bodySize: 2)
        pull.on(.listArrived(offeredList))
        #expect(pull.on(.listRead(.success(.proposed([.row(proposal), .bad("no id", sequence: nil), .row(proposal)])))) == ["proposals a a"])
        // The revision that caused the refusal is offered to the peer, even if it came from there.
        #expect(pull.on(.proposalsChecked([.accept, .conflict(current: rev("1-b"))])).last == "tell push of refusal a@1-b")
        guard case .answerProposals(_, let answers, _)? = pull.last.dropLast().last else { return #expect(Bool(false), "no answer") }
        #expect(answers == [.send, .unreadable, .conflict(current: rev("1-b"))])
        pull.on(.arrived(received(1, "a")))
        pull.on(.checked(pull.batch, [.checked(checked(1, "a"))]))
        let words = pull.on(.stored(pull.batch, [.stored(.conflict(current: rev("1-b")))]))
        #expect(words.contains("settle 1 409") && words.last == "tell push of refusal a@1-b")
        #expect(pull.machine.isDrained && pull.counts.completed == 1 && pull.counts.total == 1)
    }

    @Test(arguments: [(true, false, true), (true, true, false), (false, false, false)])
    func conflictsOfAPeerThatOnlyPushesAreDecidedHere(_ resolver: Bool, _ peerPulls: Bool, _ isSent: Bool) {
        var pull = PullRun(passive: true, resolver: resolver)
        if peerPulls { pull.on(.peerPulls) }
        pull.on(.listArrived(offeredList))
        pull.on(.listRead(.success(.proposed([.row(ProposedRow(id: doc("a"), revision: rev("1-a"), parent: nil, bodySize: 2))]))))
        pull.on(.proposalsChecked([.conflict(current: rev("1-b"))]))
        guard case .answerProposals(_, let answers, _)? = pull.last.first else { return #expect(Bool(false), "no answer") }
        #expect(answers == [isSent ? .send : .conflict(current: rev("1-b"))])
    }
}

import DocumentStore
import Documents
import Interfaces
import Testing

@testable import Replication

/// What a replicator's push asks for, event by event.
@Suite struct PushMachineTests {
    private let nothing = ChangeListID(number: 0)

    /// `a` has been sent, and the peer has yet to acknowledge it.
    private func sent(pulls: Bool = false, continuous: Bool = true) -> PushRun {
        var push = PushRun(continuous: continuous, pulls: pulls)
        push.start()
        push.on(.read(page(outgoing("a", 1))))
        let list = push.list ?? nothing
        push.on(.read(end(1)))
        push.on(.answered(list, [.wanted(known: [])]))
        return push
    }

    /// `a` has been offered, and there is nothing else to read.
    private func offered(pulls: Bool = false, continuous: Bool = true) -> (PushRun, ChangeListID) {
        var push = PushRun(continuous: continuous, pulls: pulls)
        push.start()
        push.on(.read(page(outgoing("a", 1, "2-a"))))
        let list = push.list ?? nothing
        push.on(.read(end(1)))
        return (push, list)
    }

    @Test func aDocumentIsReadOfferedSentAcknowledgedAndNoted() {
        var push = PushRun(continuous: false)
        #expect(push.on(.storeChanged(newest: 1)) == ["kept back"])
        #expect(push.on(.keptBackRead(KeptBackPage(isAny: false))) == ["read 0"])
        #expect(push.on(.read(page(outgoing("a", 1)))) == ["offer a@1-a", "read 1"])
        let list = push.list ?? nothing
        #expect(push.on(.read(end(1))) == [])
        #expect(push.machine.isCaughtUp && !push.machine.isDrained)
        #expect(push.on(.answered(list, [.wanted(known: [])])) == ["send a@1-a"])
        #expect(push.machine.ledger.completedThrough == 0)
        #expect(push.on(.acknowledged(doc("a"))) == ["report a ok", "note a@1-a"])
        #expect(push.machine.ledger.completedThrough == 1)
        #expect(push.machine.isIdle && !push.machine.isFinished)
        guard let batch = push.batch else { return #expect(Bool(false), "no acknowledgement is to be noted") }
        push.on(.noted(batch))
        #expect(push.machine.isFinished && push.isClean)
        #expect(push.counts.total == 1 && push.counts.completed == 1 && push.counts.pushed == 1)
    }

    @Test func aRevisionThatThePeerHadByAnotherWayIsNotedAndNotCountedAsPushed() {
        var push = sent()
        #expect(push.on(.acknowledged(doc("a"), .alreadyHeld)) == ["note a@1-a"])
        #expect(push.counts.pushed == 0 && push.counts.completed == 1 && push.isClean)
    }

    // MARK: - One revision of a document at a time

    @Test func aSecondRevisionWaitsForTheEndOfTheFirstAndIsReadAgain() {
        var push = sent()
        push.on(.storeChanged(newest: 2))
        #expect(push.on(.read(page(outgoing("a", 2, "2-b")))) == ["read 2"])
        #expect(push.on(.read(end(2))) == [])
        #expect(push.machine.ledger.inFlight == 1)
        // The third revision replaces the second; neither is claimed.
        push.on(.storeChanged(newest: 3))
        push.on(.read(page(outgoing("a", 3, "3-c"))))
        push.on(.read(end(3)))
        #expect(push.machine.ledger.completedThrough == 0)
        #expect(push.on(.acknowledged(doc("a"))) == ["report a ok", "note a@1-a", "again a"])
        #expect(push.machine.ledger.completedThrough == 2)
        #expect(!push.machine.isCaughtUp)
        #expect(push.on(.readAgain([doc("a")], [outgoing("a", 4, "4-d")])) == ["offer a@4-d"])
        guard case .offer(_, let documents)? = push.last.first else { return }
        #expect(documents[0].peerVersion == rev("1-a"))
        #expect(push.machine.ledger.completedThrough == 3)
    }

    /// A peer's changes may overtake its acknowledgement. By then the revision may have been pruned here, and it would be fetched as
    /// a conflict with what it became.
    @Test func thePullKnowsWhatIsSentBeforeItIsAcknowledged() {
        var (push, list) = offered(pulls: true)
        #expect(push.on(.answered(list, [.wanted(known: [])])) == ["tell pull a@2-a", "send a@2-a"])
    }

    @Test func anAcknowledgementOfSomethingElseChangesNothing() {
        var push = sent()
        push.on(.acknowledged(doc("b")))
        push.on(.acknowledged(doc("a")))
        push.on(.acknowledged(doc("a")))
        push.on(.refused(doc("a"), http(500)))
        #expect(push.counts.pushed == 1 && push.counts.failed == 0 && push.isClean)
    }

    @Test func theMarkOfADocumentIsWhatWasAcknowledgedLast() {
        var push = sent()
        push.on(.storeChanged(newest: 2))
        push.on(.read(page(outgoing("a", 2, "2-b"))))
        push.on(.read(end(2)))
        // For a document that changes fast this is noted at once, because the store must not prune what the peer has.
        #expect(push.on(.acknowledged(doc("a"))) == ["report a ok", "note a@1-a", "again a"])
        push.on(.readAgain([doc("a")], [outgoing("a", 2, "2-b", peer: "1-a")]))
        push.on(.answered(push.list ?? nothing, [.wanted(known: [])]))
        #expect(push.on(.acknowledged(doc("a"))) == ["report a ok", "note a@2-b"])
    }

    @Test func aDocumentReadAgainBeyondTheFeedSaysNothingAboutWhatLiesBetween() {
        var push = sent()
        push.on(.refused(doc("a"), http(503)))
        push.on(.retryIsDue)
        // `b` at 2 was written too, but the feed has not reached it.
        #expect(push.on(.readAgain([doc("a")], [outgoing("a", 3, "2-b")])) == ["offer a@2-b"])
        push.on(.answered(push.list ?? nothing, [.has]))
        #expect(push.machine.ledger.completedThrough == 1)
        push.on(.storeChanged(newest: 3))
        push.on(.read(page(outgoing("b", 2), outgoing("a", 3, "2-b"))))
        #expect(push.machine.ledger.completedThrough == 1)
    }

    @Test func documentsTooLargeToBeReadAgainAtOnceComeNext() {
        var push = PushRun(continuous: true, pulls: false)
        push.start()
        push.on(.read(page(outgoing("a", 1), outgoing("b", 2))))
        let list = push.list ?? nothing
        push.on(.read(end(2)))
        push.on(.answered(list, [.wanted(known: []), .wanted(known: [])]))
        push.on(.refused(doc("a"), http(503)))
        push.on(.refused(doc("b"), http(503)))
        #expect(push.on(.retryIsDue) == ["again a b"])
        #expect(push.on(.readAgain([doc("a")], [outgoing("a", 1)])) == ["offer a@1-a", "again b"])
        #expect(push.on(.readAgain([doc("b")], [outgoing("b", 2)])) == ["offer b@1-a"])
        #expect(push.machine.ledger.completedThrough == 0)
    }

    @Test func aDocumentThatIsGoneWhenItIsReadAgainIsDone() {
        var push = sent()
        push.on(.storeChanged(newest: 2))
        push.on(.read(page(outgoing("a", 2, "2-b"))))
        push.on(.read(end(2)))
        push.on(.acknowledged(doc("a")))
        push.on(.readAgain([doc("a")], []))
        #expect(push.machine.ledger.completedThrough == 2 && push.machine.isIdle && push.isClean)
    }

    // MARK: - 409

    @Test func ourRevisionIsNewer() {
        var (push, list) = offered()
        #expect(push.on(.answered(list, [.conflict(current: rev("1-x"))])) == ["compare a 2-a 1-x"])
        #expect(!push.machine.isIdle)
        #expect(push.on(.compared([(doc("a"), .newer(history: [rev("1-x")]))])) == ["offer a@2-a"])
        guard case .offer(let second, let documents)? = push.last.first else { return }
        #expect(documents[0].peerVersion == rev("1-x") && documents[0].history == [rev("1-x")])
        push.on(.answered(second, [.wanted(known: [])]))
        push.on(.acknowledged(doc("a")))
        #expect(push.machine.isIdle && push.isClean && push.counts.completed == push.counts.total)
    }

    @Test func aPeerThatNamesAnotherRevisionEachTimeCannotKeepItBusyForEver() {
        var (push, list) = offered()
        var rounds = 0
        while push.on(.answered(list, [.conflict(current: rev("1-x"))])).contains(where: { $0.hasPrefix("compare") }), rounds < 20 {
            rounds += 1
            push.on(.compared([(doc("a"), .newer(history: [rev("1-x")]))]))
            list = push.list ?? nothing
        }
        #expect(rounds == ReplicationLimits().offersPerDocument - 1)
        push.on(.excluded([doc("a")]))
        #expect(push.counts.failed == 1 && push.machine.isIdle)
    }

    @Test func ourRevisionIsOlder() {
        var (push, list) = offered(pulls: true)
        push.on(.answered(list, [.conflict(current: rev("3-x"))]))
        #expect(push.on(.compared([(doc("a"), .older)])) == [])
        #expect(push.machine.ledger.completedThrough == 1 && push.isClean && push.counts.failed == 0)
    }

    @Test(arguments: [Comparison.branches, .unknown]) func aConflictThatNobodyDecidesFails(_ comparison: Comparison) {
        var (push, list) = offered(continuous: false)
        push.on(.answered(list, [.conflict(current: rev("2-x"))]))
        #expect(push.on(.compared([(doc("a"), comparison)])) == ["report a 409", "exclude a@2-a"])
        #expect(!push.machine.isFinished)
        push.on(.excluded([doc("a")]))
        #expect(push.counts.failed == 1 && push.machine.isFinished && push.isClean)
    }

    @Test func aConflictThatIsAlreadyHereIsDecidedHere() {
        var (push, list) = offered(pulls: true)
        push.on(.answered(list, [.conflict(current: rev("2-x"))]))
        #expect(push.on(.compared([(doc("a"), .branches)])) == [])
        #expect(push.counts.failed == 0 && push.machine.ledger.completedThrough == 1)
    }

    /// It got there in another way, and has left the branch that ended.
    @Test func aPeerThatHasOurCurrentRevisionIsNotToldThatABranchEnded() {
        var (push, list) = offered(pulls: true)
        push.on(.answered(list, [.conflict(current: rev("1-x"))]))
        push.on(.compared([(doc("a"), .ended(BranchEnd(version: rev("2-y"), history: [rev("1-x")])))]))
        guard case .offer(let second, _)? = push.last.first else { return }
        push.on(.answered(second, [.conflict(current: rev("2-a"))]))
        #expect(push.on(.compared([(doc("a"), .same(rev("2-a")))])) == ["tell pull a@2-a", "note a@2-a"])
        #expect(push.machine.isIdle && push.isClean && push.machine.ledger.completedThrough == 1 && push.counts.failed == 0)
    }

    @Test func thePeersBranchThatEndedHereEndsThereBeforeOursIsOffered() {
        var (push, list) = offered(pulls: true)
        push.on(.answered(list, [.conflict(current: rev("1-x"))]))
        #expect(push.on(.compared([(doc("a"), .ended(BranchEnd(version: rev("2-y"), history: [rev("1-x")])))])) == ["offer a@2-y"])
        guard case .offer(let second, let documents)? = push.last.first else { return }
        #expect(documents[0].isDeleted && documents[0].peerVersion == rev("1-x") && documents[0].history == [rev("1-x")])
        push.on(.answered(second, [.wanted(known: [])]))
        push.on(.acknowledged(doc("a")))
        // The document itself is still owed.
        #expect(push.machine.ledger.completedThrough == 0 && !push.machine.isIdle)
        push.on(.readAgain([doc("a")], [outgoing("a", 1, "2-a", peer: "2-y")]))
        guard case .offer(let third, let documents)? = push.last.last else { Issue.record("\(push.last)"); return }
        #expect(documents[0].version == rev("2-a") && documents[0].peerVersion == rev("2-y"))
        push.on(.answered(third, [.wanted(known: [])]))
        push.on(.acknowledged(doc("a")))
        #expect(push.machine.ledger.completedThrough == 1 && push.isClean && push.counts.failed == 0)
        #expect(push.counts.completed == push.counts.total)
    }

    @Test func theBranchThatThePeerIsKnownToHaveEndsThereFirst() {
        var push = PushRun()
        push.start()
        var document = outgoing("a", 1, "2-a", peer: "1-x")
        document.peerBranchEnd = BranchEnd(version: rev("2-y"), history: [rev("1-x")])
        #expect(push.on(.read(page(document))).first == "offer a@2-y")
        let list = push.list ?? ChangeListID(number: 0)
        push.on(.read(end(1)))
        push.on(.answered(list, [.wanted(known: [])]))
        push.on(.acknowledged(doc("a")))
        #expect(push.on(.readAgain([doc("a")], [outgoing("a", 1, "2-a", peer: "2-y")])).first == "offer a@2-a")
    }

    /// The store says that the peer had the revision, but what has been sent since shows otherwise.
    @Test(arguments: [false, true]) func aRevisionThatThePeerHadIsOfferedAgainAfterAnotherOne(_ isAcknowledged: Bool) {
        var push = PushRun()
        push.start()
        push.on(.read(page(outgoing("a", 1, "2-b", peer: "2-a"))))
        let list = push.list ?? ChangeListID(number: 0)
        push.on(.answered(list, [.wanted(known: [])]))
        if isAcknowledged { push.on(.acknowledged(doc("a"))) }
        var back = end(2)
        back.known = [.init(id: doc("a"), sequence: 2, version: rev("2-a"))]
        push.on(.read(back))
        if !isAcknowledged { push.on(.acknowledged(doc("a"))) }
        #expect(push.last.map(\.words).contains("again a") && push.machine.ledger.completedThrough < 2)
        push.on(.readAgain([doc("a")], [outgoing("a", 2, "2-a", peer: "2-b")]))
        #expect(push.last.map(\.words).contains("offer a@2-a"))
    }

    @Test func aConflictWhoseOtherSideIsPulledEndsWithThat() {
        var (push, list) = offered(pulls: true, continuous: false)
        push.on(.answered(list, [.conflict(current: rev("2-x"))]))
        push.on(.compared([(doc("a"), .unknown)]))
        #expect(push.machine.ledger.waiting == 1 && push.machine.ledger.completedThrough == 0)
        #expect(!push.machine.isFinished)
        push.on(.pulled([(doc("a"), rev("2-x"))]))
        #expect(push.machine.ledger.waiting == 0 && push.machine.ledger.completedThrough == 1)
        push.on(.pullIsComplete(true))
        #expect(push.machine.isFinished && push.counts.failed == 0)
    }

    /// The peer accepted the proposal, and the document was changed there before the revision arrived. As a listener, Couchbase Lite has its own error code for this.
    @Test(arguments: [http(409), ReplicationError(domain: .litecore, code: 8, message: "rev: conflict")])
    func aConflictDetectedOnArrivalWaitsForThePullToo(_ error: ReplicationError) {
        var push = sent(pulls: true)
        #expect(push.on(.refused(doc("a"), error)) == [])
        #expect(push.machine.ledger.waiting == 1 && push.machine.ledger.completedThrough == 0)
        push.on(.pulled([(doc("a"), rev("2-x"))]))
        #expect(push.machine.ledger.waiting == 0 && push.machine.ledger.completedThrough == 1 && push.counts.failed == 0 && push.isClean)
    }

    @Test func aConflictThatThePullDoesNotBringIsOfferedOnceMoreThenFailsAndIsTriedLater() {
        var (push, list) = offered(pulls: true)
        push.on(.answered(list, [.conflict(current: rev("2-x"))]))
        push.on(.compared([(doc("a"), .unknown)]))
        #expect(push.on(.pullIsComplete(true)) == ["again a"])
        #expect(push.on(.readAgain([doc("a")], [outgoing("a", 1, "2-a")])) == ["offer a@2-a"])
        push.on(.answered(push.list ?? nothing, [.conflict(current: rev("2-x"))]))
        #expect(push.on(.compared([(doc("a"), .unknown)])) == ["report a 409", "exclude a@2-a", "timer 30"])
        #expect(push.machine.isIdle && push.machine.ledger.completedThrough == 0 && push.machine.ledger.waiting == 1)
        // Whatever else happens, it is not tried again before its time.
        #expect(push.on(.pullIsComplete(true)) == [])
        #expect(push.on(.retryIsDue) == ["again a"])
        push.on(.readAgain([doc("a")], [outgoing("a", 1, "2-a")]))
        push.on(.answered(push.list ?? nothing, [.wanted(known: [])]))
        push.on(.acknowledged(doc("a")))
        #expect(push.machine.ledger.completedThrough == 1 && push.isClean && push.counts.completed == push.counts.total)
    }

    // MARK: - Other answers

    @Test func aRevisionThatThePeerHasIsNotedAndNotSent() {
        var (push, list) = offered()
        #expect(push.on(.answered(list, [.has])) == ["note a@2-a"])
        #expect(push.machine.ledger.completedThrough == 1 && push.counts.pushed == 0 && push.isClean)
    }

    @Test func theHistoryEndsAtTheNewestAncestorThatThePeerHolds() {
        var push = PushRun()
        push.start()
        var document = outgoing("a", 1, "4-d")
        document.history = ["3-c", "2-b", "1-a"].map(rev)
        push.on(.read(page(document)))
        push.on(.answered(push.list ?? nothing, [.wanted(known: [rev("1-a"), rev("2-b")])]))
        guard case .send(let sent)? = push.last.first else { return #expect(Bool(false), "no revision is sent") }
        #expect(sent.history == ["3-c", "2-b"].map(rev))
    }

    @Test func aTemporaryRefusalIsRetriedLaterAndHoldsTheSequence() {
        var push = sent()
        #expect(push.on(.refused(doc("a"), http(503))) == ["report a 503", "timer 30"])
        #expect(push.machine.isIdle && push.machine.ledger.completedThrough == 0 && push.isClean)
        #expect(push.on(.retryIsDue) == ["again a"])
        push.on(.readAgain([doc("a")], [outgoing("a", 1)]))
        push.on(.answered(push.list ?? nothing, [.wanted(known: [])]))
        #expect(push.on(.refused(doc("a"), http(503))) == ["report a 503", "timer 60"])
    }

    @Test func aPermanentRefusalSettlesTheDocument() {
        var push = sent()
        #expect(push.on(.refused(doc("a"), http(413))) == ["report a 413", "exclude a@1-a", "refused timer 0 60"])
        #expect(push.machine.ledger.completedThrough == 0)
        push.on(.excluded([doc("a")]))
        #expect(push.machine.ledger.completedThrough == 1 && push.isClean && push.counts.failed == 1)
    }

    @Test func aChangeReplacesTheWaitingRevisionOfItsDocument() {
        var push = sent()
        push.on(.refused(doc("a"), http(503)))
        push.on(.storeChanged(newest: 2))
        #expect(push.on(.read(page(outgoing("a", 2, "2-b")))).contains("offer a@2-b"))
        #expect(push.machine.ledger.waiting == 0 && push.machine.ledger.completedThrough == 1)
    }

    // MARK: - Bounds

    @Test func nothingIsReadWhileTheWindowIsFull() {
        var push = PushRun { $0.revisionsInFlight = 1 }
        push.start()
        push.on(.read(page(outgoing("a", 1), outgoing("b", 2))))
        let list = push.list ?? nothing
        #expect(push.on(.read(page(outgoing("c", 3), outgoing("d", 4)))).contains("offer c@1-a d@1-a"))
        push.on(.read(end(4)))
        #expect(push.on(.answered(list, [.wanted(known: []), .wanted(known: [])])) == ["send a@1-a"])
        #expect(push.machine.ledger.inFlight == 1)
        #expect(push.on(.storeChanged(newest: 5)) == [])
        #expect(push.on(.acknowledged(doc("a"))) == ["report a ok", "send b@1-a"])
        #expect(push.on(.acknowledged(doc("b"))) == ["report b ok", "read 4"])
    }

    @Test func whileMemoryIsShortDocumentsAreSentOneAtATime() {
        var push = sent()
        push.on(.throttled(true))
        push.on(.storeChanged(newest: 2))
        #expect(push.last.isEmpty)
        push.on(.throttled(false))
        push.on(.read(page(outgoing("a", 2, "2-b"))))
        push.on(.read(end(2)))
        push.on(.throttled(true))
        // A document that changed while it was being sent does not hold itself up.
        #expect(push.on(.acknowledged(doc("a"))) == ["report a ok", "note a@1-a", "again a"])
    }

    /// It believes what the peer says in advance, sends nothing, and offers it again later.
    @Test func documentsThatAPeerWillNotAcceptAreNotSentAndThoseItHasAreNoted() {
        var push = PushRun(continuous: true, pulls: true)
        push.start()
        push.on(.read(page(outgoing("a", 1), outgoing("b", 2))))
        let list = push.list ?? ChangeListID(number: 0)
        push.on(.read(end(2)))
        let words = push.on(.answered(list, [.has, .forbidden(http(403))]))
        #expect(words.contains { $0.hasPrefix("timer ") } && !words.contains { $0.hasPrefix("send ") || $0.hasPrefix("report ") }, "\(words)")
        #expect(push.machine.barrier.isUp && push.machine.barrier.refusal?.code == 403 && push.counts.failed == 0)
        #expect(push.machine.acknowledged.version(of: doc("a")) == rev("1-a"))
        #expect(push.on(.retryIsDue).contains("again b"))
    }

    /// It reports that half of its work is not done, although one document that was on its way got through.
    @Test func aRunThatWasForbiddenToWriteKeepsTheReason() {
        var push = PushRun(continuous: false, pulls: true)
        push.start()
        push.on(.read(page(outgoing("a", 1), outgoing("b", 2))))
        let list = push.list ?? ChangeListID(number: 0)
        push.on(.read(end(2)))
        push.on(.answered(list, [.wanted(known: []), .wanted(known: [])]))
        push.on(.forbidden(nil, [doc("a")], http(403)))
        push.on(.acknowledged(doc("b")))
        if let batch = push.batch { push.on(.noted(batch)) }
        push.on(.pullIsComplete(true))
        #expect(push.machine.isFinished && push.machine.barrier.refusal?.code == 403)
    }
}

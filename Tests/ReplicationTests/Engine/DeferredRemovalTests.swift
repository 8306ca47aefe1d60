import DocumentStore
import Documents
import Interfaces
import Testing

@testable import Replication

/// The peer removes a document while we are sending it: only the peer's answer tells whether an edit would be lost.
@Suite struct DeferredRemovalTests {
    private static let removal = Removal(id: doc("a"), sequence: RemoteSequence(json: "5"))

    /// `a` and `b` have been offered.
    private func offered() -> (push: PushRun, list: ChangeListID) {
        var push = PushRun(pulls: true)
        push.start()
        push.on(.read(page(outgoing("a", 1), outgoing("b", 2))))
        let list = push.list ?? ChangeListID(number: 0)
        push.on(.read(end(2)))
        return (push, list)
    }

    /// `a` has been sent and is being removed.
    private func waiting() -> PushRun {
        let (begun, list) = offered()
        var push = begun
        push.on(.answered(list, [.wanted(known: []), .declined]))
        #expect(push.on(.removalsArrived([Self.removal])) == ["watch removals 120"])
        return push
    }

    @Test func aDocumentThatIsNotOnItsWayIsRemovedAtOnce() {
        var push = offered().push
        #expect(push.on(.removalsArrived([Removal(id: doc("c"))])) == ["take away c"])
    }

    @Test func itWaitsForTheAcknowledgement() {
        var push = waiting()
        // The removal of other documents does not wait for anything.
        #expect(push.on(.removalsArrived([Removal(id: doc("c")), Removal(id: doc("b"))])) == ["take away c b"])
        let actions = push.on(.acknowledged(doc("a")))
        #expect(actions.last == "take away a" && push.machine.removals.isEmpty)
        // By then we know what the peer has.
        #expect(push.machine.acknowledged.version(of: doc("a")) == rev("1-a"))
        #expect(push.isClean)
    }

    @Test(arguments: [http(403), http(409), http(413), http(503)]) func itWaitsForTheRefusal(_ error: ReplicationError) {
        var push = waiting()
        #expect(push.on(.refused(doc("a"), error)).contains("take away a"))
        #expect(push.machine.acknowledged.version(of: doc("a")) == nil)
    }

    @Test func itWaitsFromTheOfferOnwards() {
        let (begun, list) = offered()
        var push = begun
        #expect(push.on(.removalsArrived([Self.removal])) == ["watch removals 120"])
        #expect(push.on(.answered(list, [.conflict(current: rev("2-x")), .declined])) == ["compare a 1-a 2-x"])
        // What the pull is expected to bring may be the removal itself.
        #expect(push.on(.compared([(doc("a"), .unknown)])).contains("take away a"))
    }

    @Test func ifThePeerAcceptsNothingItWaitsNoLonger() {
        var push = waiting()
        #expect(push.on(.forbidden(nil, [doc("a")], http(403))).contains("take away a"))
    }

    @Test func ifThePeerDoesNotAnswerTheConnectionEnds() throws {
        var push = waiting()
        #expect(push.on(.removalsWereWatched(isMoving: false)) == ["fail 3"])
        guard case .fail(let error)? = push.last.first else { return }
        #expect(error.isTransient && error.message.contains("\"a\"") && error.message.contains("sent") && error.message.contains("removal_wait = 120 seconds"))
        // What becomes of the document is still undecided.
        #expect(push.machine.removals.map(\.id) == [doc("a")])
    }

    @Test func ifThePeerDoesNotAnswerAnOfferTheConnectionEndsToo() {
        var push = offered().push
        #expect(push.on(.removalsArrived([Self.removal])) == ["watch removals 120"])
        #expect(push.on(.removalsWereWatched(isMoving: false)) == ["fail 3"])
    }

    /// The document is large or has blobs and the line is slow, or the document has been edited again, or it was removed only just now.
    @Test func itWaitsAsLongAsThereIsProgress() {
        var push = waiting()
        #expect(push.on(.removalsWereWatched(isMoving: true)) == ["watch removals 120"])
        #expect(push.on(.acknowledged(doc("a"))).last == "take away a")
        #expect(push.on(.removalsWereWatched(isMoving: false)) == [])

        let (begun, list) = offered()
        push = begun
        push.on(.removalsArrived([Self.removal]))
        push.on(.answered(list, [.wanted(known: []), .declined]))
        #expect(push.on(.removalsWereWatched(isMoving: false)) == ["watch removals 120"])
        #expect(push.on(.removalsWereWatched(isMoving: false)) == ["fail 3"])
    }

    /// Answers about other documents say nothing about this one.
    @Test func answersAboutOthersDoNotMakeItWaitForEver() {
        let (begun, list) = offered()
        var push = begun
        push.on(.answered(list, [.wanted(known: []), .wanted(known: [])]))
        #expect(push.on(.removalsArrived([Self.removal])) == ["watch removals 120"])
        push.on(.acknowledged(doc("b")))
        #expect(push.on(.removalsWereWatched(isMoving: false)) == ["fail 3"])
    }

    /// The same from the pull's side.
    @Test func whileItWaitsNoCheckpointPassesItAndNothingAfterItIsProcessed() {
        var pull = PullRun()
        #expect(pull.offer(row(5, "a", isAccessRemoved: true)).contains("take away a"))
        #expect(!pull.on(.listArrived(offeredList)).contains("read list"))
        #expect(pull.through == nil && !pull.machine.isComplete)
        #expect(pull.on(.removalsApplied([RemovalOutcome(removal: Self.removal, end: .purged)])).contains("read list"))
        #expect(pull.through == "5")
    }
}

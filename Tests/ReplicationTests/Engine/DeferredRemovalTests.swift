import DocumentStore
import Documents
import Interfaces
import Testing

@testable import Replication

/// The peer takes a document away that is on its way there: only its answer says whether an edit would be lost.
@Suite struct DeferredRemovalTests {
    private static let removal = Removal(id: doc("a"), sequence: RemoteSequence(json: "5"))

    /// `a` is offered, and `b`.
    private func offered() -> (push: PushRun, list: ListID) {
        var push = PushRun(pulls: true)
        push.start()
        push.on(.read(page(outgoing("a", 1), outgoing("b", 2))))
        let list = push.list ?? ListID(number: 0)
        push.on(.read(end(2)))
        return (push, list)
    }

    /// `a` was sent and is taken away.
    private func waiting() -> PushRun {
        let (begun, list) = offered()
        var push = begun
        push.on(.answered(list, [.wanted(known: []), .declined]))
        #expect(push.on(.removalsArrived([Self.removal])) == ["watch removals 120"])
        return push
    }

    @Test func whatIsNotOnItsWayGoesAtOnce() {
        var push = offered().push
        #expect(push.on(.removalsArrived([Removal(id: doc("c"))])) == ["take away c"])
    }

    @Test func itWaitsForTheAcknowledgement() {
        var push = waiting()
        // Of others nothing is waited for.
        #expect(push.on(.removalsArrived([Removal(id: doc("c")), Removal(id: doc("b"))])) == ["take away c b"])
        let actions = push.on(.acknowledged(doc("a")))
        #expect(actions.last == "take away a" && push.machine.removals.isEmpty)
        // By then it is known what the peer has.
        #expect(push.machine.acknowledged.version(of: doc("a")) == rev("1-a"))
        #expect(push.isClean)
    }

    @Test(arguments: [http(403), http(409), http(413), http(503)]) func itWaitsForTheRefusal(_ error: ReplicationError) {
        var push = waiting()
        #expect(push.on(.refused(doc("a"), error)).contains("take away a"))
        #expect(push.machine.acknowledged.version(of: doc("a")) == nil)
    }

    @Test func itWaitsFromTheQuestionOn() {
        let (begun, list) = offered()
        var push = begun
        #expect(push.on(.removalsArrived([Self.removal])) == ["watch removals 120"])
        #expect(push.on(.answered(list, [.conflict(current: rev("2-x")), .declined])) == ["compare a 1-a 2-x"])
        // What the pull has to bring may be the removal itself.
        #expect(push.on(.compared([(doc("a"), .unknown)])).contains("take away a"))
    }

    @Test func whenNothingIsTakenAtAllItWaitsNoLonger() {
        var push = waiting()
        #expect(push.on(.forbidden(nil, [doc("a")], http(403))).contains("take away a"))
    }

    @Test func whereThePeerDoesNotAnswerTheConnectionEnds() throws {
        var push = waiting()
        #expect(push.on(.removalsWereWatched(isMoving: false)) == ["fail 3"])
        guard case .fail(let error)? = push.last.first else { return }
        #expect(error.isTransient && error.message.contains("\"a\"") && error.message.contains("sent") && error.message.contains("removal_wait = 120 seconds"))
        // What it was taken away for is not decided.
        #expect(push.machine.removals.map(\.id) == [doc("a")])
    }

    @Test func whereItIsAskedAndDoesNotAnswerTheConnectionEndsToo() {
        var push = offered().push
        #expect(push.on(.removalsArrived([Self.removal])) == ["watch removals 120"])
        #expect(push.on(.removalsWereWatched(isMoving: false)) == ["fail 3"])
    }

    /// The document is large, or has blobs, and the line is slow; or the document went on; or it was taken away only just now.
    @Test func whatGoesOnIsWaitedFor() {
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

    /// Answers about others are none about this one.
    @Test func answersAboutOthersDoNotMakeItWaitForEver() {
        let (begun, list) = offered()
        var push = begun
        push.on(.answered(list, [.wanted(known: []), .wanted(known: [])]))
        #expect(push.on(.removalsArrived([Self.removal])) == ["watch removals 120"])
        push.on(.acknowledged(doc("b")))
        #expect(push.on(.removalsWereWatched(isMoving: false)) == ["fail 3"])
    }

    /// The pull's side of it.
    @Test func whileItWaitsNoCheckpointPassesItAndNothingBehindItIsLookedAt() {
        var pull = PullRun()
        #expect(pull.offer(row(5, "a", isAccessRemoved: true)).contains("take away a"))
        #expect(!pull.on(.listArrived(offeredList)).contains("read list"))
        #expect(pull.through == nil && !pull.machine.isComplete)
        #expect(pull.on(.removalsArrived([RemovalOutcome(removal: Self.removal, end: .purged)])).contains("read list"))
        #expect(pull.through == "5")
    }
}

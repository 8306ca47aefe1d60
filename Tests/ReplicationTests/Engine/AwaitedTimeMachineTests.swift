import Documents
import Interfaces
import Testing

@testable import Replication

/// A document that the peer refuses because of its clock is given up for the moment, and offered again when the time of its versions comes.
@Suite struct AwaitedTimeMachineTests {
    private let early = "18e9000000000005@QUxJQ0VBTElDRUFMSUNFQQ", late = "18ea000000000005@ABEiM0RVZneImaq7zN3u/w"
    private let clock = ReplicationError(domain: .litecore, code: 4, message: "rev: Invalid timestamp in version vector 18e9,…")

    /// `a` has been sent. Its latest version is not its current one.
    private func sent(_ style: PushStyle = .propose, continuous: Bool = true) throws -> (push: PushRun, document: OutgoingDocument) {
        var document = outgoing("a", 1)
        document.vector = try VectorHistory(early, history: late)
        var push = PushRun(style, continuous: continuous)
        push.start()
        push.on(.read(page(document)))
        let list = push.list ?? ChangeListID(number: 0)
        push.on(.read(end(1)))
        #expect(push.on(.answered(list, [.wanted(known: [])])).contains("send a@1-a"))
        return (push, document)
    }

    private var time: UInt64 { 0x18ea_0000_0000_0005 }

    @Test func itIsListedAndOfferedAgain() throws {
        let made = try sent()
        var (push, document) = (made.push, made.document)
        #expect(push.on(.refused(doc("a"), clock)) == ["await a \(time)", "report a 4", "exclude a@1-a"])
        push.on(.excluded([doc("a")]))
        #expect(push.machine.ledger.completedThrough == 1 && push.isClean && push.machine.isIdle)
        #expect(push.on(.retryTimeReached([doc("a")])) == ["again a"])
        #expect(push.on(.readAgain([doc("a")], [document])) == ["offer a@1-a"])
        let list = push.list ?? ChangeListID(number: 0)
        // Meanwhile it has reached the peer in another way.
        #expect(push.on(.answered(list, [.has])).contains("note a@1-a"))
        document.peerVersion = rev("1-a")
        #expect(push.on(.retryTimeReached([doc("a")])).contains("again a"))
        #expect(!push.on(.readAgain([doc("a")], [document])).contains { $0.hasPrefix("offer") })
    }

    @Test func aTimeThatComesWhileItIsListedIsNotMissed() throws {
        let made = try sent()
        var push = made.push
        push.on(.refused(doc("a"), clock))
        #expect(push.on(.retryTimeReached([doc("a")])) == [])
        #expect(push.on(.excluded([doc("a")])) == ["again a"])
        #expect(push.on(.readAgain([doc("a")], [made.document])) == ["offer a@1-a"])
        push.on(.answered(push.list ?? ChangeListID(number: 0), [.has]))
        #expect(push.machine.ledger.completedThrough == 1 && push.isClean)
    }

    @Test func aPeerThatPullsIsOfferedItAgain() throws {
        let made = try sent(.announce)
        var push = made.push
        #expect(push.on(.refused(doc("a"), clock)) == ["await a \(time)", "report a 4"])
        #expect(push.on(.retryTimeReached([doc("a")])) == ["again a"])
        #expect(push.on(.readAgain([doc("a")], [made.document])).first == "offer a@1-a")
    }

    @Test func nothingIsAwaitedInAOneShotRunOrWithoutAKnownTime() throws {
        var once = try sent(continuous: false).push
        #expect(!once.on(.refused(doc("a"), clock)).contains { $0.hasPrefix("await") })
        // Other causes have nothing to do with the clock.
        for error in [http(400), ReplicationError(domain: .litecore, code: 4, message: "rev: Invalid version string '7@x'")] {
            var push = try sent().push
            #expect(push.on(.refused(doc("a"), error)) == ["report a \(error.code)", "exclude a@1-a", "refused timer 0 60"])
        }
        var push = PushRun()
        push.start()
        push.on(.read(page(outgoing("a", 1))))
        let list = push.list ?? ChangeListID(number: 0)
        push.on(.answered(list, [.wanted(known: [])]))
        #expect(!push.on(.refused(doc("a"), clock)).contains { $0.hasPrefix("await") })
    }

    @Test func eachTimeIsKeptOnceAndTakenInOrder() {
        var times = AwaitedTimes()
        for (id, time) in [("c", 30), ("a", 20), ("b", 10), ("c", 25), ("d", 1)] { times.add(doc(id), UInt64(time), limit: 3) }
        #expect(times.next == 10)
        #expect(times.take(now: 9) == [] && times.take(now: 20) == [doc("b"), doc("a")])
        #expect(times.next == 25 && times.take(now: 99) == [doc("c")] && times.next == nil)
    }
}

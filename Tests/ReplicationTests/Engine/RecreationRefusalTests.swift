import Documents
import Testing

@testable import Replication

/// A document was created again here on top of a tombstone, while the peer reads another tombstone of it and refuses what does not descend from that.
@Suite struct RecreationRefusalTests {
    private func recreated() -> OutgoingDocument {
        var document = outgoing("a", 1, "3-a", peer: "2-a")
        document.history = [rev("2-a"), rev("1-a")]
        return document
    }

    private func refused(pulls: Bool) throws -> PushRun {
        var push = PushRun(pulls: pulls)
        push.start()
        push.on(.read(page(recreated())))
        let list = try #require(push.list)
        push.on(.read(end(1)))
        #expect(push.on(.answered(list, [.conflict(current: rev("2-x"))])) == ["compare a 3-a 2-x"])
        return push
    }

    /// The pull would not bring a tombstone that is here.
    @Test(arguments: [true, false]) func itIsOfferedAsTheSuccessorOfThePeersTombstone(_ pulls: Bool) throws {
        var push = try refused(pulls: pulls)
        #expect(push.on(.compared([(doc("a"), .goesOn(beside: rev("2-x")))])) == ["offer a@3-a"])
        guard case .offer(let list, let documents)? = push.last.first else { return }
        // It still says from what it really descends.
        #expect(documents.first?.peerVersion == rev("2-x") && documents.first?.history == [rev("2-a"), rev("1-a")])
        push.on(.answered(list, [.wanted(known: [])]))
        #expect(push.last.map(\.words).contains("send a@3-a"))
        push.on(.acknowledged(doc("a"), .stored))
        #expect(push.last.map(\.words).contains("note a@3-a"))
        #expect(push.machine.isIdle && push.isClean && push.machine.ledger.completedThrough == 1 && push.counts.failed == 0)
    }

    /// The peer takes only what really descends from its tombstone, and says so to the proposal or when the document arrives.
    @Test(arguments: [true, false]) func whereThatIsRefusedAsWellItIsMovedToThePeersTombstone(_ arrives: Bool) throws {
        var push = try refused(pulls: false)
        push.on(.compared([(doc("a"), .goesOn(beside: rev("2-x")))]))
        let list = try #require(push.list)
        if arrives {
            push.on(.answered(list, [.wanted(known: [])]))
            push.on(.messageMade(doc("a")))
            #expect(push.on(.refused(doc("a"), http(409))) == ["compare a 3-a 2-x"])
        } else {
            #expect(push.on(.answered(list, [.conflict(current: rev("2-x"))])) == ["compare a 3-a 2-x"])
        }
        #expect(push.on(.compared([(doc("a"), .goesOn(beside: rev("2-x")))])) == ["move a@3-a below 2-x"])
        #expect(!push.machine.isIdle && push.machine.ledger.completedThrough == 0)
        // The revision that it has become comes with the feed.
        push.on(.moved(doc("a"), true))
        #expect(push.machine.isIdle && push.isClean && push.machine.ledger.completedThrough == 1 && push.counts.failed == 0)
    }

    /// A peer that does not know the tombstone below it takes it for an edit of what was deleted.
    @Test func itIsSentAgainWithoutWhatWasBeforeTheDeletion() throws {
        var push = try refused(pulls: false)
        let answer = Comparison.goesOn(beside: rev("2-x"), sinceDeletion: [])
        push.on(.compared([(doc("a"), answer)]))
        push.on(.answered(try #require(push.list), [.wanted(known: [])]))
        push.on(.messageMade(doc("a")))
        #expect(push.on(.refused(doc("a"), http(409))) == ["compare a 3-a 2-x"])
        #expect(push.on(.compared([(doc("a"), answer)])) == ["again a"])
        var document = recreated()
        document.peerVersion = rev("2-x")
        push.on(.readAgain([doc("a")], [document]))
        guard case .offer(let list, let documents)? = push.last.first else { Issue.record("\(push.last.map(\.words))"); return }
        #expect(documents.first?.peerVersion == rev("2-x") && documents.first?.history == [])
        push.on(.answered(list, [.wanted(known: [])]))
        push.on(.acknowledged(doc("a"), .stored))
        #expect(push.machine.isIdle && push.isClean && push.machine.ledger.completedThrough == 1 && push.counts.failed == 0)
    }

    /// Another remote may have it, too.
    @Test func whatCannotBeMovedIsCreatedAnewThereOnceAndWaitsThen() throws {
        var push = try refused(pulls: false)
        push.on(.compared([(doc("a"), .goesOn(beside: rev("2-x")))]))
        push.on(.answered(try #require(push.list), [.conflict(current: rev("2-x"))]))
        push.on(.compared([(doc("a"), .goesOn(beside: rev("2-x")))]))
        #expect(push.on(.moved(doc("a"), false)) == ["again a"])
        var document = recreated()
        document.peerVersion = rev("2-x")
        push.on(.readAgain([doc("a")], [document]))
        guard case .offer(let list, let documents)? = push.last.first else { Issue.record("\(push.last.map(\.words))"); return }
        #expect(documents.first?.history == [])
        push.on(.answered(list, [.conflict(current: rev("2-x"))]))
        #expect(push.on(.compared([(doc("a"), .goesOn(beside: rev("2-x")))])) == ["move a@3-a below 2-x"])
        push.on(.moved(doc("a"), false))
        #expect(push.counts.failed == 1 && push.last.map(\.words).contains("exclude a@3-a"))
    }

    /// The peer may have more of its history since the deletion than is known here, and takes it for an edit once more. It is moved last: whoever wrote it
    /// could not go on from it.
    @Test func whereItsHistorySinceTheDeletionIsRefusedTooItIsCreatedAnew() throws {
        var push = try refused(pulls: false)
        let answer = Comparison.goesOn(beside: rev("2-x"), sinceDeletion: [rev("2-a")])
        push.on(.compared([(doc("a"), answer)]))
        var document = recreated()
        document.peerVersion = rev("2-x")
        for history in [[rev("2-a")], []] {
            push.on(.answered(try #require(push.list), [.conflict(current: rev("2-x"))]))
            #expect(push.on(.compared([(doc("a"), answer)])) == ["again a"])
            push.on(.readAgain([doc("a")], [document]))
            guard case .offer(_, let documents)? = push.last.first else { Issue.record("\(push.last.map(\.words))"); return }
            #expect(documents.first?.history == history)
        }
        var other = push
        push.on(.answered(try #require(push.list), [.wanted(known: [])]))
        push.on(.acknowledged(doc("a"), .stored))
        #expect(push.machine.isIdle && push.isClean && push.machine.ledger.completedThrough == 1 && push.counts.failed == 0)
        other.on(.answered(try #require(other.list), [.conflict(current: rev("2-x"))]))
        #expect(other.on(.compared([(doc("a"), answer)])) == ["move a@3-a below 2-x"])
    }

    /// The peer's branch was deleted here, and it has to learn of that first: it takes no other revision before.
    @Test func whatWasSentBesideADeletedBranchWaitsForTheEndOfThatBranch() throws {
        var push = PushRun(pulls: true)
        push.start()
        var document = recreated()
        document.peerVersion = rev("2-x")
        push.on(.read(page(document)))
        push.on(.answered(try #require(push.list), [.wanted(known: [])]))
        push.on(.read(end(1)))
        push.on(.messageMade(doc("a")))
        #expect(push.on(.refused(doc("a"), http(409))) == ["compare a 3-a 2-x"])
        #expect(push.on(.compared([(doc("a"), .ended(BranchEnd(version: rev("3-y"), history: [rev("2-x")])))])) == ["offer a@3-y"])
        push.on(.answered(try #require(push.list), [.wanted(known: [])]))
        #expect(push.on(.acknowledged(doc("a"), .stored)).contains("again a"))
    }

    /// What was sent is not offered again from memory, where its body may be gone.
    @Test func whatIsNoSuccessorOfATombstoneWaitsForThePull() throws {
        var push = PushRun(pulls: true)
        push.start()
        var document = recreated()
        document.peerVersion = rev("2-x")
        push.on(.read(page(document)))
        let list = try #require(push.list)
        push.on(.read(end(1)))
        push.on(.answered(list, [.wanted(known: [])]))
        push.on(.messageMade(doc("a")))
        #expect(push.on(.refused(doc("a"), http(409))) == ["compare a 3-a 2-x"])
        push.on(.compared([(doc("a"), .newer(history: [rev("2-x")]))]))
        #expect(push.machine.ledger.waiting == 1 && push.machine.ledger.completedThrough == 0)
    }
}

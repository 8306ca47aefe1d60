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

    @Test func itIsNotOfferedInVainForEver() throws {
        var push = try refused(pulls: false)
        for _ in 1..<push.machine.settings.limits.offersPerDocument {
            #expect(push.on(.compared([(doc("a"), .goesOn(beside: rev("2-x")))])) == ["offer a@3-a"])
            push.on(.answered(try #require(push.list), [.conflict(current: rev("2-x"))]))
        }
        #expect(!push.last.map(\.words).contains("compare a 3-a 2-x") && push.counts.failed == 1)
    }
}

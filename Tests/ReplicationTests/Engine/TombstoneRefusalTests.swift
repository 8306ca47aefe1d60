import Documents
import Testing

@testable import Replication

/// A peer has a tombstone of its own for a document that is deleted here as well, and refuses ours when it arrives.
@Suite struct TombstoneRefusalTests {
    private func tombstone(peer: String?, history: [String] = []) -> OutgoingDocument {
        var document = OutgoingDocument(
            sequence: 1, id: doc("a"), version: rev("8-a"), isDeleted: true, body: Array("{}".utf8), peerVersion: peer.map(rev))
        document.history = history.map(rev)
        return document
    }

    /// The peer wants the tombstone, whose proposal names what it has, and refuses it when it arrives.
    private func refused(_ document: OutgoingDocument, pulls: Bool = true) -> PushRun {
        var push = PushRun(pulls: pulls)
        push.start()
        push.on(.read(page(document)))
        let list = push.list ?? ChangeListID(number: 0)
        push.on(.read(end(1)))
        push.on(.answered(list, [.wanted(known: [])]))
        push.on(.refused(doc("a"), http(409)))
        return push
    }

    @Test(arguments: [true, false]) func twoTombstonesAreOneState(_ pulls: Bool) {
        var push = refused(tombstone(peer: "7-x", history: ["7-a"]), pulls: pulls)
        #expect(push.last.map(\.words) == ["compare a 8-a 7-x"])
        #expect(!push.machine.isIdle)
        push.on(.compared([(doc("a"), .same(rev("7-x")))]))
        #expect(push.last.map(\.words).contains("note a@7-x"))
        #expect(push.machine.isIdle && push.isClean && push.machine.ledger.completedThrough == 1 && push.counts.failed == 0)
    }

    @Test func ofAnythingElseThatThePeerHasThePullHasToBringIt() {
        var push = refused(tombstone(peer: "7-x", history: ["7-a"]))
        push.on(.compared([(doc("a"), .unknown)]))
        #expect(push.machine.ledger.waiting == 1 && push.machine.ledger.completedThrough == 0)
    }

    /// The peer has gone on from there: what it has now is not known.
    @Test(arguments: [nil, "7-a"]) func aTombstoneThatDescendsFromWhatThePeerHadWaitsForThePull(_ peer: String?) {
        let push = refused(tombstone(peer: peer, history: ["7-a"]))
        #expect(push.last.isEmpty && push.machine.ledger.waiting == 1)
    }
}

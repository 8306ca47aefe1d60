import Documents
import Testing

@testable import Replication

/// What a peer acknowledged, until the store has recorded it.
@Suite struct LateAcknowledgementTests {
    /// The store records nothing about the peer for a revision that is only held, so that the acknowledgement is all that is known.
    @Test(arguments: [true, false]) func whatThePeerHasIsRecordedUnlessARevisionOfItsOwnIsStored(_ isHeld: Bool) {
        var push = PushRun(pulls: true)
        push.start()
        push.on(.read(page(outgoing("a", 1), outgoing("b", 2))))
        let list = push.list ?? ChangeListID(number: 0)
        push.on(.read(end(2)))
        // While the other one is in flight, nothing is recorded.
        push.on(.answered(list, [.has, .wanted(known: [])]))
        push.on(.pulled([(doc("a"), rev("2-x"))], listed: isHeld ? [doc("a")] : []))
        push.on(.acknowledged(doc("b")))
        #expect(push.batch?.marks.map(\.id.text) == (isHeld ? ["a", "b"] : ["b"]))
    }
}

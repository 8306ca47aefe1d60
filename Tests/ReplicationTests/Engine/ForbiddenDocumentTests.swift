import Interfaces
import Testing

@testable import Replication

/// A document that the peer refuses with 403 is offered once more, since the reason may pass; by then the document may have changed here.
@Suite struct ForbiddenDocumentTests {
    /// `a` has been sent and refused.
    private func refused(filter: Bool = false) -> PushRun {
        var push = PushRun(filter: filter)
        push.start()
        push.on(.read(page(outgoing("a", 1))))
        if filter { push.on(.judged([.pass])) }
        let list = push.list ?? ChangeListID(number: 0)
        push.on(.read(end(1)))
        #expect(push.on(.answered(list, [.wanted(known: [])])) == ["send a@1-a"])
        #expect(push.on(.refused(doc("a"), http(403))) == ["again a"])
        return push
    }

    @Test func itIsReadAndOfferedOnceMore() {
        var push = refused()
        #expect(push.on(.readAgain([doc("a")], [outgoing("a", 1)])) == ["offer a@1-a"])
        push.on(.answered(push.list ?? ChangeListID(number: 0), [.wanted(known: [])]))
        #expect(push.on(.refused(doc("a"), http(403))) == ["report a 403", "exclude a@1-a", "refused timer 0 60"])
        push.on(.excluded([doc("a")]))
        #expect(push.machine.ledger.completedThrough == 1 && push.isClean)
    }

    @Test func aDocumentThatIsGoneByThenIsNotOffered() {
        var push = refused()
        #expect(!push.on(.readAgain([doc("a")], [])).contains { $0.hasPrefix("offer") || $0.hasPrefix("send") })
        #expect(push.machine.ledger.completedThrough == 1 && push.isClean && push.counts.failed == 0)
    }

    @Test func aDocumentThatTheFilterKeepsBackByThenIsNotOffered() {
        var push = refused(filter: true)
        push.on(.readAgain([doc("a")], [outgoing("a", 1)]))
        #expect(push.on(.judged([.reject])).contains("exclude a@1-a"))
        push.on(.excluded([doc("a")]))
        #expect(push.machine.ledger.completedThrough == 1 && push.isClean)
    }
}

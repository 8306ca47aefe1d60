import DocumentStore
import Documents
import Testing

@testable import Replication

/// A listener's feed for a peer that pulls: in order, because the peer's checkpoint follows it.
@Suite struct AnnouncingTests {
    @Test func aDocumentThatIsUnderWayEndsThePageAndTheRestWaits() {
        var push = PushRun(.announce)
        push.start()
        push.on(.read(page(outgoing("a", 1), outgoing("b", 2))))
        let list = push.list ?? ListID(number: 0)
        push.on(.read(page(outgoing("c", 3), outgoing("a", 4, "2-b"), outgoing("d", 5))))
        #expect(push.last.map(\.words) == ["offer c@1-a"])
        #expect(!push.machine.isCaughtUp)
        push.on(.answered(push.list ?? ListID(number: 0), [.declined]))
        // `d` is behind a revision of `a` that the peer does not know of: it must not be told of `d` before.
        #expect(push.on(.answered(list, [.wanted(known: []), .declined])) == ["send a@1-a"])
        #expect(push.on(.acknowledged(doc("a"))) == ["report a ok", "offer a@2-b d@1-a", "read 5"])
    }

    @Test func theMarkerComesAfterEverythingWasOfferedAndOnce() {
        var push = PushRun(.announce, continuous: false)
        push.start()
        push.on(.read(page(outgoing("a", 1))))
        let list = push.list ?? ListID(number: 0)
        #expect(push.on(.read(end(1))) == ["caught up"])
        #expect(!push.machine.isFinished)
        // What changes now is for the peer's next subscription.
        #expect(push.on(.storeChanged(newest: 2)) == [])
        push.on(.answered(list, [.wanted(known: [])]))
        push.on(.acknowledged(doc("a")))
        #expect(push.machine.isFinished && push.isClean)
    }

    @Test func aListThatThePeerRefusesIsOver() {
        var push = PushRun(.announce)
        push.start()
        push.on(.read(page(outgoing("a", 1))))
        let list = push.list ?? ListID(number: 0)
        push.on(.read(end(1)))
        push.on(.listRefused(list))
        push.on(.answered(list, [.wanted(known: [])]))
        #expect(push.isClean && push.machine.isIdle && push.counts.completed == push.counts.total)
    }

    @Test func whatThePeerGaveIsNotOfferedBack() {
        var push = PushRun(.announce)
        push.start()
        push.on(.pulled([(doc("a"), rev("1-a"))]))
        #expect(push.on(.read(page(outgoing("a", 1), outgoing("a2", 2)))).first == "offer a2@1-a")
        var gone = outgoing("a", 3)
        gone.news = .removed
        // That it may no longer have the document is news all the same.
        #expect(push.on(.read(page(gone))).first == "offer a@1-a")
    }

    @Test func aFeedThatIsBlockedGoesOnWithTheNextChange() {
        var push = PushRun(.announce)
        push.start()
        #expect(push.on(.read(FeedPage(next: FeedPosition(0), isEnd: false, isBlocked: true, newest: 3))) == ["caught up"])
        #expect(push.machine.isIdle)
        #expect(push.on(.storeChanged(newest: 3)) == ["read 0"])
    }
}

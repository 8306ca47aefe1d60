import DocumentStore
import Documents
import Interfaces
import Testing

@testable import Replication

/// A listener's push filter cannot decide about more documents than may be held: there the feed for that peer stands still, because the peer's
/// checkpoint must not pass the document.
@Suite struct StallTests {
    /// A feed that stands still before `b`.
    private func stalled() -> PushRun {
        var push = PushRun(.announce, filter: true) { $0.heldDocuments = 0 }
        push.start()
        push.on(.read(page(outgoing("a", 1), outgoing("b", 2), outgoing("c", 3))))
        push.on(.read(end(3)))
        push.on(.judged([.pass, .failed(failing), .pass]))
        let list = push.list ?? ChangeListID(number: 0)
        push.on(.read(page(outgoing("b", 2), outgoing("c", 3))))
        push.on(.answered(list, [.declined]))
        return push
    }

    @Test func nothingAfterTheDocumentIsOffered() {
        var push = PushRun(.announce, filter: true) { $0.heldDocuments = 0 }
        push.start()
        push.on(.read(page(outgoing("a", 1), outgoing("b", 2), outgoing("c", 3))))
        push.on(.read(end(3)))
        // It is read once more, because it may have changed while it was judged.
        #expect(push.on(.judged([.pass, .failed(failing), .pass])) == ["report b 503", "offer a@1-a", "read 1"])
        let list = push.list ?? ChangeListID(number: 0)
        #expect(push.on(.read(page(outgoing("b", 2), outgoing("c", 3)))) == ["caught up"])
        #expect(push.machine.feed.position.sequence == 1)
        #expect(push.machine.feed.stall?.id == doc("b"))
        #expect(push.counts.held == 1)
        push.on(.answered(list, [.declined]))
        #expect(push.isClean && push.machine.isIdle)
        #expect(push.counts.completed == push.counts.total)
    }

    @Test func aPageThatWasBeingReadMeanwhileDoesNotPassTheDocument() {
        var push = PushRun(.announce, filter: true) { $0.heldDocuments = 0 }
        push.start()
        #expect(push.on(.read(page(outgoing("a", 1), outgoing("b", 2)))) == ["judge a@1-a b@1-a", "read 2"])
        #expect(push.on(.judged([.pass, .failed(failing)])) == ["report b 503", "offer a@1-a"])
        // The page was requested before the feed stood still.
        #expect(push.on(.read(page(outgoing("c", 3), outgoing("d", 4)))) == ["read 1"])
        #expect(push.machine.feed.position.sequence == 1)
        #expect(push.machine.feed.stall?.id == doc("b"))
        push.on(.read(page(outgoing("b", 2), outgoing("c", 3), outgoing("d", 4))))
        #expect(push.machine.isCaughtUp)
    }

    @Test func anotherFilterIsAskedAgain() {
        var push = stalled()
        #expect(push.on(.filterChanged) == ["read 1"])
        #expect(push.on(.read(page(outgoing("b", 2), outgoing("c", 3)))) == ["judge b@1-a c@1-a", "read 3"])
        #expect(push.on(.judged([.pass, .pass])) == ["offer b@1-a c@1-a"])
        #expect(push.machine.feed.stall == nil)
    }

    @Test func aFilterThatChangesWhileItsOldVersionIsAskedIsAskedAgain() {
        var push = PushRun(.announce, filter: true) { $0.heldDocuments = 0 }
        push.start()
        push.on(.read(page(outgoing("a", 1))))
        push.on(.read(end(1)))
        push.on(.filterChanged)
        #expect(push.on(.judged([.failed(failing)])).contains("judge a@1-a"))
        #expect(push.on(.judged([.pass])).contains("offer a@1-a"))
        #expect(push.counts.held == 0)
    }

    @Test func aChangeOfTheDocumentIsLookedAt() {
        var push = stalled()
        #expect(push.on(.storeChanged(newest: 4)) == ["read 1"])
        #expect(push.on(.read(page(outgoing("c", 3), outgoing("b", 4, "2-b")))) == ["judge c@1-a b@2-b", "read 4"])
        #expect(push.machine.feed.stall == nil)
    }

    @Test func aChangeOfTheDocumentWhileItIsJudgedIsLookedAt() {
        var push = PushRun(.announce, filter: true) { $0.heldDocuments = 0 }
        push.start()
        push.on(.read(page(outgoing("a", 1))))
        push.on(.read(end(1)))
        push.on(.storeChanged(newest: 2))
        push.on(.read(page(outgoing("a", 2, "2-b"))))
        #expect(push.on(.judged([.failed(failing)])).contains("read 0"))
    }

    @Test func aChangeOfTheDocumentWhileItIsLookedAtAgainIsLookedAt() {
        var push = stalled()
        #expect(push.on(.storeChanged(newest: 4)) == ["read 1"])
        push.on(.storeChanged(newest: 5))
        // The store read before the fifth change.
        #expect(push.on(.read(page(outgoing("b", 2), outgoing("c", 4), newest: 4))) == ["read 1"])
        // Nothing has changed since: the feed stands still, and nobody is asked again and again.
        #expect(push.on(.read(page(outgoing("b", 2), outgoing("c", 5), newest: 5))) == [])
        #expect(push.machine.isIdle && push.counts.held == 1)
    }

    @Test func earlierRevisionsThatCameFromThePeerChangeNothing() {
        var push = PushRun(.announce, filter: true) { $0.heldDocuments = 0 }
        push.start()
        push.on(.pulled([(doc("a"), rev("1-a"))]))
        push.on(.read(page(outgoing("a", 1), outgoing("b", 2))))
        push.on(.read(end(2)))
        #expect(push.on(.judged([.failed(failing)])) == ["report b 503", "read 0"])
        #expect(push.on(.read(page(outgoing("a", 1), outgoing("b", 2)))) == ["caught up"])
        push.on(.storeChanged(newest: 3))
        #expect(push.on(.read(page(outgoing("a", 1), outgoing("b", 2), outgoing("c", 3)))) == [])
        #expect(push.counts.held == 1)
    }

    @Test func aDocumentThatIsGoneDoesNotHoldUpTheFeed() {
        var push = stalled()
        push.on(.storeChanged(newest: 400))
        // None of the first rows is for this peer, and more follow.
        #expect(push.on(.read(page(newest: 400, next: 200))) == ["read 200"])
        #expect(push.machine.feed.stall == nil)
    }

    @Test func aOneShotPeerGetsTheMarkerAllTheSame() {
        var push = PushRun(.announce, continuous: false, filter: true) { $0.heldDocuments = 0 }
        push.start()
        push.on(.read(page(outgoing("a", 1))))
        push.on(.read(end(1)))
        push.on(.judged([.failed(failing)]))
        #expect(push.on(.read(page(outgoing("a", 1)))) == ["caught up"])
        #expect(push.machine.isFinished)
        #expect(push.on(.storeChanged(newest: 2)) == [])
    }

    // MARK: - The end of a feed

    @Test func aFeedIsAtItsEndWhileThereIsNothingToRead() {
        var feed = FeedReader(from: FeedPosition(0))
        #expect(!feed.isAtEnd)
        _ = feed.accept(page(outgoing("a", 1)))
        #expect(!feed.isAtEnd)
        _ = feed.accept(end(1))
        #expect(feed.isAtEnd)
        feed.storeChanged(2)
        #expect(!feed.isAtEnd)
        // This was read before that change.
        _ = feed.accept(end(1))
        #expect(!feed.isAtEnd)
        _ = feed.accept(end(2))
        feed.storeChanged(2)
        #expect(feed.isAtEnd)
        feed.checkAgain()
        #expect(!feed.isAtEnd)
        // The next document waits for its channels to be assigned.
        _ = feed.accept(FeedPage(next: FeedPosition(2), isEnd: false, isBlocked: true, newest: 3))
        #expect(feed.isAtEnd)
        feed.storeChanged(3)
        #expect(!feed.isAtEnd)
    }

    @Test func aFeedThatStandsStillIsAtItsEndOnceItHasLookedAgain() {
        let stall = FeedReader.Stall(id: doc("b"), version: rev("1-a"), failure: failing)
        var feed = FeedReader(from: FeedPosition(1))
        let isNew = feed.stall(at: stall, FeedPosition(1))
        #expect(isNew && !feed.isAtEnd)
        _ = feed.accept(page(outgoing("b", 2)))
        let isNewAgain = feed.stall(at: stall, FeedPosition(1))
        #expect(!isNewAgain && feed.isAtEnd)
        feed.storeChanged(3)
        #expect(!feed.isAtEnd)
        _ = feed.accept(page(outgoing("b", 2), newest: 3))
        #expect(feed.isAtEnd)
        feed.endStall()
        #expect(!feed.isAtEnd)
    }
}

import DocumentStore
import Documents
import Interfaces
import Testing

@testable import Replication

/// A document that a push filter keeps back is put on a list before its sequence counts as done, and another version judges it again.
@Suite struct PushFilterTests {
    @Test func aDocumentKeptBackIsListedBeforeItsSequenceIsDone() {
        var push = PushRun(filter: true)
        push.start()
        push.on(.read(page(outgoing("a", 1), outgoing("b", 2), outgoing("c", 3))))
        push.on(.read(end(3)))
        #expect(push.on(.judged([.reject, .failed(failing), .pass])) == ["report b 503", "exclude a@1-a b@1-a", "offer c@1-a"])
        #expect(push.machine.ledger.completedThrough == 0 && !push.machine.isDrained)
        let list = push.list ?? ChangeListID(number: 0)
        push.on(.excluded([doc("a"), doc("b")]))
        #expect(push.machine.ledger.completedThrough == 2)
        #expect(push.counts.rejected == 1 && push.counts.held == 1)
        push.on(.answered(list, [.has]))
        #expect(push.isClean && push.counts.completed == 3 && push.counts.total == 3)
    }

    @Test func acknowledgementsAreNotedBeforeTheDocumentGoesOnTheList() {
        var push = PushRun(filter: true)
        push.start()
        push.on(.read(page(outgoing("a", 1))))
        push.on(.judged([.pass]))
        push.on(.answered(push.list ?? ChangeListID(number: 0), [.wanted(known: [])]))
        push.on(.read(page(outgoing("a", 2, "2-b"))))
        push.on(.read(end(2)))
        #expect(push.on(.acknowledged(doc("a"))) == ["report a ok", "note a@1-a", "again a"])
        push.on(.readAgain([doc("a")], [outgoing("a", 2, "2-b", peer: "1-a")]))
        #expect(push.on(.judged([.reject])) == ["exclude a@2-b"])
    }

    @Test func anotherVersionGoesThroughTheListFromTheBeginning() {
        var push = PushRun(filter: true)
        push.start()
        push.on(.read(page(outgoing("a", 1))))
        push.on(.read(end(1)))
        push.on(.judged([.reject]))
        push.on(.excluded([doc("a")]))
        #expect(push.on(.filterChanged) == ["kept back"])
        #expect(!push.machine.isCaughtUp)
        // The filter changes once more while the list is being read.
        push.on(.filterChanged)
        let page = KeptBackPage(documents: [outgoing("a", 1)], next: doc("a"), isAny: true)
        #expect(push.on(.keptBackRead(page)) == ["judge a@1-a", "kept back"])
        #expect(push.on(.judged([.pass])) == ["offer a@1-a"])
    }

    @Test func aVersionThatComesWhileDocumentsAreListedFindsThemOnTheList() {
        var push = PushRun(filter: true)
        push.start()
        push.on(.read(page(outgoing("a", 1))))
        push.on(.read(end(1)))
        push.on(.judged([.reject]))
        // If the list were read before the write has finished, nobody would look at `a` again.
        #expect(push.on(.filterChanged) == [])
        #expect(push.on(.excluded([doc("a")])) == ["kept back"])
    }

    @Test func aVersionThatComesWhileDocumentsAreJudgedIsAskedAsWell() {
        var push = PushRun(filter: true)
        push.start()
        push.on(.read(page(outgoing("a", 1))))
        push.on(.read(end(1)))
        push.on(.filterChanged)
        push.on(.keptBackRead(KeptBackPage(isAny: false)))
        #expect(push.on(.judged([.reject])) == ["judge a@1-a"])
        #expect(push.on(.judged([.pass])) == ["offer a@1-a"])
        #expect(push.counts.rejected == 0)
    }

    @Test func aDocumentOnTheListThatIsUnderWayKeepsItsSequenceOpen() {
        var push = PushRun(filter: true, from: 5)
        push.start()
        push.on(.read(end(5)))
        push.on(.filterChanged)
        push.on(.keptBackRead(KeptBackPage(documents: [outgoing("a", 3)], isAny: true)))
        push.on(.judged([.pass]))
        let list = push.list ?? ChangeListID(number: 0)
        push.on(.filterChanged)
        push.on(.keptBackRead(KeptBackPage(documents: [outgoing("a", 3)], isAny: true)))
        push.on(.answered(list, [.refused(http(503))]))
        #expect(push.machine.ledger.completedThrough == 2 && push.machine.ledger.waiting == 1)
    }

    // MARK: - A filter that was replaced before the peer's answer

    /// `a` is about to be sent, and is looked at once more before that.
    private func leaving(_ style: PushStyle) -> PushRun {
        var push = PushRun(style, filter: true)
        push.start()
        push.on(.read(page(outgoing("a", 2))))
        push.on(.judged([.pass], by: "1"))
        let list = push.list ?? ChangeListID(number: 0)
        push.on(.read(end(2)))
        #expect(push.on(.answered(list, [.wanted(known: [])])) == ["send a@1-a"])
        return push
    }

    @Test(arguments: [nil, failing] as [PolicyFailure?]) func aDocumentThatNoLongerPassesIsListedBeforeItsSequenceIsDone(_ failure: PolicyFailure?) {
        var push = leaving(.propose)
        let actions = push.on(.keptBack(doc("a"), failure, by: "2"))
        #expect(actions == (failure == nil ? ["exclude a@1-a"] : ["report a 503", "exclude a@1-a"]))
        for case .exclude(let kept) in push.last { #expect(kept.map(\.document.judgedBy) == ["2"]) }
        #expect(push.machine.ledger.completedThrough == 1 && push.machine.ledger.inFlight == 0)
        push.on(.excluded([doc("a")]))
        #expect(push.machine.ledger.completedThrough == 2 && push.isClean)
        #expect(push.counts.total == 1 && push.counts.completed == 1)
        #expect(push.counts.rejected == (failure == nil ? 1 : 0) && push.counts.held == (failure == nil ? 0 : 1))
    }

    @Test func aDocumentThatChangedMeanwhileIsReadOnceTheOlderRevisionIsListed() {
        var push = leaving(.propose)
        push.on(.storeChanged(newest: 3))
        #expect(!push.on(.read(page(outgoing("a", 3, "2-b")))).contains { $0.hasPrefix("judge") })
        push.on(.read(end(3)))
        push.on(.keptBack(doc("a"), nil, by: "2"))
        #expect(push.on(.excluded([doc("a")])) == ["again a"])
        #expect(push.on(.readAgain([doc("a")], [outgoing("a", 3, "2-b")])) == ["judge a@2-b"])
    }

    @Test func aPeerThatPullsDoesNotWaitForADocumentThatNoLongerPasses() {
        var push = leaving(.announce)
        push.on(.keptBack(doc("a"), nil, by: "2"))
        #expect(push.isClean && push.machine.isIdle && push.machine.held.isEmpty)
        #expect(push.counts.total == 1 && push.counts.completed == 1 && push.counts.rejected == 1)
    }

    @Test func aDocumentThatItFailsOnIsOfferedAgainToAPeerThatPulls() {
        var push = leaving(.announce)
        #expect(push.on(.keptBack(doc("a"), failing, by: "2")).contains("report a 503"))
        #expect(push.isClean && push.counts.held == 1 && push.counts.total == push.counts.completed)
        #expect(push.on(.filterChanged) == ["again a"])
        push.on(.readAgain([doc("a")], [outgoing("a", 2)]))
        #expect(push.on(.judged([.pass], by: "3")) == ["offer a@1-a"])
    }
}

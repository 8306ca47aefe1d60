import DocumentStore
import Documents
import Interfaces
import Testing

@testable import Replication

/// A listener's feed for a peer that pulls. It keeps its order, because the peer's checkpoint follows it.
@Suite struct AnnouncingTests {
    @Test func aDocumentUnderWayEndsThePageAndTheRestWaits() {
        var push = PushRun(.announce)
        push.start()
        push.on(.read(page(outgoing("a", 1), outgoing("b", 2))))
        let list = push.list ?? ChangeListID(number: 0)
        push.on(.read(page(outgoing("c", 3), outgoing("a", 4, "2-b"), outgoing("d", 5))))
        #expect(push.last.map(\.words) == ["offer c@1-a"])
        #expect(!push.machine.isCaughtUp)
        push.on(.answered(push.list ?? ChangeListID(number: 0), [.declined]))
        // `d` comes after a revision of `a` that the peer does not know: the peer must not be told of `d` first.
        #expect(push.on(.answered(list, [.wanted(known: []), .declined])) == ["send a@1-a"])
        #expect(push.on(.acknowledged(doc("a"))) == ["report a ok", "offer a@2-b d@1-a", "read 5"])
    }

    @Test func theMarkerComesOnceAndAfterEverythingWasOffered() {
        var push = PushRun(.announce, continuous: false)
        push.start()
        push.on(.read(page(outgoing("a", 1))))
        let list = push.list ?? ChangeListID(number: 0)
        #expect(push.on(.read(end(1))) == ["caught up"])
        #expect(!push.machine.isFinished)
        // What changes after this is for the peer's next subscription.
        #expect(push.on(.storeChanged(newest: 2)) == [])
        push.on(.answered(list, [.wanted(known: [])]))
        push.on(.acknowledged(doc("a")))
        #expect(push.machine.isFinished && push.isClean)
    }

    /// A peer that creates a document on nothing may not have heard of its deletion here. It is told, and heard of it when it tries once more.
    @Test func aDeletionThatThePeerFetchesIsMissedOnce() {
        var fetched = FetchedDeletions(limit: 10)
        var deletion = outgoing("a", 1)
        func takes() -> Bool { fetched.take(doc("a")) }
        #expect(!takes())
        fetched.add(deletion)
        #expect(takes())
        #expect(!takes())
        // It was refused, and is told once more.
        fetched.add(deletion)
        #expect(!takes())
        // Deleted once more since.
        deletion.version = rev("3-c")
        fetched.add(deletion)
        #expect(takes())
        #expect(!takes())
    }

    /// Only what was acknowledged is said to be at the peer.
    @Test func whatThePeerHasNotAcceptedIsKnown() {
        var push = PushRun(.announce)
        push.start()
        push.on(.read(page(outgoing("a", 1), outgoing("b", 2), outgoing("c", 3))))
        let list = push.list ?? ChangeListID(number: 0)
        push.on(.read(end(3)))
        push.on(.answered(list, [.wanted(known: []), .declined, .wanted(known: [])]))
        push.on(.acknowledged(doc("a")))
        push.on(.refused(doc("c"), http(503)))
        func fate(_ id: String, _ sequence: SequenceNumber) -> DeclinedDocuments.Fate { push.machine.declinedDocuments.fate(of: doc(id), at: sequence) }
        #expect(fate("a", 1) == .taken && fate("b", 2) == .notTaken(.declined) && fate("c", 3) == .notTaken(.refused(http(503))))
        // What is known about one revision says nothing about the next.
        #expect(fate("b", 4) == .taken)
        push.on(.storeChanged(newest: 4))
        push.on(.read(page(outgoing("b", 4, "2-b"))))
        push.on(.answered(push.list ?? ChangeListID(number: 0), [.wanted(known: [])]))
        push.on(.acknowledged(doc("b")))
        #expect(fate("b", 4) == .taken)
        // It is only on the peer's list, until that is no longer true of a newer one.
        push.on(.storeChanged(newest: 5))
        push.on(.read(page(outgoing("d", 5))))
        push.on(.answered(push.list ?? ChangeListID(number: 0), [.wanted(known: [])]))
        #expect(push.on(.acknowledged(doc("d"), .kept(.held))).first == "report d ok")
        #expect(fate("d", 5) == .notTaken(.kept(KeptByPeer(.held, rev("1-a")))) && fate("d", 6) == .taken)
        // What lies before the peer's starting point was dealt with earlier, unless it is accepted after all.
        var later = DeclinedDocuments(limit: 10, behind: 3)
        later.taken(outgoing("b", 2))
        #expect(later.fate(of: doc("a"), at: 1) == .before && later.fate(of: doc("b"), at: 2) == .taken && later.fate(of: doc("d"), at: 4) == .taken)
        // One more than are remembered.
        var few = DeclinedDocuments(limit: 1)
        few.note(outgoing("a", 1), .declined)
        few.note(outgoing("b", 2), .declined)
        #expect(few.fate(of: doc("a"), at: 1) == .unknown && few.fate(of: doc("b"), at: 2) == .notTaken(.declined))
    }

    /// The marker ends a peer's one-shot subscription. Our own push, once it has caught up, continues with later changes.
    @Test func onlyAOneShotSubscriptionEnds() {
        var subscription = PushRun(.announce, continuous: false)
        subscription.start()
        #expect(!subscription.machine.isOver)
        #expect(subscription.on(.read(end(0))) == ["caught up"])
        #expect(subscription.machine.isOver)
        var continuous = PushRun(.announce)
        continuous.start()
        #expect(continuous.on(.read(end(0))) == ["caught up"])
        #expect(!continuous.machine.isOver)
        var own = PushRun(continuous: false)
        own.start()
        own.on(.read(end(0)))
        #expect(own.machine.isFinished && !own.machine.isOver)
    }

    @Test func aListThatThePeerRefusesIsFinished() {
        var push = PushRun(.announce)
        push.start()
        push.on(.read(page(outgoing("a", 1))))
        let list = push.list ?? ChangeListID(number: 0)
        push.on(.read(end(1)))
        // The operator is told which document it was.
        #expect(push.on(.changeListRefused(list, failed)).contains("report a \(failed.code)"))
        push.on(.answered(list, [.wanted(known: [])]))
        #expect(push.isClean && push.machine.isIdle && push.counts.completed == push.counts.total)
    }

    private let failed = ReplicationError(domain: .litecore, code: 10, message: "changes: fl_callback: exception!")

    /// Couchbase Lite 4.1 fails on a document that it has under a revision id from before it had versions, and refuses the whole list because of it.
    @Test(arguments: ["a", "c", "e"])
    func ifThePeerRefusesAListForOneDocumentTheOthersAreOfferedAgain(bad: String) {
        var push = PushRun(.announce)
        push.start()
        push.on(.read(page(outgoing("a", 1), outgoing("b", 2), outgoing("c", 3), outgoing("d", 4), outgoing("e", 5))))
        var (declined, reported): ([String], [String]) = ([], [])
        var offered = push.last
        push.on(.read(end(5)))
        for _ in 0..<20 {
            reported += offered.map(\.words).filter { $0.hasPrefix("report") }
            guard case .offer(let list, let documents)? = offered.first(where: { if case .offer = $0 { true } else { false } }) else { break }
            let ids = documents.map(\.id.text)
            if ids.contains(bad) {
                push.on(.changeListRefused(list, failed))
            } else {
                declined += ids
                push.on(.answered(list, documents.map { _ in .declined }))
            }
            offered = push.last
        }
        #expect(declined.sorted() == ["a", "b", "c", "d", "e"].filter { $0 != bad })
        #expect(reported == ["report \(bad) \(failed.code)"])
        #expect(push.isClean && push.machine.isIdle && push.counts.completed == push.counts.total)
    }

    @Test func whatThePeerSentIsNotOfferedBack() {
        var push = PushRun(.announce)
        push.start()
        push.on(.pulled([(doc("a"), rev("1-a"))]))
        #expect(push.on(.read(page(outgoing("a", 1), outgoing("a2", 2)))).first == "offer a2@1-a")
        var gone = outgoing("a", 3)
        gone.visibility = .removed
        // Still, the peer has to be told that it may no longer have the document.
        #expect(push.on(.read(page(gone))).first == "offer a@1-a")
        push.on(.answered(push.list ?? ChangeListID(number: 0), [.declined]))
        // And it has to be told that it may have it again.
        #expect(push.on(.read(page(outgoing("a", 4)))).first == "offer a@1-a")
    }

    /// An edit that was on its way while its document left the peer's channels brings the document back, although the peer still removes it.
    @Test func whatThePeerSentOfADocumentThatItHasToRemoveIsOfferedBack() {
        var push = PushRun(.announce)
        push.start()
        var gone = outgoing("a", 1)
        gone.visibility = .revoked
        push.on(.read(page(gone)))
        let list = push.list ?? ChangeListID(number: 0)
        push.on(.pulled([(doc("a"), rev("2-b"))]))
        push.on(.answered(list, [.declined]))
        #expect(push.on(.read(page(outgoing("a", 2, "2-b")))).first == "offer a@2-b")
        push.on(.answered(push.list ?? ChangeListID(number: 0), [.declined]))
        // From then on, the peer has what it sends of the document.
        push.on(.pulled([(doc("a"), rev("3-c"))]))
        #expect(!push.on(.read(page(outgoing("a", 3, "3-c")))).contains { $0.hasPrefix("offer") })
    }

    @Test func aRevisionFromThePeerIsOfferedBackIfItReturnsAfterAnotherRevision() {
        var push = PushRun(.announce)
        push.start()
        push.on(.pulled([(doc("a"), rev("2-a"))]))
        // The peer may drop its own revision for this one.
        push.on(.read(page(outgoing("a", 2, "2-b"))))
        push.on(.answered(push.list ?? ChangeListID(number: 0), [.wanted(known: [])]))
        push.on(.acknowledged(doc("a")))
        #expect(push.on(.read(page(outgoing("a", 3, "2-a")))).first == "offer a@2-a")
    }

    @Test(arguments: [false, true]) func aRevisionDroppedBeforeItWasSentIsNotSent(_ hasDecided: Bool) {
        var push = PushRun(.announce)
        push.start()
        push.on(.read(page(outgoing("a", 1, "2-b"))))
        let list = push.list ?? ChangeListID(number: 0)
        var newer = outgoing("a", 2, "3-c")
        newer.history = [rev(hasDecided ? "2-c" : "2-b"), rev("1-a")]
        push.on(.read(page(newer)))
        let answer = push.on(.answered(list, [.wanted(known: [])]))
        #expect(answer.first == (hasDecided ? "withdraw a@2-b" : "send a@2-b"))
        if !hasDecided { push.on(.acknowledged(doc("a"))) }
        #expect(push.last.map(\.words).contains("offer a@3-c") && push.counts.completed == push.counts.total - 1)
    }

    /// How far the row is when the peer sends a newer revision of the document.
    @Test(arguments: ["being read", "offered", "not at all"]) func aRowThatThePeerOvertakesIsCheckedBeforeItGoesOut(_ place: String) {
        var push = PushRun(.announce)
        push.start()
        func overtake(_ here: String) { if here == place { push.on(.pulled([(doc("a"), rev("30-z"))])) } }
        overtake("being read")
        push.on(.read(page(outgoing("a", 1, "2-b"))))
        let list = push.list ?? ChangeListID(number: 0)
        overtake("offered")
        push.on(.answered(list, [.wanted(known: [])]))
        guard case .send(let sent)? = push.last.first else { return #expect(Bool(false), "nothing is sent") }
        #expect((sent.freshness == .overtakenByPeer) == (place == "being read" || place == "offered"))
    }

    /// Whoever wrote it: the peer may have the newer revision by another way.
    @Test(arguments: [1, 2] as [SequenceNumber]) func aRowIsCheckedBeforeItGoesOutIfTheStoreHasChangedSinceItWasRead(_ newest: SequenceNumber) {
        var push = PushRun(.announce)
        push.start()
        var row = outgoing("a", 1)
        row.newestWhenRead = 1
        push.on(.read(page(row)))
        let list = push.list ?? ChangeListID(number: 0)
        push.on(.storeChanged(newest: newest))
        push.on(.answered(list, [.wanted(known: [])]))
        guard case .send(let sent)? = push.last.first else { return #expect(Bool(false), "nothing is sent") }
        #expect((sent.freshness == .storeHasChanged) == (newest == 2))
    }

    @Test func aRevisionIsGivenUpIfTheNextOneDoesNotDescendFromIt() {
        let sent = outgoing("a", 1, "2-b")
        var (other, child) = (outgoing("a", 2, "3-c"), outgoing("a", 2, "3-c"))
        (other.history, child.history) = ([rev("2-c"), rev("1-a")], [rev("2-b"), rev("1-a")])
        var gone = sent
        gone.visibility = .revoked
        func isGivenUp(_ document: OutgoingDocument, next: [OutgoingDocument], _ style: PushStyle = .announce, filter: Bool = false) -> Bool {
            var push = PushRun(style, filter: filter)
            push.machine.nextPage = next.isEmpty ? nil : PushPage(documents: next)
            return push.machine.isGivenUp(document)
        }
        #expect(isGivenUp(sent, next: [other]))
        #expect(!isGivenUp(sent, next: []) && !isGivenUp(sent, next: [child]) && !isGivenUp(sent, next: [sent]))
        // What is under way comes first on the page that waits for it, so that no filter is asked about other documents first.
        let behind = [outgoing("z", 2), other]
        #expect(!isGivenUp(sent, next: behind) && isGivenUp(sent, next: behind, filter: true))
        // Still, the peer is told that it may no longer have the document; and if we propose, the peer decides.
        #expect(!isGivenUp(gone, next: [other]) && !isGivenUp(sent, next: [other], .propose))
    }

    // MARK: - A peer whose revision was refused because of what is here

    @Test func aRevisionFromThePeerIsOfferedBackEachTimeItCausesARefusal() {
        var push = PushRun(.announce)
        push.start()
        push.on(.pulled([(doc("a"), rev("1-a"))]))
        push.on(.read(page(outgoing("a", 1), isEnd: true)))
        push.on(.read(end(1)))
        for _ in 0..<3 {
            #expect(push.on(.refusedInFavourOf([(doc("a"), rev("1-a"))])) == ["again a"])
            // The peer may propose many times before it looks at our answers.
            #expect(push.on(.refusedInFavourOf([(doc("a"), rev("1-a"))])) == [])
            #expect(push.on(.readAgain([doc("a")], [outgoing("a", 1)])).first == "offer a@1-a")
            push.on(.answered(push.list ?? ChangeListID(number: 0), [.declined]))
        }
        #expect(push.isClean && push.machine.isIdle && push.counts.completed == push.counts.total)
    }

    /// The push may be told that the revision came from the peer only after the refusal, because other threads are involved.
    @Test func thePushMayLearnLateThatThePeerSentIt() {
        var push = PushRun(.announce)
        push.start()
        push.on(.read(end(0)))
        push.on(.storeChanged(newest: 1))
        #expect(push.on(.refusedInFavourOf([(doc("a"), rev("1-a"))])) == [])
        push.on(.pulled([(doc("a"), rev("1-a"))]))
        #expect(push.on(.read(page(outgoing("a", 1)))).first == "offer a@1-a")
    }

    @Test func theFeedDoesNotWaitForADocumentThatHasToBeOfferedAgain() {
        var push = PushRun(.announce, continuous: false)
        push.start()
        push.on(.refusedInFavourOf([(doc("a"), rev("2-a")), (doc("b"), rev("2-b"))]))
        #expect(push.on(.read(page(outgoing("c", 1), outgoing("a", 2, "2-a"), outgoing("b", 3, "2-b")))).first == "offer c@1-a a@2-a b@2-b")
        let list = push.list ?? ChangeListID(number: 0)
        #expect(push.on(.read(end(3))) == ["caught up"])
        push.on(.answered(list, [.declined, .declined, .declined]))
        #expect(push.machine.isFinished && push.isClean)
    }

    /// Otherwise the peer's checkpoint would pass what lies between.
    @Test func whatLiesAheadOfTheFeedIsOfferedInItsTurn() {
        var push = PushRun(.announce)
        push.start()
        push.on(.read(page(outgoing("b", 1))))
        let list = push.list ?? ChangeListID(number: 0)
        push.on(.refusedInFavourOf([(doc("a"), rev("1-a"))]))
        push.on(.read(end(1)))
        #expect(push.on(.readAgain([doc("a")], [outgoing("a", 3)])) == ["caught up"])
        push.on(.answered(list, [.declined]))
        #expect(push.isClean && push.machine.isIdle && push.counts.completed == push.counts.total)
    }

    @Test func aPeerWhoseSubscriptionIsOverIsOfferedNothing() {
        var push = PushRun(.announce, continuous: false)
        push.start()
        #expect(push.on(.read(end(0))) == ["caught up"])
        #expect(push.on(.refusedInFavourOf([(doc("a"), rev("1-a"))])) == [] && push.machine.isFinished)
    }

    @Test func aBlockedFeedContinuesWithTheNextChange() {
        var push = PushRun(.announce)
        push.start()
        #expect(push.on(.read(FeedPage(next: FeedPosition(0), isEnd: false, isBlocked: true, newest: 3))) == ["caught up"])
        #expect(push.machine.isIdle)
        #expect(push.on(.storeChanged(newest: 3)) == ["read 0"])
    }
}

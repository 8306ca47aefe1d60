import DocumentStore
import Documents
import Interfaces
import Testing

@testable import Replication

/// What the peer refuses is offered again on the same connection: the peer may have changed without telling anybody.
@Suite struct RefusedRetryTests {
    /// `a` has been offered, and refused in the answer.
    private func refused(_ code: Int = 413, continuous: Bool = true, pulls: Bool = false, _ change: (inout ReplicationLimits) -> Void = { _ in }) -> PushRun {
        var push = PushRun(continuous: continuous, pulls: pulls, change)
        push.start()
        push.on(.read(page(outgoing("a", 1))))
        let list = push.list ?? ChangeListID(number: 0)
        push.on(.read(end(1)))
        push.on(.answered(list, [.refused(http(code))]))
        return push
    }

    /// `a` is read again and refused once more.
    private func again(_ push: inout PushRun, _ document: OutgoingDocument = outgoing("a", 1)) -> [String] {
        push.on(.excluded([doc("a")]))
        push.on(.readAgain([doc("a")], [document]))
        return push.on(.answered(push.list ?? ChangeListID(number: 0), [.refused(http(413))]))
    }

    @Test(arguments: [413, 422, 400]) func itIsOfferedAgainWithTheDelayDoublingEachTime(_ code: Int) {
        var push = refused(code)
        #expect(push.last.map(\.words) == ["report a \(code)", "exclude a@1-a", "refused timer 0 60"])
        var seconds = [60]
        for attempts in 0..<8 {
            push.on(.excluded([doc("a")]))
            #expect(push.machine.isIdle && push.isClean)
            #expect(push.on(.refusedAreDue(attempts: min(attempts, 6))) == ["again a"])
            _ = again(&push)
            for case .startRefusedTimer(_, let more) in push.last { seconds.append(more) }
        }
        #expect(seconds == [60, 120, 240, 480, 960, 1_920, 3_600, 3_600, 3_600])
        // The peer has changed.
        push.on(.excluded([doc("a")]))
        push.on(.refusedAreDue(attempts: 6))
        push.on(.readAgain([doc("a")], [outgoing("a", 1)]))
        #expect(push.on(.answered(push.list ?? ChangeListID(number: 0), [.wanted(known: [])])) == ["send a@1-a"])
        push.on(.acknowledged(doc("a")))
        #expect(push.counts.pushed == 1 && push.isClean && push.machine.ledger.completedThrough == 1)
        #expect(push.on(.refusedAreDue(attempts: 6)) == [])
    }

    /// A document whose blob could not be sent intact is held, and is offered as soon as the blob is intact again, whatever its timer says.
    @Test func onceABlobIsIntactAgainItsDocumentsAreOfferedAtOnce() throws {
        let (digest, other) = (BlobDigest.of([1]), BlobDigest.of([2]))
        let error = try #require(ReplicationError(ownBlob: StoreError.blobMissing(digest: digest.text)))
        var push = PushRun()
        push.start()
        var document = outgoing("a", 1)
        document.blobs = [other, digest]
        push.on(.read(page(document)))
        let list = push.list ?? ChangeListID(number: 0)
        push.on(.read(end(1)))
        push.on(.answered(list, [.wanted(known: [])]))
        #expect(push.on(.refused(doc("a"), error)) == ["report a 410", "exclude a@1-a", "refused timer 0 60"])
        push.on(.excluded([doc("a")]))
        #expect(push.counts.held == 1 && push.counts.failed == 0 && push.isClean)
        #expect(push.on(.blobMended(BlobDigest.of([3]))) == [])
        #expect(push.on(.blobMended(digest)) == ["again a"])
        push.on(.readAgain([doc("a")], [document]))
        push.on(.answered(push.list ?? ChangeListID(number: 0), [.wanted(known: [])]))
        push.on(.acknowledged(doc("a")))
        #expect(push.counts.pushed == 1)
        #expect(push.on(.blobMended(digest)) == [])
    }

    @Test func aChangedDocumentAndANewOneBeginWithTheShortestDelay() {
        var push = refused()
        push.on(.excluded([doc("a")]))
        push.on(.refusedAreDue(attempts: 0))
        #expect(again(&push).last == "refused timer 1 120")
        push.on(.excluded([doc("a")]))
        push.on(.storeChanged(newest: 3))
        push.on(.read(page(outgoing("a", 2, "2-b"), outgoing("b", 3))))
        let list = push.list ?? ChangeListID(number: 0)
        push.on(.read(end(3)))
        // There is one timer for both.
        let actions = push.on(.answered(list, [.refused(http(413)), .refused(http(413))]))
        #expect(actions.filter { $0.contains("timer") } == ["refused timer 0 60"])
        push.on(.excluded([doc("a"), doc("b")]))
        // Nothing is left of the earlier refusals.
        #expect(push.on(.refusedAreDue(attempts: 1)) == [])
        #expect(push.on(.refusedAreDue(attempts: 0)) == ["again a b"])
    }

    @Test func itIsNotOfferedAgainIfThePullBroughtAnotherRevision() {
        var push = refused(pulls: true)
        push.on(.excluded([doc("a")]))
        push.on(.pulled([(doc("a"), rev("2-x"))]))
        #expect(push.on(.refusedAreDue(attempts: 0)) == [])
    }

    @Test func nothingWaitsInAOneShotRunOrBeyondTheLimit() {
        for push in [refused(continuous: false), refused { $0.refusedDocuments = 0 }, refused { $0.refusedRetrySeconds = 0 }] {
            #expect(push.last.map(\.words).prefix(2) == ["report a 413", "exclude a@1-a"])
            #expect(!push.last.contains { if case .startRefusedTimer = $0 { true } else { false } })
        }
    }

    /// The peer would send that revision again each time, and the pull would hold it again.
    @Test func whatThePullHoldsIsNoReasonToOfferADocumentThatWaits() {
        var push = refused(503, pulls: true)
        #expect(push.last.map(\.words) == ["report a 503", "timer 30"])
        #expect(push.on(.pulled([(doc("a"), rev("2-x"))], listed: [doc("a")])) == [])
        #expect(push.on(.pulled([(doc("a"), rev("2-x"))])) == ["again a"])
    }
}

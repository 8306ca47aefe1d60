import DocumentStore
import Documents
import Interfaces
import Testing

@testable import Replication

/// Revisions on their way into the store: batches, blobs, filter, sync function.
@Suite struct InsertionMachineTests {
    private func blob(_ byte: UInt8 = 1) -> BlobReference {
        BlobReference(digest: digest(byte), length: 5, contentType: nil)
    }

    /// Revisions of one batch, all checked.
    private func batch(_ revisions: CheckedRevision..., filter: Bool = false) -> PullRun { PullRun.batch(revisions, filter: filter) }

    // MARK: - Batches

    @Test func revisionsWaitToBeBatchedWhileMoreAreExpected() {
        var pull = PullRun()
        pull.offer(row(1, "a"), row(2, "b"))
        #expect(pull.on(.arrived(received(1, "a"))) == ["flush timer"])
        #expect(pull.on(.arrived(received(2, "b"))) == ["check a@1-a b@1-a"])
        #expect(pull.on(.flushIsDue) == [])
    }

    @Test func aFullBatchBeginsAtOnceAndOnlyAFewRunAtATime() {
        var pull = PullRun {
            $0.insertionBatchRows = 2
            $0.insertionBatchesInFlight = 1
        }
        pull.offer(row(1, "a"), row(2, "b"), row(3, "c"), row(4, "d"), row(5, "e"))
        pull.on(.arrived(received(1, "a")))
        #expect(pull.on(.arrived(received(2, "b"))) == ["check a@1-a b@1-a"])
        let first = pull.batch
        pull.arrive(received(3, "c"), received(4, "d"))
        #expect(pull.last.isEmpty)
        pull.on(.checked(first, [.checked(checked(1, "a")), .checked(checked(2, "b"))]))
        #expect(pull.on(.stored(first, [.stored(.alreadyPresent), .stored(.alreadyPresent)])).last == "check c@1-a d@1-a")
    }

    @Test func aRevisionWaitsForTheBatchThatHasAnEarlierOneOfItsDocument() {
        var pull = PullRun()
        pull.offer(row(1, "a"), row(2, "a", "2-b"), row(3, "b"))
        pull.on(.arrived(received(1, "a")))
        pull.on(.flushIsDue)
        let first = pull.batch
        pull.arrive(received(2, "a", "2-b"), received(3, "b"))
        #expect(pull.on(.flushIsDue) == ["check b@1-a"])
        pull.on(.checked(first, [.checked(checked(1, "a"))]))
        pull.on(.stored(first, [.stored(.inserted(sequence: 1))]))
        #expect(pull.on(.flushIsDue) == ["check a@2-b"] || pull.last.map(\.words) == [])
    }

    // MARK: - Blobs

    @Test func aRevisionThatWaitsForBlobsHoldsUpOnlyItsDocument() {
        var pull = batch(checked(1, "a", blobs: [blob()]), checked(2, "b"), checked(3, "a", "2-b"))
        #expect(pull.last.map(\.words) == ["fetch a@1-a", "store b@1-a"])
        let fetch = pull.fetch
        #expect(pull.on(.stored(pull.batch, [.stored(.alreadyPresent)])) == ["settle 2 here", "tell push b@1-a", "tell push of known b@1-a"])
        #expect(!pull.machine.isDrained && pull.through == nil)
        #expect(pull.on(.blobsFetched(fetch, nil)) == ["store a@1-a a@2-b"])
        pull.on(.stored(pull.batch, [.stored(.alreadyPresent), .stored(.alreadyPresent)]))
        #expect(pull.machine.isDrained && pull.through == "3" && pull.machine.bufferedBytes == 0)
    }

    @Test func nobodyPollsForBlobs() {
        var pull = batch(checked(1, "a", blobs: [blob()]))
        let fetch = pull.fetch
        pull.offer(row(2, "a", "2-b"), row(3, "b"))
        #expect(pull.on(.arrived(received(2, "a", "2-b"))) == [])
        #expect(pull.on(.blobsFetched(fetch, nil)) == ["store a@1-a"])
        #expect(pull.on(.stored(pull.batch, [.stored(.alreadyPresent)])).last == "flush timer")
    }

    @Test func laterRevisionsContinueIfTheBlobsOfTheFirstAreMissing() {
        var pull = batch(checked(1, "a", blobs: [blob(1)]), checked(2, "a", "2-b", blobs: [blob(2)]), checked(3, "a", "3-c"))
        #expect(pull.last.map(\.words) == ["fetch a@1-a"])
        #expect(pull.on(.blobsFetched(pull.fetch, http(503))).last == "fetch a@2-b")
        #expect(pull.on(.blobsFetched(pull.fetch, nil)) == ["store a@2-b a@3-c"])
        pull.on(.stored(pull.batch, [.stored(.alreadyPresent), .stored(.alreadyPresent)]))
        // The row of the first stays open: the peer has to offer it again.
        #expect(pull.machine.isDrained && pull.through == nil && pull.counts.completed == 3)
    }

    @Test func aBlobThatIsTooLargeHoldsItsRevisionOnTheList() {
        var pull = batch(checked(1, "a", blobs: [blob()]))
        #expect(pull.on(.blobsFetched(pull.fetch, http(413))) == ["keep a@1-a"])
        #expect(pull.through == nil)
        #expect(pull.on(.kept(pull.batch)) == ["report a 413", "settle 1 blob", "tell push a@1-a"])
        #expect(pull.counts.held == 1 && pull.through == "1" && pull.machine.isDrained && pull.machine.bufferedBytes == 0)
    }

    /// As in CouchDB's protocol, attachments arrive separately from the document, under digests that are not ours.
    @Test func attachmentsThatCannotBeStoredHoldTheirRevisionAndAreRequestedAgain() {
        var failed = checked(1, "a")
        failed.attachments = .failed(http(413))
        var pull = batch(failed, checked(2, "b"))
        #expect(pull.last.map(\.words) == ["keep a@1-a", "store b@1-a"])
        let store = pull.batch
        var keep: BatchID?
        for case .keep(let batch, _) in pull.last { keep = batch }
        if let keep { #expect(pull.on(.kept(keep)) == ["report a 413", "settle 1 blob", "tell push a@1-a"]) }
        pull.on(.stored(store, [.stored(.alreadyPresent)]))
        #expect(pull.counts.held == 1 && pull.through == "2" && pull.machine.isDrained && pull.machine.bufferedBytes == 0)

        var due = checked(0, "a")
        (due.sequence, due.attachments) = (nil, .due)
        pull.on(.started)
        #expect(pull.on(.heldRead(HeldRevisions.Page(revisions: [due], isAny: true))).contains("bring a@1-a"))
        let body = "{\"_attachments\":{\"x\":{\"digest\":\"\(digest(1).text)\",\"length\":1,\"stub\":true}}}"
        #expect(pull.on(.attachmentsFetched(pull.fetch, .success(Array(body.utf8)))) == ["fetch a@1-a"])
        #expect(pull.on(.blobsFetched(pull.fetch, nil)) == ["store a@1-a"])
        pull.on(.stored(pull.batch, [.stored(.inserted(sequence: 1))]))
        #expect(pull.machine.isDrained && pull.machine.bufferedBytes == 0 && pull.counts.pulled == 1)
    }

    /// It is looked at again from the list and also requested by name, but it is one held document.
    @Test(arguments: [true, false]) func aDocumentThatIsHeldOnceMoreCountsOnce(_ wasCounted: Bool) {
        var pull = PullRun(heldBefore: wasCounted ? [doc("a")] : [])
        pull.offer(row(1, "a"), row(2, "b"))
        pull.arrive(received(1, "a"), received(2, "b"))
        var (one, other) = (checked(1, "a"), checked(2, "b"))
        (one.attachments, other.attachments) = (.failed(http(404)), .failed(http(404)))
        let words = pull.on(.checked(pull.batch, [.checked(one), .checked(other)]))
        #expect(words == ["keep a@1-a", "keep b@1-a"])
        for case .keep(let batch, _) in pull.last { pull.on(.kept(batch)) }
        #expect(pull.counts.held == (wasCounted ? 1 : 2) && pull.counts.completed == 2 && pull.through == "2")
    }

    @Test func aListenerHasNoListAndRefuses() {
        var pull = PullRun(passive: true)
        pull.on(.arrived(received(1, "a")))
        pull.on(.checked(pull.batch, [.checked(checked(1, "a", blobs: [blob()]))]))
        #expect(pull.on(.blobsFetched(pull.fetch, http(413))) == ["settle 1 413", "report a 413"].reversed())
        #expect(pull.machine.isDrained)
    }

    /// Documents refused permanently are told from those that will come again.
    @Test func blobsAreReleasedOnceTheirRevisionIsSettled() {
        let yes = SyncJudgement(verdict: .accepted(SyncAssignment()), seen: nil, plugin: "s", version: "1")
        func fetched(filter: Bool = false, sync: Bool = false) -> PullRun {
            var pull = PullRun(passive: true, filter: filter, sync: sync)
            pull.arrive(received(1, "a"))
            pull.on(.checked(pull.batch, [.checked(checked(1, "a", blobs: [blob()]))]))
            if filter { pull.on(.judged(pull.batch, [.pass], plugin: "f", version: "1")) }
            if sync { pull.on(.assigned(pull.batch, [yes])) }
            pull.on(.blobsFetched(pull.fetch, nil))
            return pull
        }
        var stored = fetched()
        #expect(stored.released.isEmpty)
        stored.on(.stored(stored.batch, [.stored(.inserted(sequence: 1))]))
        #expect(stored.released == ["0 refused, 1 staying"])
        // Another version has the last word.
        var rejected = fetched(filter: true)
        rejected.on(.judged(rejected.batch, [.reject], plugin: "f", version: "2"))
        #expect(rejected.released == ["1 refused, 0 staying"])
        var refused = fetched(sync: true)
        refused.on(.assigned(refused.batch, [SyncJudgement(verdict: .rejected(reason: "no"), seen: nil, plugin: "s", version: "2")]))
        #expect(refused.released == ["1 refused, 0 staying"])
        var failed = fetched(filter: true)
        failed.on(.judged(failed.batch, [.failed(failing)], plugin: "f", version: "2"))
        #expect(failed.released == ["0 refused, 1 staying"])
        var full = fetched()
        full.on(.stored(full.batch, [.failed(.diskFull(path: "db", detail: "the quota is reached"))]))
        #expect(full.released == ["0 refused, 1 staying"])
    }

    // MARK: - Filter

    @Test func aDocumentThatAFilterKeepsBackIsListedBeforeItsRowIsDone() {
        var pull = batch(checked(1, "a"), checked(2, "b"), checked(3, "c"), filter: true)
        let batch = pull.batch
        #expect(pull.on(.judged(batch, [.reject, .failed(failing), .pass], plugin: "f", version: "1")) == ["keep a@1-a b@1-a"])
        #expect(pull.through == nil)
        // The peer is told which of the two it was, for those who look there.
        let words = pull.on(.kept(batch))
        #expect(words.contains("settle 1 rejected") && words.contains("settle 2 held") && words.last == "tell push a@1-a b@1-a")
        #expect(pull.through == "2" && pull.counts.rejected == 1 && pull.counts.held == 1)
        pull.on(.stored(batch, [.stored(.inserted(sequence: 1))]))
        #expect(pull.through == "3" && pull.counts.completed == 3 && pull.machine.isDrained)
    }

    @Test func aListenerReportsItsFiltersVerdict() {
        var pull = PullRun(passive: true, filter: true)
        pull.on(.arrived(received(1, "a")))
        pull.on(.checked(pull.batch, [.checked(checked(1, "a"))]))
        #expect(pull.on(.judged(pull.batch, [.reject], plugin: "f", version: "1")) == ["report a 403", "settle 1 403"])
        pull.on(.arrived(received(2, "b")))
        pull.on(.checked(pull.batch, [.checked(checked(2, "b"))]))
        // Nobody has decided: the peer keeps it and tries again.
        #expect(pull.on(.judged(pull.batch, [.failed(failing)], plugin: "f", version: "1")) == ["report b 503", "settle 2 503"])
        #expect(pull.machine.isDrained)
    }

    @Test func aVersionThatComesWhileTheOldOneIsAskedIsAskedAsWell() {
        var pull = batch(checked(1, "a"), filter: true)
        let batch = pull.batch
        pull.on(.filterChanged)
        #expect(pull.on(.judged(batch, [.reject], plugin: "f", version: "1")) == ["judge a@1-a"])
        #expect(pull.on(.judged(batch, [.pass], plugin: "f", version: "2")) == ["store a@1-a"])
    }

    @Test func aVersionThatComesWhileRevisionsAreListedFindsThemOnTheList() {
        var pull = batch(checked(1, "a"), filter: true)
        let batch = pull.batch
        pull.on(.judged(batch, [.reject], plugin: "f", version: "1"))
        #expect(pull.on(.filterChanged) == [])
        #expect(pull.on(.kept(batch)).last == "held")
    }

    @Test func aRevisionUnderWayIsNotTakenUpFromTheList() {
        var pull = batch(checked(1, "a", "2-b"), filter: true)
        pull.on(.filterChanged)
        let held = [checked(0, "a"), checked(0, "b")]
        #expect(pull.on(.heldRead(HeldRevisions.Page(revisions: held, isAny: true))) == ["judge b@1-a"])
        #expect(pull.counts.total == 2)
    }

    // MARK: - Sync function

    @Test func aDocumentThatKeepsChangingIsTriedAFewTimesAndThenPostponed() {
        var pull = PullRun(passive: true, sync: true) { $0.resolveAttempts = 3 }
        pull.on(.arrived(received(1, "a")))
        pull.on(.checked(pull.batch, [.checked(checked(1, "a"))]))
        var asked = 0
        while pull.last.map(\.words) == ["assign a@1-a"], asked < 10 {
            asked += 1
            let judgement = SyncJudgement(verdict: .accepted(SyncAssignment()), seen: nil, plugin: "s", version: "1")
            #expect(pull.on(.assigned(pull.batch, [judgement])) == ["store a@1-a"])
            pull.on(.stored(pull.batch, [.moved]))
        }
        #expect(asked == 3)
        #expect(pull.last.map(\.words) == ["report a 503", "settle 1 503"])
        #expect(pull.machine.isDrained)
    }

    @Test func theSyncFunctionsVerdictSettlesARevision() {
        var pull = PullRun(passive: true, sync: true)
        pull.arrive(received(1, "a"))
        pull.on(.checked(pull.batch, [.checked(checked(1, "a"))]))
        let no = SyncJudgement(verdict: .rejected(reason: "no"), seen: nil, plugin: "s", version: "1")
        #expect(pull.on(.assigned(pull.batch, [no])) == ["report a 403", "settle 1 403"])
        #expect(pull.counts.rejected == 1 && pull.machine.isDrained)
    }

    /// Each revision is checked once, together with the one that it replaces.
    @Test func theSyncFunctionIsAskedOnceForEachRevisionOfADocument() {
        var pull = PullRun(passive: true, sync: true)
        pull.arrive(received(1, "a"))
        var batch = pull.batch
        pull.arrive(received(2, "a", "2-a"), received(3, "a", "3-a"), received(4, "a", "4-a"))
        for number in 1...4 {
            #expect(pull.on(.checked(batch, [.checked(checked(number, "a", "\(number)-a"))])) == ["assign a@\(number)-a"])
            pull.on(.assigned(pull.batch, [SyncJudgement(verdict: .accepted(SyncAssignment()), seen: nil, plugin: "s", version: "1")]))
            let words = pull.on(.stored(pull.batch, [.stored(.alreadyPresent)]))
            #expect(words.filter { $0.hasPrefix("check") } == (number < 4 ? ["check a@\(number + 1)-a"] : []))
            batch = pull.batch
        }
        #expect(pull.machine.isDrained)
    }

    // MARK: - A store that cannot write

    @Test(arguments: [true, false]) func aStoreThatCannotWriteEndsAPullAndMakesAPeerTryLater(_ passive: Bool) {
        var pull = PullRun(passive: passive)
        if !passive { pull.offer(row(1, "a")) }
        pull.arrive(received(1, "a"))
        pull.on(.checked(pull.batch, [.checked(checked(1, "a"))]))
        let words = pull.on(.failed(pull.batch, StoreError.inputOutput(path: "", detail: "it broke")))
        #expect(words == (passive ? ["report a 503", "settle 1 503"] : ["fail", "report a 503", "settle 1 503", "come back"]))
        #expect(pull.through == nil && pull.machine.isDrained && pull.machine.bufferedBytes == 0)
    }

    /// The document may claim any lengths.
    @Test(arguments: [[UInt64.max], [1 << 63, 1 << 63], [UInt64(Int64.max)], [UInt64.max, UInt64.max, 1]]) func blobsOfAnyLength(_ lengths: [UInt64]) {
        var pull = PullRun()
        pull.offer(row(1, "a"))
        pull.arrive(received(1, "a"))
        let blobs = lengths.enumerated().map { BlobReference(digest: digest(UInt8($0 + 1)), length: $1, contentType: nil) }
        pull.on(.checked(pull.batch, [.checked(checked(1, "a", blobs: blobs))]))
        let refusal = ReplicationError(domain: .http, code: 413, message: "too large")
        #expect(pull.on(.blobsFetched(pull.fetch, refusal)).contains { $0.hasPrefix("keep") || $0.hasPrefix("report a 413") })
        pull.on(.kept(pull.batch))
        #expect(pull.machine.isDrained)
    }

    @Test func aBodyThatIsRefusedDoesNotSpoilItsBatch() {
        var pull = PullRun()
        pull.offer(row(1, "a"), row(2, "b"))
        pull.arrive(received(1, "a"), received(2, "b"))
        #expect(
            pull.on(.checked(pull.batch, [.refused(received(1, "a"), http(400)), .checked(checked(2, "b"))]))
                == ["store b@1-a", "report a 400", "settle 1 400", "list a"])
        #expect(pull.through == "1" && pull.machine.bufferedBytes == checked(2, "b").bytes)
    }
}

func digest(_ byte: UInt8) -> BlobDigest { BlobDigest.of([byte]) }

import DocumentStore
import Documents
import Interfaces
import Testing

@testable import Replication

/// Policies are asked before a document's blobs are fetched, and have the last word once the blobs are here.
@Suite struct EarlyQuestionTests {
    private func blob(_ byte: UInt8 = 1) -> BlobReference { BlobReference(digest: digest(byte), length: 5, contentType: nil) }

    private func body(_ blobs: UInt8..., more: String = "") -> [UInt8] {
        let members = blobs.map { "\"b\($0)\":{\"@type\":\"blob\",\"digest\":\"\(digest($0).text)\",\"length\":5}" }
        return Array("{\(members.joined(separator: ","))\(more)}".utf8)
    }

    private func film(_ sequence: Int, _ blobs: UInt8...) -> CheckedRevision {
        var film = checked(sequence, "film", blobs: blobs.map { blob($0) })
        film.body = body(1, 2)
        return film
    }

    // MARK: - Filter

    @Test func blobsOfWhatAFilterDoesNotLetPassAreNotFetched() {
        var pull = PullRun.batch([checked(1, "a", blobs: [blob(1)]), checked(2, "b", blobs: [blob(2)]), checked(3, "c")], filter: true)
        #expect(pull.last.map(\.words) == ["judge a@1-a b@1-a c@1-a"])
        let batch = pull.batch
        #expect(pull.on(.judged(batch, [.reject, .failed(failing), .pass], plugin: "f", version: "1")) == ["keep a@1-a b@1-a"])
        #expect(pull.on(.kept(batch)).contains("settle 2 held") && pull.counts.rejected == 1 && pull.counts.held == 1)
        pull.on(.stored(batch, [.stored(.inserted(sequence: 1))]))
        #expect(pull.machine.isDrained && pull.through == "3" && pull.machine.bufferedBytes == 0 && pull.released.isEmpty)
    }

    @Test func aListenerRefusesWithoutFetching() {
        var pull = PullRun(passive: true, filter: true)
        pull.arrive(received(1, "a"))
        pull.on(.checked(pull.batch, [.checked(checked(1, "a", blobs: [blob()]))]))
        #expect(pull.on(.judged(pull.batch, [.reject], plugin: "f", version: "1")) == ["report a 403", "settle 1 403"])
        #expect(pull.machine.isDrained)
    }

    /// The driver does not ask again for what the version in force has already said.
    @Test func blobsOfWhatPassesAreFetchedAndTheVerdictIsKept() {
        var pull = PullRun.batch([checked(1, "a", blobs: [blob()]), checked(2, "b")], filter: true)
        let words = pull.on(.judged(pull.batch, [.pass, .pass], plugin: "f", version: "1"))
        #expect(words == ["fetch a@1-a", "store b@1-a"])
        let fetch = pull.fetch
        pull.on(.stored(pull.batch, [.stored(.alreadyPresent)]))
        #expect(pull.on(.blobsFetched(fetch, nil)) == ["judge a@1-a"])
        let answer = pull.atHand.first?.answer
        #expect(answer?.verdict == .pass && answer?.wasJudgedBy("f", "1") == true && answer?.wasJudgedBy("f", "2") == false && answer?.wasJudgedBy("g", "1") == false)
        #expect(pull.on(.judged(pull.batch, [.pass], plugin: "f", version: "1")) == ["store a@1-a"])
        pull.on(.stored(pull.batch, [.stored(.inserted(sequence: 1))]))
        #expect(pull.machine.isDrained && pull.machine.bufferedBytes == 0 && pull.released == ["0 refused, 1 staying"])
    }

    /// Nobody can be sure that a filter without a version would decide the same again.
    @Test func aVerdictWithoutAVersionCountsOnce() {
        #expect(!FilterAnswer(verdict: .pass, plugin: "f", version: "").wasJudgedBy("f", ""))
    }

    @Test func aLaterRevisionOfTheDocumentWaitsWithItsVerdict() {
        var pull = PullRun.batch([checked(1, "a", blobs: [blob()]), checked(2, "a", "2-b")], filter: true)
        #expect(pull.on(.judged(pull.batch, [.pass, .reject], plugin: "f", version: "1")) == ["fetch a@1-a"])
        #expect(pull.on(.blobsFetched(pull.fetch, nil)) == ["judge a@1-a a@2-b"])
        #expect(pull.atHand.map { $0.answer?.verdict } == [.pass, .reject])
        #expect(pull.on(.judged(pull.batch, [.pass, .reject], plugin: "f", version: "1")) == ["keep a@2-b"])
        #expect(pull.on(.kept(pull.batch)).contains("store a@1-a"))
        pull.on(.stored(pull.batch, [.stored(.inserted(sequence: 1))]))
        #expect(pull.machine.isDrained && pull.through == "2" && pull.machine.bufferedBytes == 0)
    }

    /// The size is added to others before the disk is asked for room, and must not overflow.
    @Test func noAttachmentCountsAsLargerThanAnyDisk() throws {
        var came = checked(1, "a")
        came.body = Array("{\"_attachments\":{\"f\":{\"length\":18446744073709551615},\"g\":{\"length\":7}}}".utf8)
        #expect(try FoundDocument(held: came).largestAttachment == EngineBounds.assumedDocumentBytes)
    }

    // MARK: - Other bodies

    @Test func blobsThatAFilterTakesOutAreNotFetched() {
        var pull = PullRun.batch([film(1, 1, 2)], filter: true)
        #expect(pull.on(.judged(pull.batch, [.replace(Array("{}".utf8))], plugin: "f", version: "1")) == ["store film@1-a"])
        #expect(pull.atHand.first?.body == Array("{}".utf8))
        pull.on(.stored(pull.batch, [.stored(.inserted(sequence: 1))]))
        #expect(pull.machine.isDrained && pull.machine.bufferedBytes == 0)
    }

    /// Blobs that only the filter names are not the peer's to send.
    @Test func onlyBlobsThatThePeerNamedAreRequestedFromIt() {
        var pull = PullRun.batch([film(1, 1, 2)], filter: true)
        #expect(pull.on(.judged(pull.batch, [.replace(body(2, 3))], plugin: "f", version: "1")) == ["fetch film@1-a"])
        guard case .fetchBlobs(_, let asked)? = pull.last.first else { return #expect(Bool(false), "no blobs are fetched") }
        #expect(asked.ownBlobs.map(\.digest) == [digest(2)])
        #expect(pull.on(.blobsFetched(pull.fetch, nil)) == ["judge film@1-a"])
        #expect(pull.on(.judged(pull.batch, [.pass], plugin: "f", version: "1")) == ["store film@1-a"])
        #expect(pull.atHand.first?.body == body(2, 3) && pull.atHand.first?.blobs.count == 2)
        pull.on(.stored(pull.batch, [.stored(.inserted(sequence: 1))]))
        #expect(pull.machine.isDrained && pull.machine.bufferedBytes == 0)
    }

    @Test func anotherVersionIsAskedAboutTheDocumentAsItCame() {
        var pull = PullRun.batch([film(1, 1, 2)], filter: true)
        pull.on(.judged(pull.batch, [.replace(body(2))], plugin: "f", version: "1"))
        #expect(pull.on(.blobsFetched(pull.fetch, nil)) == ["judge film@1-a"])
        #expect(pull.atHand.first?.asReceived?.body == body(1, 2))
        // It lets everything that came pass: blobs that are not here yet are fetched.
        #expect(pull.on(.judged(pull.batch, [.pass], plugin: "f", version: "2")) == ["fetch film@1-a"])
        #expect(pull.released == ["0 refused, 1 staying"])
        #expect(pull.on(.blobsFetched(pull.fetch, nil)) == ["judge film@1-a"])
        #expect(pull.on(.judged(pull.batch, [.pass], plugin: "f", version: "2")) == ["store film@1-a"])
        #expect(pull.atHand.first?.body == body(1, 2))
        pull.on(.stored(pull.batch, [.stored(.inserted(sequence: 1))]))
        #expect(pull.machine.isDrained && pull.machine.bufferedBytes == 0)
    }

    /// If a blob cannot be stored, it is likewise the document as it came that waits.
    @Test(arguments: [true, false]) func theDocumentIsListedAsItCame(_ isRejected: Bool) {
        var pull = PullRun.batch([film(1, 1, 2)], filter: true)
        pull.on(.judged(pull.batch, [.replace(body(2))], plugin: "f", version: "1"))
        if isRejected {
            pull.on(.blobsFetched(pull.fetch, nil))
            #expect(pull.on(.judged(pull.batch, [.reject], plugin: "f", version: "2")) == ["keep film@1-a"])
        } else {
            #expect(pull.on(.blobsFetched(pull.fetch, http(413))) == ["keep film@1-a"])
        }
        #expect(pull.atHand.first?.body == body(1, 2) && pull.atHand.first?.hasShownBlobs == false)
        pull.on(.kept(pull.batch))
        #expect(pull.machine.isDrained && pull.machine.bufferedBytes == 0 && pull.through == "1")
        #expect(pull.released == [isRejected ? "1 refused, 0 staying" : "0 refused, 1 staying"])
    }

    // MARK: - Attachments that the peer names in its own way

    @Test func attachmentsAreFetchedOnceTheFilterHasLetTheirDocumentPass() {
        var due = checked(1, "a")
        due.attachments = .due
        var pull = PullRun.batch([due], filter: true)
        #expect(pull.last.map(\.words) == ["judge a@1-a"])
        #expect(pull.on(.judged(pull.batch, [.pass], plugin: "f", version: "1")) == ["bring a@1-a"])
        let whole = "{\"_attachments\":{\"x\":{\"digest\":\"\(digest(1).text)\",\"length\":1,\"stub\":true}}}"
        #expect(pull.on(.attachmentsFetched(pull.fetch, .success(Array(whole.utf8)))) == ["fetch a@1-a"])
        #expect(pull.on(.blobsFetched(pull.fetch, nil)) == ["judge a@1-a"])
        #expect(pull.atHand.first?.answer?.wasJudgedBy("f", "1") == true)
        #expect(pull.on(.judged(pull.batch, [.pass], plugin: "f", version: "1")) == ["store a@1-a"])
        pull.on(.stored(pull.batch, [.stored(.inserted(sequence: 1))]))
        #expect(pull.machine.isDrained && pull.machine.bufferedBytes == 0)

        var rejected = PullRun.batch([due], filter: true)
        #expect(rejected.on(.judged(rejected.batch, [.reject], plugin: "f", version: "1")) == ["keep a@1-a"])
    }

    /// The room that is looked for is what the attachment needs.
    @Test func anAttachmentThatDoesNotFit() {
        var due = checked(1, "a")
        due.attachments = .due
        var pull = PullRun.batch([due], filter: true)
        pull.on(.judged(pull.batch, [.pass], plugin: "f", version: "1"))
        let full = ReplicationError(store: StoreError.diskFull(path: "db", detail: "the quota is reached"))
        #expect(pull.on(.attachmentsFetched(pull.fetch, .failure(full), bytes: 5_000)).contains("look for room for 5002"))
        #expect(pull.machine.isDrained && pull.through == nil)
    }

    // MARK: - Sync function

    private func yes(_ version: String = "1") -> SyncJudgement {
        SyncJudgement(verdict: .accepted(SyncAssignment(channels: ["red"])), seen: nil, plugin: "s", version: version, caller: SyncCaller(name: "anna"))
    }

    @Test func theSyncFunctionIsAskedBeforeBlobsAreFetched() {
        func arrived() -> PullRun {
            var pull = PullRun(passive: true, filter: true, sync: true)
            pull.arrive(received(1, "a"))
            pull.on(.checked(pull.batch, [.checked(checked(1, "a", blobs: [blob()]))]))
            #expect(pull.on(.judged(pull.batch, [.pass], plugin: "f", version: "1")) == ["assign a@1-a"])
            return pull
        }
        var refused = arrived()
        let no = SyncJudgement(verdict: .rejected(reason: "no"), seen: nil, plugin: "s", version: "1")
        #expect(refused.on(.assigned(refused.batch, [no])) == ["report a 403", "settle 1 403"])
        #expect(refused.machine.isDrained)

        var pull = arrived()
        #expect(pull.on(.assigned(pull.batch, [yes()])) == ["fetch a@1-a"])
        #expect(pull.on(.blobsFetched(pull.fetch, nil)) == ["judge a@1-a"])
        #expect(pull.on(.judged(pull.batch, [.pass], plugin: "f", version: "1")) == ["assign a@1-a"])
        // Its answer stays with the document.
        #expect(pull.atHand.first?.judgement?.version == "1")
        #expect(pull.on(.assigned(pull.batch, [yes()])) == ["store a@1-a"])
        pull.on(.stored(pull.batch, [.stored(.inserted(sequence: 1))]))
        #expect(pull.machine.isDrained && pull.machine.bufferedBytes == 0)
    }

    /// It is asked again if the question would be a different one.
    @Test func theSyncFunctionsAnswerCountsForTheSameQuestion() {
        let (anna, red) = (SyncCaller(name: "anna"), SyncCaller(name: "anna", channels: ["red"]))
        #expect(yes().isAnswer(to: anna, seen: nil, isHidden: false, by: "s", "1"))
        #expect(!yes().isAnswer(to: anna, seen: nil, isHidden: false, by: "s", "2"))
        #expect(!yes().isAnswer(to: anna, seen: rev("1-a"), isHidden: false, by: "s", "1"))
        #expect(!yes().isAnswer(to: anna, seen: nil, isHidden: true, by: "s", "1"))
        #expect(!yes().isAnswer(to: red, seen: nil, isHidden: false, by: "s", "1"))
        #expect(!yes("").isAnswer(to: anna, seen: nil, isHidden: false, by: "s", ""))
    }
}

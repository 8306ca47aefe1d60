import DocumentStore
import Documents
import Interfaces
import Testing

@testable import Replication

/// Documents that are larger than the database accepts.
@Suite struct LargeBodyTests {
    private func large(_ sequence: Int, _ id: String, blobs: [BlobReference] = []) -> CheckedRevision {
        var revision = checked(sequence, id)
        revision.replaceBody(Array("{\"long\":true}".utf8))
        revision.blobs = blobs
        return revision
    }

    @Test func aPulledOneIsHeldAndTheOthersAreStored() {
        var pull = PullRun(largestBody: 12)
        pull.offer(row(1, "a"), row(2, "b"))
        pull.arrive(received(1, "a"), received(2, "b"))
        // No blobs are fetched for it.
        let blob = BlobReference(digest: digest(1), length: 1, contentType: nil)
        #expect(pull.on(.checked(pull.batch, [.checked(large(1, "a", blobs: [blob])), .checked(checked(2, "b"))])) == ["keep a@1-a", "store b@1-a"])
        guard case .keep(let keep, let held)? = pull.last.first, let error = held.first.flatMap({ if case .size(let error) = $0.cause { error } else { nil } })
        else { return #expect(Bool(false), "\(pull.last)") }
        #expect(error.code == 413 && error.message.contains("document a has 13 bytes, max_document_bytes is 12"), "\(error)")
        pull.on(.stored(pull.batch, [.stored(.inserted(sequence: 1))]))
        #expect(pull.on(.kept(keep)) == ["report a 413", "settle 1 size", "tell push a@1-a"])
        #expect(pull.counts.held == 1 && pull.counts.pulled == 1 && pull.through == "2" && pull.machine.isDrained && pull.machine.bufferedBytes == 0)
    }

    @Test func aHeldOneStaysHeldUntilTheLimitIsRaised() {
        var again = large(0, "a")
        (again.sequence, again.replyTo, again.wasKeptBack) = (nil, nil, true)
        let page = HeldRevisions.Page(revisions: [again], isAny: true)
        var pull = PullRun(largestBody: 12)
        pull.on(.started)
        #expect(pull.on(.heldRead(page)) == ["keep a@1-a"])
        #expect(pull.on(.kept(pull.batch)) == ["report a 413", "tell push a@1-a"])
        #expect(pull.counts.held == 1 && pull.machine.isDrained && pull.machine.bufferedBytes == 0)
        var raised = PullRun(largestBody: 13)
        raised.on(.started)
        #expect(raised.on(.heldRead(page)) == ["store a@1-a"])
    }

    @Test func aPushedOneIsRefused() {
        var pull = PullRun(passive: true, largestBody: 12)
        pull.arrive(received(1, "a"))
        #expect(pull.on(.checked(pull.batch, [.checked(large(1, "a"))])) == ["report a 413", "settle 1 413"])
        #expect(pull.machine.isDrained && pull.machine.bufferedBytes == 0)
    }

    @Test func whatStaysOnTheListIsNotWrittenAgain() async throws {
        let (a, b) = (try TestDatabase("a") { $0.maxBodyBytes = 100 }, try TestDatabase("b"))
        try await b.put("large", "{\"text\":\"\(String(repeating: "x", count: 200))\"}")
        let collection = try a.collection()
        for _ in 0..<2 {
            let status = await Replicator(ReplicatorConfiguration(a, .pull), Hub(b)).run()
            #expect(status.error == nil && status.counts.held == 1, "\(status)")
            let parts = try await a.database.read { try $0.localDocuments(collection, prefix: "held/", limit: 10).map { $0.record.revision } }
            #expect(parts == ["0-1"])
        }
    }
}

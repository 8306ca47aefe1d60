import Documents
import DocumentStore
import Testing

@testable import Replication

/// What is still to be pushed, in databases where that is a lot, or a little among a lot.
@Suite(.timeLimit(.minutes(10)))
struct PendingTests {
    /// A pull has left marks on all documents, and another replicator for the same remote has its own checkpoint, at the beginning.
    @Test func countingStopsAfterACertainNumberOfRows() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        try await b.fill(0..<3_000)
        #expect(await replicate(a, Hub(b), .pull).counts.pulled == 3_000)
        try await a.put("doc-2999", "{\"edited\":true}")
        let replicator = Replicator(ReplicatorConfiguration(a, .push), Hub(b))
        #expect(try await replicator.pendingEstimate(rows: 2_000) == Replicator.Pending(isCapped: true))
        #expect(try await replicator.pendingEstimate().count == 1)
        #expect(try await replicator.pendingDocumentIDs().map(\.1.text) == ["doc-2999"])
        #expect(try await replicator.isPending(doc("doc-2999"), in: .default))
        #expect(try await !replicator.isPending(doc("doc-1"), in: .default))
    }

    /// Documents carry no time: marks made while something waits tell when it came.
    @Test func ageAndSizeOfWhatWaits() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        let collection = try #require(a.database.collection(.default))
        let replicator = Replicator(ReplicatorConfiguration(a, .push), Hub(b))
        try await a.put("first", "{\"n\":1}")
        #expect(try await replicator.pendingEstimate() == Replicator.Pending(count: 1, bytes: 7))
        try await a.database.noteWaiting(in: collection, now: 1_000)
        try await a.put("second", "{\"n\":22}")
        try await a.database.noteWaiting(in: collection, now: 2_000)
        try await a.put("third", "{}")
        #expect(try await replicator.pendingEstimate() == Replicator.Pending(count: 3, bytes: 17, oldest: 1_000))
        var since: [String: Int64?] = [:]
        try await replicator.forEachPending { for row in $0 { since[row.id.text] = row.since } }
        #expect(since == ["first": 1_000, "second": 2_000, "third": nil])
        // After an edit, its age starts from zero.
        try await a.put("first", "{}")
        #expect(try await replicator.pendingEstimate().oldest == 2_000)
        await replicator.run()
        #expect(try await replicator.pendingEstimate() == Replicator.Pending())
    }

    /// More documents are named than are looked up at a time, in no particular order.
    @Test func namedDocumentsAreAllFound() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        try await a.fill(0..<5_000)
        let wanted = (0..<2_500).map { "doc-\($0 * 7 % 5_000)" }
        let replicator = Replicator(ReplicatorConfiguration(a, .push) { $0.only { $0.documentIDs = wanted.map { doc($0) } } }, Hub(b))
        #expect(try await Set(replicator.pendingDocumentIDs().map(\.1.text)) == Set(wanted))
        #expect(try await replicator.pendingDocumentIDs().count == wanted.count)
        #expect(try await replicator.pendingEstimate().count == wanted.count)
        await replicator.run()
        #expect(try await replicator.pendingDocumentIDs().isEmpty)
        #expect(try await b.count() == wanted.count)
    }
}

import Documents
import DocumentStore
import Interfaces
import Replication
import Testing

/// A document that was rejected by a version of the push filter that is no longer in force: it is still pending, and is not reported as rejected.
@Suite(.timeLimit(.minutes(5)))
struct OutdatedRejectionTests {
    private let filter = TestFilter { document, _ in document.id.text == "low" ? .reject : .pass }

    @Test func itIsPendingWithoutAConnection() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        try await a.put("low", "{}")
        try await a.put("good", "{}")
        let configuration = ReplicatorConfiguration(a, .push) { $0.only { $0.pushFilter = filter } }
        await Replicator(configuration, Hub(b)).run()
        let replicator = Replicator(configuration, Hub(b))
        let low = doc("low")
        #expect(try await replicator.pendingEstimate() == Replicator.Pending())
        guard case .rejected = try await replicator.standing(of: low, in: .default).push else {
            Issue.record("the filter in force rejected it, but it does not count as rejected")
            return
        }

        filter.become("2") { _, _ in .pass }
        #expect(try await replicator.pendingEstimate().count == 1)
        #expect(try await replicator.pendingDocumentIDs().map(\.1) == [low])
        #expect(try await replicator.isPending(low, in: .default))
        guard case .outdated(let noted) = try await replicator.standing(of: low, in: .default).push else {
            Issue.record("another version is in force, but the rejection does not count as outdated")
            return
        }
        #expect(noted.version == "1")

        // The new version rejects it as well.
        filter.become("3") { _, _ in .reject }
        #expect(try await !replicator.isPending(low, in: .default))
        #expect(try await replicator.pendingDocumentIDs().isEmpty)
        // It is counted until a connection asks the filter, and the list has what is counted.
        #expect(try await replicator.pendingEstimate().count == 1)
        var rejected: [DocumentID: String] = [:]
        try await replicator.forEachPending { for row in $0 { rejected[row.id] = row.rejectedBy } }
        #expect(rejected == [low: "test-filter"])
        let owes = try await replicator.owesPeer()
        #expect(!owes)
        guard case .willBeRejected = try await replicator.standing(of: low, in: .default).push else {
            Issue.record("the version in force rejects it, but that is not reported")
            return
        }

        filter.become("4") { _, _ in .pass }
        await replicator.run()
        #expect(try await b.get("low") != nil)
        #expect(try await replicator.pendingEstimate() == Replicator.Pending())
    }

    /// Nothing has been pushed yet: the list has all that is counted, and only what the filter lets pass is owed to the peer.
    @Test func whatWouldBeRejectedIsListedAsSuch() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        try await a.put("low", "{}")
        let replicator = Replicator(ReplicatorConfiguration(a, .push) { $0.only { $0.pushFilter = filter } }, Hub(b))
        let (first, owesFirst) = (try await replicator.pendingEstimate(), try await replicator.owesPeer())
        #expect(first.count == 1 && !owesFirst)
        try await a.put("good", "{}")
        var listed: [String: String] = [:]
        try await replicator.forEachPending { for row in $0 { listed[row.id.text] = row.rejectedBy ?? "-" } }
        #expect(listed == ["low": "test-filter", "good": "-"])
        let (both, owesBoth) = (try await replicator.pendingEstimate(), try await replicator.owesPeer())
        #expect(both.count == listed.count && owesBoth)
        await replicator.run()
        let (none, owesNone) = (try await replicator.pendingEstimate(), try await replicator.owesPeer())
        #expect(none.count == 0 && !owesNone)
    }

    @Test func itIsPendingWithoutAFilter() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        try await a.put("low", "{}")
        await Replicator(ReplicatorConfiguration(a, .push) { $0.only { $0.pushFilter = filter } }, Hub(b)).run()
        let replicator = Replicator(ReplicatorConfiguration(a, .push), Hub(b))
        #expect(try await replicator.pendingDocumentIDs().map(\.1) == [doc("low")])
        #expect(try await replicator.pendingEstimate().count == 1)
    }

    @Test func whatThePeerCannotTakeIsReportedInstead() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        try await a.put("low", "{}")
        let configuration = ReplicatorConfiguration(a, .push) { $0.only { $0.pushFilter = filter } }
        await Replicator(configuration, Hub(b)).run()
        filter.become("2") { _, _ in .pass }
        let replicator = Replicator(configuration, Hub(b))
        let full = ReplicationError(domain: .http, code: 503, message: "full")
        replicator.waiting.note([DocumentEvent(id: doc("low"), collection: .default, direction: .push, error: full)], at: 1)
        guard case .waiting(let waiting) = try await replicator.standing(of: doc("low"), in: .default).push else {
            Issue.record("it waits because of the peer, but that is not reported")
            return
        }
        #expect(waiting.error.code == 503)
        await replicator.reviewWaiting()
        #expect(!replicator.waiting.isEmpty)
    }
}

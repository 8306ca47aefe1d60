import Documents
import DocumentStore
import Interfaces
import Replication
import Synchronization
import TestSupport
import Testing

/// A document that waits here for a blob while the listener's push filter fails: it arrives once the filter works, over a connection of the same
/// continuous replicator.
@Suite(.timeLimit(.minutes(10)))
struct WithheldBlobTests {
    private static let blob = [UInt8](repeating: 7, count: 1_000)

    private static func body(_ digest: String) -> String {
        "{\"photo\":{\"@type\":\"blob\",\"digest\":\"\(digest)\",\"length\":\(blob.count),\"content_type\":\"image/png\"}}"
    }

    private static func puller(_ database: TestDatabase, _ hub: Hub) -> Replicator {
        Replicator(ReplicatorConfiguration(database, .pull, continuous: true) {
            ($0.limits.deferralSeconds, $0.limits.maximumDeferralSeconds) = (0, 0)
        }, hub)
    }

    private static func hub(_ database: TestDatabase, _ filter: TestFilter) -> Hub {
        Hub(PassiveConfiguration(listener: "hub", database: database.database, pushFilter: filter))
    }

    /// Fails when it is asked for the times in question, counted from 1.
    private static func failing(at times: ClosedRange<Int>) -> TestFilter {
        let count = Mutex(0)
        return TestFilter { _, _ in
            let time = count.withLock { count in
                count += 1
                return count
            }
            return times.contains(time) ? .failed(PolicyFailure(plugin: "test-filter", version: "1", kind: "plugin_timeout", message: "it ran too long")) : .pass
        }
    }

    /// "Not now", rather than "you may not": the document is neither given up nor kept waiting for good.
    @Test func aFilterThatFailsWhenTheBlobIsRequestedAsksToComeBack() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        let digest = try await b.blob(Self.blob)
        try await b.put("with", Self.body(digest))
        let earlier = Replicator(ReplicatorConfiguration(a, .pull) { $0.limits.maximumBlobBytes = 10 }, Hub(b))
        #expect(await earlier.run().counts.held == 1)
        let hub = Self.hub(b, Self.failing(at: 1...2))
        let replicator = Self.puller(a, hub)
        await replicator.start()
        try await a.wait { try await $0.count() == 1 }
        #expect(try await replicator.heldDocuments().isEmpty)
        #expect(hub.connections == 3)
        await replicator.stop()
    }

    /// The filter fails when the document is requested by name, so that the listener says neither that it has it nor that it does not.
    @Test func aDocumentWithheldWhenItIsRequestedByNameIsRequestedAgain() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        try await b.put("with", Self.body(BlobDigest.of(Self.blob).text))
        let earlier = Replicator(ReplicatorConfiguration(a, .pull), Hub(b))
        #expect(await earlier.run().counts.held == 1)
        // First it is asked whether the peer may have the blob, then for the document.
        let filter = Self.failing(at: 2...2)
        let replicator = Self.puller(a, Self.hub(b, filter))
        await replicator.start()
        try await eventually("the document is requested by name") { filter.questions.count >= 2 }
        _ = try await b.blob(Self.blob)
        try await a.wait { try await $0.count() == 1 }
        #expect(try await replicator.heldDocuments().isEmpty)
        await replicator.stop()
    }
}

import Documents
import Interfaces
import Replication
import Synchronization
import Testing

/// A replicator that is connected and idle, and still needs somebody's attention.
@Suite(.timeLimit(.minutes(10)))
struct AttentionTests {
    /// Data flows each time, so that no attempt fails, and still nothing gets done.
    @Test func brokenConnectionsAreCountedUntilBothSidesAreInStep() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        try await a.fill(0..<300)
        let made = Mutex<Replicator?>(nil)
        let seen = Mutex<[Int]>([])
        let hub = Hub(b) { number in
            let count = made.withLock { $0?.interruptions?.count ?? 0 }
            seen.withLock { $0.append(count) }
            return number < 3 ? (.init(cutsAt: 20), .init()) : (.init(), .init())
        }
        let replicator = Replicator(ReplicatorConfiguration(a, .push, continuous: true), hub, environment: JumpingTime().environment)
        made.withLock { $0 = replicator }
        await replicator.start()
        await replicator.wait { $0.activity == .idle }
        #expect(seen.withLock { $0 } == [0, 1, 2, 3] && replicator.interruptions == nil)
        await replicator.stop()
        made.withLock { $0 = nil }
    }

    @Test func documentsThatTheHubCannotAcceptAreNamedUntilItAcceptsThem() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        let filter = TestFilter { document, _ in document.id.text == "bad" ? .failed(PolicyFailure(plugin: "p", version: "1", kind: "plugin_error", message: "broken")) : .pass }
        var configuration = PassiveConfiguration(listener: "hub", database: b.database)
        configuration.pullFilter = filter
        try await a.put("bad", "{}")
        try await a.put("good", "{}")
        let replicator = Replicator(ReplicatorConfiguration(a, .push, continuous: true), Hub(configuration, owner: b))
        await replicator.start()
        try await b.wait { try await $0.get("good") != nil }
        await replicator.wait { $0.activity == .idle && $0.counts.failed > 0 }
        let bad = try DocumentID("bad")
        #expect(replicator.waiting.find(.default, bad, .push)?.error.code == 503)
        #expect(replicator.waiting.summary().first?.text.hasPrefix("1 document cannot be pushed at the moment, such as bad") == true)
        // As a listener reports it, which does not pull.
        let taken = WaitingDocuments(notesPolicies: true)
        taken.note([DocumentEvent(id: bad, collection: .default, direction: .pull, error: ReplicationError(domain: .http, code: 503, message: "full"))], at: 1)
        #expect(taken.summary(pulled: "taken").first?.text.hasPrefix("1 document cannot be taken at the moment, such as bad") == true)
        #expect(try await replicator.isPending(bad, in: .default))
        // Waits until its acknowledgement is noted.
        while try await replicator.isPending(DocumentID("good"), in: .default) { await Task.yield() }
        await replicator.stop()

        filter.become("2") { _, _ in .pass }
        await replicator.start()
        try await b.wait { try await $0.get("bad") != nil }
        await replicator.wait { $0.activity == .idle }
        await replicator.reviewWaiting()
        #expect(replicator.waiting.summary().isEmpty)
        #expect(try await !replicator.isPending(bad, in: .default))
        await replicator.stop()
        // The totals cover both runs.
        #expect(replicator.lifetime.pushed == 2 && replicator.lifetime.bytesSent > 0)
    }
}

import Documents
import DocumentStore
import Interfaces
import Testing

@testable import Replication

/// Connections that are open but bring no news.
@Suite("Silent connections", .timeLimit(.minutes(10)))
struct SilenceTests {
    @Test("the probe asks twice before it suspects silence, and never suspects a connection with traffic")
    func decisions() {
        var canary = IdleCanary(intervalSeconds: 900)
        let (here, further) = ([RemoteSequence(json: "7")] as [RemoteSequence?], [RemoteSequence(json: "8")] as [RemoteSequence?])
        #expect(canary.asked(missing: 0, at: here) == .wait(seconds: 900))
        #expect(canary.asked(missing: 3, at: here) == .wait(seconds: 30))
        #expect(canary.asked(missing: 3, at: further) == .wait(seconds: 30))
        #expect(canary.asked(missing: 0, at: further) == .wait(seconds: 900))
        #expect(canary.asked(missing: 1, at: further) == .wait(seconds: 30))
        #expect(canary.forget() == 900)
        #expect(canary.asked(missing: 1, at: further) == .wait(seconds: 30))
        #expect(canary.asked(missing: 1, at: further) == .reconnect)
        #expect(canary.asked(missing: 1, at: [nil]) == .wait(seconds: 30))
        var hasty = IdleCanary(intervalSeconds: 5)
        #expect(hasty.asked(missing: 1, at: [nil]) == .wait(seconds: 5))
        #expect(hasty.asked(missing: 1, at: [nil]) == .reconnect)
    }

    @Test("a peer that does not report a change is found out, and the change arrives")
    func deafPeer() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        var limits = ReplicationLimits()
        // Makes the hub overlook every third change.
        limits.plant(.lostWakeUp)
        let hub = Hub(PassiveConfiguration(listener: "hub", database: b.database, limits: limits), owner: b)
        let time = JumpingTime()
        let replicator = Replicator(ReplicatorConfiguration(a, .pull, continuous: true) { $0.silenceIntervalSeconds = 600 }, hub, environment: time.environment)
        await replicator.start()
        #expect(await replicator.wait { $0.activity == .idle } != nil)
        for number in 1...3 {
            // Changes are made one at a time, because the hub looks only once for several that come together.
            try await b.put("\(number)", "{}")
            try await a.wait { try await $0.count() == number }
        }
        let status = try #require(await replicator.wait { $0.silence.reconnects >= 1 && $0.activity == .idle })
        #expect(status.silence.checks >= 2 && status.counts.failed == 0)
        #expect(time.sleeps.contains(600) && time.sleeps.contains(30))
        await replicator.stop()
    }

    @Test("a replicator that misses nothing stays connected: neither what came from here nor what a filter keeps back counts as missing")
    func healthyPeer() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        try await a.fill(0..<20, prefix: "a-")
        try await b.fill(0..<20, prefix: "b-")
        let hub = Hub(b)
        let replicator = Replicator(
            ReplicatorConfiguration(a, continuous: true) {
                $0.silenceIntervalSeconds = 600
                $0.only { $0.pullFilter = TestFilter { document, _ in document.id.text.hasSuffix("7") ? .reject : .pass } }
            }, hub, environment: JumpingTime().environment)
        await replicator.start()
        let status = try #require(await replicator.wait { $0.silence.checks >= 5 })
        #expect(status.silence.reconnects == 0)
        #expect(try await a.count() == 38)
        // Nothing was pulled over the probing connections, and they left no checkpoint.
        #expect(status.counts.pulled == 18 && status.counts.rejected == 2)
        await replicator.stop()
    }
}

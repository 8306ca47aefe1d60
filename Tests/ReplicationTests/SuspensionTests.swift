import Documents
import Environment
import Interfaces
import Synchronization
import Testing

@testable import Replication

/// Periods without a connection that somebody asked for.
@Suite("Suspension", .timeLimit(.minutes(10)))
struct SuspensionTests {
    @Test("while suspended, nothing is transferred and nobody connects; once resumed, everything arrives")
    func suspendAndResume() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        let hub = Hub(b)
        let replicator = Replicator(ReplicatorConfiguration(a, continuous: true), hub)
        #expect(await !replicator.suspend(), "a stopped replicator cannot be suspended")
        #expect(await !replicator.resume(), "a stopped replicator cannot be resumed")
        await replicator.start()
        try await a.put("before", "{}")
        try await b.wait { try await $0.count() == 1 }
        #expect(await replicator.suspend())
        let status = try #require(await replicator.wait { $0.activity == .offline })
        #expect(status.isSuspended && status.error == nil && status.retryInSeconds == nil)
        replicator.retryNow("the network changed")
        try await a.put("meanwhile", "{}")
        #expect(await replicator.suspend(), "suspending twice is not an error")
        #expect(hub.connections == 1)
        #expect(try await b.count() == 1)
        #expect(await replicator.resume())
        try await b.wait { try await $0.count() == 2 }
        #expect(hub.connections == 2)
        // The first document may be offered again, because its acknowledgement may not have arrived before the suspension.
        #expect(await replicator.wait { $0.activity == .idle }?.isSuspended == false)

        // A stop ends the suspension, and so does a start.
        #expect(await replicator.suspend())
        await replicator.stop()
        #expect(replicator.status.activity == .stopped && !replicator.status.isSuspended)
        await replicator.start()
        #expect(await replicator.wait { $0.activity == .idle } != nil)
        #expect(await replicator.suspend())
        await replicator.start()
        #expect(await replicator.wait { $0.activity == .idle }?.isSuspended == false)
        await replicator.stop()
    }

    @Test("waiting for room belongs to a connection, and ends with it")
    func waitsForNoRoom() async throws {
        let isFull = Mutex(true)
        let a = try TestDatabase("a") { options in
            options.refusal = { write, _ in if case .peers = write { isFull.withLock { $0 } ? "it is full" : nil } else { nil } }
        }
        let b = try TestDatabase("b")
        try await b.put("x", "{}")
        let replicator = Replicator(ReplicatorConfiguration(a, .pull, continuous: true), Hub(b))
        await replicator.start()
        #expect(await replicator.wait { $0.activity == .idle && $0.refusals.space?.code == 507 } != nil)
        #expect(await replicator.suspend())
        #expect(await replicator.wait { $0.activity == .offline && $0.refusals.space == nil } != nil)
        #expect(await replicator.resume())
        #expect(await replicator.wait { $0.activity == .idle && $0.refusals.space != nil } != nil)
        await replicator.stop()
        #expect(replicator.status.refusals.space == nil)
        isFull.withLock { $0 = false }
        await replicator.start()
        try await a.wait { try await $0.count() == 1 }
        await replicator.stop()
    }

    @Test("a replicator that is started while suspended connects only when it is resumed")
    func startedSuspended() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        let hub = Hub(b)
        let replicator = Replicator(ReplicatorConfiguration(a, continuous: true), hub)
        try await a.put("x", "{}")
        await replicator.startSuspended()
        #expect(replicator.status.activity == .offline && replicator.status.isSuspended)
        replicator.retryNow("the network changed")
        #expect(await replicator.suspend(), "it is already suspended")
        #expect(hub.connections == 0)
        #expect(await replicator.resume())
        try await b.wait { try await $0.count() == 1 }
        #expect(hub.connections == 1)
        await replicator.startSuspended()
        #expect(!replicator.status.isSuspended, "a running replicator continues")
        await replicator.stop()
    }

    @Test("a replicator that is suspended while the peer is down does not try to connect; once resumed, it tries at once")
    func offline() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        let hub = Hub(b)
        hub.refuse(1, ReplicationError(domain: .http, code: 401, message: "who are you?"))
        // The wait is an hour, so that any attempt within the test comes early.
        let replicator = Replicator(
            ReplicatorConfiguration(a, continuous: true) { ($0.retry.blockedWaitSeconds, $0.retry.maximumBlockedWaitSeconds) = (7_200, 7_200) }, hub)
        await replicator.start()
        #expect(await replicator.wait { $0.error?.code == 401 && $0.activity == .offline } != nil)
        #expect(await replicator.suspend())
        #expect(await replicator.wait { $0.error == nil }?.isSuspended == true)
        #expect(hub.connections == 0)
        await replicator.resume()
        #expect(await replicator.wait { $0.activity == .idle } != nil)
        await replicator.stop()
    }

    @Test("a connection from before the machine went to sleep is replaced at once")
    func sleep() async throws {
        final class Sleeping: TimeSource {
            let slept = Atomic<UInt64>(5_000_000_000)
            func monotonicNanoseconds() -> UInt64 { 0 }
            func wallSeconds() -> Int64 { 0 }
            func sleep(nanoseconds: UInt64) async throws {}
            func sleptNanoseconds() -> UInt64 { slept.load(ordering: .relaxed) }
        }
        let time = Sleeping()
        var detector = SleepDetector(time)
        #expect(detector.look() == nil)
        time.slept.add(1_000_000_000, ordering: .relaxed)
        #expect(detector.look() == nil, "the clocks are read one after the other, which is not a sleep")
        time.slept.add(59_000_000_000, ordering: .relaxed)
        #expect(detector.look() == 60)
        #expect(detector.look() == nil)
        #expect(SystemTime().sleptNanoseconds() < SystemTime().monotonicNanoseconds() + 365 * 86_400 * 1_000_000_000)

        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        let hub = Hub(b)
        let replicator = Replicator(ReplicatorConfiguration(a, continuous: true) { $0.retry.maximumWaitSeconds = 7_200 }, hub)
        await replicator.start()
        #expect(await replicator.wait { $0.activity == .idle } != nil)
        await replicator.reconnect("the machine was asleep")
        #expect(await replicator.wait { $0.activity == .idle && hub.connections == 2 }?.error == nil)
        await replicator.stop()
        await replicator.reconnect("nobody wants it")
        #expect(hub.connections == 2 && replicator.status.activity == .stopped)
    }
}

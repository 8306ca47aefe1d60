import Documents
import DocumentStore
import Interfaces
import Replication
import Testing

/// Replication that stays connected.
@Suite(.timeLimit(.minutes(10)))
struct ContinuousTests {
    @Test func changesFlowBothWaysUntilStopped() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        let replicator = Replicator(ReplicatorConfiguration(a, continuous: true), Hub(b))
        await replicator.start()
        #expect(await replicator.wait { $0.activity == .idle } != nil)
        try await a.fill(0..<100, prefix: "a-")
        try await b.fill(0..<100, prefix: "b-")
        try await a.wait { try await $0.count() == 200 }
        try await b.wait { try await $0.count() == 200 }
        try await a.put("b-7", "{\"edited\":\"at a\"}")
        try await b.wait { try await $0.body("b-7") == "{\"edited\":\"at a\"}" }
        try await b.put("b-7", "{}", deleted: true)
        try await a.wait { try await $0.get("b-7")?.isDeleted == true }
        let status = await replicator.wait { $0.activity == .idle && $0.counts.completed == $0.counts.total }
        #expect(status?.error == nil)
        await replicator.stop()
        #expect(replicator.status.activity == .stopped)
        try await b.put("after", "{}")
        #expect(try await a.get("after") == nil)
    }

    @Test func updatesWhileReplicating() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        try await a.fill(0..<500)
        let replicator = Replicator(ReplicatorConfiguration(a, continuous: true), Hub(b))
        await replicator.start()
        for round in 0..<30 {
            for index in stride(from: round, to: 500, by: 37) { try await a.put("doc-\(index)", "{\"round\":\(round)}") }
        }
        try await a.put("last", "{}")
        let wanted = try await a.contents()
        try await b.wait { try await $0.contents() == wanted }
        #expect(await replicator.wait { $0.activity == .idle && $0.counts.completed == $0.counts.total }?.error == nil)
        await replicator.stop()
    }

    /// Every replica gets what every other has, and then there is silence: no revision goes round the ring for ever.
    @Test func aRingOfReplicatorsConvergesAndGoesIdle() async throws {
        let databases = [try TestDatabase("a"), try TestDatabase("b"), try TestDatabase("c")]
        let hubs = databases.map { Hub($0) }
        let replicators = (0..<3).map { index in
            Replicator(
                ReplicatorConfiguration(databases[index], to: "ws://ring/\((index + 1) % 3)", continuous: true), hubs[(index + 1) % 3])
        }
        for (index, database) in databases.enumerated() { try await database.fill(0..<100, prefix: "\(index)-") }
        for replicator in replicators { await replicator.start() }
        for database in databases { try await database.wait { try await $0.count() == 300 } }
        for (index, database) in databases.enumerated() { try await database.put("\((index + 1) % 3)-5", "{\"edited\":\(index)}") }
        for database in databases {
            try await database.wait { database in
                for index in 0..<3 where try await database.body("\((index + 1) % 3)-5") != "{\"edited\":\(index)}" { return false }
                return true
            }
        }
        for replicator in replicators {
            #expect(await replicator.wait { $0.activity == .idle && $0.counts.completed == $0.counts.total } != nil)
        }
        #expect(try await databases[0].contents() == databases[1].contents())
        #expect(try await databases[1].contents() == databases[2].contents())
        // At each place where it was not made, each document was written at most once, and each edit once more.
        for database in databases {
            let last = try #require(try await database.database.statistics().first).lastSequence
            #expect(last <= 303 + 3)
        }
        let total = replicators.reduce(0) { $0 + $1.status.counts.pushed + $1.status.counts.pulled }
        #expect(total <= 3 * 2 * 303)
        for replicator in replicators { await replicator.stop() }
    }

    @Test func manyPeersAtOneDatabase() async throws {
        let hubDatabase = try TestDatabase("hub")
        let hub = Hub(hubDatabase)
        var peers: [TestDatabase] = []
        for index in 0..<12 {
            peers.append(try TestDatabase("p"))
            try await peers[index].fill(0..<40, prefix: "p\(index)-")
        }
        let replicators = peers.enumerated().map { index, peer in Replicator(ReplicatorConfiguration(peer, continuous: true), hub) }
        for replicator in replicators { await replicator.start() }
        for peer in peers { try await peer.wait { try await $0.count() == 480 } }
        #expect(try await hubDatabase.count() == 480)
        for replicator in replicators {
            let status = await replicator.wait { $0.activity == .idle && $0.counts.completed == $0.counts.total }
            #expect(status?.error == nil)
            await replicator.stop()
        }
    }

    @Test func activityLevelsAreReportedInOrder() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        try await a.fill(0..<300)
        let replicator = Replicator(ReplicatorConfiguration(a, continuous: true), Hub(b))
        #expect(replicator.status.activity == .stopped)
        let changes = replicator.statusChanges()
        await replicator.start()
        var levels: [ActivityLevel] = []
        for await status in changes {
            #expect(status.counts.completed <= status.counts.total)
            if levels.last != status.activity { levels.append(status.activity) }
            if status.activity == .idle, status.counts.pushed == 300 { await replicator.stop() }
            if status.activity == .stopped, levels.count > 1 { break }
        }
        #expect(levels.first == .stopped && levels.contains(.connecting) && levels.contains(.busy))
        #expect(levels.suffix(2) == [.idle, .stopped])
        #expect(replicator.status.counts.completed == replicator.status.counts.total)
        #expect(replicator.status.lastSuccess != nil)
    }

    @Test func theListeningSideIsIdleToo() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        try await a.fill(0..<300)
        let hub = Hub(b)
        let replicator = Replicator(ReplicatorConfiguration(a, continuous: true), hub)
        await replicator.start()
        await replicator.wait { $0.activity == .idle && $0.counts.pushed == 300 }
        for await level in hub.activity where level == .idle { break }
        #expect(hub.counters.snapshot.pulled == 300)
        #expect(hub.counters.snapshot.completed <= hub.counters.snapshot.total)
        await replicator.stop()
        for await level in hub.activity where level == .stopped { break }
    }

    @Test func aReplicatorCanBeRestartedAfterItHasEnded() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        let replicator = Replicator(ReplicatorConfiguration(a, .push), Hub(b))
        for round in 1...3 {
            try await a.put("doc-\(round)", "{}")
            #expect(await replicator.run().counts.pushed == 1)
        }
        await replicator.stop()
        await replicator.stop()
        #expect(try await b.count() == 3)
    }
}

/// What replicators do when connections fail.
@Suite(.timeLimit(.minutes(10)))
struct RetryingTests {
    private let refused = ReplicationError(network: .refused, message: "connection refused")

    @Test func delaysGrowUntilTheHubIsThere() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        try await a.fill(0..<10)
        let hub = Hub(b)
        hub.refuse(5, refused)
        let time = JumpingTime()
        let replicator = Replicator(ReplicatorConfiguration(a), hub, environment: time.environment)
        let changes = replicator.statusChanges()
        let status = await replicator.run()
        #expect(status.error == nil && status.counts.pushed == 10 && status.attempt == 0)
        #expect(time.sleeps == [2, 4, 8, 16, 32])
        var offline: ReplicatorStatus?
        for await status in changes where status.activity == .offline {
            offline = status
            break
        }
        #expect(offline?.error == refused && offline?.retryInSeconds != nil)
    }

    @Test func aOneShotGivesUpAfterTenAttempts() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        let hub = Hub(b)
        hub.refuse(1_000, refused)
        let time = JumpingTime()
        let status = await Replicator(ReplicatorConfiguration(a), hub, environment: time.environment).run()
        #expect(status.activity == .stopped && status.error == refused)
        #expect(time.sleeps == [2, 4, 8, 16, 32, 64, 128, 256, 300])
    }

    @Test func aWrongPasswordIsRetriedSlowlyUntilSomebodyFixesIt() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        try await a.put("a", "{}")
        let hub = Hub(b)
        hub.refuse(3, ReplicationError(domain: .http, code: 401, message: "who are you"))
        let time = JumpingTime()
        let replicator = Replicator(ReplicatorConfiguration(a, continuous: true), hub, environment: time.environment)
        await replicator.start()
        try await b.wait { try await $0.get("a") != nil }
        #expect(time.sleeps == [60, 120, 240])
        await replicator.stop()
        hub.refuse(1, ReplicationError(domain: .http, code: 401, message: "who are you"))
        let oneShot = await Replicator(ReplicatorConfiguration(a), hub).run()
        #expect(oneShot.error?.publicCode == 10401 && oneShot.error?.remedy?.contains("password") == true)
    }

    /// A secret was changed and is still wrong: that counts as the second attempt, even though its delay is that of a first one.
    @Test func attemptsKeepCountingAfterAChangeThatMayHelp() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        try await a.put("a", "{}")
        let hub = Hub(b)
        hub.refuse(3, ReplicationError(domain: .http, code: 401, message: "who are you"))
        let replicator = Replicator(ReplicatorConfiguration(a, continuous: true), hub)
        await replicator.start()
        for attempt in 1...3 {
            await replicator.wait { $0.activity == .offline && $0.attempt == attempt }
            replicator.retryNow("the test says so")
        }
        try await b.wait { try await $0.get("a") != nil }
        await replicator.wait { $0.activity == .idle }
        #expect(replicator.status.attempt == 0)
        await replicator.stop()
    }

    /// Uses this machine's clock: if it were not told, it would wait for a minute or more.
    @Test func aWaitingReplicatorContinuesAtOnceWhenTold() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        try await a.put("a", "{}")
        let hub = Hub(b)
        hub.refuse(2, ReplicationError(domain: .http, code: 401, message: "who are you"))
        let replicator = Replicator(ReplicatorConfiguration(a, continuous: true), hub)
        await replicator.start()
        await replicator.wait { $0.activity == .offline }
        await replicator.start()
        await replicator.wait { $0.activity == .offline && $0.attempt == 2 || $0.error == nil }
        replicator.retryNow("the test says so")
        try await b.wait { try await $0.get("a") != nil }
        await replicator.wait { $0.activity == .idle }
        #expect(replicator.status.error == nil && replicator.status.attempt == 0)
        await replicator.stop()
    }

    @Test func aOneShotGivesUpOnAPeerThatAcceptsAndDrops() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        try await a.put("a", "{}")
        let hub = Hub(b) { _ in (.init(cutsAt: 0), .init()) }
        let time = JumpingTime()
        let status = await Replicator(ReplicatorConfiguration(a), hub, environment: time.environment).run()
        #expect(status.error != nil && hub.connections == 10)
        #expect(time.sleeps == [2, 4, 8, 16, 32, 64, 128, 256, 300])
    }

    @Test func aStartWhileItIsStoppingIsNotLost() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        let replicator = Replicator(ReplicatorConfiguration(a, continuous: true), Hub(b))
        await replicator.start()
        await replicator.wait { $0.activity == .idle }
        await replicator.beginStop()
        await replicator.start()
        try await a.put("x", "{}")
        try await b.wait { try await $0.count() == 1 }
        await replicator.stop()
        #expect(replicator.status.activity == .stopped)
    }

    @Test func stoppingWhileOffline() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        let hub = Hub(b)
        hub.refuse(1_000, refused)
        let replicator = Replicator(ReplicatorConfiguration(a, continuous: true), hub)
        await replicator.start()
        #expect(await replicator.wait { $0.activity == .offline } != nil)
        await replicator.stop()
        #expect(replicator.status.activity == .stopped)
    }

    @Test("messages say why a connection ended; the meaning of a close code is mentioned only if the peer sent it")
    func sentences() {
        for (code, reason, isOurs, words) in [
            (4001, "", false, "the peer asks to come back later (4001)"), (4001, "restart", false, "the peer asks to come back later (4001): restart"),
            (4001, "12 bytes wait", true, "12 bytes wait"), (4002, "no", false, "the peer ended the replication for good (4002): no"),
            (1001, "the listener stops", false, "the listener stops"), (1011, "", false, "the peer closed the connection (1011)"),
        ] as [(UInt16, String, Bool, String)] {
            #expect(ConnectionEnd(code: code, reason: reason, initiatedLocally: isOurs).sentence == words)
        }
    }

    @Test func aContinuousReplicatorReconnectsAfterTheListenerWentAway() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        let hub = Hub(b)
        let time = JumpingTime()
        let replicator = Replicator(ReplicatorConfiguration(a, continuous: true), hub, environment: time.environment)
        await replicator.start()
        await replicator.wait { $0.activity == .idle }
        for code: UInt16 in [1001, 1012, 4001, 1000] {
            for session in hub.sessions { await session.stop(code: code) }
            try await b.put("after-\(code)", "{}")
            try await a.wait { try await $0.get("after-\(code)") != nil }
        }
        #expect(time.sleeps == [2, 2, 2, 2])
        await replicator.stop()
    }
}

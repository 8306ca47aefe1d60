import BLIP
import Documents
import DocumentStore
import Interfaces
import NIOCore
import Replication
import TestRandomness
import Testing
import Transport

/// Connections that end at the worst possible moments.
@Suite(.timeLimit(.minutes(10)))
struct FaultTests {
    /// The connection is cut at each of many messages, in either direction, and the run is resumed until it is done.
    @Test(arguments: [(UInt64(1), 1), (2, 2), (3, 5), (4, 9)])
    func cutAndResumed(_ seed: UInt64, _ step: Int) async throws {
        var random = SeededGenerator(seed: seed)
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        try await a.fill(0..<400, prefix: "a-")
        try await b.fill(0..<400, prefix: "b-")
        let blob = [UInt8]((0..<60_000).map { _ in UInt8.random(in: 0...255, using: &random) })
        let digest = try await a.blob(blob)
        try await a.put("blob", "{\"x\":{\"@type\":\"blob\",\"digest\":\"\(digest)\"}}")
        let shift = Int.random(in: 0..<3, using: &random)
        let hub = Hub(b) { number in
            // The cuts come later and later, so that every moment gets its turn and each run gets a little further.
            let at = 1 + number * step + shift
            return number % 2 == 0 ? (.init(cutsAt: at), .init()) : (.init(), .init(cutsAt: at))
        }
        let time = JumpingTime()
        let replicator = Replicator(
            ReplicatorConfiguration(a) {
                $0.retry = .init(maximumAttempts: 1_000)
                $0.limits.rowsPerChangeList = 20
                $0.limits.insertionBatch = 20
            }, hub, environment: time.environment)
        let status = await replicator.run()
        #expect(status.error == nil, "seed \(seed)")
        #expect(hub.connections > 3)
        #expect(try await a.contents() == b.contents(), "seed \(seed)")
        #expect(try await b.count() == 801)
        // Whatever was lost of the answers, and however often a connection began again.
        #expect(status.counts.pushed == 401 && status.counts.pulled == 400, "seed \(seed): \(status.counts)")
        // A peer may announce on one connection what it was sent on another.
        #expect(status.counts.completed <= 2 * 801 && status.counts.total == status.counts.completed, "seed \(seed): \(status.counts)")
    }

    /// Whenever the connection is cut, everything that the pusher counts as pushed is at the other side.
    @Test(arguments: 2..<40)
    func whatWasAcknowledgedIsThere(_ cut: Int) async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        try await a.fill(0..<60)
        let hub = Hub(b) { _ in (.init(), .init(cutsAt: cut)) }
        let replicator = Replicator(ReplicatorConfiguration(a, .push) { $0.retry = .init(maximumAttempts: 1) }, hub)
        let events = replicator.documentEvents()
        let status = await replicator.run()
        #expect(status.counts.completed <= status.counts.total)
        let there = Set(try await b.contents().compactMap { $0.split(separator: " ").first.map(String.init) })
        #expect(UInt64(there.count) >= status.counts.pushed)
        if status.counts.pushed > 0 {
            var seen: UInt64 = 0
            for await batch in events {
                for event in batch where event.error == nil {
                    #expect(there.contains(event.id.text))
                    seen += 1
                }
                if seen >= status.counts.pushed { break }
            }
        }
        // The next run does the rest, no more and no less.
        let after = await Replicator(ReplicatorConfiguration(a, .push), Hub(b)).run()
        #expect(after.error == nil)
        #expect(try await b.contents() == a.contents())
    }

    @Test func continuousThroughManyCuts() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        let hub = Hub(b) { number in number < 25 ? (.init(cutsAt: 8 + number % 7), .init(cutsAt: 9 + number % 5)) : (.init(), .init()) }
        let time = JumpingTime()
        let replicator = Replicator(ReplicatorConfiguration(a, continuous: true), hub, environment: time.environment)
        await replicator.start()
        for index in 0..<200 {
            try await a.put("a-\(index)", "{\"n\":\(index)}")
            try await b.put("b-\(index)", "{\"n\":\(index)}")
        }
        try await a.wait { try await $0.count() == 400 }
        try await b.wait { try await $0.count() == 400 }
        #expect(await replicator.wait { $0.activity == .idle && $0.counts.completed == $0.counts.total } != nil)
        await replicator.stop()
        let counts = replicator.status.counts
        #expect(counts.pushed == 200 && counts.pulled == 200 && (400...800).contains(counts.completed), "\(counts)")
        #expect(try await a.contents() == b.contents())
    }

    @Test func aSlowConnectionKeepsTheOrder() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        try await a.fill(0..<300, prefix: "a-")
        try await b.fill(0..<300, prefix: "b-")
        let hub = Hub(b) { _ in (.init(latency: .milliseconds(2)), .init(latency: .milliseconds(3))) }
        #expect(await replicate(a, hub).error == nil)
        #expect(try await a.contents() == b.contents())
    }

    /// One end sees a gap in the message numbers or a wrong checksum, and closes; the replicator reconnects by itself, even in a one-shot run.
    @Test(arguments: [true, false])
    func aLostMessageEndsTheConnectionAndIsSentAgain(_ onTheWayThere: Bool) async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        try await a.fill(0..<300)
        let loses = InMemoryTransport.Faults(loses: { $0 == 3 })
        let hub = Hub(b) { number in number > 0 ? (.init(), .init()) : onTheWayThere ? (loses, .init()) : (.init(), loses) }
        let time = JumpingTime()
        let status = await Replicator(ReplicatorConfiguration(a, .push), hub, environment: time.environment).run()
        #expect(status.error == nil && hub.connections > 1)
        #expect(try await b.contents() == a.contents())
    }

    /// A peer that has spoken the protocol is not a wrong target: something between the two has changed a WebSocket frame.
    @Test(arguments: [1002, 1003, 1007] as [UInt16])
    func aFrameThatWasChangedOnTheWayIsTransient(code: UInt16) async throws {
        let database = try TestDatabase("a")
        let listener = FakeListener { request in request.profile == "getCollections" ? OutgoingReply(json: "[{}]") : OutgoingReply() }
        let replicator = Replicator(ReplicatorConfiguration(database, .pull, continuous: true), listener)
        await replicator.start()
        for await peer in listener.peers {
            for await request in peer.requests where request.profile == "subChanges" { break }
            peer.close(code)
            break
        }
        let status = await replicator.wait { $0.error?.code == Int(code) }
        #expect(status?.error?.domain == .websocket && status?.error?.isTransient == true, "\(String(describing: status?.error))")
        await replicator.stop()
    }

    @Test func aClosedDatabaseEndsTheRunWithAnError() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        let replicator = Replicator(ReplicatorConfiguration(a, continuous: true), Hub(b))
        await replicator.start()
        await replicator.wait { $0.activity == .idle }
        a.database.close()
        try await b.put("x", "{}")
        let status = await replicator.waitUntilStopped()
        #expect(status.error?.domain == .store)
    }
}

/// What a listener allows its peers to do.
@Suite(.timeLimit(.minutes(10)))
struct ListenerTests {
    @Test(arguments: [true, false])
    func readOnly(_ byPrincipal: Bool) async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        try await a.fill(0..<5, prefix: "a-")
        try await b.fill(0..<5, prefix: "b-")
        let hub = Hub(
            PassiveConfiguration(
                listener: "hub", database: b.database, principal: Principal(name: "reader", isReadOnly: byPrincipal), isReadOnly: !byPrincipal))
        let status = await replicate(a, hub)
        // The peer says in advance that it accepts nothing: no document is sent only to be refused, and the pull continues.
        #expect(status.error?.code == 403 && status.error?.remedy != nil && status.refusals.push?.code == 403, "\(status)")
        #expect(status.counts.pulled == 5 && status.counts.pushed == 0 && status.counts.failed == 0, "\(status)")
        #expect(hub.counters.snapshot.failed == 0)
        #expect(try await b.count() == 5)
        #expect(hub.counters.snapshot.completed <= hub.counters.snapshot.total)
    }

    @Test func aPrincipalOfSomeCollections() async throws {
        let a = try TestDatabase("a", collections: ["x.open", "x.closed"])
        let b = try TestDatabase("b", collections: ["x.open", "x.closed"])
        try await a.fill(0..<5, in: "x.open")
        let hub = Hub(PassiveConfiguration(listener: "hub", database: b.database, principal: Principal(name: "u", collections: ["x.open"])))
        let open = try CollectionName(parsing: "x.open")
        let closed = try CollectionName(parsing: "x.closed")
        #expect(await replicate(a, hub) { $0.collections = [CollectionReplication(collection: open)] }.counts.pushed == 5)
        let refused = await replicate(a, hub) { $0.collections = [CollectionReplication(collection: closed)] }
        #expect(refused.error?.code == 404)
        #expect(await replicate(a, hub).error?.code == 404)
    }
}

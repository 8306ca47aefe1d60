import BLIP
import Dispatch
import Documents
import DocumentStore
import Environment
import Interfaces
import NIOCore
import Synchronization
import Testing
import TestSupport
import Transport

@testable import Replication

/// All that peers make the agent hold stays within one budget.
@Suite(.timeLimit(.minutes(10)))
struct MemoryTests {
    private func connect(_ database: TestDatabase, _ memory: MemoryBudget, _ receiver: any MessageReceiver) async -> InMemoryTransport {
        let client = await MemoryHub(database: database, memory: memory).session().client
        client.executionContext.execute { client.start(receiver) }
        return client
    }

    /// Sends messages that never end, and reads nothing.
    private final class Hostile: MessageReceiver {
        private let codes = Mutex<[UInt16]>([])
        let end: AsyncStream<UInt16>
        private let continuation: AsyncStream<UInt16>.Continuation
        init() { (end, continuation) = AsyncStream.makeStream() }
        func received(_ messages: [ByteBuffer]) {}
        func writabilityChanged(_ isWritable: Bool) {}
        func closed(_ end: ConnectionEnd) {
            continuation.yield(end.code)
            continuation.finish()
        }

        /// Frames of a request that is not complete.
        static func frames(_ count: Int) -> [ByteBuffer] {
            var blip = BLIPConnection(compressionLevel: 0)
            let body = ByteBuffer(repeating: 0x20, count: count * 16_384 + 100_000)
            blip.send(OutgoingRequest(profile: "proposeChanges", body: body))
            var frames: [ByteBuffer] = []
            while frames.count < count, let frame = blip.nextFrame() { frames.append(frame) }
            return frames
        }
    }

    @Test func peersThatNeverFinishAreEvictedForOneThatDoes() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        let memory = MemoryBudget(limit: 16 << 20)
        let highest = Mutex(0)
        var hostile: [(Hostile, InMemoryTransport)] = []
        // 256 connections with 112 KiB each would be 28 MiB.
        let frames = Hostile.frames(7)
        for _ in 0..<256 {
            let peer = Hostile()
            let transport = await connect(b, memory, peer)
            transport.executionContext.execute { transport.write(frames) }
            hostile.append((peer, transport))
            // A connection that is evicted for it is gone within a few turns, however busy the machine is.
            for _ in 0..<4 { try await loopsTakeATurn() }
            highest.withLock { $0 = max($0, memory.used) }
        }
        try await a.fill(1...500)
        let hub = MemoryHub(database: b, memory: memory)
        let status = await Replicator(ReplicatorConfiguration(a, .push), hub).run()
        highest.withLock { $0 = max($0, memory.used) }
        #expect(status.error == nil && status.counts.pushed == 500)
        #expect(highest.withLock { $0 } <= memory.limit + memory.limit / 10)
        for (_, transport) in hostile { transport.drop() }
        var codes: [UInt16: Int] = [:]
        for (peer, _) in hostile { for await code in peer.end { codes[code, default: 0] += 1 } }
        // Some were evicted, with a close code that tells them to come back later.
        #expect(codes[4001, default: 0] > 0)
    }

    /// What each of them is sent could take a quarter of a megabyte.
    @Test func manyFollowersInformedAtOnceStayWithinTheBudget() async throws {
        let database = try TestDatabase("hub")
        let memory = MemoryBudget(limit: 4 << 20)
        let hub = MemoryHub(database: database, memory: memory)
        var followers: [Peer] = []
        for _ in 0..<40 {
            let follower = try await Peer(hub.connect()) { _ in nil }
            #expect(await follower.ask("subChanges", [("continuous", "true")])?.error == nil)
            followers.append(follower)
        }
        try await database.put("doc", "{\"text\":\"\(String(repeating: "spring ", count: 400))\"}")
        for follower in followers {
            for await request in follower.requests where request.profile == "changes" && request.body.readableBytes > 4 { break }
        }
        #expect(memory.used <= memory.limit)
    }

    @Test func revisionsThatAreRequestedAndNotReadStayWithinTheBudget() async throws {
        let (a, hub) = (try TestDatabase("a"), try TestDatabase("hub"))
        for number in 0..<40 { try await hub.put("doc-\(number)", "{\"text\":\"\(String(repeating: "x", count: 100_000))\"}") }
        let memory = MemoryBudget(limit: 16 << 20)
        let listener = MemoryHub(database: hub, memory: memory)
        let highest = Mutex(0)
        var liars: [Peer] = []
        for _ in 0..<40 {
            let liar = try await Peer(listener.connect()) { request in
                highest.withLock { $0 = max($0, memory.used) }
                guard request.profile == "changes" else { return nil }
                let rows = json(request.body)?.asArray?.count ?? 0
                return OutgoingReply(json: "[" + Array(repeating: "[]", count: rows).joined(separator: ",") + "]")
            }
            // One that is evicted before it can ask counts among the forty as well.
            liar.send(liar.request("subChanges", [("continuous", "true")]))
            liars.append(liar)
        }
        let status = await Replicator(ReplicatorConfiguration(a, .pull), listener).run()
        highest.withLock { $0 = max($0, memory.used) }
        #expect(status.error == nil && status.counts.pulled == 40)
        // All of them together would hold 160 MB. On top of the limit comes what is being read for some of them when the others reach it, and what those
        // that are evicted hold until their turn to end comes, which takes longer on a busy machine.
        #expect(highest.withLock { $0 } <= 2 * memory.limit)
        for liar in liars { liar.close() }
    }

    /// The peer subscribes and answers none of what it is offered; it does not even close.
    @Test func anEvictedPeerKeepsNoDocumentsInMemory() async throws {
        let database = try TestDatabase("hub")
        for number in 0..<8 { try await database.put("doc-\(number)", "{\"text\":\"\(String(repeating: "x", count: 100_000))\"}") }
        let (session, client) = await MemoryHub(database: database, memory: MemoryBudget(limit: 64 << 20)).session()
        let peer = Peer(client) { _ in nil }
        #expect(await peer.ask("subChanges", [("continuous", "true")])?.error == nil)
        for await request in peer.requests where request.profile == "changes" { break }
        #expect(await session.bytesOnTheirWayOut > 800_000)
        session.later { $0.accounts.stand(.evicted) }
        try await eventually("nothing is on its way to the peer") { await session.bytesOnTheirWayOut == 0 }
        client.drop()
    }

    /// Otherwise a peer that connects, leaves work for the store and disconnects, again and again, could fill the memory with work that is not counted.
    @Test func workAPeerLeftForTheStoreCountsUntilItIsDone() async throws {
        let (database, memory, length) = (try TestDatabase("hub"), MemoryBudget(limit: 64 << 20), 1_000_000)
        let (gate, isHeld) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        database.database.write { _ in
            isHeld.signal()
            gate.wait()
        } completion: { (_: Result<Void, any Error>) in }
        let peer = try await Peer(MemoryHub(database: database, memory: memory).connect())
        await peer.begin()
        let body = "{\"text\":\"\(String(repeating: "x", count: length))\"}"
        peer.send(peer.request("rev", [("collection", "0"), ("id", "large"), ("rev", "1-aa"), ("history", "")], body))
        // Reserved for the store, which makes a row from it.
        try await eventually("memory is reserved for the store") { memory.reserved >= 2 * length }
        let before = memory.used
        peer.close()
        try await eventually("the session has ended") { memory.used < before }
        #expect(memory.used >= 3 * length)
        gate.signal()
        try await eventually("the document is stored") { memory.used == 0 }
        #expect(try await database.get("large") != nil)
    }

    /// Forty kilobytes for zlib are not held against a peer, even after an hour: the one that makes us hold a message is evicted.
    @Test func anIdlePeerIsNotEvictedForAnother() async throws {
        let database = try TestDatabase("hub")
        let clock = MemoryBudgetTests.HandClock()
        let memory = MemoryBudget(limit: 1 << 20, time: clock)
        let idle = try await Peer(MemoryHub(database: database, memory: memory).connect())
        var request = OutgoingRequest(profile: "getCheckpoint", properties: ["client": "alive?"], body: ByteBuffer(repeating: 0x20, count: 2_000))
        request.isCompressed = true
        #expect(await idle.ask(request)?.error?.code == 404)
        clock.go(3_600)
        let guilty = Hostile()
        let transport = await connect(database, memory, guilty)
        // The rest of a message is not sent before its first part is acknowledged.
        var blip = BLIPConnection(compressionLevel: 0)
        for _ in 0..<10 { blip.send(OutgoingRequest(profile: "proposeChanges", body: ByteBuffer(repeating: 0x20, count: 400_000))) }
        var frames: [ByteBuffer] = []
        while let frame = blip.nextFrame() { frames.append(frame) }
        transport.executionContext.execute { [frames] in transport.write(frames) }
        for await code in guilty.end { #expect(code == 4001) }
        #expect(await idle.ask("getCheckpoint", [("client", "alive?")])?.error?.code == 404)
    }

    /// A delta of twenty bytes makes a body of 400 KB, of which there are several copies at a time. They fit the budget, and where they do not, whole bodies are sent.
    @Test func deltasAreAppliedWithinTheBudget() async throws {
        let database = try TestDatabase("hub")
        let body = "{\"a\":[\(Array(repeating: "1", count: 200_000).joined(separator: ","))]}"
        var bases: [RevisionID] = []
        for number in 0..<6 { bases.append(try await database.put("x\(number)", body)) }
        let known = bases
        @Sendable func push(_ memory: MemoryBudget, _ number: Int, _ body: String, delta: Bool) async throws -> MessageErrorText? {
            let peer = try await Peer(MemoryHub(database: database, memory: memory).connect())
            await peer.begin()
            var properties = [
                ("collection", "0"), ("id", "x\(number)"), ("rev", "2-aa0000000000000000000000000000000000000\(number)"), ("history", known[number].text),
            ]
            if delta { properties.append(("deltaSrc", known[number].text)) }
            return await peer.ask("rev", properties, body)?.error.map { MessageErrorText(code: $0.code, message: $0.message) }
        }
        let small = MemoryBudget(limit: 4 << 20)
        let refusal = try await push(small, 0, "{\"n\":1}", delta: true)
        #expect(refusal?.code == 422 && refusal?.message.contains("limits.memory") == true, "\(String(describing: refusal))")
        #expect(small.reserved == 0)
        #expect(try await push(small, 0, "{\"n\":1}", delta: false) == nil)
        let memory = MemoryBudget(limit: 32 << 20)
        await withTaskGroup(of: MessageErrorText?.self) { group in
            for number in 1..<6 { group.addTask { try? await push(memory, number, "{\"n\":1}", delta: true) } }
            for await error in group { #expect(error == nil) }
        }
        #expect(memory.highestReserved >= 8 * 400_000 && memory.highestReserved <= memory.limit / 2)
        // All of it is given back.
        #expect(await memory.reserve(memory.limit / 2) != nil)
    }

    /// A received delta is decoded completely, and memory is reserved for that; its base is not decoded.
    @Test func aDeltaCountsByItsValuesAndItsBaseByItsText() {
        let limits = ReplicationLimits()
        let numbers = "[\(Array(repeating: "1", count: 50_000).joined(separator: ","))]"
        let base = BaseLookUp.Size(bytes: 1_000_000)
        let small = DeltaBatch.Other.delta(ByteBuffer(string: "{\"n\":1}")).memory(with: base, limits)
        #expect((8_000_000..<8_002_000).contains(small), "\(small)")
        let large = DeltaBatch.Other.delta(ByteBuffer(string: "{\"a\":[\(numbers)]}")).memory(with: base, limits)
        #expect(large > small + 50_000 * 100, "\(large)")
        // To make a delta, both bodies are decoded.
        let made = DeltaBatch.Other.body(Array("{\"a\":\(numbers)}".utf8)).memory(with: BaseLookUp.Size(bytes: 100, values: 12_345_678), limits)
        #expect(made > 12_345_678 + 50_000 * 100, "\(made)")
    }

    private struct MessageErrorText: Equatable {
        var code: Int
        var message: String
    }

    /// 2,000 requests whose answers have a megabyte each, none of which is read.
    @Test func repliesThatNobodyReadsAreNotMade() async throws {
        let b = try TestDatabase("b")
        let large = Array("{\"text\":\"\(String(repeating: "x", count: 1_000_000))\"}".utf8)
        try await b.database.write {
            try $0.setPeerCheckpoint(
                CheckpointOwner(user: nil, listener: "hub"), id: "cp", body: large, expectedRevision: nil,
                within: CheckpointBounds(count: 1, bytes: 2 << 20))
        }
        let memory = MemoryBudget(limit: 64 << 20)
        let peer = Hostile()
        let transport = await connect(b, memory, peer)
        var blip = BLIPConnection(compressionLevel: 0)
        var frames: [ByteBuffer] = []
        for _ in 0..<2_000 {
            blip.send(OutgoingRequest(profile: "getCheckpoint", properties: ["client": "cp"]))
            while let frame = blip.nextFrame() { frames.append(frame) }
        }
        transport.executionContext.execute { [frames] in
            transport.setReading(false)
            transport.write(frames)
        }
        // A well-behaved peer is served at the same time; by the end of that, the first one has had ample time.
        let other = try await Peer(MemoryHub(database: b, memory: memory).connect())
        for _ in 0..<50 { #expect(await other.ask("getCheckpoint", [("client", "cp")])?.error == nil) }
        #expect(memory.used < 12 << 20)
        transport.drop()
    }

    @Test func whatASocketDoesNotTakeIsHeldForItsPeer() async throws {
        let b = try TestDatabase("b")
        let large = Array("{\"text\":\"\(String(repeating: "x", count: 110_000))\"}".utf8)
        try await b.database.write {
            try $0.setPeerCheckpoint(
                CheckpointOwner(user: nil, listener: "hub"), id: "cp", body: large, expectedRevision: nil,
                within: CheckpointBounds(count: 1, bytes: 2 << 20))
        }
        let memory = MemoryBudget(limit: 64 << 20)
        let transport = await connect(b, memory, Hostile())
        var blip = BLIPConnection(compressionLevel: 0)
        blip.send(OutgoingRequest(profile: "getCheckpoint", properties: ["client": "cp"]))
        guard let frame = blip.nextFrame() else { throw SupportError("no frame to send") }
        transport.executionContext.execute {
            transport.setReading(false)
            transport.write([frame])
        }
        // The whole reply fits BLIP's window, so that it waits in the socket and nowhere else.
        try await eventually("the reply is counted") { memory.used > 120_000 }
        transport.executionContext.execute { transport.setReading(true) }
        try await eventually("the reply no longer counts once it has been read") { memory.used < 100_000 }
        transport.drop()
    }
}

extension ReplicationSession {
    /// The bytes of documents that the peer was offered or sent and has not answered yet.
    fileprivate var bytesOnTheirWayOut: Int { driver.links.reduce(0) { $0 + ($1.push?.ledger.bytesAtHand ?? 0) } }
}

/// A listener whose sessions share a budget.
struct MemoryHub: TransportConnector {
    let database: TestDatabase
    let memory: MemoryBudget
    var pushFilter: TestFilter?

    func connect() async throws -> any MessageTransport { await session().client }

    /// Connects, and returns the session here and the peer's end.
    func session() async -> (session: ReplicationSession, client: InMemoryTransport) {
        let (client, server) = InMemoryTransport.pair(loops.next(), loops.next())
        let session = ReplicationSession(
            transport: server, role: .passive(PassiveConfiguration(listener: "hub", database: database.database, pushFilter: pushFilter)), environment: .system,
            memory: memory, logger: quietLogger())
        await session.start()
        return (session, client)
    }
}

import BLIP
import Documents
import DocumentStore
import Environment
import Interfaces
import NIOCore
import Synchronization
import TestRandomness
import Testing
import TestSupport
import Transport

@testable import Replication

/// What a peer's message holds in memory, and what the budget is told about it.
@Suite(.timeLimit(.minutes(5)))
struct HeldMemoryTests {
    private func request(_ properties: [(String, String)], _ body: String) throws -> IncomingRequest {
        var sender = BLIPConnection(compressionLevel: 0)
        var receiver = BLIPConnection()
        var request = OutgoingRequest(profile: "rev", body: ByteBuffer(string: body))
        for (key, value) in properties { request.properties.append(key, value) }
        sender.send(request)
        var events: [BLIPEvent] = []
        while let frame = sender.nextFrame() { try receiver.receive(frame, into: &events) }
        guard case .request(let received)? = events.first else { throw ReplicationError(domain: .blip, code: 0, message: "no request came") }
        return received
    }

    private func revision(_ properties: [(String, String)], _ body: String) throws -> ReceivedRevision {
        try ReceivedRevision(try request(properties, body), takesDeltas: false, limits: ReplicationLimits())
    }

    @Test func aRevisionCostsWhatItHolds() throws {
        let digest = String(repeating: "ab", count: 40)
        let history = (1...1_000).reversed().map { "\($0)-\(digest)" }.joined(separator: ",")
        let long = try revision([("id", "a"), ("rev", "1001-\(digest)"), ("history", history)], "{}")
        #expect(long.history.count == 1_000 && long.bytes > history.utf8.count && long.bytes < history.utf8.count + 4_096, "\(long.bytes)")
        // Properties that have no use here are not kept.
        let idle = try revision([("id", "a"), ("rev", "1-aa"), ("x", String(repeating: "y", count: 90_000))], "{}")
        #expect(idle.bytes < 2_048, "\(idle.bytes)")
        // A body that is part of a larger buffer costs what it keeps alive.
        var part = idle
        part.body = try #require(ByteBuffer(repeating: 0x20, count: 1 << 20).getSlice(at: 0, length: 2))
        #expect(part.bytes > 1 << 20)
    }

    @Test func aListCountsUntilItHasBeenLookedUp() {
        var pull = PullRun(passive: true)
        #expect(pull.machine.bufferedBytes == 0)
        pull.on(.listArrived(IncomingList(handle: AnswerHandle(number: 1), content: .text(ByteBuffer(repeating: 0x20, count: 1 << 20)) { _ in .success(.proposed([])) })))
        #expect(pull.last.contains { if case .readList = $0 { true } else { false } } && pull.machine.bufferedBytes >= 1 << 20)
        let rows = (0..<100).map { RowResult.row(ProposedRow(id: doc("document-number-\($0)"), revision: rev("1-aa"), parent: nil, bodySize: 1)) }
        pull.on(.listRead(.success(.proposed(rows))))
        // The text is gone, and the rows remain.
        #expect((100 * 500..<1 << 18).contains(pull.machine.bufferedBytes), "\(pull.machine.bufferedBytes)")
        pull.on(.proposalsChecked(rows.map { _ in .have }))
        #expect(pull.machine.bufferedBytes == 0)
    }

    private func ids(_ count: Int) -> String {
        "{\"docIDs\":[\((0..<count).map { "\"a-document-with-a-long-name-\($0)\"" }.joined(separator: ","))]}"
    }

    @Test func subscribedIDsCountAsLongAsTheSubscription() async throws {
        let database = try TestDatabase("hub")
        let memory = MemoryBudget(limit: 64 << 20)
        let peer = try await Peer(MemoryHub(database: database, memory: memory).connect())
        await peer.begin()
        let idle = memory.used
        #expect(await peer.ask("subChanges", [("collection", "0"), ("continuous", "true")], ids(20_000))?.error == nil)
        #expect(await peer.isAlive())
        #expect(memory.used - idle >= 20_000 * 48, "\(memory.used - idle)")
        // While the text was read, its values took many times its size.
        #expect(memory.highestReserved > 20_000 * 128)
        try await eventually("the first page is read") { memory.reserved == 0 }
        #expect(await peer.ask("unsubChanges", [("collection", "0")])?.error == nil)
        #expect(await peer.isAlive())
        try await eventually("nothing is held for the subscription any more") { memory.used - idle < 200_000 }
        let small = try await Peer(MemoryHub(database: database, memory: MemoryBudget(limit: 3 << 20)).connect())
        await small.begin()
        let refusal = await small.ask("subChanges", [("collection", "0")], ids(20_000))?.error
        #expect(refusal?.code == 503 && refusal?.message.contains("limits.memory") == true)
    }

    @Test func idsBeyondTheLimitAreNotRead() async throws {
        let database = try TestDatabase("hub")
        let memory = MemoryBudget(limit: 64 << 20)
        let peer = try await Peer(MemoryHub(database: database, memory: memory).connect())
        await peer.begin()
        for body in [ids(100_200), "{\"docIDs\":[\(String(repeating: "1,", count: 200_000))1]}"] {
            let refusal = await peer.ask("subChanges", [("collection", "0")], body)?.error
            #expect(refusal?.code == 413 && refusal?.message.contains("max_document_ids") == true)
        }
        #expect(await peer.isAlive())
    }

    /// A body with reserved keys is decoded completely: a megabyte of numbers would become sixty.
    @Test func aLargeBodyWithReservedKeysHasItsShareOfTheBudget() async throws {
        func outcome(_ body: String, _ memory: MemoryBudget) async -> Int? {
            var revision = received(1, "a")
            revision.body = ByteBuffer(string: body)
            switch await RevisionChecking.check(UncheckedRevisions([revision]), unusualKeys: true, memory).first {
            case .refused(_, let error)?: return error.code
            case .checked(let checked)?: return checked.bytes > 0 ? nil : 0
            case nil: return 0
            }
        }
        let numbers = "[\(String(repeating: "1,", count: 100_000))1]"
        let memory = MemoryBudget(limit: 64 << 20)
        #expect(await outcome("{\"_id\":\"a\",\"n\":\(numbers)}", memory) == nil)
        #expect(memory.highestReserved >= 100_000 * 100 && memory.reserved == 0)
        #expect(await outcome("{\"_id\":\"a\",\"n\":\(numbers)}", MemoryBudget(limit: 4 << 20)) == 413)
        // Without such keys it is not decoded, however little memory there is, and blobs are found all the same.
        #expect(await outcome("{\"n\":\(numbers)}", MemoryBudget(limit: 64 << 10)) == nil)
        var revision = received(1, "a")
        revision.body = ByteBuffer(string: "{\"n\":\(numbers),\"b\":{\"@type\":\"blob\",\"digest\":\"\(digest(7).text)\"}}")
        guard case .checked(let checked)? = await RevisionChecking.check(UncheckedRevisions([revision]), unusualKeys: true, MemoryBudget(limit: 64 << 10)).first else {
            Issue.record("the revision was refused")
            return
        }
        #expect(checked.blobs.map(\.digest) == [digest(7)])
    }

    /// A body that names many blobs.
    static func naming(_ count: Int) -> String {
        let blobs = (0..<count).map { "{\"@type\":\"blob\",\"digest\":\"\(BlobDigest.of(Array("\($0)".utf8)).text)\"}" }
        return "{\"blobs\":[\(blobs.joined(separator: ","))]}"
    }

    private final class Found: Sendable {
        let rooms = Mutex<[(bytes: Int, room: MemoryBudget.Reservation)]>([])
    }

    private func check(_ body: String, _ memory: MemoryBudget, _ found: Found) async -> (CheckOutcome?, bytes: Int) {
        var revision = received(1, "a")
        revision.body = ByteBuffer(string: body)
        let batch = UncheckedRevisions([revision])
        let outcomes = await RevisionChecking.check(batch, unusualKeys: true, memory) { bytes, room in found.rooms.withLock { $0.append((bytes, room)) } }
        return (outcomes.first, batch.namedBytes)
    }

    @Test func memoryForManyBlobNamesIsReservedBeforeTheyAreFound() async throws {
        let (memory, found) = (MemoryBudget(limit: 64 << 20), Found())
        guard case (.checked(let checked)?, let bytes) = await check(Self.naming(5_000), memory, found) else {
            Issue.record("the revision was refused")
            return
        }
        #expect(checked.blobs.count == 5_000 && bytes >= 5_000 * (HeldBytes.reference + HeldBytes.named))
        // The memory that was reserved for them stays reserved until they are counted.
        #expect(found.rooms.withLock { $0.map(\.bytes) } == [bytes] && memory.reserved >= bytes)
        found.rooms.withLock { $0 = [] }
        #expect(memory.reserved == 0)
        // For a few no memory has to be requested.
        let none = MemoryBudget(limit: 1_000)
        guard case (.checked(let few)?, 0) = await check(Self.naming(30), none, found) else {
            Issue.record("the revision was refused")
            return
        }
        #expect(few.blobs.count == 30)
    }

    @Test func withoutRoomForNamesTheOneThatOwesMostIsEvictedOrTheyComeLater() async throws {
        let (memory, found) = (MemoryBudget(limit: 16 << 20, time: MemoryBudgetTests.HandClock()), Found())
        let others = memory.register { _ in }
        _ = others.hold(15 << 20, owedByPeer: 0)
        guard case (.refused(_, let error)?, 0) = await check(Self.naming(9_000), memory, found) else {
            Issue.record("the revision was accepted")
            return
        }
        #expect(error.code == 503 && error.isTransient && error.message.contains("limits.memory (16777216) has no room now"), "\(error)")
        others.giveUp()
        final class Debtor: Sendable { let share = Mutex<MemoryBudget.Share?>(nil) }
        let debtor = Debtor()
        let share = memory.register { if $0 == .evicted { debtor.share.withLock { $0 }?.giveUp() } }
        debtor.share.withLock { $0 = share }
        _ = share.hold(15 << 20, owedByPeer: 15 << 20)
        guard case (.checked(let checked)?, _) = await check(Self.naming(9_000), memory, found) else {
            Issue.record("the revision was refused")
            return
        }
        #expect(checked.blobs.count == 9_000 && memory.takeHighest() <= memory.limit)
    }

    @Test func aDocumentForWhichLimitsMemoryHasNoRoomFailsAloneAndByName() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        try await b.put("first", "{}")
        try await b.put("large", "{\"text\":\"\(String(repeating: "x", count: 6 << 20))\"}")
        try await b.put("last", "{}")
        func pull(_ memory: Int) async -> (ReplicatorStatus, String?) {
            let replicator = Replicator(
                configuration: ReplicatorConfiguration(a, .pull) { $0.retry.maximumAttempts = 1 }, connector: MemoryHub(database: b, memory: .unlimited),
                environment: .system, memory: MemoryBudget(limit: memory), logger: quietLogger())
            return await replicator.run { $0.error != nil }
        }
        let (status, words) = await pull(8 << 20)
        #expect(status.error == nil && status.counts.pulled == 2 && status.counts.failed == 1, "\(status)")
        #expect(words?.contains("document large has ") == true && words?.contains("this agent's limits.memory (8388608)") == true, "\(words ?? "")")
        // The checkpoint is past it. With more memory it is requested separately, and only once.
        for (memory, pulled) in [(8 << 20, 0), (4 << 20, 0), (64 << 20, 1), (128 << 20, 0)] as [(Int, UInt64)] {
            let status = await pull(memory).0
            #expect(status.error == nil && status.counts.pulled == pulled && status.counts.total == pulled && status.counts.failed == 0, "\(memory): \(status)")
        }
        #expect(try await a.contents() == b.contents())
    }

    /// What the remote no longer has is not requested again.
    @Test func aDocumentThatWasTooLargeAndIsGone() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        try await b.put("large", "{\"text\":\"\(String(repeating: "x", count: 6 << 20))\"}")
        func pull(_ memory: Int) async -> (status: ReplicatorStatus, connections: Int) {
            let hub = Hub(b)
            let replicator = Replicator(
                configuration: ReplicatorConfiguration(a, .pull) { $0.retry.maximumAttempts = 1 }, connector: hub, environment: .system,
                memory: MemoryBudget(limit: memory), logger: quietLogger())
            return (await replicator.run(), hub.connections)
        }
        #expect(await pull(8 << 20).status.counts.failed == 1)
        let collection = try b.collection()
        #expect(try await b.database.write { try $0.purge(collection, doc("large")) })
        let asked = await pull(64 << 20)
        #expect(asked.status.error == nil && asked.connections == 2)
        #expect(await pull(128 << 20).connections == 1)
    }

    /// One attempt of a one-shot replication.
    private func once(
        _ database: TestDatabase, _ type: ReplicatorType, within memory: MemoryBudget, _ hub: TestDatabase, hubMemory: MemoryBudget = .unlimited
    ) async -> ReplicatorStatus {
        await Replicator(
            configuration: ReplicatorConfiguration(database, type) { $0.retry.maximumAttempts = 1 }, connector: MemoryHub(database: hub, memory: hubMemory),
            environment: .system, memory: memory, logger: quietLogger()
        ).run()
    }

    /// It is this agent's memory that is short, and so the remedy is on this side.
    @Test func aReplicatorWhoseSessionIsEvictedSaysWhoseMemoryIsShort() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        // Text that compression does not reduce to a few frames.
        var (state, text) = (UInt64(7), [UInt8]())
        for _ in 0..<(3 << 20) {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            text.append(UInt8(ascii: "A") + UInt8(state >> 59))
        }
        try await b.put("large", "{\"text\":\"\(String(decoding: text, as: UTF8.self).replacing("\\", with: "a"))\"}")
        let memory = MemoryBudget(limit: 8 << 20)
        let others = memory.register(changed: { _ in })
        _ = others.hold(15 << 19, owedByPeer: 0)
        let error = await once(a, .pull, within: memory, b).error
        withExtendedLifetime(others) {}
        #expect(error?.domain == .litecore && error?.code == 13 && error?.isTransient == true, "\(String(describing: error))")
        #expect(error?.message.hasPrefix("this agent's limits.memory (8388608 bytes)") == true, "\(String(describing: error))")
    }

    /// A document that the database took is pushed, whatever else takes memory, and is no reason to end a connection on which it is pulled, either.
    @Test func aLargeDocumentIsPushedAndPulledWithinTheBudget() async throws {
        func large(_ bytes: Int) -> String { "{\"text\":\"\(String(repeating: "x", count: bytes))\"}" }
        let (edge, hub) = (try TestDatabase("edge"), try TestDatabase("hub"))
        try await edge.put("large", large(3 << 20))
        let memory = MemoryBudget(limit: 8 << 20)
        let others = memory.register(changed: { _ in })
        _ = others.hold(6 << 20, owedByPeer: 0)
        let pushed = await once(edge, .push, within: memory, hub)
        withExtendedLifetime(others) {}
        #expect(pushed.error == nil && pushed.counts.pushed == 1, "\(pushed)")

        try await hub.put("larger", large(19 << 20))
        let budget = MemoryBudget(limit: 64 << 20)
        let pulled = await once(edge, .pull, within: .unlimited, hub, hubMemory: budget)
        #expect(pulled.error == nil && pulled.counts.pulled == 1, "\(pulled)")
        #expect(budget.takeHighest() < 50 << 20)
    }

    /// Documents of which each has room, and several at once have not. What others hold stands for what the agent uses without counting it.
    @Test func afterAnEvictionDocumentsAreRequestedOneByOne() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        var random = SeededGenerator(seed: 3)
        let letters = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
        for number in 0..<8 {
            let text = (0..<(1_000 << 10)).map { _ in letters[random.below(letters.count)] }
            try await b.put("d\(number)", "{\"text\":\"\(String(decoding: text, as: UTF8.self))\"}")
        }
        try await b.put("small", "{}")
        let memory = MemoryBudget(limit: 8 << 20)
        let others = memory.register(changed: { _ in })
        _ = others.hold((56 << 20) / 10, owedByPeer: 0)
        let hub = Hub(b)
        let replicator = Replicator(
            configuration: ReplicatorConfiguration(a, .pull, continuous: true) { $0.retry.maximumWaitSeconds = 1 }, connector: hub, environment: .system,
            memory: memory, logger: quietLogger())
        await replicator.start()
        try await eventually("all are here, and the last connection is one as usual") {
            let (count, caution) = (try await a.count(), await replicator.caution)
            return count == 9 && caution == .none && replicator.status.activity == .idle
        }
        withExtendedLifetime(others) {}
        // One that was evicted, one for the documents one by one, and one as usual.
        #expect(hub.connections >= 3 && hub.connections <= 5, "\(hub.connections)")
        #expect(replicator.status.counts.failed == 0)
        await replicator.stop()
    }

    /// This takes decoding the document, which is not done on the connection's event loop.
    @Test func aLargeDocumentIsSentWithTheNamesOfItsBlobs() async throws {
        let database = try TestDatabase("hub")
        let text = String(repeating: "x", count: 100_000)
        try await database.insert("large", "1-aa", body: "{\"b\":{\"@type\":\"blob\",\"digest\":\"\(digest(7).text)\",\"length\":1},\"text\":\"\(text)\"}")
        let memory = MemoryBudget(limit: 64 << 20)
        let rows = OutgoingReply(body: ByteBuffer(string: "[[]]"))
        let peer = try await Peer(MemoryHub(database: database, memory: memory).connect()) { $0.profile == "changes" ? rows : OutgoingReply() }
        await peer.begin()
        #expect(await peer.ask("subChanges", [("collection", "0")])?.error == nil)
        for await request in peer.requests where request.profile == "rev" {
            let body = try JSONValue(parsing: Array(request.body.readableBytesView))
            #expect(body["_attachments"]?["blob_/b"]?["digest"] == .string(digest(7).text) && body["text"] == .string(text))
            break
        }
        #expect(memory.highestReserved > 100_000)
    }

    @Test func whatIsHeldForAPeerCountsForItsAddressWhileItIsConnected() async throws {
        let database = try TestDatabase("hub")
        let memory = MemoryBudget(limit: 16 << 20)
        let (client, server) = InMemoryTransport.pair(loops.next(), loops.next())
        var configuration = PassiveConfiguration(listener: "hub", database: database.database)
        configuration.origin = "192.0.2.1"
        let session = ReplicationSession(transport: server, role: .passive(configuration), environment: .system, memory: memory, logger: quietLogger())
        await session.start()
        let peer = Peer(client)
        let answer = await peer.ask("getCheckpoint", [("client", "cp")])
        #expect(answer != nil)
        try await eventually("its connection counts for its address") { memory.sums(of: "192.0.2.1").bytes >= 32 << 10 }
        #expect(memory.origins == 1)
        peer.close()
        try await eventually("nothing is held for the address") { memory.origins == 0 }
    }

    /// Thousands of small messages, or a few that compress well, can arrive with one read of the socket.
    @Test(arguments: [false, true]) func aCrowdOfMessagesDoesNotHoldUpTheEventLoop(isClosedAfter: Bool) async throws {
        let database = try TestDatabase("hub")
        let (client, server) = InMemoryTransport.pair(loops.next(), loops.next())
        let counters = ReplicationCounters()
        var configuration = PassiveConfiguration(listener: "hub", database: database.database)
        configuration.limits.turnBytes = 16 << 10
        let session = ReplicationSession(transport: server, role: .passive(configuration), counters: counters, environment: .system, logger: quietLogger())
        await session.start()
        var blip = BLIPConnection()
        var made: [ByteBuffer] = []
        for number in 0..<1_000 {
            blip.send(
                OutgoingRequest(
                    profile: "rev", properties: ["id": "d\(number)", "rev": "1-aa"], body: ByteBuffer(string: "{\"text\":\"\(String(repeating: " ", count: 500))\"}"),
                    isCompressed: true, isNoReply: true))
            while let frame = blip.nextFrame() { made.append(frame) }
        }
        let frames = made
        // All of it is in one turn of the event loop, with work for others right behind it.
        let (first, seen) = AsyncStream.makeStream(of: (left: Int, turns: Int).self)
        session.context.execute {
            session.received(frames)
            @Sendable func look(_ turns: Int) {
                let left = session.assumeIsolated { $0.driver.intake.isEmpty ? 0 : 1 }
                if turns == 1 || left == 0 { seen.yield((left, turns)) }
                if left > 0 { session.context.execute { look(turns + 1) } } else { seen.finish() }
            }
            look(1)
            if isClosedAfter { session.closed(ConnectionEnd(code: 1000, reason: "", initiatedLocally: false)) }
        }
        var looks: [(left: Int, turns: Int)] = []
        for await look in first { looks.append(look) }
        // Each has about 800 bytes, and twenty are handled in a turn; the loop may take two of those turns between two looks.
        #expect(looks.first?.left == 1 && looks.last.map { $0.turns >= 15 } == true, "\(looks)")
        if isClosedAfter { return }
        let collection = try database.collection()
        while try await database.database.read({ try $0.lastSequence(collection) }) < 1_000 { try await Task.sleep(for: .milliseconds(5)) }
        client.drop()
    }
}

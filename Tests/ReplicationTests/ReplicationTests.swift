import Documents
import DocumentStore
import Interfaces
import Testing

@testable import Replication

/// Plain replication of documents between two databases.
@Suite(.timeLimit(.minutes(10)))
struct ReplicationTests {
    @Test func aOneShotPushTransfersEverything() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        try await a.fill(0..<1_000)
        try await a.put("doc-3", "{\"gone\":true}", deleted: true)
        try await a.put("quo\"te\\", "{\"x\":1.50,\"big\":12345678901234567890123}")
        let status = await replicate(a, Hub(b), .push)
        #expect(status.activity == .stopped && status.error == nil)
        #expect(status.counts.pushed == 1_001 && status.counts.pulled == 0)
        #expect(status.counts.completed == status.counts.total)
        #expect(try await b.contents() == a.contents())
        // Bodies are transferred byte for byte.
        #expect(try await b.body("quo\"te\\") == "{\"x\":1.50,\"big\":12345678901234567890123}")
        #expect(try await b.get("doc-3")?.isDeleted == true)
    }

    @Test func aOneShotPullTransfersEverything() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        try await b.fill(0..<1_000)
        let status = await replicate(a, Hub(b), .pull)
        #expect(status.error == nil && status.counts.pulled == 1_000 && status.counts.pushed == 0)
        #expect(status.counts.completed == status.counts.total)
        #expect(try await b.contents() == a.contents())
    }

    /// A first pull into an empty database has no use for tombstones; later ones bring deletions.
    @Test func deletionsAreReplicatedInBothDirections() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        let hub = Hub(b)
        try await b.put("never-seen", "{}", deleted: false)
        try await b.put("never-seen", "{}", deleted: true)
        try await b.fill(0..<10, prefix: "b-")
        try await a.fill(0..<10, prefix: "a-")
        await replicate(a, hub)
        try await b.put("b-1", "{}", deleted: true)
        try await a.put("a-1", "{}", deleted: true)
        await replicate(a, hub)
        for database in [a, b] {
            #expect(try await database.get("b-1")?.isDeleted == true)
            #expect(try await database.get("a-1")?.isDeleted == true)
            #expect(try await database.count() == 18)
        }
    }

    @Test func bothWaysAndUpdates() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        let hub = Hub(b)
        try await a.fill(0..<300, prefix: "a-")
        try await b.fill(0..<300, prefix: "b-")
        var status = await replicate(a, hub)
        #expect(status.error == nil && status.counts.pushed == 300 && status.counts.pulled == 300)
        #expect(try await a.contents() == b.contents())
        for round in 0..<3 {
            for index in 0..<20 {
                try await a.put("a-\(index)", "{\"round\":\(round)}")
                try await b.put("b-\(index)", "{\"round\":\(round)}")
            }
        }
        status = await replicate(a, hub)
        #expect(status.error == nil && status.counts.pushed == 20 && status.counts.pulled == 20)
        #expect(try await a.contents() == b.contents())
        // All generations are known on the other side.
        let collection = try b.collection()
        let tree = try await b.database.read { try $0.tree(collection, doc("a-3")) }
        #expect(tree?.entries.count == 4)
    }

    @Test func bothSidesKeepTheCheckpointAndARestartSendsNothingAgain() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        let hub = Hub(b)
        try await a.fill(0..<50, prefix: "a-")
        try await b.fill(0..<70, prefix: "b-")
        let configuration = ReplicatorConfiguration(a)
        let replicator = Replicator(configuration, hub)
        await replicator.run()
        let id = configuration.checkpointID(of: configuration.collections[0], privateUUID: a.database.privateUUID)
        let collection = try a.collection()
        let own = try await a.database.read { try $0.checkpoint(id: id, collection: collection) }
        let peers = try await b.database.read { try $0.peerCheckpoint(CheckpointOwner(user: nil, listener: "hub"), id: id) }
        #expect(own?.body == peers?.body)
        let body = CheckpointBody(parsing: try #require(own).body)
        #expect(body.remote == RemoteSequence(json: "120") || body.remote == RemoteSequence(json: "70"))
        let again = await Replicator(configuration, hub).run()
        // What the peer was sent or has sent is looked at once more, and the messages for that are counted.
        var nothing = ReplicationCounts()
        (nothing.total, nothing.completed) = (again.counts.total, again.counts.total)
        (nothing.bytesSent, nothing.bytesReceived) = (again.counts.bytesSent, again.counts.bytesReceived)
        #expect(again.counts == nothing)
        try await a.put("new", "{}")
        #expect(await Replicator(configuration, hub).run().counts.pushed == 1)
    }

    @Test func aResetLooksAtEverythingAgain() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        let hub = Hub(b)
        try await a.fill(0..<20, prefix: "a-")
        try await b.fill(0..<20, prefix: "b-")
        await replicate(a, hub)
        let collection = try a.collection()
        _ = try await a.database.write { try $0.purge(collection, doc("b-7")) }
        #expect(await replicate(a, hub).counts.pulled == 0)
        let status = await replicate(a, hub, reset: true)
        #expect(status.error == nil && status.counts.pulled == 1)
        #expect(try await a.get("b-7") != nil)
    }

    @Test func aResetHoldsUntilAConnectionHasTakenItUp() async throws {
        struct Unreachable: TransportConnector {
            func connect() async throws -> any MessageTransport { throw ReplicationError(network: .refused, message: "nobody is there") }
        }
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        let hub = Hub(b)
        try await b.fill(0..<20, prefix: "b-")
        await replicate(a, hub)
        let collection = try a.collection()
        _ = try await a.database.write { try $0.purge(collection, doc("b-7")) }
        let configuration = ReplicatorConfiguration(a) { $0.retry.maximumAttempts = 1 }
        #expect(await Replicator(configuration, Unreachable()).run(reset: true).error != nil)
        // Another one, as after a restart of the agent.
        let status = await replicate(a, hub)
        #expect(status.error == nil && status.counts.pulled == 1, "\(status.counts)")
    }

    @Test func aPeerThatLostItsDataIsRefilled() async throws {
        let a = try TestDatabase("a")
        try await a.fill(0..<250)
        try await a.put("doc-5", "{\"v\":2}")
        let before = try TestDatabase("b")
        await replicate(a, Hub(before))
        let after = try TestDatabase("b")
        let status = await replicate(a, Hub(after))
        #expect(status.error == nil && status.counts.pushed == 250)
        #expect(try await after.contents() == a.contents())
    }

    @Test func namedCollections() async throws {
        let names = ["_default", "plant.readings", "plant.alarms"]
        let a = try TestDatabase("a", collections: Array(names.dropFirst()))
        let b = try TestDatabase("b", collections: Array(names.dropFirst()))
        for (index, name) in names.enumerated() {
            try await a.fill(0..<(10 + index), prefix: "a-", in: name)
            try await b.fill(0..<(20 + index), prefix: "b-", in: name)
        }
        let status = await replicate(a, Hub(b)) {
            $0.collections = names.compactMap { try? CollectionName(parsing: $0) }.map { CollectionReplication(collection: $0) }
        }
        #expect(status.error == nil && status.counts.pushed == 33 && status.counts.pulled == 63)
        for name in names { #expect(try await a.contents(in: name) == b.contents(in: name)) }
    }

    @Test func aCollectionThatOneSideLacksIsAClearError() async throws {
        let (a, b) = (try TestDatabase("a", collections: ["x.y"]), try TestDatabase("b"))
        let status = await replicate(a, Hub(b)) { $0.collections = [CollectionReplication(collection: .default), CollectionReplication(collection: (try? CollectionName(parsing: "x.y")) ?? .default)] }
        #expect(status.error?.domain == .websocket && status.error?.code == 404 && status.error?.message.contains("x.y") == true)
        let other = await replicate(b, Hub(a)) { $0.collections = [CollectionReplication(collection: (try? CollectionName(parsing: "x.y")) ?? .default)] }
        #expect(other.error?.domain == .store && other.error?.code == 404)
    }

    @Test func onlyTheDocumentsNamed() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        try await a.fill(0..<30, prefix: "a-")
        try await b.fill(0..<30, prefix: "b-")
        let status = await replicate(a, Hub(b)) { $0.only { $0.documentIDs = ["a-3", "b-4", "b-5", "none"].map { doc($0) } } }
        #expect(status.error == nil && status.counts.pushed == 1 && status.counts.pulled == 2)
        #expect(try await a.count() == 32)
        #expect(try await b.count() == 31)
    }

    @Test func aDocumentOfTwentyMebibytes() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        let large = "{\"x\":\"" + String(repeating: "0123456789abcdef", count: (20 << 20) / 16 - 1) + "\"}"
        #expect(large.utf8.count <= 20 << 20)
        try await a.put("large", large)
        try await a.put("small", "{}")
        let status = await replicate(a, Hub(b))
        #expect(status.error == nil && status.counts.pushed == 2)
        #expect(try await b.get("large")?.body.count == large.utf8.count)
    }

    @Test func onlyTheDocumentAboveThePeersLimitFails() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b") { $0.maxBodyBytes = 1 << 20 })
        try await a.put("large", "{\"x\":\"" + String(repeating: "x", count: 2 << 20) + "\"}")
        try await a.fill(0..<5)
        let replicator = Replicator(ReplicatorConfiguration(a, .push), Hub(b))
        let events = replicator.documentEvents()
        let status = await replicator.run()
        #expect(status.error == nil && status.counts.pushed == 5 && status.counts.failed == 1)
        var found = false
        for await batch in events {
            if let failure = batch.first(where: { $0.error != nil }) {
                #expect(failure.id.text == "large" && failure.error?.code == 413)
                found = true
                break
            }
        }
        #expect(found)
    }

    @Test func theSameIDInTwoUnicodeFormsIsTwoDocuments() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        try await a.put("\u{E9}", "{\"form\":\"composed\"}")
        try await a.put("e\u{301}", "{\"form\":\"decomposed\"}")
        await replicate(a, Hub(b))
        #expect(try await b.count() == 2)
        #expect(try await b.body("e\u{301}") == "{\"form\":\"decomposed\"}")
    }

    /// Which documents are still to be pushed according to the filter, the checkpoint and the marks.
    @Test func pendingDocuments() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        try await a.fill(0..<5)
        let configuration = ReplicatorConfiguration(a, .push)
        let replicator = Replicator(configuration, Hub(b))
        #expect(try await replicator.pendingDocumentIDs().count == 5)
        #expect(try await replicator.pendingEstimate().count == 5)
        await replicator.run()
        #expect(try await replicator.pendingDocumentIDs().isEmpty)
        try await a.put("doc-2", "{}", deleted: true)
        #expect(try await replicator.pendingDocumentIDs().map(\.1.text) == ["doc-2"])
        #expect(try await replicator.pendingEstimate().count == 1)
    }
}

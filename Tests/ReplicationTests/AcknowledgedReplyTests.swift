import DocumentStore
import Environment
import TestRandomness
import Testing

@testable import Replication

/// Long replies are sent only as far as the peer acknowledges them. However many of them it is owed, its acknowledgements are read.
@Suite(.timeLimit(.minutes(5)))
struct AcknowledgedReplyTests {
    /// Couchbase Lite asks for the blobs of a hundred revisions at once, more than wait in the queue before reading pauses.
    @Test func twoHundredBlobsRequestedAtOnceAllArrive() async throws {
        let database = try TestDatabase("hub")
        let digest = try await database.blob([UInt8](repeating: 8, count: 300_000))
        try await database.put("d", "{\"photo\":{\"@type\":\"blob\",\"digest\":\"\(digest)\"}}")
        let peer = try await Peer(Hub(database)) { _ in nil }
        await peer.begin()
        let properties = [("collection", "0"), ("docID", "d"), ("digest", digest)]
        await withTaskGroup(of: Int?.self) { group in
            for _ in 0..<200 { group.addTask { await peer.ask("getAttachment", properties)?.body.readableBytes } }
            for await count in group { #expect(count == 300_000) }
        }
    }

    /// Together they are more than a peer may owe before the connection is no longer read.
    @Test func tenLargeCheckpointsRequestedAtOnceAllArrive() async throws {
        let database = try TestDatabase("hub")
        var random = SeededGenerator(seed: 7)
        let text = (0..<1_000_000).map { _ in String(UnicodeScalar(UInt8.random(in: 97...122, using: &random))) }.joined()
        let body = Array("{\"x\":\"\(text)\"}".utf8)
        try await database.database.write {
            try $0.setPeerCheckpoint(
                CheckpointOwner(user: nil, listener: "hub"), id: "cp", body: body, expectedRevision: nil, within: CheckpointBounds(count: 1, bytes: 2 << 20))
        }
        let peer = try await Peer(MemoryHub(database: database, memory: MemoryBudget(limit: 256 << 20)).connect()) { _ in nil }
        await withTaskGroup(of: Int?.self) { group in
            for _ in 0..<10 { group.addTask { await peer.ask("getCheckpoint", [("client", "cp")])?.body.readableBytes } }
            for await count in group { #expect(count == body.count) }
        }
    }
}

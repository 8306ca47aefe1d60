import DocumentStore
import Environment
import TestRandomness
import TestSupport
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

    /// When the requests arrive there is too little memory to answer them before the blob is read, and at the end of that turn there is enough again.
    @Test func requestsThatWaitForAcknowledgementsDoNotKeepTheseFromBeingRead() async throws {
        let database = try TestDatabase("hub")
        let digest = try await database.blob([UInt8](repeating: 8, count: 300_000))
        try await database.put("d", "{\"photo\":{\"@type\":\"blob\",\"digest\":\"\(digest)\"}}")
        let (session, client) = await MemoryHub(database: database, memory: MemoryBudget(limit: 64 << 20)).session()
        let peer = Peer(client) { _ in nil }
        await peer.begin()
        peer.acknowledge(false)
        async let blob = peer.ask("getAttachment", [("collection", "0"), ("docID", "d"), ("digest", digest)])
        try await eventually("the rest of the blob waits for an acknowledgement") { await session.waitsForAcknowledgement }
        let count = ReplicationLimits().waitingRequests + 1
        session.later { session in
            session.accounts.stand(.crowded)
            for number in 0..<count { session.service.handle(.checkpoint(id: "cp-\(number)"), 0, nil) }
        }
        peer.acknowledge(true)
        let size = await blob?.body.readableBytes
        #expect(size == 300_000)
        let isAlive = await peer.isAlive()
        #expect(isAlive)
    }
}

extension ReplicationSession {
    fileprivate var waitsForAcknowledgement: Bool { driver.dialect.owedBytes > 0 && !driver.dialect.hasPendingOutput }
}

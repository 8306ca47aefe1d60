import BLIP
import Documents
import DocumentStore
import NIOCore
import Synchronization
import TestRandomness
import Testing

@testable import Replication

/// Blobs whose connections break during the transfer.
@Suite(.timeLimit(.minutes(10)))
struct BlobResumeTests {
    private static let size = 6 << 20

    private static func bytes(_ count: Int, _ seed: UInt64 = 1) -> [UInt8] {
        var random = SeededGenerator(seed: seed)
        return (0..<count).map { _ in UInt8.random(in: 0...255, using: &random) }
    }

    private static func body(_ digest: String, _ count: Int) -> String {
        "{\"film\":{\"@type\":\"blob\",\"digest\":\"\(digest)\",\"length\":\(count),\"content_type\":\"image/png\"}}"
    }

    private func has(_ database: TestDatabase, _ digest: String) async throws -> Bool {
        let digest = try BlobDigest(digest)
        return try await database.database.blobs.perform { $0.contains(digest) }
    }

    private func listener(_ database: TestDatabase, _ user: String) -> PassiveConfiguration {
        var configuration = PassiveConfiguration(listener: "hub", database: database.database)
        configuration.proofAccount = user
        return configuration
    }

    /// Every connection breaks long before the blob is complete, and there are more of them than a one-shot run makes attempts.
    @Test(arguments: [ReplicatorType.push, .pull]) func aLineThatAlwaysBreaksStillCarriesTheBlob(_ type: ReplicatorType) async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        let sender = type == .push ? a : b
        let digest = try await sender.blob(Self.bytes(Self.size))
        try await sender.put("film", Self.body(digest, Self.size))
        // With frames of 16 KiB, each connection carries a little more than 512 KiB of 6 MiB.
        let hub = Hub(listener(b, "user gateway"), owner: b) { _ in
            type == .push ? (.init(cutsAt: 40), .init()) : (.init(), .init(cutsAt: 40))
        }
        let replicator = Replicator(
            ReplicatorConfiguration(a, type) { $0.retry.maximumAttempts = 5 }, hub, environment: JumpingTime().environment)
        let status = await replicator.run()
        #expect(status.error == nil && status.counts.pushed + status.counts.pulled == 1, "\(status)")
        #expect(hub.connections > 8, "\(hub.connections)")
        #expect(try await has(type == .push ? b : a, digest))
        // Only what was on its way when a connection broke is sent again.
        let moved = type == .push ? replicator.lifetime.blobBytesSent : replicator.lifetime.blobBytesReceived
        #expect(moved < UInt64(Self.size) * 3, "\(moved) bytes of blobs for \(Self.size)")
        #expect(try await a.contents() == b.contents())
    }

    /// The line breaks whenever one particular place in the blob passes: there is no progress, so that attempts count and the run ends.
    @Test func aBlobWithoutProgressIsGivenUp() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        let digest = try await a.blob(Self.bytes(Self.size))
        try await a.put("film", Self.body(digest, Self.size))
        try await a.put("note", "{}")
        let hub = Hub(listener(b, "user gateway"), owner: b) { number in
            // Later connections break before any byte of the blob arrives.
            (.init(cutsAt: number == 0 ? 100 : 3), .init())
        }
        let time = JumpingTime()
        let replicator = Replicator(ReplicatorConfiguration(a, .push) { $0.retry.maximumAttempts = 5 }, hub, environment: time.environment)
        let status = await replicator.run()
        #expect(status.activity == .stopped && status.error != nil)
        // These are the first connection, one that continued after it, and the attempts that follow.
        #expect(hub.connections <= 8, "\(hub.connections)")
        #expect(zip(time.sleeps, time.sleeps.dropFirst()).contains { $0 < $1 }, "\(time.sleeps)")
        // Other documents do not wait for it.
        #expect(try await b.body("note") == "{}")
    }

    /// Pushes as a peer, and records what the peer is asked.
    private func push(
        _ hub: Hub, _ id: String, _ body: String, _ answer: @escaping @Sendable (IncomingRequest) -> OutgoingReply
    ) async throws -> (asked: [String?], error: Int?) {
        let asked = Mutex([String?]())
        let peer = try await Peer(hub) { request in
            guard request.profile == "getAttachment" else { return request.profile == "changes" ? OutgoingReply(json: "[]") : OutgoingReply() }
            asked.withLock { $0.append(request.properties["offset"]) }
            return answer(request)
        }
        await peer.begin()
        let reply = await peer.ask(
            "rev", [("collection", "0"), ("id", id), ("rev", "1-aa00000000000000000000000000000000000001"), ("history", "")], body)
        return (asked.withLock { $0 }, reply.map { $0.error?.code ?? 0 })
    }

    /// Breaks the first connection in the middle of the blob.
    private func hub(_ database: TestDatabase, _ user: String) -> Hub {
        Hub(listener(database, user), owner: database) { $0 == 0 ? (.init(cutsAt: 40), .init()) : (.init(), .init()) }
    }

    /// Couchbase Lite and Sync Gateway ignore properties that they do not know, and always send the whole blob.
    @Test func aPeerThatSendsTheWholeBlobIsAccepted() async throws {
        let database = try TestDatabase("hub")
        let bytes = Self.bytes(1 << 20)
        let digest = BlobDigest.of(bytes).text
        let hub = hub(database, "user gateway")
        let whole: @Sendable (IncomingRequest) -> OutgoingReply = { _ in OutgoingReply(body: ByteBuffer(bytes: bytes)) }
        #expect(try await push(hub, "film", Self.body(digest, bytes.count), whole) == ([nil], nil))
        let (asked, error) = try await push(hub, "film", Self.body(digest, bytes.count), whole)
        let offset = try #require(asked.first.flatMap { $0.flatMap { Int($0) } })
        #expect(asked.count == 1 && offset >= 64 << 10 && offset < bytes.count && error == 0, "\(asked)")
        #expect(try await has(database, digest))
    }

    /// A peer that sends the end of a blob has not shown that it has the beginning.
    @Test func theBeginningOfABlobIsNotSharedBetweenPeers() async throws {
        let database = try TestDatabase("hub")
        let bytes = Self.bytes(1 << 20)
        let digest = BlobDigest.of(bytes).text
        _ = try await push(hub(database, "user anna"), "film", Self.body(digest, bytes.count)) { _ in OutgoingReply(body: ByteBuffer(bytes: bytes)) }
        for user in ["user ben", ""] {
            let (asked, error) = try await push(Hub(listener(database, user), owner: database), "film", Self.body(digest, bytes.count)) { request in
                var reply = OutgoingReply(body: ByteBuffer(bytes: bytes.suffix(16)))
                reply.properties.append("offset", request.properties["offset"] ?? String(bytes.count - 16))
                return reply
            }
            #expect(asked == [nil] && error != 0, "\(user) \(asked)")
            #expect(try await !has(database, digest))
        }
    }

    /// The first part was not from this blob: the document is none the worse for it, and the blob is requested from its beginning.
    @Test func aBlobWithAWrongBeginningIsRequestedFromTheStart() async throws {
        let database = try TestDatabase("hub")
        let bytes = Self.bytes(1 << 20)
        let digest = BlobDigest.of(bytes).text
        let hub = hub(database, "user gateway")
        _ = try await push(hub, "film", Self.body(digest, bytes.count)) { _ in OutgoingReply(body: ByteBuffer(bytes: Self.bytes(1 << 20, 2))) }
        let (asked, error) = try await push(hub, "film", Self.body(digest, bytes.count)) { request in
            let offset = request.properties["offset"].flatMap { Int($0) } ?? 0
            var reply = OutgoingReply(body: ByteBuffer(bytes: bytes[offset...]))
            if offset > 0 { reply.properties.append("offset", String(offset)) }
            return reply
        }
        #expect(asked.count == 2 && asked.first != .some(nil) && asked.last == .some(nil) && error == 0, "\(asked)")
        #expect(try await has(database, digest))
    }

    /// A peer that asks for the rest gets the rest, and is told so; one that asks for nonsense gets the whole blob.
    @Test func theRestIsServed() async throws {
        let database = try TestDatabase("hub")
        let bytes = Self.bytes(300_000)
        let digest = try await database.blob(bytes)
        try await database.put("film", Self.body(digest, bytes.count))
        let peer = try await Peer(Hub(listener(database, "user gateway"), owner: database))
        await peer.begin()
        for (offset, from) in [("100000", 100_000), ("300000", 300_000), ("300001", 0), ("-1", 0), ("0", 0), ("much", 0)] {
            let reply = try #require(await peer.ask("getAttachment", [("collection", "0"), ("docID", "film"), ("digest", digest), ("offset", offset)]))
            #expect(reply.error == nil && reply.properties["offset"] == (from > 0 ? offset : nil), "\(offset)")
            #expect([UInt8](reply.body.readableBytesView) == Array(bytes[from...]), "\(offset)")
        }
    }
}

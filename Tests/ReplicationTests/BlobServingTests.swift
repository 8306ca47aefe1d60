import BLIP
import Documents
import DocumentStore
import Interfaces
import NIOCore
import Synchronization
import Testing

@testable import Replication

/// Which blobs a peer can get: those of revisions on their way to it, and those of documents that it may have.
@Suite(.timeLimit(.minutes(10)))
struct BlobServingTests {
    private func reference(_ digest: String) -> String { "{\"photo\":{\"@type\":\"blob\",\"digest\":\"\(digest)\"}}" }

    private func ask(_ peer: Peer, _ digest: String, for id: String?, in collection: String = "0") async -> String {
        let properties = [("collection", collection), ("digest", digest)] + (id.map { [("docID", $0)] } ?? [])
        guard let reply = await peer.ask("getAttachment", properties) else { return "nothing" }
        let proof = await peer.ask("proveAttachment", properties, "a nonce of some bytes")
        // Proofs are given to those who are given the blob.
        #expect((proof?.error == nil) == (reply.error == nil))
        return reply.error.map { "\($0.code)" } ?? String(buffer: reply.body)
    }

    /// A listener's push filter keeps back the blobs of the documents that it keeps back.
    @Test func theFilterDecides() async throws {
        let database = try TestDatabase("hub")
        let open = try await database.blob(Array("open".utf8))
        let secret = try await database.blob(Array("secret".utf8))
        let loose = try await database.blob(Array("loose".utf8))
        try await database.put("open", reference(open))
        try await database.put("secret", reference(secret))
        try await database.put("failing", reference(secret))
        var configuration = PassiveConfiguration(listener: "hub", database: database.database)
        let filter = TestFilter { document, _ in
            switch document.id.text {
            case "open": .pass
            case "failing": .failed(PolicyFailure(plugin: "test-filter", version: "1", kind: "plugin_error", message: "broken"))
            default: .reject
            }
        }
        configuration.pushFilter = filter
        let peer = try await Peer(Hub(configuration))
        await peer.begin()
        #expect(await ask(peer, open, for: "open") == "open")
        for (digest, id) in [
            (secret, "secret"), (secret, "open"), (secret, nil), (open, "secret"), (open, "failing"), (open, nil), (open, "nowhere"),
            (loose, "open"), (loose, nil), (BlobDigest.of([9]).text, "open"),
        ] as [(String, String?)] {
            #expect(await ask(peer, digest, for: id) == "403", "\(digest) \(id ?? "")")
        }
        // Whoever names both has seen the document, and may ask again later.
        #expect(await ask(peer, secret, for: "failing") == "503")
        filter.become("2") { _, _ in .pass }
        #expect(await ask(peer, secret, for: "secret") == "secret")
    }

    /// A request of twenty bytes makes the agent read a whole blob: only so much is read for that, and a proof that is known is not computed again.
    @Test func proofsOfOneBlobAreBounded() async throws {
        let database = try TestDatabase("hub")
        let bytes = [UInt8](repeating: 7, count: 3_000)
        let digest = try await database.blob(bytes)
        try await database.put("a", reference(digest))
        var configuration = PassiveConfiguration(listener: "hub", database: database.database)
        configuration.limits.proofBytes = 7_000
        configuration.limits.proofBytesPerSecond = 0
        configuration.limits.proofPieceBytes = 1_000
        configuration.proofs = ProofAccounts(configuration.limits)
        let hub = Hub(configuration)
        let peer = try await Peer(hub)
        await peer.begin()
        func prove(_ nonce: String) async -> String {
            let reply = await peer.ask("proveAttachment", [("collection", "0"), ("digest", digest), ("docID", "a")], nonce)
            return reply?.error.map { "\($0.code)" } ?? reply.map { String(buffer: $0.body) } ?? "nothing"
        }
        func right(_ nonce: String) -> String { BlobDigest.of([UInt8(nonce.utf8.count)] + Array(nonce.utf8) + bytes).text }
        for nonce in ["one", "two", "three"] { #expect(await prove(nonce) == right(nonce)) }
        for nonce in ["four", "five"] { #expect(await prove(nonce) == "503") }
        for nonce in ["one", "two", "three"] { #expect(await prove(nonce) == right(nonce)) }
        // A peer that reconnects does not get a fresh allowance either.
        let again = try await Peer(hub)
        await again.begin()
        let reply = await again.ask("proveAttachment", [("collection", "0"), ("digest", digest), ("docID", "a")], "six")
        #expect(reply?.error?.code == 503)
    }

    @Test func peersThatAskForProofsAreRememberedWithinBounds() throws {
        var limits = ReplicationLimits()
        (limits.proofBytes, limits.proofBytesPerSecond, limits.proofAccounts, limits.firstProofs) = (1_000, 100, 50, 1_000)
        let accounts = ProofAccounts(limits)
        let digest = BlobDigest.of([1])
        func asks(_ who: String, _ bytes: UInt64, _ second: UInt64 = 0) -> Bool { accounts.charge(digest, bytes: bytes, to: who, at: second * 1_000_000_000) }
        #expect(asks("ada", 5_000) && asks("ada", 900) && !asks("ada", 900))
        // Others have their own allowance, and it recovers with time.
        #expect(asks("bob", 5_000) && asks("bob", 900))
        #expect(!asks("ada", 900, 7) && asks("ada", 900, 8))
        for number in 0..<400 { _ = (asks("\(number)", 1, 8), asks("\(number)", 500, 8)) }
        #expect(accounts.count <= 50)
        // Those who have used most of their allowance are not the ones that are forgotten.
        #expect(!asks("ada", 900, 8))
    }

    @Test func theChannelsDecide() async throws {
        let database = try TestDatabase("hub")
        let digest = try await database.blob(Array("secret".utf8))
        try await database.put("a", reference(digest).dropLast() + ",\"in\":[\"red\"]}")
        let function = TestSync()
        let router = ChannelRouter(
            database: database.database, collection: try database.collection(), function: function, listener: "hub", logger: quietLogger())
        await router.start()
        let collection = try database.collection()
        try await database.wait { try await $0.database.read { try $0.assignedChannels(collection, doc("a")) } != nil }
        func peer(_ user: String, _ channel: String) async throws -> Peer {
            let peer = try await Peer(
                Hub(
                    PassiveConfiguration(
                        listener: "hub", database: database.database, principal: Principal(name: user, channels: [channel]),
                        syncFunction: function)))
            await peer.begin()
            return peer
        }
        let (anna, ben) = (try await peer("anna", "red"), try await peer("ben", "blue"))
        // Without a subscription, as a peer asks that had to put the revision aside.
        #expect(await ask(anna, digest, for: "a") == "secret")
        #expect(await ask(ben, digest, for: "a") == "403")
        try await database.put("a", reference(digest).dropLast() + ",\"in\":[\"blue\"]}")
        try await database.wait { try await $0.database.read { try $0.assignedChannels(collection, doc("a")) } == ["blue"] }
        #expect(await ask(anna, digest, for: "a") == "403")
        #expect(await ask(ben, digest, for: "a") == "secret")
        await router.stop()
    }

    /// Couchbase Lite 2 does not say for which document it wants a blob. It does not have to, as long as it has not answered the revision.
    @Test func blobsOfRevisionsOnTheirWayMayBeRequestedByDigestAlone() async throws {
        let database = try TestDatabase("hub", collections: ["one.other"])
        let digests = [try await database.blob(Array("first".utf8)), try await database.blob(Array("second".utf8))]
        // Two documents in different collections have the same id: the answer for one must not withdraw the blobs of the other.
        try await database.put("a", reference(digests[0]))
        try await database.put("a", reference(digests[1]), in: "one.other")
        let held = Mutex([String: UInt64]())
        let peer = try await Peer(Hub(database)) { request in
            switch request.profile {
            case "changes": return OutgoingReply(json: "[[]]")
            case "rev":
                held.withLock { $0[request.properties["collection"] ?? ""] = request.number }
                return nil
            default: return OutgoingReply()
            }
        }
        await peer.begin(["_default", "one.other"])
        for digest in digests { #expect(await ask(peer, digest, for: nil) == "403") }
        for collection in ["0", "1"] { #expect(await peer.ask("subChanges", [("collection", collection)])?.error == nil) }
        var revisions = 0
        for await request in peer.requests where request.profile == "rev" {
            revisions += 1
            if revisions == 2 { break }
        }
        #expect(await ask(peer, digests[0], for: nil) == "first")
        #expect(await ask(peer, digests[1], for: nil) == "second")
        peer.reply(to: try #require(held.withLock { $0["0"] }), OutgoingReply())
        // The answer is sent before the next request.
        #expect(await ask(peer, digests[0], for: nil) == "403")
        #expect(await ask(peer, digests[1], for: nil) == "second")
        #expect(await ask(peer, digests[0], for: "a") == "first")
    }

    @Test func aPeerWithoutTheCollectionGetsNothing() async throws {
        let database = try TestDatabase("hub")
        let digest = try await database.blob(Array("secret".utf8))
        try await database.put("a", reference(digest))
        let peer = try await Peer(
            Hub(PassiveConfiguration(listener: "hub", database: database.database, principal: Principal(name: "ben", collections: ["one.other"]))))
        let reply = await peer.ask("getAttachment", [("docID", "a"), ("digest", digest)])
        #expect(reply?.error?.code == 403)
    }
}

import BLIP
import Documents
import DocumentStore
import Glibc
import NIOCore
import Testing

@testable import Replication

/// A blob whose file no longer matches its digest: the documents that name it wait, and nothing else does.
@Suite(.timeLimit(.minutes(5)))
struct AlteredBlobTests {
    private static let photo = (0..<300_000).map { UInt8(truncatingIfNeeded: $0 &* 7) }
    private static let digest = BlobDigest.of(photo).text

    private static func body(_ digest: String, _ count: Int) -> String {
        "{\"photo\":{\"@type\":\"blob\",\"digest\":\"\(digest)\",\"length\":\(count)}}"
    }

    /// Six documents, one of which, in the middle, has an altered blob.
    private func fill(_ database: TestDatabase) async throws {
        try await database.fill(0..<3)
        #expect(try await database.blob(Self.photo) == Self.digest)
        try await database.put("photo", Self.body(Self.digest, Self.photo.count))
        try database.alter(Self.digest)
        try await database.fill(3..<6)
    }

    @Test func aPullHoldsItsDocumentAndTransfersAllOthers() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        try await fill(b)
        let hub = Hub(b)
        let replicator = Replicator(ReplicatorConfiguration(a, .pull), hub)
        let status = await replicator.run()
        #expect(status.error == nil && status.counts.pulled == 6 && status.counts.held == 1 && status.counts.completed == status.counts.total, "\(status)")
        #expect(hub.connections == 1)
        let held = try await replicator.heldDocuments().map(\.1)
        #expect(held.map(\.id) == [doc("photo")] && held[0].error.contains(Self.digest) && !held[0].error.contains("blobs/"), "\(held)")
        #expect(try await b.blob(Self.photo) == Self.digest)
        #expect(await replicator.run().counts.pulled == 1)
        #expect(try await a.contents() == b.contents())
        #expect(try await replicator.heldDocuments().isEmpty)
    }

    @Test func aPushHoldsItsDocumentAndTransfersAllOthers() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        try await fill(a)
        let hub = Hub(b)
        let replicator = Replicator(ReplicatorConfiguration(a, .push), hub)
        let status = await replicator.run()
        #expect(status.error == nil && status.counts.pushed == 6 && status.counts.held == 1 && status.counts.failed == 0, "\(status)")
        #expect(hub.connections == 1)
        // This is not the peer's refusal, and the list of documents names the blob.
        let held = try await replicator.heldDocuments().map(\.1)
        #expect(held.map(\.id) == [doc("photo")] && held[0].error.contains("\(Self.digest) of the document is damaged here"), "\(held)")
        #expect(try await replicator.refusedDocuments().isEmpty)
        guard case .blobsLost(let lost) = try await replicator.standing(of: doc("photo"), in: .default).push else {
            return #expect(Bool(false), "the reason does not name the blob")
        }
        #expect(lost.altered.map(\.text) == [Self.digest] && lost.missing.isEmpty)
        #expect(try await a.blob(Self.photo) == Self.digest)
        #expect(await replicator.run().counts.pushed == 1)
        #expect(try await a.contents() == b.contents())
        #expect(try await replicator.heldDocuments().isEmpty)
    }

    /// This also holds for a blob that is too large to be read at once, wherever the damage is.
    @Test(arguments: [0, 1_500_000, 2_999_000]) func thePeerIsToldBeforeTheFirstByte(at offset: Int) async throws {
        let database = try TestDatabase("hub")
        let bytes = [UInt8](repeating: 7, count: 3_000_000)
        let digest = try await database.blob(bytes)
        try await database.put("film", Self.body(digest, bytes.count))
        try database.alter(digest, at: offset)
        let peer = try await Peer(Hub(database))
        await peer.begin()
        let properties = [("collection", "0"), ("digest", digest), ("docID", "film")]
        for _ in 0..<2 {
            for (profile, nonce) in [("getAttachment", ""), ("proveAttachment", "a nonce of some bytes")] {
                let error = await peer.ask(profile, properties, nonce)?.error
                #expect(error?.code == 404 && error?.message.contains("is damaged at its sender") == true, "\(profile): \(String(describing: error))")
                #expect(error?.message.contains("blobs/") == false)
            }
            #expect(await peer.isAlive())
        }
        #expect(try await database.blob(bytes) == digest)
        let reply = await peer.ask("getAttachment", properties)
        #expect(reply?.error == nil && reply?.body.readableBytes == bytes.count)
    }

    /// A disk may return different bytes for a file that has not changed. A blob that is already on its way cannot be taken back, but it is not sent again.
    @Test func damageAfterTheCheckEndsOneConnectionAndNoMore() async throws {
        let database = try TestDatabase("hub")
        let digest = try await database.blob(Self.photo)
        try await database.put("photo", Self.body(digest, Self.photo.count))
        let path = try database.blobPath(digest)
        func setChanged() { _ = utimes(path, [timeval(tv_sec: 1_000_000, tv_usec: 0), timeval(tv_sec: 1_000_000, tv_usec: 0)]) }
        setChanged()
        let hub = Hub(database)
        let properties = [("collection", "0"), ("digest", digest), ("docID", "photo")]
        let first = try await Peer(hub)
        await first.begin()
        #expect(await first.ask("getAttachment", properties)?.body.readableBytes == Self.photo.count)
        try database.alter(digest)
        setChanged()
        #expect(await first.ask("getAttachment", properties) == nil)
        for await end in first.end { #expect(end.code == 4001 && !end.reason.contains("blobs/") && !end.reason.contains("altered on disk"), "\(end)") }
        let second = try await Peer(hub)
        await second.begin()
        #expect(await second.ask("getAttachment", properties)?.error?.code == 404)
        #expect(await second.isAlive())
    }
}

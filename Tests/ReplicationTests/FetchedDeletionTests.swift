import BLIP
import Documents
import DocumentStore
import NIOCore
import Replication
import Synchronization
import Testing

/// A peer creates a document while the deletion of another one with the same id is on its way to it. The peer decides between the two, and if its
/// document were accepted here without a conflict, it might live on only here.
@Suite(.timeLimit(.minutes(10)))
struct FetchedDeletionTests {
    private let database: TestDatabase
    private let tombstone: RevisionID

    init() async throws {
        database = try TestDatabase("b")
        try await database.put("x", "{\"n\":1}")
        tombstone = try await database.put("x", "{}", deleted: true)
    }

    /// Returns a peer that pulls.
    ///
    /// - Parameter wants: whether it requests what it is offered first; otherwise it wants none of it.
    private func subscribed(wants: Bool = true) async throws -> Peer {
        let isDue = Mutex(wants)
        let peer = try await Peer(Hub(database)) { request in
            guard request.profile == "changes", request.body.readableBytes > 2 else { return OutgoingReply() }
            let asks = isDue.withLock { isDue in
                defer { isDue = false }
                return isDue
            }
            return OutgoingReply(body: ByteBuffer(string: asks ? "[[]]" : "[]"))
        }
        await peer.begin()
        #expect(await peer.ask("subChanges", [("collection", "0"), ("continuous", "true")])?.error == nil)
        for await request in peer.requests where request.profile == (wants ? "rev" : "changes") { break }
        // Once the session answers this, the earlier answers have arrived as well.
        #expect(await peer.isAlive())
        return peer
    }

    private func propose(_ peer: Peer) async -> String? {
        await peer.ask("proposeChanges", [("collection", "0"), ("conflictIncludesRev", "true")], "[[\"x\",\"1-cc\"]]").map { String(buffer: $0.body) }
    }

    @Test("its proposal conflicts with the deletion, and a peer that has forgotten that may repeat it")
    func proposed() async throws {
        let peer = try await subscribed()
        #expect(await propose(peer)?.contains(tombstone.text) == true)
        #expect(await propose(peer)?.contains(tombstone.text) == false)
        #expect(await peer.ask("rev", [("collection", "0"), ("id", "x"), ("rev", "1-cc")], "{}")?.error == nil)
        #expect(try await database.body("x") == "{}")
    }

    @Test("its revision is refused if it was proposed before the deletion was sent")
    func sent() async throws {
        let peer = try await subscribed()
        #expect(await peer.ask("rev", [("collection", "0"), ("id", "x"), ("rev", "1-cc")], "{}")?.error?.code == 409)
        #expect(try await database.get("x")?.revision == tombstone)
    }

    @Test("a peer that ignores the deletion recreates the document")
    func unwanted() async throws {
        let peer = try await subscribed(wants: false)
        #expect(await propose(peer)?.contains(tombstone.text) == false)
        #expect(await peer.ask("rev", [("collection", "0"), ("id", "x"), ("rev", "1-cc")], "{}")?.error == nil)
        #expect(try await database.body("x") == "{}")
    }

    @Test("a revision on top of the deletion is accepted")
    func onTheDeletion() async throws {
        let peer = try await subscribed()
        let properties = [("collection", "0"), ("id", "x"), ("rev", "3-cc"), ("history", tombstone.text)]
        #expect(await peer.ask("rev", properties, "{}")?.error == nil)
        #expect(try await database.body("x") == "{}")
    }
}

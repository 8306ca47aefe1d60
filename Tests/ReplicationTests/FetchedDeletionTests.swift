import BLIP
import Documents
import DocumentStore
import NIOCore
import Replication
import Synchronization
import Testing

/// A peer makes a document while the deletion of another one of that name is on its way to it. It decides between the two; taken here without a word,
/// its document would live on here alone.
@Suite(.timeLimit(.minutes(10)))
struct FetchedDeletionTests {
    private let database: TestDatabase
    private let tombstone: RevisionID

    init() async throws {
        database = try TestDatabase("b")
        try await database.put("x", "{\"n\":1}")
        tombstone = try await database.put("x", "{}", deleted: true)
    }

    /// A peer that pulls.
    ///
    /// - Parameter wants: it asks for what it is offered first; else it has no use for any of it.
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
        // What was answered before this has arrived.
        #expect(await peer.isAlive())
        return peer
    }

    private func propose(_ peer: Peer) async -> String? {
        await peer.ask("proposeChanges", [("collection", "0"), ("conflictIncludesRev", "true")], "[[\"x\",\"1-cc\"]]").map { String(buffer: $0.body) }
    }

    @Test("Its proposal conflicts with the deletion, and a peer that has forgotten that may repeat it")
    func proposed() async throws {
        let peer = try await subscribed()
        #expect(await propose(peer)?.contains(tombstone.text) == true)
        #expect(await propose(peer)?.contains(tombstone.text) == false)
        #expect(await peer.ask("rev", [("collection", "0"), ("id", "x"), ("rev", "1-cc")], "{}")?.error == nil)
        #expect(try await database.body("x") == "{}")
    }

    @Test("Its revision is refused if it was proposed before the deletion went out")
    func sent() async throws {
        let peer = try await subscribed()
        #expect(await peer.ask("rev", [("collection", "0"), ("id", "x"), ("rev", "1-cc")], "{}")?.error?.code == 409)
        #expect(try await database.get("x")?.revision == tombstone)
    }

    @Test("A peer that ignores the deletion recreates the document")
    func unwanted() async throws {
        let peer = try await subscribed(wants: false)
        #expect(await propose(peer)?.contains(tombstone.text) == false)
        #expect(await peer.ask("rev", [("collection", "0"), ("id", "x"), ("rev", "1-cc")], "{}")?.error == nil)
        #expect(try await database.body("x") == "{}")
    }

    @Test("What was made on top of the deletion is accepted")
    func onTheDeletion() async throws {
        let peer = try await subscribed()
        let properties = [("collection", "0"), ("id", "x"), ("rev", "3-cc"), ("history", tombstone.text)]
        #expect(await peer.ask("rev", properties, "{}")?.error == nil)
        #expect(try await database.body("x") == "{}")
    }
}

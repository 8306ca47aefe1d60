import Documents
import DocumentStore
import Replication
import Testing

/// If a revision of a peer that pushes and pulls is refused because of another one here, the peer is offered that one, even if it sent it itself.
///
/// Couchbase Lite keeps 20 generations of a document. If it saves faster than its pushes are acknowledged, it prunes the revision that we
/// have before the acknowledgement arrives: it no longer knows that its document descends from that revision, proposes the document as
/// a new one, and waits for the pull.
@Suite(.timeLimit(.minutes(10)))
struct RefusedPushTests {
    private func subscribed(_ hub: Hub) async throws -> Peer {
        let peer = try await Peer(hub)
        await peer.begin()
        #expect(await peer.ask("subChanges", [("collection", "0"), ("continuous", "true")])?.error == nil)
        #expect(await peer.ask("rev", [("collection", "0"), ("id", "x"), ("rev", "1-aa")], "{\"n\":1}")?.error == nil)
        // By the answer to this, the feed has passed `x`.
        #expect(await peer.ask("rev", [("collection", "0"), ("id", "y"), ("rev", "1-bb")], "{}")?.error == nil)
        return peer
    }

    /// The next list that offers this document to the peer. A list with another document may come first: if the feed is faster than the note that the
    /// peer sent that document, it is offered back.
    private func offered(_ id: String, _ peer: Peer) async -> String? {
        for await request in peer.requests where request.profile == "changes" {
            let list = String(buffer: request.body)
            if list.contains("\"\(id)\"") { return list }
        }
        return nil
    }

    @Test func afterARefusedProposal() async throws {
        let peer = try await subscribed(Hub(try TestDatabase("b")))
        let answer = await peer.ask("proposeChanges", [("collection", "0"), ("conflictIncludesRev", "true")], "[[\"x\",\"30-cc\"]]")
        #expect(answer.map { String(buffer: $0.body) }?.contains("1-aa") == true)
        #expect(await offered("x", peer)?.contains("\"x\",\"1-aa\"") == true)
        #expect(await peer.isAlive())
    }

    @Test func afterARefusedRevision() async throws {
        let peer = try await subscribed(Hub(try TestDatabase("b")))
        let properties = [("collection", "0"), ("id", "x"), ("rev", "30-cc"), ("history", "29-cc,28-cc")]
        #expect(await peer.ask("rev", properties, "{\"n\":30}")?.error?.code == 409)
        let list = await offered("x", peer)
        #expect(list?.contains("\"x\",\"1-aa\"") == true, "\(list ?? "nothing")")
    }

    @Test func itIsOfferedOnlyWhatItMaySee() async throws {
        let database = try TestDatabase("b")
        let peer = try await Peer(Hub(database))
        await peer.begin()
        #expect(await peer.ask("subChanges", [("collection", "0"), ("continuous", "true")], "{\"docIDs\":[\"y\",\"z\"]}")?.error == nil)
        #expect(await peer.ask("rev", [("collection", "0"), ("id", "x"), ("rev", "1-aa")], "{}")?.error == nil)
        #expect(await peer.ask("rev", [("collection", "0"), ("id", "x"), ("rev", "3-cc"), ("history", "2-cc")], "{}")?.error?.code == 409)
        try await database.put("z", "{}")
        #expect(await offered("z", peer)?.contains("\"z\"") == true)
    }
}

import BLIP
import NIOCore
import Replication
import Testing

/// A row of a listener's feed that waits while the document changes.
///
/// Couchbase Lite keeps 20 generations of a document. After so many saves it would not know its own first revision any more, and take it for the
/// listener's decision against everything that came after it.
@Suite(.timeLimit(.minutes(5)))
struct OvertakenRowTests {
    @Test func aRevisionThatThePeerHasReplacedMeanwhileIsNotSent() async throws {
        let database = try TestDatabase("hub")
        let first = try await database.put("x", "{\"n\":1}")
        // Offers are answered when the test says so.
        let peer = try await Peer(Hub(database)) { $0.profile == "changes" ? nil : OutgoingReply() }
        await peer.begin()
        #expect(await peer.ask("subChanges", [("collection", "0"), ("continuous", "true")])?.error == nil)
        var requests = peer.requests.makeAsyncIterator()
        var offer: UInt64?
        while offer == nil, let request = await requests.next() {
            if request.profile == "changes", String(buffer: request.body).contains("\"x\"") { offer = request.number }
        }
        let properties = [("collection", "0"), ("id", "x"), ("rev", "2-aa"), ("history", "\(first)")]
        #expect(await peer.ask("rev", properties, "{\"n\":2}")?.error == nil)
        peer.reply(to: try #require(offer), OutgoingReply(json: "[[]]"))
        var came: String?
        while came == nil, let request = await requests.next() {
            if request.properties["id"] == "x" { came = request.profile }
        }
        #expect(came == "norev")
        #expect(await peer.isAlive())
        #expect(try await database.body("x") == "{\"n\":2}")
    }

    /// The document is written by another peer while the row waits: whoever gets both only knows the first revision as an earlier one if it is not too
    /// far behind. Of a document that never stands still, every other revision is sent nevertheless.
    @Test(arguments: [2, 12]) func aRevisionThatIsFarBehindByNowIsNotSent(_ generations: Int) async throws {
        let database = try TestDatabase("hub")
        _ = try await database.put("x", "{\"n\":1}")
        let peer = try await Peer(Hub(database)) { $0.profile == "changes" ? nil : OutgoingReply() }
        await peer.begin()
        #expect(await peer.ask("subChanges", [("collection", "0"), ("continuous", "true")])?.error == nil)
        var requests = peer.requests.makeAsyncIterator()
        var came: [String] = []
        while came.count < 3, let request = await requests.next() {
            if request.properties["id"] == "x" { came.append(request.profile) }
            guard request.profile == "changes", String(buffer: request.body).contains("\"x\"") else { continue }
            for generation in 0..<generations { _ = try await database.put("x", "{\"n\":\(generation + 2)}") }
            peer.reply(to: request.number, OutgoingReply(json: "[[]]"))
        }
        #expect(came == (generations < 10 ? ["rev", "rev", "rev"] : ["norev", "rev", "norev"]))
        #expect(await peer.isAlive())
    }

    /// What took its place does not come from it: the peer would take it for a decision against what it has from others.
    @Test func aRevisionOfABranchThatIsLeftByNowIsNotSent() async throws {
        let database = try TestDatabase("hub")
        try await database.put("x", "{\"n\":1}")
        let peer = try await Peer(Hub(database)) { $0.profile == "changes" ? nil : OutgoingReply() }
        await peer.begin()
        #expect(await peer.ask("subChanges", [("collection", "0"), ("continuous", "true")])?.error == nil)
        var requests = peer.requests.makeAsyncIterator()
        var came: [String] = []
        let collection = try database.collection()
        while came.count < 2, let request = await requests.next() {
            if request.properties["id"] == "x" { came.append(request.profile) }
            guard request.profile == "changes", String(buffer: request.body).contains("\"x\"") else { continue }
            if came.isEmpty {
                try await database.database.write { _ = try $0.purge(collection, doc("x")) }
                try await database.put("x", "{\"n\":2}")
            }
            peer.reply(to: request.number, OutgoingReply(json: "[[]]"))
        }
        #expect(came == ["norev", "rev"])
    }
}

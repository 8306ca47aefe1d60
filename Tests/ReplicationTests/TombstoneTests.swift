import BLIP
import Documents
import DocumentStore
import Encodings
import Interfaces
import NIOCore
import Replication
import Testing

/// A document that was deleted, recreated by somebody who did not know that, and deleted again: the first of its two tombstones is the greater.
/// A peer that has the second document and the first tombstone has to learn of the second tombstone.
@Suite(.timeLimit(.minutes(5)))
struct TombstoneTests {
    private let hub: TestDatabase

    init() async throws {
        hub = try TestDatabase("hub")
        _ = try await insert("5-aa", ["4-aa", "3-aa", "2-aa", "1-aa"], deleted: true)
    }

    private func insert(_ revision: String, _ history: [String] = [], deleted: Bool = false) async throws -> InsertOutcome {
        let collection = try hub.collection()
        let incoming = IncomingRevision(
            id: doc("x"), revision: rev(revision), history: RevisionHistory(history.map(rev)), isDeleted: deleted, body: Array("{\"n\":1}".utf8))
        return try await hub.database.write { try $0.insert(incoming, into: collection, conflicts: .refuse) }
    }

    @Test("peers that have the document are told that it is deleted", arguments: [Subprotocol.generation3, .generation4])
    func everybodyHears(_ generation: Subprotocol) async throws {
        let a = try TestDatabase("a")
        let target = Hub(PassiveConfiguration(listener: "hub", database: hub.database, subprotocol: generation), owner: hub)
        func pull() async throws {
            let status = await Replicator(ReplicatorConfiguration(a, .pull), target).run()
            #expect(status.error == nil)
        }
        // It had the first document as well.
        try await a.insert("x", "4-aa", ["3-aa", "2-aa", "1-aa"])
        try await pull()
        #expect(try await a.get("x")?.isDeleted == true)
        _ = try await insert("1-bb")
        try await pull()
        #expect(try await a.body("x") == "{\"n\":1}")
        try await hub.put("x", "{}", deleted: true)
        #expect(try await hub.get("x")?.revision == rev("5-aa"))
        try await pull()
        #expect(try await a.get("x")?.isDeleted == true)
    }

    @Test("a peer is offered the lesser tombstone, and then the current one")
    func order() async throws {
        _ = try await insert("1-bb")
        try await hub.put("x", "{}", deleted: true)
        // A document with only one tombstone is announced as usual.
        try await hub.put("y", "{}")
        try await hub.put("y", "{}", deleted: true)
        let peer = try await Peer(Hub(hub))
        await peer.begin()
        #expect(await peer.ask("subChanges", [("collection", "0")])?.error == nil)
        var offered: [String] = []
        for await request in peer.requests where request.profile == "changes" {
            let rows = try JSONValue(parsing: [UInt8](request.body.readableBytesView)).asArray ?? []
            if rows.isEmpty { break }
            offered += rows.compactMap { $0.asArray?.dropFirst().prefix(2).compactMap(\.asString).joined(separator: " ") }
        }
        let tombstones = offered.filter { $0.hasPrefix("x ") }
        #expect(tombstones.count == 2 && tombstones.first?.hasPrefix("x 2-") == true && tombstones.last == "x 5-aa", "\(offered)")
        #expect(offered.count { $0.hasPrefix("y ") } == 1)
    }

    /// It is told of one tombstone only, because the push filter has not seen what the others ended; its own revision it knows.
    @Test("a peer that pushes what was deleted here is told of that deletion, although another tombstone is read")
    func pushed() async throws {
        _ = try await insert("1-bb")
        try await hub.put("x", "{}", deleted: true)
        let target = Hub(PassiveConfiguration(listener: "hub", database: hub.database, pushFilter: TestFilter { _, _ in .pass }), owner: hub)
        let peer = try await Peer(target)
        await peer.begin()
        #expect(await peer.ask("subChanges", [("collection", "0"), ("continuous", "true")])?.error == nil)
        var offered: [String] = []
        for await request in peer.requests where request.profile == "changes" {
            let rows = try JSONValue(parsing: [UInt8](request.body.readableBytesView)).asArray ?? []
            offered += rows.compactMap { $0.asArray?.dropFirst().prefix(2).compactMap(\.asString).joined(separator: " ") }
            if rows.isEmpty {
                #expect(offered == ["x 5-aa"])
                #expect(await peer.ask("rev", [("collection", "0"), ("id", "x"), ("rev", "1-bb")], "{\"n\":1}")?.error?.code == 409)
            } else if offered.contains(where: { $0.hasPrefix("x 2-") }) {
                break
            }
        }
        #expect(offered.contains { $0.hasPrefix("x 2-") }, "\(offered)")
    }
}

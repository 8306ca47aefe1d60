import Documents
import DocumentStore
import Interfaces
import Testing

@testable import Replication

/// A document that was deleted on both sides of a replication, each in its own way, and that comes back on one side.
@Suite(.timeLimit(.minutes(5)))
struct RecreationTests {
    /// The two deletions crossed: each side took the other's, and reads that. `shared` is also at a remote of the other side, which has nothing but the
    /// tombstone that is read there.
    @Test(arguments: [Subprotocol.generation3, .generation4], [ReplicatorType.push, .pushAndPull])
    func itComesBackOnTheTombstoneThatTheOtherSideDoesNotRead(_ generation: Subprotocol, _ type: ReplicatorType) async throws {
        func database(_ name: String) throws -> TestDatabase { try TestDatabase(name) { $0.versionsEdits = generation == .generation4 } }
        func replicate(_ database: TestDatabase, to other: TestDatabase, _ type: ReplicatorType) async throws {
            let hub = Hub(PassiveConfiguration(listener: "hub", database: other.database, subprotocol: generation), owner: other)
            let status = await Replicator(ReplicatorConfiguration(database, type), hub).run()
            #expect(status.error == nil && status.counts.failed == 0, "\(status)")
        }
        let (a, b, c) = (try database("a"), try database("b"), try database("c"))
        // The replicators know from their checkpoints that their notes on the other side are true.
        try await a.put("first", "{}")
        try await replicate(a, to: b, type)
        try await replicate(b, to: c, type)
        let ids = ["alone", "shared"]
        for id in ids {
            try await a.insert(id, "2-bb", ["1-bb"], deleted: true)
            try await b.insert(id, "2-aa", ["1-aa"], deleted: true)
        }
        try await replicate(a, to: b, .pull)
        // What `a` had sent in the meantime arrives.
        for id in ids { try await b.insert(id, "2-bb", ["1-bb"], deleted: true) }
        try await c.insert("shared", "2-bb", ["1-bb"], deleted: true)
        let collection = try b.collection()
        let key = ReplicatorConfiguration(b, type).remoteKey
        try await b.database.write { try $0.setRemoteRevisions(try $0.remoteID(for: key), collection, [(doc("shared"), rev("2-bb"))]) }
        for id in ids {
            #expect(try await a.get(id)?.revision == rev("2-aa"))
            #expect(try await b.get(id)?.revision == rev("2-bb"))
            try await a.put(id, "{\"n\":1}")
        }
        try await replicate(a, to: b, type)
        try await replicate(b, to: c, type)
        for database in [a, b, c] {
            for id in ids { #expect(try await database.body(id) == "{\"n\":1}") }
        }
    }
}

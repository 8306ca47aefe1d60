import Documents
import DocumentStore
import Interfaces
import Testing

@testable import Replication

/// A document that was deleted on both sides of a replication, each in its own way, and that comes back on one side.
@Suite(.timeLimit(.minutes(5)))
struct RecreationTests {
    private func replicate(_ database: TestDatabase, to other: TestDatabase, _ type: ReplicatorType, _ generation: Subprotocol) async throws {
        let hub = Hub(PassiveConfiguration(listener: "hub", database: other.database, subprotocol: generation), owner: other)
        let status = await Replicator(ReplicatorConfiguration(database, type), hub).run()
        #expect(status.error == nil && status.counts.failed == 0, "\(status)")
    }

    /// Of this remote the database notes that it has these revisions.
    private func note(_ database: TestDatabase, _ type: ReplicatorType, _ marks: [(String, String)]) async throws {
        let (collection, key) = (try database.collection(), ReplicatorConfiguration(database, type).remoteKey)
        let revisions = marks.map { (doc($0), rev($1)) }
        try await database.database.write { try $0.setRemoteRevisions(try $0.remoteID(for: key), collection, revisions) }
    }

    /// The two deletions crossed: each side took the other's, and reads that. `shared` is also at a remote of the other side, which has nothing but the
    /// tombstone that is read there.
    @Test(arguments: [Subprotocol.generation3, .generation4], [(ReplicatorType.push, false), (.push, true), (.pushAndPull, false), (.pushAndPull, true)])
    func itComesBackOnTheTombstoneThatTheOtherSideDoesNotRead(_ generation: Subprotocol, _ form: (type: ReplicatorType, isOneHistory: Bool)) async throws {
        let (type, isOneHistory) = form
        func database(_ name: String) throws -> TestDatabase { try TestDatabase(name) { $0.versionsEdits = generation == .generation4 } }
        let (a, b, c) = (try database("a"), try database("b"), try database("c"))
        let (lesser, greater) = isOneHistory ? ("1-00", "1-00") : ("1-aa", "1-bb")
        // The replicators know from their checkpoints that their notes on the other side are true.
        try await a.put("first", "{}")
        try await replicate(a, to: b, type, generation)
        try await replicate(b, to: c, type, generation)
        let ids = ["alone", "shared"]
        for id in ids {
            try await a.insert(id, "2-bb", [greater], deleted: true)
            try await b.insert(id, "2-aa", [lesser], deleted: true)
        }
        try await replicate(a, to: b, .pull, generation)
        // What `a` had sent in the meantime arrives.
        for id in ids { try await b.insert(id, "2-bb", [greater], deleted: true) }
        try await c.insert("shared", "2-bb", [greater], deleted: true)
        try await note(b, type, [("shared", "2-bb")])
        for id in ids {
            #expect(try await a.get(id)?.revision == rev("2-aa"))
            #expect(try await b.get(id)?.revision == rev("2-bb"))
            try await a.put(id, "{\"n\":1}")
        }
        try await replicate(a, to: b, type, generation)
        try await replicate(b, to: c, type, generation)
        for database in [a, b, c] {
            for id in ids { #expect(try await database.body(id) == "{\"n\":1}") }
        }
    }

    /// The other side has never had the tombstone on which the document comes back, and refuses what does not descend from its own. `turned`: that one was
    /// followed here, and was given up again for another.
    @Test(arguments: [Subprotocol.generation3, .generation4], [ReplicatorType.push, .pushAndPull])
    func itComesBackOnATombstoneThatTheOtherSideDoesNotHave(_ generation: Subprotocol, _ type: ReplicatorType) async throws {
        func database(_ name: String) throws -> TestDatabase { try TestDatabase(name) { $0.versionsEdits = generation == .generation4 } }
        let (a, b, c) = (try database("a"), try database("b"), try database("c"))
        try await a.put("first", "{}")
        try await replicate(a, to: b, type, generation)
        try await replicate(b, to: c, type, generation)
        try await a.insert("unknown", "2-bb", ["1-00"], deleted: true)
        try await a.insert("unknown", "2-aa", ["1-00"], deleted: true)
        try await a.insert("turned", "2-bb", ["1-00"], deleted: true)
        let (collection, key) = (try a.collection(), ReplicatorConfiguration(a, type).remoteKey)
        try await a.database.write { transaction in
            var turn = IncomingRevision(id: doc("turned"), revision: rev("2-aa"), history: RevisionHistory([rev("1-00")]), isDeleted: true, body: [])
            (turn.remote, turn.peerHad) = (try transaction.remoteID(for: key), .none)
            _ = try transaction.insert(turn, into: collection, conflicts: .store)
        }
        try await note(a, type, [("unknown", "2-aa"), ("turned", "2-bb")])
        for (id, here, there) in [("unknown", "2-bb", "2-aa"), ("turned", "2-aa", "2-bb")] {
            #expect(try await a.get(id)?.revision == rev(here))
            for database in [b, c] { try await database.insert(id, there, ["1-00"], deleted: true) }
            try await a.put(id, "{\"n\":1}")
        }
        try await replicate(a, to: b, type, generation)
        try await replicate(b, to: c, type, generation)
        for id in ["unknown", "turned"] {
            let revision = try await a.get(id)?.revision
            for database in [a, b, c] {
                let found = try await database.get(id)
                #expect(found?.revision == revision && text(found?.body) == "{\"n\":1}" && found?.hasConflict == false, "\(database.database.name): \(id)")
            }
            // What is edited there comes back, and is no conflict.
            try await c.put(id, "{\"n\":2}")
        }
        if type == .pushAndPull {
            try await replicate(b, to: c, type, generation)
            try await replicate(a, to: b, type, generation)
            for id in ["unknown", "turned"] { #expect(try await a.body(id) == "{\"n\":2}") }
        }
    }
}

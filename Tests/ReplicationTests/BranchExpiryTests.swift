import BLIP
import Documents
import DocumentStore
import Interfaces
import Replication
import Testing

/// `_exp` in a revision that arrives as a branch belongs to the revision, not to the document.
@Suite(.timeLimit(.minutes(10)))
struct BranchExpiryTests {
    private static let time: Int64 = 4_000_000_000
    private static let failure = PolicyFailure(plugin: "p", version: "1", kind: "plugin_error", message: "p.lua:1: no")

    /// A document to which a peer has pushed a second branch that expires, after the resolver has decided between the two.
    private func pushed(_ decision: ConflictDecision, _ revision: String = "1-abcd", _ isDone: (TestDatabase) async throws -> Bool) async throws -> TestDatabase {
        let database = try TestDatabase("b")
        try await database.put("x", "{\"at\":\"here\"}")
        var configuration = PassiveConfiguration(listener: "hub", database: database.database)
        configuration.resolver = TestResolver { _ in decision }
        let peer = try await Peer(Hub(configuration, owner: database))
        #expect(await peer.begin()?.error == nil)
        let properties = [("collection", "0"), ("id", "x"), ("rev", revision)]
        #expect(await peer.ask("rev", properties, "{\"_exp\":\(Self.time),\"at\":\"peer\"}")?.error == nil)
        while try await !isDone(database) { await Task.yield() }
        return database
    }

    @Test("a losing branch that expires does not remove the winner")
    func loser() async throws {
        let database = try await pushed(.local) { database in
            try await database.database.read { try $0.conflictHistory(limit: 10, includeBodies: false) }.count == 1
        }
        #expect(try await database.database.purgeExpired(now: Self.time + 1).isEmpty)
        #expect(try await database.body("x") == "{\"at\":\"here\"}")
    }

    @Test("a winning branch expires")
    func winner() async throws {
        let database = try await pushed(.remote) { try await $0.body("x") == "{\"at\":\"peer\"}" }
        let collection = try database.collection()
        #expect(try await database.database.read { try $0.purgeTime(collection, doc("x")) } == Self.time)
        #expect(try await database.database.purgeExpired(now: Self.time - 1).isEmpty)
        #expect(try await database.database.purgeExpired(now: Self.time + 1) == [.default: 1])
        #expect(try await database.get("x") == nil)
    }

    /// The greater revision survives, with the other's body in a revision on top of it.
    @Test("a winning branch expires, whichever branch survives", arguments: ["1-0000", "1-ffff"])
    func winnerOnEitherBranch(_ revision: String) async throws {
        let database = try await pushed(.remote, revision) { try await $0.body("x") == "{\"at\":\"peer\"}" }
        #expect(try await database.database.purgeExpired(now: Self.time + 1) == [.default: 1])
    }

    @Test("a branch that expires while it waits for a decision is purged only once it has won; a losing branch removes no other", arguments: [true, false])
    func decidedLater(_ wins: Bool) async throws {
        let database = try await pushed(.failed(Self.failure)) { database in
            let collection = try database.collection()
            return try await database.database.read { try $0.pendingConflict(collection, doc("x")) }?.tries == 1
        }
        let collection = try database.collection()
        #expect(try await database.database.purgeExpired(now: Self.time + 1).isEmpty)
        let conflict = try #require(try await database.database.read { try $0.conflict(collection, doc("x")) })
        try await database.database.write {
            _ = try $0.resolveConflict(
                collection, id: doc("x"), expectedLocal: conflict.local.revision, expectedRemote: conflict.remote.revision,
                resolution: wins ? .remoteWins : .localWins)
        }
        #expect(try await database.database.purgeExpired(now: Self.time - 1).isEmpty)
        #expect(try await database.database.purgeExpired(now: Self.time + 2) == (wins ? [.default: 1] : [:]))
        #expect(try await database.body("x") == (wins ? nil : "{\"at\":\"here\"}"))
        // No expiry is left that would be looked at again.
        #expect(try await database.database.read { try $0.nextPurgeTime() } == nil)
    }

    @Test("while the resolver fails, neither side expires")
    func undecided() async throws {
        let database = try await pushed(.failed(Self.failure)) { database in
            let collection = try database.collection()
            return try await database.database.read { try $0.pendingConflict(collection, doc("x")) }?.tries == 1
        }
        let collection = try database.collection()
        #expect(try await database.database.purgeExpired(now: Self.time + 1).isEmpty)
        #expect(try await database.body("x") == "{\"at\":\"here\"}")
        #expect(try await database.database.read { try $0.pendingConflict(collection, doc("x")) } != nil)
    }
}

import Documents
import DocumentStore
import Interfaces
import Replication
import TestSupport
import Testing

/// Documents with versions whose tree has several branches at a hub: a peer that has one of them ends up with what the hub has.
@Suite(.timeLimit(.minutes(5)))
struct BranchVersionTests {
    private static let digests = [String(repeating: "0", count: 31) + "1", String(repeating: "f", count: 32)]

    @Test("a gateway on a branch that the hub has ended follows the hub", arguments: [false, true], [false, true])
    func branchEnds(lesserFirst: Bool, edited: Bool) async throws {
        let gateway = try TestDatabase("gateway") { $0.versionsEdits = true }
        let database = try TestDatabase("hub") { $0.versionsEdits = true }
        let hub = Hub(PassiveConfiguration(listener: "hub", database: database.database, subprotocol: .generation4), owner: database)
        func sync(reset: Bool = false) async {
            let status = await Replicator(ReplicatorConfiguration(gateway), hub).run(reset: reset)
            #expect(status.error == nil)
        }
        try await database.put("d", "{}")
        await sync()
        let base = try await gateway.put("d", "{\"of\":\"gateway\"}")
        await sync()
        #expect(try await database.get("d")?.revision == base)
        for digest in lesserFirst ? Self.digests : Self.digests.reversed() {
            try await database.insert("d", "3-\(digest)", [base.text], body: "{\"branch\":\"3-\(digest.prefix(1))\"}")
            await sync()
        }
        #expect(try await gateway.body("d") == "{\"branch\":\"3-f\"}")
        if edited {
            try await database.put("d", "{\"branch\":\"edited\"}")
            await sync()
            #expect(try await gateway.body("d") == "{\"branch\":\"edited\"}")
        }
        try await database.put("d", "{}", deleted: true)
        #expect(try await database.body("d") == "{\"branch\":\"3-0\"}")
        await sync()
        #expect(try await gateway.body("d") == "{\"branch\":\"3-0\"}")
        #expect(try await gateway.get("d")?.revision == database.get("d")?.revision)
        await sync(reset: true)
        #expect(try await gateway.body("d") == "{\"branch\":\"3-0\"}")
        #expect(try await database.body("d") == "{\"branch\":\"3-0\"}")
    }
}

import Documents
import DocumentStore
import Interfaces
import Replication
import Testing

/// Saves that are based on a revision that is no longer current, so that a resolver decides.
@Suite(.timeLimit(.minutes(10)))
struct SaveDecisionTests {
    private func history(_ database: TestDatabase) async throws -> [ConflictHistoryEntry] {
        try await database.database.read { try $0.conflictHistory(limit: 100, includeBodies: true) }
    }

    private func saver(_ a: TestDatabase, _ resolver: any ConflictResolver) throws -> SaveDecider {
        SaveDecider(
            ConflictDecider(
                database: a.database, collection: try a.collection(), resolver: resolver,
                context: PolicyContext(database: "a", collection: .default, direction: .pull, remote: "save")))
    }

    @Test func aSaveBasedOnAnOlderRevisionIsDecided() async throws {
        let a = try TestDatabase("a")
        let first = try await a.put("x", "{\"n\":1}")
        try await a.put("x", "{\"n\":2}")
        let resolver = TestResolver { conflict in
            #expect(text(conflict.local?.body) == "{\"n\":2}" && text(conflict.remote?.body) == "{\"n\":9}" && conflict.baseRevision == first)
            return .merged(Array("{\"n\":11}".utf8))
        }
        let saved = try await saver(a, resolver).save(id: doc("x"), body: Array("{\"n\":9}".utf8), deleted: false, parent: first)
        #expect(saved.revision.generation == 3)
        #expect(try await a.body("x") == "{\"n\":11}")
        let entry = try #require(try await history(a).first)
        #expect(entry.place.kind == .save && entry.decision == .merged && entry.result.revision == saved.revision)
        // Without a base revision, or with an unknown one, it remains a conflict.
        for parent in [nil, rev("1-abcd")] {
            await #expect(throws: StoreError.self) {
                try await saver(a, resolver).save(id: doc("x"), body: Array("{}".utf8), deleted: false, parent: parent)
            }
        }
    }

    @Test func aSaveWhoseResolverFailsChangesNothing() async throws {
        let a = try TestDatabase("a")
        let first = try await a.put("x", "{\"n\":1}")
        try await a.put("x", "{\"n\":2}")
        let failure = PolicyFailure(plugin: "p", version: "1", kind: "plugin_error", message: "p.lua:1: no")
        await #expect(throws: failure) {
            try await saver(a, TestResolver { _ in .failed(failure) }).save(
                id: doc("x"), body: Array("{\"n\":9}".utf8), deleted: false, parent: first)
        }
        #expect(try await a.body("x") == "{\"n\":2}")
        #expect(try await history(a).isEmpty)
    }

    @Test func theExpiryOfAnEditIsSavedWithIt() async throws {
        let a = try TestDatabase("a")
        let collection = try a.collection()
        func purgeTime() async throws -> Int64? { try await a.database.read { try $0.purgeTime(collection, doc("x")) } }
        func save(_ decision: ConflictDecision, _ parent: RevisionID, _ time: Int64) async throws -> RevisionID {
            try await saver(a, TestResolver { _ in decision }).save(
                id: doc("x"), body: Array("{\"t\":\(time)}".utf8), deleted: false, parent: parent, expiry: DocumentExpiry(.int(time))).revision
        }
        let first = try await a.put("x", "{\"n\":1}")
        let second = try await save(.local, first, 4_000_000_000)
        #expect(try await purgeTime() == 4_000_000_000)
        // An edit that loses has no say about the expiry of what is stored.
        #expect(try await save(.local, first, 4_000_000_001) == second)
        #expect(try await purgeTime() == 4_000_000_000)
        #expect(try await save(.remote, first, 4_000_000_002).generation == 3)
        #expect(try await purgeTime() == 4_000_000_002)
    }

    @Test func aResultThatNamesAMissingBlobIsAFailure() async throws {
        let a = try TestDatabase("a")
        let first = try await a.put("x", "{\"n\":1}")
        try await a.put("x", "{\"n\":2}")
        func save(_ digest: String) async throws {
            let merged = "{\"b\":{\"@type\":\"blob\",\"digest\":\"\(digest)\",\"length\":5}}"
            _ = try await saver(a, TestResolver { _ in .merged(Array(merged.utf8)) }).save(
                id: doc("x"), body: Array("{\"n\":9}".utf8), deleted: false, parent: first)
        }
        let failure = await #expect(throws: PolicyFailure.self) { try await save("sha1-AAAAAAAAAAAAAAAAAAAAAAAAAAA=") }
        #expect(failure?.message.contains("sha1-AAAAAAAAAAAAAAAAAAAAAAAAAAA=, which neither side has") == true)
        #expect(try await a.body("x") == "{\"n\":2}")
        try await save(try await a.blob(Array("hello".utf8)))
        #expect(try await a.body("x") != "{\"n\":2}")
    }
}

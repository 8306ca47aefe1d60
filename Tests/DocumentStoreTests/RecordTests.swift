import DocumentStore
import Documents
import Testing

@Suite struct RecordTests {
    @Test func checkpointsAreSetByCompareAndSwap() async throws {
        let store = try Store()
        let database = store.database
        let body = Array(#"{"remote":"3::9","local":12}"#.utf8)
        #expect(try await database.read { try $0.checkpoint(.peer, id: "cp-a+b/c=", collection: nil) } == nil)
        // "" is what Core sends for none.
        let token = try await database.write { try $0.setCheckpoint(.peer, id: "cp-a+b/c=", collection: nil, body: body, expectedRevision: "") }
        #expect(token == "1-cc")
        await #expect(throws: StoreError.checkpointConflict(id: "cp-a+b/c=", current: "1-cc")) {
            try await database.write { try $0.setCheckpoint(.peer, id: "cp-a+b/c=", collection: nil, body: body, expectedRevision: nil) }
        }
        #expect(try await database.write { try $0.setCheckpoint(.peer, id: "cp-a+b/c=", collection: nil, body: [1], expectedRevision: "1-cc") } == "2-cc")
        let stored = try await database.read { try $0.checkpoint(.peer, id: "cp-a+b/c=", collection: nil) }
        #expect(stored?.revision == "2-cc" && stored?.body == [1])
        // Kinds and collections share no names.
        let c = try store.c
        #expect(try await database.read { try $0.checkpoint(.own, id: "cp-a+b/c=", collection: nil) } == nil)
        #expect(try await database.write { try $0.setCheckpoint(.own, id: "cp-a+b/c=", collection: c, body: body) } == "1-cc")
        await #expect(throws: StoreError.localIDInvalid(bytes: 0, limit: StoreLimits.maxLocalIDBytes)) {
            try await database.write { try $0.setCheckpoint(.own, id: "", collection: nil, body: body) }
        }
    }

    @Test func localDocuments() async throws {
        let store = try Store()
        let c = try store.c
        let database = store.database
        #expect(try await database.write { try $0.putLocalDocument(c, id: "x", body: [1], expectedRevision: nil) } == "0-1")
        await #expect(throws: StoreError.checkpointConflict(id: "x", current: "0-1")) {
            try await database.write { try $0.putLocalDocument(c, id: "x", body: [2], expectedRevision: nil) }
        }
        #expect(try await database.write { try $0.putLocalDocument(c, id: "x", body: [2], expectedRevision: "0-1") } == "0-2")
        try await database.write { try $0.putLocalDocument(c, id: "x", body: nil, expectedRevision: "0-2") }
        #expect(try await database.read { try $0.localDocument(c, id: "x") } == nil)
        #expect(try await database.read { try $0.lastSequence(c) } == 0)
    }

    @Test func exclusions() async throws {
        let store = try Store()
        let c = try store.c
        let database = store.database
        let one = try await store.remote("one"), two = try await store.remote("two")
        let rows = (0..<10).map { n in
            Exclusion(
                remote: n < 7 ? one : two, direction: n % 2 == 0 ? .push : .pull, kind: n % 3 == 0 ? .rejected : .held,
                id: doc("d\(n)"), sequence: UInt64(n), remoteSequence: "\"3::\(n)\"", revision: n == 5 ? nil : rev("1-aa"),
                error: "why", plugin: "p", version: "v", tries: n, since: 1000)
        }
        try await database.write { try $0.exclude(c, rows) }
        #expect(try await database.read { try $0.exclusions(c, limit: 100) } == rows)
        #expect(try await database.read { try $0.exclusion(c, remote: one, direction: .pull, id: doc("d5")) } == rows[5])
        #expect(try await database.read { try $0.exclusion(c, remote: two, direction: .pull, id: doc("d5")) } == nil)
        #expect(try await database.read { try $0.exclusions(c, remote: one, kind: .held, after: doc("d1"), limit: 2) } == [rows[2], rows[4]])
        #expect(try await store.statistics().held == 6)
        #expect(try await store.statistics().rejected == 4)
        try await database.write { try $0.unexclude(c, remote: one, direction: .push, ids: [doc("d0"), doc("d1")]) }
        #expect(try await database.read { try $0.exclusions(c, limit: 100) } == Array(rows[1...]))
    }
}

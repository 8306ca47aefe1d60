import DocumentStore
import Documents
import Testing

@Suite struct RecordTests {
    private let anna = CheckpointOwner(user: "anna", listener: "edge")
    private let wide = CheckpointBounds(count: 100, bytes: 1 << 20)

    private func set(
        _ store: Store, _ owner: CheckpointOwner, _ id: String, _ body: [UInt8] = [1], expecting: String? = nil, within bounds: CheckpointBounds
    ) async throws -> String {
        try await store.database.write {
            try $0.setPeerCheckpoint(owner, id: id, body: body, expectedRevision: expecting, within: bounds)
        }
    }

    private func get(_ store: Store, _ owner: CheckpointOwner, _ id: String) async throws -> StoredCheckpoint? {
        try await store.database.read { try $0.peerCheckpoint(owner, id: id) }
    }

    @Test func checkpointsAreSetByCompareAndSwap() async throws {
        let store = try Store()
        let database = store.database
        let body = Array(#"{"remote":"3::9","local":12}"#.utf8)
        let id = "cp-a+b/c="
        #expect(try await get(store, anna, id) == nil)
        // "" is what Core sends for none.
        #expect(try await set(store, anna, id, body, expecting: "", within: wide) == "1-cc")
        await #expect(throws: StoreError.checkpointConflict(id: id, current: "1-cc")) { try await set(store, anna, id, body, within: wide) }
        #expect(try await set(store, anna, id, expecting: "1-cc", within: wide) == "2-cc")
        let stored = try await get(store, anna, id)
        #expect(stored?.revision == "2-cc" && stored?.body == [1])
        // Ours and theirs share no names.
        let c = try store.c
        #expect(try await database.read { try $0.checkpoint(id: id, collection: c) } == nil)
        #expect(try await database.write { try $0.setCheckpoint(id: id, collection: c, body: body) } == "1-cc")
        await #expect(throws: StoreError.localIDInvalid(bytes: 0, limit: StoreLimits.maxLocalIDBytes)) {
            try await database.write { try $0.setCheckpoint(id: "", collection: c, body: body) }
        }
    }

    @Test func checkpointsHaveOwners() async throws {
        let store = try Store()
        let owners = [
            anna, CheckpointOwner(user: "ben", listener: "edge"), CheckpointOwner(user: "anna", listener: "plant"),
            CheckpointOwner(user: nil, listener: "edge"), CheckpointOwner(user: "", listener: "edge"),
        ]
        for (number, owner) in owners.enumerated() {
            #expect(try await get(store, owner, "cp") == nil)
            #expect(try await set(store, owner, "cp", [UInt8(number)], within: wide) == "1-cc")
        }
        for (number, owner) in owners.enumerated() { #expect(try await get(store, owner, "cp")?.body == [UInt8(number)]) }
        // A peer that writes endlessly pushes out no entries but its own.
        for number in 0..<20 { _ = try await set(store, anna, "more-\(number)", within: CheckpointBounds(count: 3, bytes: 100)) }
        #expect(try await get(store, anna, "cp") == nil)
        for (number, owner) in owners.enumerated().dropFirst() { #expect(try await get(store, owner, "cp")?.body == [UInt8(number)]) }
    }

    @Test func checkpointsAreListedForTheirOwner() async throws {
        let store = try Store()
        let ben = CheckpointOwner(user: "ben", listener: "edge")
        for id in ["_local/b", "_local/a", "cp", "_local/c", "_local", "_local0", "_local/"] { _ = try await set(store, anna, id, [1, 2], within: wide) }
        _ = try await set(store, anna, "_local/b", [], expecting: "1-cc", within: wide)
        _ = try await set(store, ben, "_local/x", within: wide)
        func list(_ owner: CheckpointOwner, after lower: String = "_local/", isDescending: Bool = false, limit: Int = 10) async throws -> [CheckpointEntry] {
            try await store.database.read {
                try $0.peerCheckpoints(owner, after: lower, before: "_local0", isDescending: isDescending, limit: limit)
            }
        }
        let all = try await list(anna)
        #expect(all.map(\.id) == ["_local/a", "_local/b", "_local/c"])
        #expect(all.map(\.revision) == ["1-cc", "2-cc", "1-cc"] && all.map(\.size) == [2, 0, 2])
        #expect(try await list(anna, isDescending: true, limit: 2).map(\.id) == ["_local/c", "_local/b"])
        #expect(try await list(anna, after: "_local/a", limit: 1).map(\.id) == ["_local/b"])
        #expect(try await list(ben).map(\.id) == ["_local/x"])
        func entry(_ owner: CheckpointOwner) async throws -> CheckpointEntry? {
            try await store.database.read { try $0.peerCheckpointEntry(owner, id: "_local/b") }
        }
        let (own, other) = (try await entry(anna), try await entry(ben))
        #expect(own == all[1] && other == nil)
    }

    @Test func theCheckpointThatWasNotWrittenForLongestMakesRoom() async throws {
        let store = try Store()
        func kept() async throws -> [String] {
            var kept: [String] = []
            for id in ["a", "b", "c", "d", "e"] where try await get(store, anna, id) != nil { kept.append(id) }
            return kept
        }
        let three = CheckpointBounds(count: 3, bytes: 100)
        for id in ["a", "b", "c"] { _ = try await set(store, anna, id, within: three) }
        _ = try await set(store, anna, "a", expecting: "1-cc", within: three)
        #expect(try await kept() == ["a", "b", "c"])
        _ = try await set(store, anna, "d", within: three)
        #expect(try await kept() == ["a", "c", "d"])
        // By bytes as well; what is written now stays even alone.
        _ = try await set(store, anna, "e", [UInt8](repeating: 1, count: 98), within: three)
        #expect(try await kept() == ["a", "d", "e"])
        _ = try await set(store, anna, "e", [UInt8](repeating: 1, count: 101), expecting: "1-cc", within: three)
        #expect(try await kept() == ["e"])
        _ = try await set(store, anna, "b", within: three)
        #expect(try await kept() == ["b"])
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

    @Test("an exclusion that is written again counts tries and keeps its first time; another kind, or another revision that a peer refuses, starts afresh")
    func tries() async throws {
        let store = try Store()
        let c = try store.c
        let one = try await store.remote("one")
        func write(_ kind: Exclusion.Kind, _ revision: String, at since: Int64) async throws -> String {
            let row = Exclusion(remote: one, direction: .push, kind: kind, id: doc("a"), revision: rev(revision), error: "at \(since)", since: since)
            return try await store.database.write {
                try $0.exclude(c, [row])
                let now = try $0.exclusion(c, remote: one, direction: .push, id: doc("a"))
                return now.map { "\($0.kind) \($0.revision.map { "\($0)" } ?? "") \($0.tries) \($0.since) \($0.error)" } ?? ""
            }
        }
        #expect(try await write(.held, "1-aa", at: 10) == "held 1-aa 1 10 at 10")
        #expect(try await write(.held, "1-aa", at: 20) == "held 1-aa 2 10 at 20")
        #expect(try await write(.held, "2-bb", at: 30) == "held 2-bb 3 10 at 30")
        #expect(try await write(.refused, "2-bb", at: 40) == "refused 2-bb 1 40 at 40")
        #expect(try await write(.refused, "2-bb", at: 50) == "refused 2-bb 2 40 at 50")
        #expect(try await write(.refused, "3-cc", at: 60) == "refused 3-cc 3 60 at 60")
        #expect(try await write(.held, "3-cc", at: 70) == "held 3-cc 1 70 at 70")
    }
}

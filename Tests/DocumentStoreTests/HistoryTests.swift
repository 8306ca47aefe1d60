import Documents
import SQLite
import Testing

@testable import DocumentStore

/// The history of decided conflicts.
@Suite struct HistoryTests {
    /// A conflict on a document, decided and recorded in one transaction; its number.
    @discardableResult
    private func decide(
        _ store: Store, _ id: String, _ resolution: Resolution, local: String = #"{"mine":1}"#, theirs: String = #"{"theirs":1}"#
    ) async throws -> Int64? {
        let remote = try await store.remote()
        _ = try await store.insert(id, "1-aa", body: #"{"base":1}"#, remote: remote)
        _ = try await store.save(id, local, parent: rev("1-aa"))
        _ = try await store.insert(id, "2-ff", ["1-aa"], body: theirs, remote: remote)
        let conflict = try #require(try await store.conflict(id))
        let c = try store.c
        return try await store.database.write { transaction in
            let saved = try transaction.resolveConflict(
                c, id: doc(id), expectedLocal: conflict.local.revision, expectedRemote: conflict.remote.revision, resolution: resolution)
            return try transaction.recordDecision(
                c,
                DecidedConflict(
                    conflict: conflict, resolution: resolution, result: saved.revision,
                    place: ConflictPlace(kind: .replicator, name: "hub", peer: "ws://hub/db", user: "ann"), plugin: "merge", version: "v1",
                    microseconds: 1234))
        }
    }

    private func history(_ database: Database, limit: Int = 100) async throws -> [ConflictHistoryEntry] {
        try await database.read { try $0.conflictHistory(limit: limit, includeBodies: true) }
    }

    @Test func everythingOfADecisionIsThereAfterwards() async throws {
        let store = try Store()
        let merged = Array(#"{"both":1}"#.utf8)
        let number = try await decide(store, "a", .merged(merged))
        let result = try #require(try await store.get("a"))
        store.database.close()

        let again = try Database.open(folder: store.folder, name: "test")
        let entry = try #require(try await history(again).first)
        #expect(entry.number == number && number == 1)
        #expect(entry.id == doc("a") && entry.collection.name == .default && entry.decision == .merged && entry.at > 1_700_000_000)
        #expect(entry.place == ConflictPlace(kind: .replicator, name: "hub", peer: "ws://hub/db", user: "ann"))
        #expect(entry.plugin == "merge" && entry.version == "v1" && entry.microseconds == 1234 && entry.shadow == nil)
        #expect(text(entry.local.body?.whole) == #"{"mine":1}"# && text(entry.remote.body?.whole) == #"{"theirs":1}"#)
        #expect(entry.remote.revision == rev("2-ff") && entry.base?.revision == rev("1-aa"))
        #expect(text(entry.base?.body?.whole) == #"{"base":1}"#)
        #expect(entry.result.revision == result.revision && entry.result.body == .whole(merged) && !entry.result.isDeleted)
        // A list reads no bodies.
        let row = try #require(try await again.read { try $0.conflictHistory(limit: 1, includeBodies: false) }.first)
        #expect(row.local.body == nil && row.result.body == nil && row.local.revision == entry.local.revision)
    }

    @Test func theResultOfAWinningSideIsItsBody() async throws {
        let store = try Store()
        try await decide(store, "a", .localWins)
        try await decide(store, "b", .remoteWins)
        try await decide(store, "c", .delete)
        let entries = try await history(store.database)
        #expect(entries.map(\.id.text) == ["c", "b", "a"])
        #expect(entries.map(\.decision) == [.delete, .remote, .local])
        #expect(entries[0].result.isDeleted && entries[0].result.body == nil)
        #expect(entries[1].result.body == entries[1].remote.body && entries[1].result.revision == rev("2-ff"))
        #expect(entries[2].result.body == entries[2].local.body)
        let one = try await store.database.read { try $0.conflictHistory(id: doc("b"), limit: 10, includeBodies: true) }
        #expect(one.map(\.number) == [2])
        #expect(try await store.database.read { try $0.conflictHistoryEntry(3) }?.id == doc("c"))
        #expect(try await store.database.read { try $0.conflictHistoryEntry(4) } == nil)
        #expect(try await store.database.read { try $0.conflictHistory(before: 3, limit: 1, includeBodies: false) }.map(\.number) == [2])
    }

    @Test func onlyTheNewestAreKeptAndNumbersGoOn() async throws {
        var options = DatabaseOptions()
        options.conflictHistory = 3
        options.durability = .process
        let store = try Store(options)
        for n in 1...10 {
            try await decide(store, "d\(n)", .remoteWins)
            #expect(try await history(store.database).map(\.number) == (max(1, n - 2)...n).reversed().map { Int64($0) })
            #expect(try await store.database.read { try $0.conflictHistoryCounts() }.kept == min(n, 3))
        }
        store.database.close()
        // Shorter from now on: what is too much goes when the agent says so. None at all: nothing is recorded.
        options.conflictHistory = 1
        let shorter = try Database.open(folder: store.folder, name: "test", options: options)
        #expect(try await history(shorter).count == 3)
        try await shorter.write { try $0.trimConflictHistory() }
        #expect(try await history(shorter).map(\.number) == [10])
        shorter.close()
        options.conflictHistory = 0
        let none = try Database.open(folder: store.folder, name: "test", options: options)
        try await none.write { try $0.trimConflictHistory() }
        #expect(try await none.read { try $0.conflictHistoryCounts() } == ConflictHistoryCounts())
        none.close()
        options.conflictHistory = 5
        let again = try Database.open(folder: store.folder, name: "test", options: options)
        let c = try #require(again.collection(.default))
        let side = Conflict.Side(revision: rev("1-aa"), isDeleted: false, body: Array("{}".utf8))
        let number = try await again.write {
            try $0.recordDecision(
                c,
                DecidedConflict(
                    conflict: Conflict(id: doc("x"), local: side, remote: side), resolution: .localWins, result: rev("1-aa"),
                    place: ConflictPlace(kind: .save, name: "", peer: ""), plugin: "", version: "", microseconds: 0))
        }
        #expect(number == 11)
    }

    @Test func withoutAHistoryNothingIsRecorded() async throws {
        var options = DatabaseOptions()
        options.conflictHistory = 0
        let store = try Store(options)
        #expect(try await decide(store, "a", .localWins) == nil)
        #expect(try await history(store.database).isEmpty)
        #expect(text(try await store.get("a")?.body) == #"{"mine":1}"#)
    }

    @Test func aLargeBodyIsKeptAsDigestAndSize() async throws {
        let store = try Store()
        func body(_ bytes: Int) -> String { "{\"a\":\"\(String(repeating: "x", count: bytes - 8))\"}" }
        let fits = body(StoreLimits.maxHistoryBodyBytes)
        let larger = body(StoreLimits.maxHistoryBodyBytes + 1)
        try await decide(store, "a", .merged(Array(larger.utf8)), local: fits, theirs: larger)
        let entry = try #require(try await history(store.database).first)
        #expect(text(entry.local.body?.whole) == fits)
        guard case .digest(let digest, let bytes)? = entry.remote.body else { return #expect(Bool(false), "\(entry.remote)") }
        #expect(bytes == larger.utf8.count && digest.utf8.count == 64 && entry.remote.body?.whole == nil)
        #expect(entry.result.body == entry.remote.body)
        // The document itself is whole.
        #expect(text(try await store.get("a")?.body) == larger)
    }

    @Test func shadowsAreAddedAndCounted() async throws {
        let store = try Store()
        for n in 1...4 { try await decide(store, "d\(n)", .remoteWins) }
        let differs = ShadowVerdict(
            outcome: .differs, plugin: "newer", version: "v2", decision: .merged, merged: Array(#"{"x":1}"#.utf8), microseconds: 7)
        let failed = ShadowVerdict(
            outcome: .failed, plugin: "newer", version: "v2", decision: nil, error: "newer.lua:3: boom", microseconds: 8)
        let same = ShadowVerdict(outcome: .same, plugin: "newer", version: "v2", decision: .remote, microseconds: 9)
        try await store.database.write {
            try $0.recordShadow(1, differs)
            try $0.recordShadow(2, failed)
            try $0.recordShadow(3, same)
            try $0.recordShadow(99, same)
        }
        let entries = try await history(store.database)
        #expect(entries.map(\.shadow) == [nil, same, failed, differs])
        let counts = try await store.database.read { try $0.conflictHistoryCounts() }
        #expect(counts.kept == 4 && counts.shadowSame == 1 && counts.shadowDiffers == 1 && counts.shadowFailed == 1)
    }

    @Test func aPurgedDocumentLeavesNoBody() async throws {
        let store = try Store()
        for id in ["a", "b"] { try await decide(store, id, .merged(Array(#"{"both":1}"#.utf8))) }
        let c = try store.c
        try await store.database.write { try $0.purge(c, doc("a")) }
        let entries = try await history(store.database)
        let gone = try #require(entries.last)
        #expect(gone.id == doc("a") && gone.decision == .merged)
        #expect([gone.local, gone.remote, gone.base, gone.result].allSatisfy { $0?.body == nil })
        #expect(entries.first?.result.body != nil)
    }

    @Test func aDecisionThatIsUndoneLeavesNoTrace() async throws {
        struct Refused: Error {}
        let store = try Store()
        let c = try store.c
        let side = Conflict.Side(revision: rev("1-aa"), isDeleted: false, body: Array("{}".utf8))
        let decided = DecidedConflict(
            conflict: Conflict(id: doc("x"), local: side, remote: side), resolution: .localWins, result: rev("1-aa"),
            place: ConflictPlace(kind: .listener, name: "edge", peer: "1.2.3.4:5"), plugin: "", version: "", microseconds: 0)
        await #expect(throws: Refused.self) {
            try await store.database.write { transaction in
                try transaction.recordDecision(c, decided)
                throw Refused()
            }
        }
        #expect(try await history(store.database).isEmpty)
        // The number was not spent: numbers have no gaps.
        #expect(try await store.database.write { try $0.recordDecision(c, decided) } == 1)
    }

    /// A file of the first schema gets the table, and loses nothing.
    @Test func aDatabaseOfTheFirstSchemaOpens() async throws {
        let store = try Store()
        for n in 0..<50 { _ = try await store.save("d\(n)", "{\"n\":\(n)}") }
        store.database.close()
        let path = store.folder + "/db.sqlite3"
        let connection = try Connection(path: path, mode: .readWrite)
        // As version 1 left it: what every later step made is taken away again.
        var later = Set<String>()
        let tables = try connection.prepare("SELECT name FROM sqlite_master WHERE type = 'table'")
        while try tables.step() {
            let name = tables.text(0)
            if Schema.migrations.dropFirst().joined().contains(where: { $0.contains("CREATE TABLE \(name)(") }) { later.insert(name) }
        }
        tables.reset()
        #expect(later.contains("conflict_history"))
        for name in later { try connection.execute("DROP TABLE \(name)") }
        try connection.execute("PRAGMA user_version = 1")
        connection.close()

        let again = try Database.open(folder: store.folder, name: "test")
        #expect(try await again.statistics().first?.documents == 50)
        #expect(try await history(again).isEmpty)
        #expect(try await again.read { try $0.conflictHistoryCounts() }.kept == 0)
        again.close()
        let check = try Connection(path: path, mode: .readWrite)
        #expect(try check.integer("PRAGMA user_version") == Int64(Schema.version))
        check.close()
    }

    // MARK: what a peer pushed

    /// Conflicts that a peer pushed: each case with the generation of its revision against ours at 3.
    @Test(arguments: [
        (Resolution.localWins, "2-ff"), (.localWins, "5-ff"), (.remoteWins, "2-ff"), (.remoteWins, "5-ff"),
        (.merged(Array(#"{"both":1}"#.utf8)), "2-ff"), (.merged(Array(#"{"both":1}"#.utf8)), "5-ff"), (.delete, "2-ff"), (.delete, "5-ff"),
    ])
    func aPushedConflictEndsAboveBothSides(_ resolution: Resolution, _ theirs: String) async throws {
        let store = try Store()
        _ = try await store.insert("a", "1-aa", body: #"{"base":1}"#, .refuse)
        let second = try await store.save("a", #"{"mine":0}"#, parent: rev("1-aa"))
        let mine = try await store.save("a", #"{"mine":1}"#, parent: second.revision)
        let history = theirs.hasPrefix("5") ? ["4-ee", "3-ee", "2-ee", "1-aa"] : ["1-aa"]
        #expect(try await store.insert("a", theirs, history, body: #"{"theirs":1}"#, .refuse) == .conflict(current: mine.revision))
        guard case .insertedConflict(let local, let remote, let sequence) = try await store.insert(
            "a", theirs, history, body: #"{"theirs":1}"#, .storePushed)
        else { return #expect(Bool(false)) }
        #expect(local == mine.revision && remote == rev(theirs) && sequence == mine.sequence + 1)
        // Until it is decided the document is as it was.
        #expect(text(try await store.get("a")?.body) == #"{"mine":1}"#)
        let c = try store.c
        #expect(try await store.database.read { try $0.pendingConflicts(c, limit: 9) }.first?.remoteID == .pusher)

        _ = try await store.resolve("a", resolution)
        let now = try #require(try await store.get("a"))
        #expect(now.revision >= mine.revision && now.revision >= rev(theirs) && !now.hasConflict && now.sequence > mine.sequence)
        switch resolution {
        case .localWins: #expect(text(now.body) == #"{"mine":1}"#)
        case .remoteWins: #expect(text(now.body) == #"{"theirs":1}"#)
        case .merged: #expect(text(now.body) == #"{"both":1}"#)
        case .delete: #expect(now.isDeleted)
        }
        let tree = try #require(try await store.database.read { try $0.tree(c, doc("a")) })
        #expect(tree.leaves.count == 1)
        #expect(try await store.statistics().conflictsPending == 0)
    }

    @Test func whatFitsIsNoConflictForAResolverEither() async throws {
        let store = try Store()
        _ = try await store.insert("a", "1-aa", [], .storePushed)
        guard case .inserted = try await store.insert("a", "2-bb", ["1-aa"], .storePushed) else { return #expect(Bool(false)) }
        let current = try #require(try await store.get("a"))
        _ = try await store.save("a", "{}", deleted: true, parent: current.revision)
        // A new document over a tombstone.
        guard case .inserted = try await store.insert("a", "1-cc", body: #"{"new":1}"#, .storePushed) else { return #expect(Bool(false)) }
        #expect(text(try await store.get("a")?.body) == #"{"new":1}"#)
        #expect(try await store.statistics().conflictsPending == 0)
    }

    // MARK: saves

    @Test func anEditOfAnOlderRevisionIsAConflictThatCanBeDecided() async throws {
        let store = try Store()
        let first = try await store.save("a", #"{"n":1}"#)
        let second = try await store.save("a", #"{"n":2}"#, parent: first.revision)
        let c = try store.c
        func conflict(_ parent: RevisionID) async throws -> Conflict? {
            try await store.database.read {
                try $0.saveConflict(c, id: doc("a"), body: Array(#"{"n":9}"#.utf8), deleted: false, parent: parent)
            }
        }
        #expect(try await conflict(second.revision) == nil)
        #expect(try await conflict(rev("1-ffff")) == nil)
        let found = try #require(try await conflict(first.revision))
        #expect(found.local.revision == second.revision && text(found.remote.body) == #"{"n":9}"# && found.baseRevision == first.revision)
        let kept = try await store.database.write { try $0.resolveSave(c, found, .localWins) }
        #expect(kept == second)
        let saved = try await store.database.write { try $0.resolveSave(c, found, .remoteWins) }
        #expect(saved.revision.generation == 3)
        #expect(text(try await store.get("a")?.body) == #"{"n":9}"#)
        // It moved on.
        await #expect(throws: StoreError.self) { try await store.database.write { try $0.resolveSave(c, found, .delete) } }
    }
}

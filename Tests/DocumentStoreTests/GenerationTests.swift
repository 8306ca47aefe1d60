import Documents
import DocumentStore
import Testing

/// A revision whose generation is near the limit: accepted or refused at the door, and read for ever once it is stored.
@Suite struct GenerationTests {
    private static let largest = "\(DocumentLimits.revisionGeneration)"

    @Test func editsAndMergesOnTheLargestGenerationAreReadAgain() async throws {
        let store = try Store()
        let c = try store.c
        _ = try await store.insert("edited", "\(Self.largest)-aa", body: #"{"n":1}"#)
        var parent = rev("\(Self.largest)-aa")
        for n in 2...4 { parent = try await store.save("edited", #"{"n":\#(n)}"#, parent: parent).revision }
        #expect(parent.generation == DocumentLimits.revisionGeneration + 3)

        let remote = try await store.remote()
        let local = try await store.save("merged", #"{"n":1}"#)
        _ = try await store.insert("merged", "\(Self.largest)-bb", body: #"{"n":2}"#, remote: remote)
        let merged = try await store.resolve("merged", .merged(Array(#"{"n":3}"#.utf8)))
        #expect(merged.revision.generation == DocumentLimits.revisionGeneration + 1)
        #expect(local.revision != merged.revision)

        let rows = try await store.database.read { try $0.changes(c, since: 0, limit: 10, includeBodies: true) }
        #expect(try rows.map { try $0.history(limit: 10).count } == [3, 1])
        #expect(try await store.insert("innocent", "1-aa") == .inserted(sequence: rows[1].sequence + 1))
        _ = try await store.save("edited", "{}", deleted: true, parent: parent)
        #expect(try await store.get("edited")?.isDeleted == true)
    }

    @Test func theDoorIsClosedAboveTheLargestGeneration() async throws {
        let store = try Store()
        _ = try await store.save("here", "{}")
        let above = "\(DocumentLimits.revisionGeneration + 1)-aa"
        for id in ["here", "new"] {
            let error = await #expect(throws: StoreError.self) { try await store.insert(id, above) }
            #expect("\(error.map { "\($0)" } ?? "")".contains("revisionGeneration = \(DocumentLimits.revisionGeneration)"))
        }
        #expect(try await store.get("new") == nil)
    }

    /// Versions before this limit accepted and made generations up to 2^53, and stored trees that they could not read.
    @Test func whatAnOlderVersionStoredIsRead() async throws {
        let store = try Store()
        let c = try store.c
        _ = try await store.save("old", "{}")
        var tree = try RevisionTree(rev("9007199254740991-aa"))
        try tree.insert(rev("9007199254740992-bb"), history: [rev("9007199254740991-aa")])
        try store.alter("UPDATE documents_1 SET rev = '9007199254740992-bb', tree = ?1", tree.encode())
        let again = try Store(folder: store.folder)
        let row = try #require(try await again.database.read { try $0.changes(c, since: 0, limit: 1, includeBodies: true) }.first)
        #expect(try row.history(limit: 5) == [rev("9007199254740991-aa")])
        #expect(try await again.insert("old", "9007199254740992-bb") == .alreadyPresent)
        let tombstone = try await again.save("old", "{}", deleted: true, parent: rev("9007199254740992-bb"))
        #expect(tombstone.revision.generation == 9_007_199_254_740_993)
        #expect(try await again.get("old")?.revision == tombstone.revision)
    }
}

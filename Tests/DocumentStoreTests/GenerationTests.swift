import Documents
import DocumentStore
import Testing

/// A revision whose generation is near the limit: accepted or refused at the door, and read for ever once it is stored.
@Suite struct GenerationTests {
    private static let largest = "\(DocumentLimits.revisionGeneration)"

    /// Otherwise one revision of a stranger would make a document that no peer takes any more, not even deleted.
    @Test func onTheLargestGenerationAnEditIsRefusedInWordsAndADeletionGoesEverywhere() async throws {
        let (store, elsewhere) = (try Store(), try Store())
        for each in [store, elsewhere] { _ = try await each.insert("full", "\(Self.largest)-aa", body: #"{"n":1}"#) }
        let parent = rev("\(Self.largest)-aa")
        let error = await #expect(throws: StoreError.self) { try await store.save("full", #"{"n":2}"#, parent: parent) }
        #expect("\(error.map { "\($0)" } ?? "")".contains("revisionGeneration = \(DocumentLimits.revisionGeneration)"))
        #expect(try await store.get("full")?.revision == parent)

        let tombstone = try await store.save("full", "{}", deleted: true, parent: parent).revision
        #expect(tombstone.generation == DocumentLimits.revisionGeneration + 1)
        // As it comes over the wire.
        let received = try RevisionID(tombstone.text)
        _ = try await elsewhere.insert("full", received.text, [parent.text], deleted: true)
        #expect(try await elsewhere.get("full")?.isDeleted == true)
        await #expect(throws: StoreError.self) { try await store.save("full", #"{"n":3}"#, parent: nil) }
    }

    @Test func mergesOnTheLargestGenerationAreReadAgain() async throws {
        let store = try Store()
        let c = try store.c
        let remote = try await store.remote()
        let local = try await store.save("merged", #"{"n":1}"#)
        _ = try await store.insert("merged", "\(Self.largest)-bb", body: #"{"n":2}"#, remote: remote)
        let merged = try await store.resolve("merged", .merged(Array(#"{"n":3}"#.utf8)))
        #expect(merged.revision.generation == DocumentLimits.revisionGeneration + 1)
        #expect(local.revision != merged.revision)

        let rows = try await store.database.read { try $0.changes(c, since: 0, limit: 10, includeBodies: true) }
        #expect(try rows.map { try $0.history(limit: 10).count } == [1])
        #expect(try await store.insert("innocent", "1-aa") == .inserted(sequence: rows[0].sequence + 1))
        _ = try await store.save("merged", "{}", deleted: true, parent: merged.revision)
        #expect(try await store.get("merged")?.isDeleted == true)
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

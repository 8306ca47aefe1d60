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

    @Test func mergesBelowTheLargestGenerationAreReadAgain() async throws {
        let store = try Store()
        let c = try store.c
        let remote = try await store.remote()
        let local = try await store.save("merged", #"{"n":1}"#)
        _ = try await store.insert("merged", "\(DocumentLimits.revisionGeneration - 1)-bb", body: #"{"n":2}"#, remote: remote)
        let merged = try await store.resolve("merged", .merged(Array(#"{"n":3}"#.utf8)))
        #expect(merged.revision.generation == DocumentLimits.revisionGeneration)
        #expect(local.revision != merged.revision)

        let rows = try await store.database.read { try $0.changes(c, since: 0, limit: 10, includeBodies: true) }
        #expect(try rows.map { try $0.history(limit: 10).count } == [1])
        #expect(try await store.insert("innocent", "1-aa") == .inserted(sequence: rows[0].sequence + 1))
        _ = try await store.save("merged", "{}", deleted: true, parent: merged.revision)
        #expect(try await store.get("merged")?.isDeleted == true)
    }

    /// Also a deletion: what the resolver puts on top of it lives.
    @Test(arguments: [ConflictHandling.store, .storePushed])
    func besideAnotherRevisionNothingIsTakenThatNoDecisionCanFollow(_ conflicts: ConflictHandling) async throws {
        let store = try Store()
        let remote = try await store.remote()
        let mine = try await store.save("mine", #"{"n":1}"#)
        for (revision, deleted) in [("\(Self.largest)-bb", false), ("\(Self.largest)-bb", true), ("\(DocumentLimits.receivedGeneration)-bb", true)] {
            let error = await #expect(throws: StoreError.self) {
                try await store.insert("mine", revision, deleted: deleted, remote: conflicts == .store ? remote : nil, conflicts)
            }
            #expect("\(error.map { "\($0)" } ?? "")".contains("revisionGeneration = \(DocumentLimits.revisionGeneration)"))
        }
        let current = try #require(try await store.get("mine"))
        #expect(current.revision == mine.revision && !current.hasConflict)
        _ = try await store.save("mine", #"{"n":2}"#, parent: mine.revision)
        // If nothing was edited, there is nothing to decide.
        _ = try await store.insert("theirs", "1-aa", remote: remote)
        _ = try await store.insert("theirs", "\(Self.largest)-bb", remote: remote)
        let followed = try #require(try await store.get("theirs"))
        #expect(followed.revision == rev("\(Self.largest)-bb") && !followed.hasConflict)
    }

    /// As CouchDB's clients bring it. It would be current once the document is deleted, and nothing could follow it.
    @Test(arguments: [ConflictHandling.refuse, .storePushed])
    func noTombstoneThatEndsNothingIsTakenThatNothingCanFollow(_ conflicts: ConflictHandling) async throws {
        let store = try Store()
        let c = try store.c
        let mine = try await store.save("mine", #"{"n":1}"#)
        func end(_ revision: String) async throws -> InsertOutcome {
            var tombstone = IncomingRevision(
                id: doc("mine"), revision: rev(revision), history: RevisionHistory(), isDeleted: true, body: Array("{}".utf8))
            tombstone.deletion = .leaf
            return try await store.database.write { [tombstone] in try $0.insert(tombstone, into: c, conflicts: conflicts) }
        }
        await #expect(throws: StoreError.self) { try await end("\(DocumentLimits.receivedGeneration)-bb") }
        guard case .inserted = try await end("7-bb") else { return #expect(Bool(false)) }
        _ = try await store.save("mine", "{}", deleted: true, parent: mine.revision)
        #expect(try await store.get("mine")?.isDeleted == true)
        _ = try await store.save("mine", #"{"n":2}"#)
        #expect(text(try await store.get("mine")?.body) == #"{"n":2}"#)
    }

    @Test(arguments: [Resolution.localWins, .remoteWins, .merged(Array(#"{"n":3}"#.utf8)), .delete])
    func aDecisionPutsNothingThatLivesOnTheLargestGeneration(_ resolution: Resolution) async throws {
        let store = try Store()
        _ = try await store.insert("decided", "\(Self.largest)-aa", body: #"{"n":1}"#)
        _ = try await store.insert("decided", "1-bb", body: #"{"n":2}"#, .storePushed)
        _ = try await store.resolve("decided", resolution)
        let current = try #require(try await store.get("decided"))
        #expect(!current.hasConflict)
        switch resolution {
        case .localWins: #expect(current.revision == rev("\(Self.largest)-aa") && text(current.body) == #"{"n":1}"#)
        case .remoteWins: #expect(current.revision == rev("1-bb") && text(current.body) == #"{"n":2}"#)
        case .merged: #expect(current.revision.generation == 2 && text(current.body) == #"{"n":3}"#)
        case .delete: #expect(current.isDeleted)
        }
    }

    /// Versions before this rule stored such conflicts. Their remotes take only what descends from their own branch.
    @Test func whatARemoteHasOnTheLargestGenerationStaysAsItIs() async throws {
        let store = try Store()
        let c = try store.c
        let remote = try await store.remote()
        _ = try await store.save("old", #"{"n":1}"#)
        _ = try await store.insert("old", "2-bb", body: #"{"n":2}"#, remote: remote)
        var tree = try #require(try await store.database.read { try $0.tree(c, doc("old")) })
        let end = rev("\(DocumentLimits.receivedGeneration)-cc")
        try tree.insert(end, history: [rev("2-bb")], isDeleted: true, depth: 1)
        try store.alter("UPDATE documents_1 SET tree = ?1", tree.encode())
        let again = try Store(folder: store.folder)
        _ = try await again.resolve("old", .localWins)
        let current = try #require(try await again.get("old"))
        #expect(current.revision == end && current.isDeleted && !current.hasConflict)
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

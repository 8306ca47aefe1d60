import Documents
import DocumentStore
import Testing

/// One document whose stored bytes are not readable: it is set aside by name, and everything else continues.
@Suite struct DamagedDocumentTests {
    /// `good-0`, `bad` with two revisions and unreadable bytes instead of its tree, `good-1`.
    private func damagedStore(_ sql: String = "UPDATE documents_1 SET tree = ?1 WHERE id = 'bad'", _ bytes: [UInt8] = [1, 2, 0xFF]) async throws -> Store {
        let store = try Store()
        _ = try await store.save("good-0", "{}")
        let first = try await store.save("bad", #"{"n":1}"#)
        _ = try await store.save("bad", #"{"n":2}"#, parent: first.revision)
        _ = try await store.save("good-1", "{}")
        try store.alter(sql, bytes)
        return try Store(folder: store.folder)
    }

    private func names(_ store: Store) -> [String] { store.database.damagedDocuments.map(\.id.text) }

    @Test func aBatchStoresTheOthersAndNamesIt() async throws {
        let store = try await damagedStore()
        let c = try store.c
        let current = try #require(try await store.get("bad")?.revision)
        let verdicts = try await store.database.write { transaction in
            try ["good-0", "bad", "new"].map { id in
                try transaction.insert(
                    IncomingRevision(id: doc(id), revision: rev("7-aa"), history: [], body: Array("{}".utf8)), into: c, conflicts: .refuse)
            }
        }
        #expect(verdicts[1] == .conflict(current: current))
        #expect(verdicts[2] == .inserted(sequence: 5))
        #expect(names(store) == ["bad"])
        #expect(try await store.database.read { try $0.missing(c, [RevisionOffer(id: doc("bad"), revision: rev("7-aa")), RevisionOffer(id: doc("x"), revision: rev("1-aa"))]) }
            == [.need(ancestors: [current]), .need(ancestors: [])])
        // What descends from the current revision repairs it.
        _ = try await store.insert("bad", "3-cc", [current.text], body: #"{"n":3}"#)
        #expect(names(store) == [])
        #expect(try await store.database.read { try $0.tree(c, doc("bad"))?.count } == 2)
    }

    @Test func itIsDeletedSavedAndPurged() async throws {
        for action in ["delete", "save", "purge"] {
            let store = try await damagedStore()
            let c = try store.c
            await #expect(throws: StoreError.self) { try await store.database.read { try $0.tree(c, doc("bad")) } }
            #expect(names(store) == ["bad"])
            let current = try #require(try await store.get("bad")?.revision)
            switch action {
            case "purge": #expect(try await store.database.write { try $0.purge(c, doc("bad")) })
            default:
                let saved = try await store.save("bad", "{}", deleted: action == "delete", parent: current)
                let row = try await store.database.read { try $0.changes(c, since: 4, limit: 1, includeBodies: true) }.first
                #expect(row?.revision == saved.revision)
                #expect(try row?.history(limit: 9) == [current])
            }
            #expect(names(store) == [])
        }
    }

    @Test func aBranchThatWaitsForItsResolverIsNotGivenUp() async throws {
        let store = try Store()
        let c = try store.c
        let remote = try await store.remote()
        _ = try await store.save("bad", #"{"n":1}"#)
        _ = try await store.insert("bad", "1-aa", remote: remote)
        try store.alter("UPDATE documents_1 SET tree = ?1", [9])
        let again = try Store(folder: store.folder)
        let error = await #expect(throws: StoreError.self) { try await again.insert("bad", "2-bb", ["1-aa"], remote: remote) }
        guard case .documentDamaged? = error else { return #expect(Bool(false), "\(String(describing: error))") }
        #expect(try await again.conflict("bad") == nil)
        #expect(names(again) == ["bad"])
        #expect(try await again.database.read { try $0.pendingConflicts(c, limit: 9) }.count == 1)
    }

    @Test func aListOfRemotesThatCannotBeReadIsMadeAnew() async throws {
        let store = try await damagedStore("UPDATE documents_1 SET remotes = ?1 WHERE id = 'bad'", [0x81])
        let c = try store.c
        let remote = try await store.remote()
        let rows = try await store.database.read { try $0.changes(c, since: 0, limit: 9, includeBodies: true, remote: remote) }
        #expect(rows.map(\.remoteRevision) == [nil, nil, nil])
        try await store.database.write { try $0.setRemoteRevisions(remote, c, [(doc("bad"), rows[1].revision)]) }
        #expect(try await store.database.read { try $0.remoteRevision(remote, c, doc("bad")) } == rows[1].revision)
        #expect(try await store.database.write { try $0.purge(c, doc("bad")) })
    }
}

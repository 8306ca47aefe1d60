import DocumentStore
import Documents
import Testing

@Suite struct SaveTests {
    @Test func documentLivesAndDies() async throws {
        let store = try Store()
        let first = try await store.save("a", #"{"n":1}"#)
        #expect(first.sequence == 1)
        #expect(first.revision.generation == 1)
        let second = try await store.save("a", #"{"n":2}"#, parent: first.revision)
        #expect(second.revision.generation == 2)
        #expect(second.sequence == 2)
        #expect(try await text(store.get("a")?.body) == #"{"n":2}"#)
        let gone = try await store.save("a", "", deleted: true, parent: second.revision)
        let tombstone = try #require(try await store.get("a"))
        #expect(tombstone.isDeleted)
        #expect(text(tombstone.body) == "{}")
        #expect(try await store.statistics().documents == 0)
        #expect(try await store.statistics().deleted == 1)
        // Recreated: a child of the tombstone.
        let again = try await store.save("a", #"{"n":3}"#)
        #expect(again.revision.generation == 4)
        let c = try store.c
        let tree = try #require(try await store.database.read { try $0.tree(c, doc("a")) })
        #expect(tree.ancestors(of: again.revision) == [gone.revision, second.revision, first.revision])
        #expect(try await store.statistics().documents == 1)
        #expect(try await store.statistics().deleted == 0)
    }

    @Test func sameEditHereAndThereIsTheSameRevision() async throws {
        let here = try Store(), there = try Store()
        let a = try await here.save("a", #"{"x":1,"y":[true]}"#)
        let b = try await there.save("a", #"{ "y" : [ true ], "x" : 1 }"#)
        #expect(a.revision == b.revision)
        // Stored as it came.
        #expect(try await text(there.get("a")?.body) == #"{ "y" : [ true ], "x" : 1 }"#)
    }

    @Test func staleParentIsAConflict() async throws {
        let store = try Store()
        let first = try await store.save("a", #"{"n":1}"#)
        let second = try await store.save("a", #"{"n":2}"#, parent: first.revision)
        await #expect(throws: StoreError.conflict(id: doc("a"), current: second.revision)) {
            try await store.save("a", #"{"n":3}"#, parent: first.revision)
        }
        await #expect(throws: StoreError.conflict(id: doc("a"), current: second.revision)) {
            try await store.save("a", #"{"n":3}"#)
        }
        await #expect(throws: StoreError.conflict(id: doc("b"), current: nil)) {
            try await store.save("b", "{}", parent: first.revision)
        }
        #expect(try await text(store.get("a")?.body) == #"{"n":2}"#)
    }

    @Test(arguments: ["[]", "1", "{", #"{"a":1}x"#, "{\"a\":\"\u{1}\"}"])
    func bodyMustBeAnObject(_ body: String) async throws {
        let store = try Store()
        let error = await #expect(throws: StoreError.self) { try await store.save("a", body) }
        guard case .bodyInvalid(let id, _)? = error else { return #expect(Bool(false), "\(String(describing: error))") }
        #expect(id == doc("a"))
        #expect(try await store.get("a") == nil)
    }

    @Test func reservedKeyIsNamed() async throws {
        let store = try Store()
        await #expect(throws: StoreError.reservedKey(id: doc("a"), key: "_id")) {
            try await store.save("a", #"{"x":1,"_id":"a"}"#)
        }
        _ = try await store.save("a", #"{"x":{"_id":"a"}}"#)
    }

    @Test(arguments: ["7", #"{"x":7}"#, #"{"x":{"data":"aGk="}}"#, #"{"x":{"digest":"sha1-no"}}"#])
    func attachmentsNameTheirBytes(_ attachments: String) async throws {
        let store = try Store()
        let error = await #expect(throws: StoreError.self) { try await store.save("a", #"{"_attachments":\#(attachments)}"#) }
        #expect(error.map { "\($0)" }?.utf8.count ?? 0 > 0)
        guard case .bodyInvalid? = error else { return #expect(Bool(false), "\(String(describing: error))") }
    }

    /// What came by a peer's own interface is read, changed and put back; bytes by another digest are with nobody here.
    @Test func attachmentsGoRound() async throws {
        let store = try Store()
        let digest = "sha1-AAAAAAAAAAAAAAAAAAAAAAAAAAA="
        let attachments = #"{"p":{"content_type":"image/png","digest":"\#(digest)","length":1,"revpos":1,"stub":true},"m":{"digest":"md5-1B2M2Y8AsgTpgAmY7PhCfg=="}}"#
        _ = try await store.insert("a", "1-aa", body: #"{"_attachments":\#(attachments),"n":1}"#)
        let saved = try await store.save("a", #"{"_attachments":\#(attachments),"n":2}"#, parent: rev("1-aa"))
        let stored = try await store.get("a")
        #expect(stored?.hasBlobs == true)
        #expect(text(stored?.body) == #"{"_attachments":\#(attachments),"n":2}"#)
        let blob = try BlobDigest(digest)
        #expect(try await store.database.read { try $0.isBlobReferenced(blob) })
        // A save without them takes them away, as in CouchDB.
        _ = try await store.save("a", #"{"n":3}"#, parent: saved.revision)
        #expect(try await !store.database.read { try $0.isBlobReferenced(blob) })
    }

    @Test func unusualKeysNeedASetting() async throws {
        let strict = try Store()
        for body in [#"{"":1}"#, #"{"a":[{"b\u0000":1}]}"#] {
            let error = await #expect(throws: StoreError.self) { try await strict.save("a", body) }
            guard case .bodyInvalid? = error else { return #expect(Bool(false), "\(String(describing: error))") }
            await #expect(throws: StoreError.self) { try await strict.insert("a", "1-aa", body: body) }
        }
        var options = DatabaseOptions()
        options.unusualKeys = true
        let lenient = try Store(options)
        _ = try await lenient.save("a", #"{"":1,"a":[{"b\u0000":1}]}"#)
    }

    @Test func bodyOverTheLimit() async throws {
        var options = DatabaseOptions()
        options.maxBodyBytes = 100
        let store = try Store(options)
        let body = "{\"a\":\"" + String(repeating: "x", count: 100) + "\"}"
        await #expect(throws: StoreError.bodyTooLarge(id: doc("a"), bytes: body.utf8.count, limit: 100)) {
            try await store.save("a", body)
        }
    }

    @Test func idsAreBytes() async throws {
        let store = try Store()
        _ = try await store.save("caf\u{E9}", #"{"form":"composed"}"#)
        _ = try await store.save("cafe\u{301}", #"{"form":"decomposed"}"#)
        #expect(try await text(store.get("caf\u{E9}")?.body) == #"{"form":"composed"}"#)
        #expect(try await text(store.get("cafe\u{301}")?.body) == #"{"form":"decomposed"}"#)
    }

    @Test func historyIsPrunedButNotWhatARemoteHas() async throws {
        var options = DatabaseOptions()
        options.historyDepth = 5
        let store = try Store(options)
        let c = try store.c
        let remote = try await store.remote()
        let first = try await store.save("a", #"{"n":1}"#)
        try await store.database.write { try $0.setRemoteRevisions(remote, c, [(doc("a"), first.revision)]) }
        var current = first
        for n in 2...30 { current = try await store.save("a", "{\"n\":\(n)}", parent: current.revision) }
        let tree = try #require(try await store.database.read { try $0.tree(c, doc("a")) })
        #expect(tree.contains(first.revision))
        #expect(tree.count == 6)
        #expect(try await store.database.read { try $0.remoteRevision(remote, c, doc("a")) } == first.revision)
        // The base for a three-way merge is there as well.
        let base = try await store.database.read { try $0.body(c, doc("a"), first.revision) }
        #expect(text(base) == #"{"n":1}"#)
        // Once the remote has the current revision the base goes.
        let newest = current.revision
        try await store.database.write { try $0.setRemoteRevisions(remote, c, [(doc("a"), newest)]) }
        #expect(try await store.database.read { try $0.body(c, doc("a"), first.revision) } == nil)
        _ = try await store.save("a", #"{"n":31}"#, parent: newest)
        #expect(try await store.database.read { try $0.tree(c, doc("a"))?.contains(first.revision) } == false)
    }

    @Test func purgeLeavesNothing() async throws {
        let store = try Store()
        let c = try store.c
        let remote = try await store.remote()
        let first = try await store.save("a", #"{"n":1}"#)
        try await store.database.write { try $0.setRemoteRevisions(remote, c, [(doc("a"), first.revision)]) }
        _ = try await store.save("a", #"{"n":2}"#, parent: first.revision)
        #expect(try await store.database.write { try $0.purge(c, doc("a")) })
        #expect(try await !store.database.write { try $0.purge(c, doc("a")) })
        #expect(try await store.get("a") == nil)
        #expect(try await store.database.read { try $0.remoteRevision(remote, c, doc("a")) } == nil)
        #expect(try await store.statistics().documents == 0)
        // Sequences are not given out again.
        #expect(try await store.save("b", "{}").sequence == 3)
        #expect(try await store.save("a", "{}").revision.generation == 1)
    }

    @Test func collectionsAreApart() async throws {
        let store = try Store()
        let name = try CollectionName(parsing: "plant.pumps")
        let pumps = try store.database.createCollection(name)
        #expect(try store.database.createCollection(name) == pumps)
        _ = try await store.save("a", #"{"n":1}"#)
        let saved = try await store.database.write { try $0.save(pumps, id: doc("a"), body: Array(#"{"n":2}"#.utf8), parent: nil) }
        #expect(saved.sequence == 1)
        store.database.close()
        let again = try Database.open(folder: store.folder, name: "test")
        #expect(again.collections.map(\.name) == [.default, name])
        let found = try #require(again.collection(name))
        #expect(try await text(again.read { try $0.document(found, doc("a"))?.body }) == #"{"n":2}"#)
        let stranger = try Store()
        let other = try stranger.database.createCollection(CollectionName(parsing: "x"))
        let third = try stranger.database.createCollection(CollectionName(parsing: "y"))
        _ = other
        await #expect(throws: StoreError.unknownCollection(third.name)) {
            try await again.write { try $0.save(third, id: doc("a"), body: [], parent: nil) }
        }
    }
}

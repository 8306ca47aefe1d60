import DocumentStore
import Documents
import Testing

/// What a sync function decides in a resync about stored documents.
@Suite("Routes that change without the document")
struct ReroutingTests {
    private let anna = ChannelPeer(user: "anna", listener: "edge"), ben = ChannelPeer(user: "ben", listener: "edge")

    private func put(_ store: Store, _ id: String, _ route: DocumentRoute) async throws -> RevisionID {
        let c = try store.c
        return try await store.database.write { transaction in
            let saved = try transaction.save(c, id: doc(id), body: Array("{}".utf8), deleted: false, parent: nil)
            try transaction.route(c, doc(id), saved.revision, route)
            return saved.revision
        }
    }

    private func news(_ store: Store, _ peer: ChannelPeer, from place: ChannelPlace) async throws -> [String] {
        let c = try store.c
        return try await store.database.read { transaction in
            try transaction.channelChanges(c, from: place, ChannelQuestion(peer: peer), limit: 100).rows.map { "\($0.change.id) \($0.visibility)" }
        }
    }

    /// The first document that is not where this version put it.
    private func outdated(_ store: Store, _ plugin: String, _ version: String, from start: String? = nil, limit: Int = 100) async throws -> String? {
        let c = try store.c
        var start = start.map { doc($0) }
        while true {
            let page = try await store.database.read { [start] in try $0.routed(c, notBy: plugin, version: version, from: start, limit: limit) }
            guard page.found == nil, let next = page.next else { return page.found?.text }
            start = next
        }
    }

    @Test("a document that moves to other channels reaches the users who have them and leaves the others, with the same revision")
    func channels() async throws {
        let store = try Store()
        let c = try store.c
        try await store.database.write { transaction in
            try transaction.setAccess(of: anna, c, channels: ["red"], roles: [])
            try transaction.setAccess(of: ben, c, channels: ["blue"], roles: [])
        }
        let revision = try await put(store, "a", DocumentRoute(channels: ["red"], plugin: "p", version: "1"))
        let second = try await put(store, "b", DocumentRoute(channels: ["red"], plugin: "p", version: "1"))
        let place = ChannelPlace(try await store.database.read { try $0.lastSequence(c) })

        let same = DocumentRoute(channels: ["red"], plugin: "p", version: "2"), other = DocumentRoute(channels: ["blue"], plugin: "p", version: "2")
        #expect(try await outdated(store, "p", "2") == "a")
        #expect(try await store.database.read { try $0.differs(c, doc("a"), revision, from: other) } == true)
        #expect(try await store.database.read { try $0.differs(c, doc("a"), rev("9-ff"), from: other) } == nil)
        #expect(try await store.database.write { try $0.reroute(c, doc("a"), revision, other) })
        #expect(try await news(store, anna, from: place) == ["a removed"])
        #expect(try await news(store, ben, from: place) == ["a visible"])
        #expect(try await store.database.read { try $0.document(c, doc("a"))?.revision } == revision)

        // What stays where it is gets no new sequence, but it is known which version has processed it.
        let before = try await store.database.read { try $0.lastSequence(c) }
        #expect(try await store.database.write { try !$0.reroute(c, doc("b"), second, same) })
        #expect(try await store.database.read { try $0.lastSequence(c) } == before)
        #expect(try await outdated(store, "p", "2") == nil)
        #expect(try await outdated(store, "q", "2") == "a")

        // What is rejected is in no channel, and is retried by itself.
        let rejected = DocumentRoute(plugin: "p", version: "2", error: "rejected: no")
        #expect(try await store.database.write { try $0.reroute(c, doc("b"), second, rejected) })
        #expect(try await news(store, anna, from: ChannelPlace(before)) == ["b removed"])
        #expect(try await store.database.read { try $0.unassigned(c, limit: 10) }.map(\.0.text) == ["b"])
        let third = DocumentRoute(channels: ["blue"], plugin: "p", version: "3")
        #expect(try await store.database.write { try !$0.reroute(c, doc("a"), revision, third) })
        #expect(try await outdated(store, "p", "3") == nil)
    }

    @Test("access that a document grants begins and ends after what peers have already seen")
    func grants() async throws {
        let store = try Store()
        let c = try store.c
        _ = try await put(store, "note", DocumentRoute(channels: ["red"]))
        let before = ChannelPlace(try await store.database.read { try $0.lastSequence(c) })
        let card = try await put(store, "card", DocumentRoute(access: ["anna": ["red"]]))
        #expect(try await news(store, anna, from: before) == ["note visible"])
        let place = ChannelPlace(try await store.database.read { try $0.lastSequence(c) })
        #expect(try await store.database.write { try $0.reroute(c, doc("card"), card, DocumentRoute(access: ["ben": ["red"]])) })
        #expect(try await news(store, anna, from: place) == ["note revoked"])
        #expect(try await news(store, ben, from: place) == ["note visible"])
        #expect(try await store.database.write { try !$0.reroute(c, doc("card"), card, DocumentRoute(access: ["ben": ["red"]])) })
    }

    @Test("what another version has assigned is found wherever it is, a few documents at a time")
    func pages() async throws {
        let store = try Store()
        for number in 0..<9 { _ = try await put(store, "d\(number)", DocumentRoute(plugin: "p", version: number == 4 || number == 8 ? "1" : "2")) }
        for limit in [1, 2, 3, 5, 9, 100] {
            #expect(try await outdated(store, "p", "2", limit: limit) == "d4", "\(limit)")
            #expect(try await outdated(store, "p", "2", from: "d4", limit: limit) == "d4", "\(limit)")
            #expect(try await outdated(store, "p", "2", from: "d5", limit: limit) == "d8", "\(limit)")
            #expect(try await outdated(store, "p", "1", limit: limit) == "d0", "\(limit)")
        }
        _ = try await put(store, "e", DocumentRoute(plugin: "p", version: "2"))
        for limit in [1, 2, 100] { #expect(try await outdated(store, "p", "2", from: "d9", limit: limit) == nil, "\(limit)") }
    }
}

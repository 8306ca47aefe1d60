import DocumentStore
import Documents
import Testing

@Suite("What a peer is told of documents that it lost")
struct LostDocumentTests {
    private let anna = ChannelPeer(user: "anna", listener: "edge")

    @discardableResult
    private func put(
        _ store: Store, _ id: String, in channels: Set<String>, body: String = "{}", deleted: Bool = false, access: [String] = []
    ) async throws -> RevisionID {
        let c = try store.c
        return try await store.database.write { transaction in
            let parent = try transaction.document(c, doc(id))?.revision
            let saved = try transaction.save(c, id: doc(id), body: Array(body.utf8), deleted: deleted, parent: parent)
            try transaction.route(c, doc(id), saved.revision, DocumentRoute(channels: channels, access: ["anna": access]))
            return saved.revision
        }
    }

    /// Anna's feed from a place on.
    private func told(_ store: Store, from place: ChannelPlace = ChannelPlace()) async throws -> (rows: [ChannelPage.Row], place: ChannelPlace) {
        let c = try store.c
        var rows: [ChannelPage.Row] = []
        var place = place
        while true {
            let page = try await store.database.read { [place] in try $0.channelChanges(c, from: place, ChannelQuestion(peer: anna), limit: 2) }
            rows += page.rows.map { $0.withheld() }
            place = page.place
            if page.isEnd { return (rows, place) }
        }
    }

    private func texts(_ rows: [ChannelPage.Row]) -> [String] {
        rows.map { row in
            let event = row.event.map { "\($0):" } ?? ""
            let deleted = row.change.isDeleted ? " deleted" : ""
            return "\(event)\(row.sequence) \(row.change.id) \(row.visibility)\(deleted) \(row.change.revision) \(text(row.change.body) ?? "")"
        }
    }

    private func ids(_ rows: [ChannelPage.Row]) -> [String] { rows.map(\.change.id.text) }

    @Test("what is written after access ended is shown nowhere, wherever the peer starts", arguments: ["red", "*"])
    func afterAccessEnded(_ channel: String) async throws {
        let store = try Store()
        let c = try store.c
        try await put(store, "card", in: [], access: [channel])  // 1
        for id in ["a", "b", "c"] { try await put(store, id, in: ["red"]) }  // 2, 3, 4
        let place = try await told(store).place
        try await put(store, "card", in: ["hidden"])  // 5
        let lost = try await told(store, from: place).rows
        #expect(ids(lost).filter { $0 != "card" } == ["a", "b", "c"] && lost.allSatisfy { $0.visibility == .revoked && $0.event == 5 })
        try await put(store, "a", in: ["red"])
        try await put(store, "b", in: ["hidden"])
        try await put(store, "b", in: ["hidden"])
        try await put(store, "c", in: ["hidden"], body: #"{"why":"hidden"}"#, deleted: true)
        try await put(store, "d", in: ["red"])
        let later = try await told(store, from: place).rows
        #expect(texts(later).filter { !$0.contains("card") } == texts(lost).filter { !$0.contains("card") })
        let last = try #require(lost.last)
        #expect(try await told(store, from: ChannelPlace(parsing: "\"5:\(last.sequence)\"")).rows.isEmpty)
        // No revision id is revealed with which the documents could be edited.
        for row in lost {
            let tree = try await store.database.read { try $0.tree(c, row.change.id) }
            #expect(tree?.contains(row.change.revision) == false)
        }
    }

    @Test("a document that left a channel before the peer first had it is not reported; one that the peer may have had is")
    func beforeAccessBegan() async throws {
        let store = try Store()
        let c = try store.c
        try await put(store, "old", in: ["red"])
        try await put(store, "old", in: ["blue"])
        try await put(store, "new", in: ["red"])
        try await put(store, "card", in: [], access: ["red"])
        #expect(try await Set(ids(told(store).rows)) == ["new"])
        let tombstone = try await put(store, "old", in: ["blue"], deleted: true)
        #expect(try await Set(ids(told(store).rows)) == ["new"])
        let departure = try await store.database.read { try $0.departure(c, doc("old"), tombstone, from: $0.channelAccess(c, of: anna)) }
        #expect(departure == nil)
        let place = try await told(store).place
        // It leaves while access is interrupted, which the peer does not notice.
        try await put(store, "card", in: [])
        try await put(store, "new", in: ["blue"])
        try await put(store, "card", in: [], access: ["red"])
        let rows = try await told(store, from: place).rows
        #expect(ids(rows) == ["new"] && rows.first?.visibility == .removed)
    }

    @Test("a removal stays a removal, even if the document is deleted later, and a tombstone in none of the peer's channels is empty")
    func tombstones() async throws {
        let store = try Store()
        let c = try store.c
        try await store.database.write { try $0.setAccess(of: anna, c, channels: ["red"], roles: []) }
        for id in ["here", "gone", "moved"] { try await put(store, id, in: ["red"]) }
        let place = try await told(store).place
        let secret = #"{"why":"hidden"}"#
        let here = try await put(store, "here", in: ["red"], body: secret, deleted: true)
        let gone = try await put(store, "gone", in: ["blue"], body: secret, deleted: true)
        let moved = try await put(store, "moved", in: ["blue"])
        let before = try await texts(told(store, from: place).rows)
        #expect(before.prefix(2) == ["4 here visible deleted \(here) \(secret)", "5 gone visible deleted \(gone) {}"])
        #expect(before.count == 3 && before.last?.hasPrefix("6 moved removed ") == true && before.last?.contains(moved.text) == false)
        try await put(store, "moved", in: ["blue"], body: secret, deleted: true)
        #expect(try await texts(told(store, from: place).rows) == before)
    }
}

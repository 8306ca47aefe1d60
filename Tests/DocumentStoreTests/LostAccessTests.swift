import Documents
import SQLite
import Testing

@testable import DocumentStore

/// A channel of many documents that a peer loses.
@Suite("Lost access")
struct LostAccessTests {
    private static let anna = ChannelPeer(user: "anna", listener: "edge")

    /// Documents of a channel that anna had, and has no more.
    private func store(_ count: Int) async throws -> (Store, ChannelPlace) {
        let store = try Store()
        let c = try store.c
        try await store.database.write { try $0.setAccess(of: Self.anna, c, channels: ["red"], roles: []) }
        for start in stride(from: 0, to: count, by: 1_000) {
            try await store.database.write { transaction in
                for number in start..<min(start + 1_000, count) {
                    let saved = try transaction.save(c, id: doc("d\(number)"), body: Array("{}".utf8), deleted: false, parent: nil)
                    try transaction.route(c, doc("d\(number)"), saved.revision, DocumentRoute(channels: ["red"]))
                }
            }
        }
        let place = ChannelPlace(try await store.database.read { try $0.lastSequence(c) })
        try await store.database.write { try $0.setAccess(of: Self.anna, c, channels: [], roles: []) }
        return (store, place)
    }

    private func lost(_ store: Store, from place: ChannelPlace) async throws -> [DocumentID] {
        let c = try store.c
        var place = place
        var found: [DocumentID] = []
        while true {
            let question = ChannelQuestion(peer: Self.anna, channels: nil, waitsForRoutes: true)
            let page = try await store.database.read { [place] in try $0.channelChanges(c, from: place, question, limit: 200) }
            found += page.rows.map(\.change.id)
            place = page.place
            if page.isEnd { return found }
        }
    }

    @Test("all of its documents go, in the order in which they came, and each once")
    func order() async throws {
        let (store, place) = try await store(2_500)
        #expect(try await lost(store, from: place) == (0..<2_500).map { doc("d\($0)") })
    }

    @Test("a page sorts nothing: it reads its rows where they begin")
    func plan() async throws {
        let (store, _) = try await store(1)
        store.database.close()
        let connection = try Connection(path: store.folder + "/db.sqlite3", mode: .readWrite)
        defer { connection.close() }
        let plan = try connection.prepare("EXPLAIN QUERY PLAN \(ReadTransaction.leavingOne)")
        var steps: [String] = []
        while try plan.step() { steps.append(plan.text(3)) }
        #expect(steps.count == 1 && steps.first?.contains("channels_entered (collection=? AND channel=? AND entered>? AND entered<?)") == true, "\(steps)")
    }

    @Test("a database of the previous version gets the index in place, and loses nothing")
    func migration() async throws {
        let (store, place) = try await store(500)
        store.database.close()
        let path = store.folder + "/db.sqlite3"
        let connection = try Connection(path: path, mode: .readWrite)
        let version = try #require(Schema.migrations.firstIndex { $0.contains { $0.contains("channels_entered") } })
        try connection.execute(
            "DROP INDEX channels_entered; CREATE INDEX channels_members ON channels(collection, channel, id); PRAGMA user_version = \(version)")
        connection.close()
        let again = try Store(folder: store.folder)
        #expect(try await lost(again, from: place) == (0..<500).map { doc("d\($0)") })
        again.database.close()
        let check = try Connection(path: path, mode: .readWrite)
        #expect(try check.integer("SELECT count(*) FROM sqlite_master WHERE name IN ('channels_entered', 'channels_members')") == 1)
        check.close()
    }
}

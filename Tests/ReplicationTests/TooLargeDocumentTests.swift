import Documents
import DocumentStore
import Testing

@testable import Replication

/// A remote's documents that are larger than the local settings allow, and that arrive once these allow more.
@Suite(.timeLimit(.minutes(10)))
struct TooLargeDocumentTests {
    private typealias Bounds = TooLargeDocuments.Bounds

    private func pull(_ database: TestDatabase, _ hub: Hub, upTo bytes: Int) async throws -> (status: ReplicatorStatus, left: Replicator.TooLarge) {
        let replicator = Replicator(ReplicatorConfiguration(database, .pull) { $0.limits.maximumDocumentBytes = bytes }, hub)
        let status = await replicator.run()
        return (status, try await replicator.tooLarge())
    }

    @Test func theyArriveEvenIfThereAreTooManyToName() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        let hub = Hub(b)
        for id in ["first", "purged"] { try await b.put(id, "{}") }
        #expect(try await pull(a, hub, upTo: 10).status.counts.pulled == 2)
        let collection = try a.collection()
        try await a.database.write { _ = try $0.purge(collection, doc("purged")) }

        let count = TooLargeDocuments.most + 5
        try await b.fill(0..<count)
        let refused = try await pull(a, hub, upTo: 10)
        #expect(refused.status.error == nil && refused.status.counts.pulled == 0, "\(refused)")
        #expect(refused.left.count == TooLargeDocuments.most && refused.left.isCapped && refused.left.example?.collection == .default, "\(refused.left)")
        // Not limits.memory was exceeded.
        #expect(refused.left.neededMemory == nil)
        // They do not arrive before more is allowed.
        let again = try await pull(a, hub, upTo: 10)
        #expect(again.status.counts.total == 0 && again.left == refused.left, "\(again)")

        let mended = try await pull(a, hub, upTo: 1_000)
        #expect(mended.status.error == nil && mended.status.counts.pulled == UInt64(count) && mended.left == .init(), "\(mended)")
        // A document that was purged here before the first of them arrived is not brought back.
        #expect(try await a.count() == count + 1)
        #expect(try await a.get("purged") == nil)
        #expect(try await pull(a, hub, upTo: 2_000).status.counts.total == 0)
    }

    @Test func theMemoryThatADocumentNeedsIsKeptAsLongAsTheDocumentIsOnTheList() async throws {
        let (database, remote) = (try TestDatabase(), RemoteID(1))
        let collection = try database.collection()
        let (small, large) = (Bounds(memory: 1 << 23, document: 10), Bounds(memory: 1 << 24, document: 10))
        func noted() async throws -> TooLargeDocuments.Noted { try await database.database.read { try TooLargeDocuments.noted(remote, collection, $0) } }
        try await database.database.write { transaction in
            try TooLargeDocuments.note(doc("film"), small, needed: 12_000_000, since: nil, remote, collection, transaction)
            try TooLargeDocuments.note(doc("song"), small, since: nil, remote, collection, transaction)
        }
        #expect(try await noted().documents == [doc("film"): small, doc("song"): small])
        #expect(try await noted().needed == [doc("film"): 12_000_000])
        try await database.database.write { try TooLargeDocuments.forget([doc("film")], askedWith: large, remote, collection, $0) }
        #expect(try await noted() == TooLargeDocuments.Noted(documents: [doc("song"): small]))
    }

    @Test func whatIsStillTooLargeWhenTheChangesAreReadAgainStaysOnTheList() async throws {
        let (database, remote) = (try TestDatabase(), RemoteID(1))
        let collection = try database.collection()
        func bounds(_ bytes: Int) -> Bounds { Bounds(memory: 1 << 30, document: bytes) }
        func note(_ id: String, _ bytes: Int, since: String?) async throws {
            let (bounds, since) = (bounds(bytes), since.map { RemoteSequence(json: $0) })
            try await database.database.write { try TooLargeDocuments.note(doc(id), bounds, since: since, remote, collection, $0) }
        }
        /// The sequence from which the changes are read again: nil if they are not, and an empty text for the beginning.
        func start(_ bytes: Int) async throws -> String? { try await due(bytes).rereading.map { $0.since?.json ?? "" } }
        func due(_ bytes: Int) async throws -> TooLargeDocuments.Due {
            let bounds = bounds(bytes)
            return try await database.database.read { try TooLargeDocuments.due(bounds, remote, collection, $0) }
        }
        func reread(_ bytes: Int) async throws {
            let bounds = bounds(bytes)
            try await database.database.write { try TooLargeDocuments.forgetUnnamed(rereadWith: bounds, remote, collection, $0) }
        }
        let named = bounds(10)
        try await database.database.write { transaction in
            for index in 0..<TooLargeDocuments.most { try TooLargeDocuments.note(doc("doc-\(index)"), named, since: nil, remote, collection, transaction) }
        }
        let full = try await due(20)
        #expect(full.rereading == nil && full.documents.count == TooLargeDocuments.most)
        try await note("a", 10, since: "7")
        try await note("b", 10, since: "12")
        #expect(try await due(10) == .init())
        #expect(try await start(20) == "7")
        try await note("c", 20, since: "9")
        #expect(try await start(30) == "7")
        try await reread(20)
        #expect(try await start(20) == nil)
        #expect(try await start(30) == "9")
        // CouchDB's sequences, and some that cannot be compared.
        try await note("d", 40, since: "\"12-abc\"")
        try await note("e", 40, since: "\"9-xyz\"")
        try await reread(30)
        #expect(try await start(50) == "\"9-xyz\"")
        try await note("f", 40, since: "\"3:14\"")
        #expect(try await start(50) == "")
        // However often the settings change, a document refused under the last of them does not count as refused under an earlier one.
        for step in 5..<40 { try await note("g", 10 * step, since: "50") }
        try await reread(390)
        #expect(try await start(390) == nil)
        #expect(try await start(400) == "50")
    }
}

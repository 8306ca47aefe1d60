import Documents
import Testing

@testable import DocumentStore

/// Bodies that were replaced, kept for deltas: within their bounds, and not beyond the document.
@Suite struct DeltaBaseTests {
    @Test func replacedBodiesAreKeptWithinTheirBounds() async throws {
        var options = DatabaseOptions()
        options.durability = .process
        options.deltaBases?.maxBytes = 5_000
        let store = try Store(options)
        let (database, collection) = (store.database, try store.c)
        @Sendable func body(_ n: Int) -> [UInt8] { Array("{\"n\":\(n),\"t\":\"\(String(repeating: "x", count: 1_000))\"}".utf8) }
        let id = try DocumentID("x")
        var revisions: [RevisionID] = []
        for n in 0..<10 {
            let parent = revisions.last
            revisions.append(try await database.write { try $0.save(collection, id: id, body: body(n), parent: parent).revision })
        }
        let all = revisions
        @Sendable func kept() async throws -> [Int] {
            try await database.read { transaction in
                try all.indices.filter { try transaction.deltaBase(collection, id, all[$0]) == body($0) }
            }
        }
        #expect(try await kept() == [5, 6, 7, 8, 9])
        // A tombstone has no use for them, and nothing of the document is to stay.
        let last = try #require(revisions.last)
        try await database.write { _ = try $0.save(collection, id: id, body: [], deleted: true, parent: last) }
        #expect(try await kept() == [])
    }
}

import DocumentStore
import Documents
import Synchronization
import TestSupport
import Testing

/// Documents that are larger than somebody wants them to be.
@Suite struct LargeDocumentTests {
    private struct Undone: Error {}

    private func body(_ bytes: Int) -> String { "{\"a\":\"" + String(repeating: "x", count: bytes - 8) + "\"}" }

    @Test("a large document is stored and named with its size, until it is made smaller, deleted or purged")
    func named() async throws {
        let told = Mutex<[String]>([])
        var options = DatabaseOptions()
        options.largeDocuments = LargeDocuments(above: 100)
        options.onLargeDocument = { entry in told.withLock { $0.append("\(entry.id) \(entry.bytes)") } }
        let store = try Store(options)
        let large = store.database.largeDocuments
        _ = try await store.save("small", body(100))
        let first = try await store.save("first", body(101))
        let second = try await store.save("second", body(300))
        _ = try await store.insert("third", "1-aa", body: body(200))
        #expect(try await text(store.get("second")?.body) == body(300))
        #expect(large.entries.map(\.id.text) == ["second", "third", "first"] && large.entries.map(\.bytes) == [300, 200, 101])
        #expect(large.stored == 3 && told.withLock { $0 } == ["first 101", "second 300", "third 200"])
        let again = try await store.save("first", body(150), parent: first.revision)
        #expect(large.stored == 4 && large.entries.last?.bytes == 150)
        _ = try await store.save("first", body(100), parent: again.revision)
        #expect(large.entries.map(\.id.text) == ["second", "third"])
        _ = try await store.save("second", "{}", deleted: true, parent: second.revision)
        let c = try store.c
        try await store.database.write { _ = try $0.purge(c, doc("third")) }
        #expect(large.entries.isEmpty && large.stored == 4)
    }

    @Test("what a transaction rolls back is not named")
    func undone() async throws {
        var options = DatabaseOptions()
        options.largeDocuments = LargeDocuments(above: 100)
        let store = try Store(options)
        let (c, large) = (try store.c, Array(body(200).utf8))
        await #expect(throws: Undone.self) {
            try await store.database.write { transaction in
                try transaction.save(c, id: doc("a"), body: large, parent: nil)
                throw Undone()
            }
        }
        #expect(store.database.largeDocuments.entries.isEmpty && store.database.largeDocuments.stored == 0)
    }

    @Test("what a transaction makes large and small again, or deletes, is not named")
    func inOneTransaction() async throws {
        var options = DatabaseOptions()
        options.largeDocuments = LargeDocuments(above: 100)
        let store = try Store(options)
        let (c, large, small) = (try store.c, Array(body(200).utf8), Array("{}".utf8))
        try await store.database.write { transaction in
            for id in ["smaller", "purged", "large"] { try transaction.save(c, id: doc(id), body: large, parent: nil) }
            let first = try transaction.document(c, doc("smaller"))?.revision
            try transaction.save(c, id: doc("smaller"), body: small, parent: first)
            _ = try transaction.purge(c, doc("purged"))
        }
        #expect(store.database.largeDocuments.entries.map(\.id.text) == ["large"])
    }

    @Test("a higher limit forgets documents that are not above it, and if there are very many, the largest are remembered")
    func limits() async throws {
        var options = DatabaseOptions()
        options.largeDocuments = LargeDocuments(above: 100)
        let store = try Store(options)
        let (c, large) = (try store.c, store.database.largeDocuments)
        let bodies = (0..<StoreLimits.largeDocuments + 10).map { Array(body(101 + $0).utf8) }
        try await store.database.write { transaction in
            for (index, body) in bodies.enumerated() { try transaction.save(c, id: doc("d\(index)"), body: body, parent: nil) }
        }
        #expect(large.entries.count == StoreLimits.largeDocuments && large.hasMore && large.entries.last?.bytes == 111)
        large.limit = 100 + bodies.count - 1
        #expect(large.entries.map(\.bytes) == [100 + bodies.count] && !large.hasMore)
    }

    @Test("what is named by the store's own limit says what to do")
    func refusal() {
        let smaller = "\(StoreError.bodyTooLarge(id: doc("a"), bytes: 200, limit: 100))"
        #expect(smaller.contains("200 bytes, max_document_bytes is 100") && smaller.contains("raise max_document_bytes"), "\(smaller)")
        let largest = "\(StoreError.bodyTooLarge(id: doc("a"), bytes: 30 << 20, limit: StoreLimits.maxBodyBytes))"
        #expect(!largest.contains("raise"), "\(largest)")
    }
}

import DocumentStore
import Documents
import Testing

/// What is known of documents that expired.
@Suite struct ExpiredDocumentTests {
    @Test func whatExpiredIsKnownByItsRule() async throws {
        let store = try Store()
        let c = try store.c
        for id in ["a", "b"] { _ = try await store.save(id, "{}") }
        try await store.database.write { try $0.setExpiry(c, doc("a"), .at(1_000)) }
        #expect(try await store.database.purgeExpired(now: 2_000) == [.default: 1])
        #expect(try await store.database.read { try $0.lastExpiry(c, doc("a")) } == ExpiredDocument(time: 2_000, rule: .document))
        let rows = try await store.database.read { try $0.changes(c, since: 0, limit: 10, includeBodies: false) }
        #expect(try await store.database.purge(rows, in: c) == 1)
        #expect(try await store.database.read { try $0.lastExpiry(c, doc("b")) }?.rule == .collection)
        // A purge by hand is none.
        _ = try await store.save("c", "{}")
        _ = try await store.database.write { try $0.purge(c, doc("c")) }
        #expect(try await store.database.read { try $0.lastExpiry(c, doc("c")) } == nil)
    }

    /// A sequence is as old as the first mark that has it says.
    @Test func whenADocumentHadItsLastChange() async throws {
        let store = try Store()
        let c = try store.c
        _ = try await store.save("a", "{}")
        #expect(try await store.database.read { try $0.changedBy(1, in: c) } == nil)
        _ = try await store.database.sequences(olderThan: 100, tombstones: nil, in: c, now: 5_000)
        _ = try await store.save("b", "{}")
        _ = try await store.database.sequences(olderThan: 100, tombstones: nil, in: c, now: 6_000)
        let times = try await store.database.read { try [$0.changedBy(1, in: c), $0.changedBy(2, in: c), $0.changedBy(3, in: c)] }
        #expect(times == [5_000, 6_000, nil])
    }

    /// Marks for an age of months are days apart, and say nothing of one of seconds.
    @Test func aShortAgeBesideALongOne() async throws {
        let store = try Store()
        let c = try store.c
        func old(at now: Int64) async throws -> [SequenceNumber] {
            let (documents, tombstones) = try await store.database.sequences(olderThan: 2, tombstones: 8_640_000, in: c, now: now)
            return [documents, tombstones]
        }
        _ = try await store.save("a", "{}")
        #expect(try await old(at: 5_000) == [0, 0])
        _ = try await store.save("b", "{}")
        #expect(try await old(at: 5_003) == [1, 0])
        #expect(try await old(at: 5_006) == [2, 0])
        #expect(try await old(at: 5_000 + 8_640_000) == [2, 1])
    }

    /// Beyond `expired_documents` the oldest are forgotten.
    @Test func theyAreBounded() async throws {
        let store = try Store()
        let c = try store.c
        let count = StoreLimits.expiredDocuments + 3
        try await store.database.write { transaction in
            for n in 0..<count {
                _ = try transaction.save(c, id: doc("d\(n)"), body: Array("{}".utf8), deleted: false, parent: nil)
                try transaction.setExpiry(c, doc("d\(n)"), .at(Int64(1_000 + n)))
            }
        }
        #expect(try await store.database.purgeExpired(now: 100_000) == [.default: count])
        let known = try await store.database.read { transaction in try (0..<count).filter { try transaction.lastExpiry(c, doc("d\($0)")) != nil } }
        #expect(known == Array(3..<count))
    }
}

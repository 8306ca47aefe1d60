import Documents
import Environment
import Synchronization
import Testing

@testable import DocumentStore

/// Bodies that were replaced, kept for deltas: within their bounds, and not beyond the document.
@Suite struct DeltaBaseTests {
    private final class Clock: TimeSource {
        private let seconds = Mutex<Int64>(1_700_000_000)

        func monotonicNanoseconds() -> UInt64 { UInt64(wallSeconds()) * 1_000_000_000 }
        func wallSeconds() -> Int64 { seconds.withLock { $0 } }
        func sleep(nanoseconds: UInt64) async throws {}
        func jump(_ more: Int64) { seconds.withLock { $0 += more } }
    }

    @Test func replacedBodiesGoWhenTheirTimeIsOverThoughNothingIsWritten() async throws {
        let clock = Clock()
        var options = DatabaseOptions()
        options.deltaBases?.maxAgeSeconds = 100
        let database = try Database.open(
            folder: try temporaryFolder() + "/test.nightjar", name: "test", options: options, environment: Environment(time: clock, random: SystemRandom()))
        let collection = try #require(database.collection(.default))
        let id = try DocumentID("x")
        @Sendable func body(_ n: Int) -> [UInt8] { Array("{\"n\":\(n),\"t\":\"\(String(repeating: "x", count: 1_000))\"}".utf8) }
        let first = try await database.write { try $0.save(collection, id: id, body: body(1), parent: nil).revision }
        _ = try await database.write { try $0.save(collection, id: id, body: body(2), parent: first) }
        func isKept() async throws -> Bool { try await database.read { try $0.deltaBase(collection, id, first) != nil } }
        clock.jump(100)
        try await database.dropEndedDeltaBases(now: clock.wallSeconds())
        #expect(try await isKept())
        clock.jump(1)
        try await database.dropEndedDeltaBases(now: clock.wallSeconds())
        #expect(try await !isKept())
        database.close()
    }

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

@testable import DocumentStore
import Documents
import Environment
import Synchronization
import Testing

/// Blobs that are on their way share the descriptors that are kept for them.
@Suite struct OpenBlobsTests {
    private final class HandClock: TimeSource {
        let now = Mutex<UInt64>(1_000_000_000)

        func monotonicNanoseconds() -> UInt64 { now.withLock { $0 } }
        func wallSeconds() -> Int64 { 0 }
        func sleep(nanoseconds: UInt64) async throws { throw CancellationError() }
        func pass(seconds: UInt64) { now.withLock { $0 += seconds * 1_000_000_000 } }
    }

    private let clock = HandClock()
    private let places = OpenBlobs(3)

    private func databases(_ count: Int) throws -> [Database] {
        var options = DatabaseOptions()
        options.openBlobs = places
        let environment = Environment(time: clock, random: SystemRandom())
        return try (0..<count).map {
            try Database.open(folder: temporaryFolder() + "/\($0).nightjar", name: "\($0)", options: options, environment: environment)
        }
    }

    @Test func allDatabasesShareThem() throws {
        let databases = try databases(2)
        let digest = try databases[0].blobs.install([1, 2, 3])
        #expect(places.count == 0)
        do {
            let reader = try databases[0].blobs.reader(digest)
            let writer = try databases[1].blobs.writer()
            let other = try databases[1].blobs.writer()
            #expect(throws: StoreError.tooManyOpenBlobs(limit: 3)) { try databases[0].blobs.writer() }
            #expect(throws: StoreError.tooManyOpenBlobs(limit: 3)) { try databases[0].blobs.read(digest) }
            // What ends gives its place back, however it ends.
            other.cancel()
            #expect(try databases[0].blobs.read(digest) == [1, 2, 3])
            try writer.append([4])
            try writer.finish()
            #expect(places.count == 1)
            withExtendedLifetime((reader, other)) {}
        }
        #expect(places.count == 0)
    }

    @Test func oneThatDoesNotGetOnGivesWay() throws {
        let blobs = try databases(1)[0].blobs
        let digest = try blobs.install([1, 2, 3])
        let idle = try blobs.writer()
        try idle.append([1])
        let reader = try blobs.reader(digest)
        let busy = try blobs.writer()
        clock.pass(seconds: 4)
        for _ in 0..<2 {
            try busy.append([2])
            #expect(throws: StoreError.tooManyOpenBlobs(limit: 3)) { try blobs.writer() }
            clock.pass(seconds: 1)
        }
        clock.pass(seconds: 1)
        try busy.append([2])
        // The two that were not used go, the one that was longer at rest first.
        let first = try blobs.writer()
        #expect(throws: StoreError.tooManyOpenBlobs(limit: 3)) { try idle.append([2]) }
        #expect(throws: StoreError.tooManyOpenBlobs(limit: 3)) { try idle.finish() }
        #expect(try blobs.ownReader(digest).read(offset: 0, count: 3) == [1, 2, 3])
        let second = try blobs.writer()
        #expect(throws: StoreError.tooManyOpenBlobs(limit: 3)) { try reader.read(offset: 0, count: 3) }
        #expect(throws: StoreError.tooManyOpenBlobs(limit: 3)) { try blobs.writer() }
        #expect(places.count == 3)
        #expect(try busy.finish() == BlobDigest.of([2, 2, 2]))
        withExtendedLifetime((first, second)) {}
    }

    @Test func whatABrokenConnectionLeftCountsAndGivesWayAsWell() throws {
        let blobs = try databases(1)[0].blobs
        let begun = [UInt8](repeating: 7, count: 100_000)
        let digest = BlobDigest.of(begun + [8])
        let writer = try blobs.writer()
        try writer.append(begun)
        blobs.keepUnfinished(writer, digest, of: "a")
        #expect(places.count == 1)
        let again = try #require(try blobs.resumedWriter(digest, of: "a"))
        #expect(again.size == 100_000 && places.count == 1)
        blobs.keepUnfinished(again, digest, of: "a")
        #expect(places.count == 1)
        clock.pass(seconds: 6)
        // Others need its descriptor: the blob starts over.
        let others = try (0..<3).map { _ in try blobs.writer() }
        #expect(places.count == 3)
        #expect(try blobs.resumedWriter(digest, of: "a") == nil)
        withExtendedLifetime(others) {}
    }
}

import Documents
import Synchronization
import Testing

@testable import DocumentStore

/// What a database holds, as it is compared with a quota; and what is admitted to it.
@Suite struct UsageTests {
    private let large = "{\"pad\":\"\(String(repeating: "x", count: 50_000))\"}"

    private func store(_ usage: StoreUsage, refusal: @escaping @Sendable (StoreWrite, Int) -> String? = { _, _ in nil }) throws -> Store {
        var options = DatabaseOptions()
        options.usage = usage
        options.refusal = refusal
        options.blobGraceSeconds = 0
        return try Store(options)
    }

    @Test func whatIsDeletedCountsNoMoreAlthoughItsPagesAreStillInTheFile() async throws {
        let usage = StoreUsage()
        let store = try store(usage)
        let empty = usage.heldBytes
        var revisions: [RevisionID] = []
        for n in 0..<40 { revisions.append(try await store.save("d\(n)", large).revision) }
        let full = usage.heldBytes
        #expect(empty > 0 && full >= empty + 40 * 50_000 && full < empty + 40 * 60_000)
        let file = store.database.sizeBytes()
        for n in 0..<40 { _ = try await store.save("d\(n)", "{}", deleted: true, parent: revisions[n]) }
        #expect(usage.heldBytes < empty + 200_000 && usage.freePages >= 40 * 12 && store.database.sizeBytes() >= file)
        try await store.database.releaseFreePages()
        #expect(usage.freePages == 0)
    }

    @Test func blobsCountOnceAndUntilTheyAreCollected() async throws {
        let usage = StoreUsage()
        let store = try store(usage)
        let bytes = [UInt8](repeating: 7, count: 300_000)
        for _ in 0..<2 { try await store.database.blobs.perform { _ = try $0.install(bytes) } }
        #expect(usage.blobBytes == 300_000 && usage.incomingBytes == 0)
        try await store.database.blobs.perform { try $0.count() }
        #expect(usage.blobBytes == 300_000)
        #expect(try await store.database.compact().blobsRemoved == 1)
        #expect(usage.blobBytes == 0)
    }

    @Test func blobsOfBeforeAreCountedWhileOthersComeAndGo() async throws {
        let before = try store(StoreUsage())
        let contents = (1...6).map { [UInt8](repeating: UInt8($0), count: $0 * 1_000) }
        try await before.database.blobs.perform { blobs in for bytes in contents { _ = try blobs.install(bytes) } }
        before.database.close()
        let usage = StoreUsage()
        var options = DatabaseOptions()
        (options.usage, options.blobGraceSeconds) = (usage, 0)
        let database = try Database.open(folder: before.folder, name: "test", options: options)
        #expect(!usage.areBlobsKnown)
        try await database.blobs.perform { blobs in
            _ = try blobs.install([UInt8](repeating: 7, count: 7_000))
            blobs.tally.begin()
            let all = try blobs.digests()
            try #require(all.count == 7)
            blobs.tally.add(all[..<3]) { blobs.size($0) }
            // One that is counted goes, one that is not, and one goes that comes back; another is new.
            for index in [0, 4, 5] { #expect(blobs.removeIfStillOld(all[index]) != nil) }
            for bytes in contents + [[8, 8, 8]] where [all[5], BlobDigest.of([8, 8, 8])].contains(BlobDigest.of(bytes)) { _ = try blobs.install(bytes) }
            _ = try blobs.install([UInt8](repeating: 7, count: 7_000))
            #expect(!usage.areBlobsKnown)
            blobs.tally.add(all[3...]) { blobs.size($0) }
            blobs.tally.end()
            let bytes = try blobs.digests().reduce(0) { $0 + (blobs.size($1) ?? 0) }
            #expect(usage.areBlobsKnown && usage.blobBytes == Int(bytes), "\(usage.blobBytes), and \(bytes) are there")
        }
        let counted = usage.blobBytes
        database.close()
        options.usage = StoreUsage()
        let again = try Database.open(folder: before.folder, name: "test", options: options)
        try await again.blobs.countConcurrently()
        #expect(options.usage.areBlobsKnown && options.usage.blobBytes == counted && counted > 0)
        again.close()
    }

    /// A peer may announce what it likes and send nothing.
    @Test func aBlobOnItsWayTakesTheRoomOfWhatHasComeAndNotWhatWasAnnounced() async throws {
        let (usage, room) = (StoreUsage(), Box())
        room.value = 1_000_000
        let store = try store(usage) { _, bytes in usage.incomingBytes + bytes > room.value ? "it is too much" : nil }
        let empty = usage.heldBytes
        let writers = Mutex<[BlobWriter]>([])
        try await store.database.blobs.perform { blobs in
            // What cannot fit is refused before it is sent.
            #expect { try blobs.writer(length: 1_000_001) } throws: { "\($0)".contains("it is too much") }
            for _ in 0..<8 {
                let writer = try blobs.writer(length: 900_000)
                writers.withLock { $0.append(writer) }
            }
        }
        #expect(usage.heldBytes == empty && usage.pendingBytes == 0)
        // Another finds all the room there is.
        try await store.database.blobs.perform { _ = try $0.install([UInt8](repeating: 2, count: 1_000_000)) }
        #expect(usage.blobBytes == 1_000_000 && usage.incomingBytes == 0)
        try await store.database.blobs.perform { _ in try writers.withLock { try $0[0].append([UInt8](repeating: 1, count: 200_000)) } }
        #expect(usage.incomingBytes == 200_000 && usage.heldBytes >= empty + 1_200_000 && usage.pendingBytes == 0)
        // Room is asked for as it grows, also within what was announced.
        room.value = 500_000
        try await store.database.blobs.perform { _ in
            let writer = writers.withLock { $0[0] }
            try writer.append([UInt8](repeating: 1, count: 300_000))
            #expect { try writer.append([1]) } throws: { "\($0)".contains("it is too much") }
        }
        writers.withLock { $0 = [] }
        #expect(usage.incomingBytes == 0 && usage.pendingBytes == 0)
    }

    @Test func theBeginningOfABlobKeepsItsRoomAndTheRestIsAskedFor() async throws {
        let usage = StoreUsage()
        let box = Box()
        let store = try store(usage) { _, bytes in bytes > box.value ? "it is too much" : nil }
        let (empty, bytes) = (usage.heldBytes, [UInt8](repeating: 3, count: 500_000))
        let digest = BlobDigest.of(bytes)
        try await store.database.blobs.perform { blobs in
            let writer = try blobs.writer(length: 500_000)
            try writer.append(Array(bytes[..<200_000]))
            blobs.keepUnfinished(writer, digest, of: "peer")
        }
        #expect(usage.heldBytes == empty + 200_000 && usage.pendingBytes == 0)
        box.value = 299_999
        _ = try await store.database.blobs.perform { blobs in
            #expect { try blobs.resumedWriter(digest, of: "peer", length: 500_000) } throws: { "\($0)".contains("it is too much") }
        }
        // It was not lost by that.
        box.value = 300_000
        try await store.database.blobs.perform { blobs in
            let writer = try #require(try blobs.resumedWriter(digest, of: "peer", length: 500_000))
            #expect(writer.size == 200_000 && usage.incomingBytes == 200_000)
            try writer.append(Array(bytes[200_000...]))
            #expect(try writer.finish(expecting: digest, length: 500_000) == digest)
        }
        #expect(usage.heldBytes == empty + 500_000 && usage.incomingBytes == 0)
    }

    /// A peer that has gone must not keep others from writing.
    @Test func theBeginningsOfBlobsGiveWayToWhatNeedsTheRoom() async throws {
        let usage = StoreUsage()
        let store = try store(usage) { [usage] _, bytes in usage.heldBytes + bytes > 1_000_000 ? "it is too much" : nil }
        let bytes = [UInt8](repeating: 3, count: 300_000)
        func begin(_ owner: String) async throws {
            try await store.database.blobs.perform { blobs in
                let writer = try blobs.writer(length: 300_000)
                try writer.append(bytes)
                blobs.keepUnfinished(writer, BlobDigest.of(Array(owner.utf8)), of: owner)
            }
        }
        for owner in ["a", "b", "c"] { try await begin(owner) }
        // The oldest first, and no more than have to.
        _ = try await store.save("large", "{\"x\":\"\(String(repeating: "x", count: 200_000))\"}")
        // What a job had promised is given back when it has ended, which is after its answer.
        try await store.database.write { _ in }
        func isKept(_ owner: String) async throws -> Bool {
            try await store.database.blobs.perform { try $0.resumedWriter(BlobDigest.of(Array(owner.utf8)), of: owner) != nil }
        }
        #expect(try await !isKept("a"))
        try await store.database.blobs.perform { blobs in _ = try blobs.writer(length: 250_000) }
        #expect(try await !isKept("b"))
        #expect(try await isKept("c"))
        await #expect(throws: StoreError.self) { try await store.save("larger", "{\"x\":\"\(String(repeating: "x", count: 2_000_000))\"}") }
    }

    @Test func smallWritesAreCountedByTheLogTheyFillAndAShortLogIsMovedEarly() async throws {
        let usage = StoreUsage()
        let store = try store(usage)
        let before = usage.writtenBytes
        for n in 0..<50 { _ = try await store.save("d\(n)", "{}") }
        // What a job had promised is given back when it has ended, which is after its answer.
        try await store.database.write { _ in }
        #expect(usage.writtenBytes - before > 50 * 4096 && usage.pendingBytes == 0)
        usage.logPages = 0
        for n in 50..<500 { _ = try await store.save("d\(n)", "{}") }
        #expect(store.database.sizeBytes() < 5 * 1_000_000 && usage.logPages == StoreLimits.minimumCheckpointPages)
    }

    @Test func noBasesOfDeltasAreKeptWhileRoomIsShort() async throws {
        let usage = StoreUsage()
        let store = try store(usage)
        let first = try await store.save("a", large).revision
        let second = try await store.save("a", large.replacing("x", with: "y", maxReplacements: 1), parent: first).revision
        let c = try store.c
        #expect(try await store.database.read { try $0.deltaBase(c, doc("a"), first) } != nil)
        usage.isShort = true
        _ = try await store.save("a", "{}", parent: second)
        for revision in [first, second] { #expect(try await store.database.read { try $0.deltaBase(c, doc("a"), revision) } == nil) }
    }

    private final class Box: Sendable {
        private let held = Mutex(Int.max)
        var value: Int {
            get { held.withLock { $0 } }
            set { held.withLock { $0 = newValue } }
        }
    }
}

import DocumentStore
import Documents
import Glibc
import Testing

@Suite struct BlobTests {
    func store(grace: Int64 = 3600) throws -> Store {
        var options = DatabaseOptions()
        options.blobGraceSeconds = grace
        options.maxBlobBytes = 1_000_000
        return try Store(options)
    }

    func files(_ store: Store) throws -> [String] {
        var names: [String] = []
        let directory = try #require(opendir(store.folder + "/blobs"))
        defer { closedir(directory) }
        while let entry = readdir(directory) {
            names.append(withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            })
        }
        return names.filter { !$0.hasPrefix(".") }
    }

    @Test func bytesComeBackInPieces() async throws {
        let store = try store()
        let bytes = (0..<300_000).map { UInt8(truncatingIfNeeded: $0 &* 7) }
        let digest = BlobDigest.of(bytes)
        let read = try await store.database.blobs.perform { blobs in
            #expect(!blobs.contains(digest))
            let writer = try blobs.writer()
            for start in stride(from: 0, to: bytes.count, by: 70_000) {
                try writer.append(Array(bytes[start..<min(start + 70_000, bytes.count)]))
            }
            #expect(try writer.finish(expecting: digest, length: 300_000) == digest)
            #expect(blobs.contains(digest))
            #expect(blobs.size(digest) == 300_000)
            let reader = try blobs.reader(digest)
            var all: [UInt8] = []
            while true {
                let part = try reader.read(offset: UInt64(all.count), count: 65_536)
                if part.isEmpty { break }
                all += part
            }
            return all
        }
        #expect(read == bytes)
        #expect(try files(store) == [digest.hex])
    }

    @Test func wrongOrTooLongBytesAreNotInstalled() async throws {
        let store = try store()
        let other = BlobDigest.of(Array("other".utf8))
        let real = BlobDigest.of(Array("bytes".utf8))
        try await store.database.blobs.perform { blobs in
            #expect(throws: StoreError.blobDigestMismatch(expected: other.text, found: real.text)) {
                try blobs.install(Array("bytes".utf8), expecting: other)
            }
            let writer = try blobs.writer()
            try writer.append(Array("bytes".utf8))
            #expect(throws: StoreError.blobLengthMismatch(digest: real.text, expected: 6, found: 5)) { try writer.finish(length: 6) }
            let long = try blobs.writer()
            #expect(throws: StoreError.blobTooLarge(limit: 1_000_000)) {
                try long.append([UInt8](repeating: 0, count: 600_000))
                try long.append([UInt8](repeating: 0, count: 600_000))
            }
            #expect(throws: StoreError.self) { try long.append([1]) }
            #expect(throws: StoreError.blobMissing(digest: other.text)) { try blobs.read(other) }
            _ = try blobs.writer() // dropped
        }
        // What was dropped is removed by the workers.
        store.database.close()
        #expect(try files(store) == [])
    }

    @Test func alteredFileIsNoticedWhenItIsReadToItsEnd() throws {
        let store = try store()
        let bytes = (0..<200_000).map { UInt8(truncatingIfNeeded: $0 &* 3) }
        let blobs = store.database.blobs
        // Called here, not in `perform`: an expectation on another thread belongs to no test.
        let digest = try blobs.install(bytes)
        let path = store.folder + "/blobs/" + digest.hex
        var altered = bytes
        altered[150_000] ^= 1
        try writeFile(path, altered)
        let wanted = StoreError.blobAltered(digest: digest.text, path: path)
        do {
            #expect(throws: wanted) { try blobs.read(digest) }
            let reader = try blobs.reader(digest)
            #expect(try reader.read(offset: 0, count: 70_000) == Array(bytes[..<70_000]))
            // From the beginning again; a look elsewhere does not matter.
            for offset in [UInt64(0), 70_000] { _ = try reader.read(offset: offset, count: 70_000) }
            #expect(try reader.read(offset: 10, count: 5) == Array(bytes[10..<15]))
            #expect(throws: wanted) { try reader.read(offset: 140_000, count: 70_000) }
        }
        // A file that was cut while it was read.
        let reader = try blobs.reader(digest)
        try writeFile(path, Array(bytes[..<1000]))
        #expect(throws: wanted) { try reader.read(offset: 0, count: 70_000) }
        // Restored, it is served again, whole and in pieces of any size.
        try writeFile(path, bytes)
        do {
            #expect(try blobs.read(digest) == bytes)
            let reader = try blobs.reader(digest)
            var all: [UInt8] = []
            while all.count < bytes.count { all += try reader.read(offset: UInt64(all.count), count: 777) }
            #expect(all == bytes)
            let empty = try blobs.install([])
            #expect(try blobs.read(empty) == [])
        }
    }

    @Test func aFileIsReadThroughOnceForItsParts() async throws {
        let store = try store()
        let bytes = (0..<200_000).map { UInt8(truncatingIfNeeded: $0 &* 3) }
        let blobs = store.database.blobs
        let digest = try blobs.install(bytes)
        let path = store.folder + "/blobs/" + digest.hex
        func setChanged(_ seconds: Int) { _ = utimes(path, [timeval(tv_sec: seconds, tv_usec: 0), timeval(tv_sec: seconds, tv_usec: 0)]) }
        setChanged(1_000_000)
        try await blobs.check(digest, pieceBytes: 70_000)
        var altered = bytes
        altered[150_000] ^= 1
        try writeFile(path, altered)
        setChanged(1_000_000)
        // It has not changed, by what the system says of it.
        try await blobs.check(digest, pieceBytes: 70_000)
        setChanged(1_000_001)
        let wanted = StoreError.blobAltered(digest: digest.text, path: path)
        for _ in 0..<2 { await #expect(throws: wanted) { try await blobs.check(digest, pieceBytes: 70_000) } }
        try writeFile(path, bytes)
        try await blobs.check(digest, pieceBytes: 70_000)
        // What was changed a moment ago may be changed again within the same second.
        try writeFile(path, altered)
        await #expect(throws: wanted) { try await blobs.check(digest, pieceBytes: 70_000) }
        let missing = BlobDigest.of([1])
        await #expect(throws: StoreError.blobMissing(digest: missing.text)) { try await blobs.check(missing, pieceBytes: 70_000) }
    }

    @Test func aFileIsReadThroughByOneForAllWhoWait() async throws {
        let store = try store()
        let bytes = (0..<900_000).map { UInt8(truncatingIfNeeded: $0 &* 3) }
        let blobs = store.database.blobs
        let digest = try blobs.install(bytes)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<8 { group.addTask { try await blobs.check(digest, pieceBytes: 10_000) } }
            try await group.waitForAll()
        }
        let other = try blobs.install(Array(bytes.dropFirst()))
        let task = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            try await blobs.check(other, pieceBytes: 10_000)
        }
        await #expect(throws: CancellationError.self) { try await task.value }
    }

    @Test func limitOfBlobsChangesAtRunTime() throws {
        let store = try store()
        let blobs = store.database.blobs
        #expect(blobs.maxBytes == 1_000_000)
        do {
            let writer = try blobs.writer()
            try writer.append([UInt8](repeating: 1, count: 900))
            blobs.maxBytes = 1000
            #expect(throws: StoreError.blobTooLarge(limit: 1000)) { try writer.append([UInt8](repeating: 1, count: 101)) }
            #expect(throws: StoreError.blobTooLarge(limit: 1000)) { try blobs.install([UInt8](repeating: 1, count: 1001)) }
            blobs.maxBytes = 2_000_000
            try blobs.install([UInt8](repeating: 1, count: 1_500_000))
        }
        #expect(try files(store).count == 1)
    }

    @Test func remainsOfACrashAreRemoved() async throws {
        let store = try store()
        store.database.close()
        try writeFile(store.folder + "/blobs/incoming-1-1", [1, 2, 3])
        try Database.open(folder: store.folder, name: "test").close()
        #expect(try files(store) == [])
    }

    @Test func compactionRemovesWhatNoRevisionNeeds() async throws {
        let store = try store(grace: 0)
        let c = try store.c
        let database = store.database
        var digests: [BlobDigest] = []
        for n in 0..<6 {
            let bytes = Array("blob \(n)".utf8)
            digests.append(try await database.blobs.perform { try $0.install(bytes) })
        }
        func body(_ n: Int) -> String { #"{"deep":[{"@type":"blob","digest":"\#(digests[n])","length":6}]}"# }
        _ = try await store.save("kept", body(0))
        let edited = try await store.save("edited", body(1))
        _ = try await store.save("edited", body(2), parent: edited.revision)
        let deleted = try await store.save("deleted", body(3))
        _ = try await store.save("deleted", "", deleted: true, parent: deleted.revision)
        _ = try await store.save("purged", body(4))
        try await database.write { _ = try $0.purge(c, doc("purged")) }
        // Both branches of a conflict keep theirs.
        _ = try await store.insert("branches", "1-aa", body: body(1))
        _ = try await store.insert("branches", "1-bb", body: body(5))
        #expect(try await store.get("kept")?.hasBlobs == true)
        #expect(try await store.get("deleted")?.hasBlobs == false)
        let report = try await database.compact()
        #expect(report.blobsRemoved == 2)
        #expect(report.blobBytesFreed == 12)
        #expect(Set(try files(store)) == Set([0, 1, 2, 5].map { digests[$0].hex }))
        _ = try await store.resolve("branches", .remoteWins)
        let kept = try #require(try await store.get("branches"))
        let gone = digests[kept.revision == rev("1-aa") ? 5 : 1]
        #expect(try await !database.read { try $0.isBlobReferenced(gone) })
        #expect(try await database.compact().blobsRemoved == 1)
    }

    @Test func youngBlobsWaitForTheirRevision() async throws {
        let store = try store(grace: 3600)
        let digest = try await store.database.blobs.perform { try $0.install([1, 2, 3]) }
        #expect(try await store.database.compact().blobsRemoved == 0)
        #expect(store.database.blobs.contains(digest))
    }

    @Test func compactionGivesRoomBack() async throws {
        let store = try store()
        let c = try store.c
        let text = String(repeating: "x", count: 20_000)
        for n in 0..<100 { _ = try await store.save("d\(n)", "{\"t\":\"\(text)\"}") }
        try await store.database.write { for n in 0..<100 { _ = try $0.purge(c, doc("d\(n)")) } }
        let report = try await store.database.compact()
        #expect(report.fileBytesFreed > 1_000_000)
        #expect(store.database.sizeBytes() < 500_000)
    }

    @Test("what a request brought is removed at its end, unless a document names it or others use it")
    func arrivedBlobs() async throws {
        let store = try store()
        let (database, blobs) = (store.database, store.database.blobs)
        let bytes = Array("bytes".utf8)
        let digest = BlobDigest.of(bytes)
        func bring() throws -> ArrivedBlobs {
            let arrived = ArrivedBlobs()
            #expect(try blobs.install(bytes, arrived: arrived) == digest)
            return arrived
        }
        // From one request, which has checked itself.
        let alone = try bring()
        #expect(blobs.contains(digest, arrived: alone))
        await database.settle(alone)
        #expect(blobs.size(digest) == nil)
        // With two, the last one removes it.
        let first = try bring()
        let second = try bring()
        await database.settle(first)
        #expect(blobs.size(digest) == 5)
        await database.settle(second)
        #expect(blobs.size(digest) == nil)
        // The same for one that found it while another brought it.
        let brings = try bring()
        let finds = ArrivedBlobs()
        #expect(blobs.contains(digest, arrived: finds))
        await database.settle(brings)
        #expect(blobs.size(digest) == 5)
        await database.settle(finds)
        #expect(blobs.size(digest) == nil)
        // A part of what somebody brought; what is asked for meanwhile is another matter.
        let some = try bring()
        let part = try #require(some.take([digest]))
        #expect(some.take([digest]) == nil && blobs.contains(digest, arrived: some))
        await database.settle(part)
        #expect(blobs.size(digest) == 5)
        await database.settle(some)
        #expect(blobs.size(digest) == nil)
        // Nobody settles what comes after the end.
        let closed = ArrivedBlobs()
        closed.close()
        #expect(try blobs.install(Array("late".utf8), arrived: closed) == BlobDigest.of(Array("late".utf8)))
        await database.settle(closed)
        #expect(blobs.size(BlobDigest.of(Array("late".utf8))) == 4)
        // One of two that brought it comes again.
        let (returning, refused) = (ArrivedBlobs(), ArrivedBlobs())
        let left = try blobs.install(Array("left".utf8), arrived: returning)
        #expect(try blobs.install(Array("left".utf8), arrived: refused) == left)
        blobs.leave(returning)
        await database.settle(refused)
        #expect(blobs.size(left) == 4)
        // Somebody else is about to refer to it.
        let asked = try bring()
        #expect(blobs.contains(digest))
        await database.settle(asked)
        #expect(blobs.size(digest) == 5)
        // It was here before, and has its grace time.
        let again = try bring()
        await database.settle(again)
        #expect(blobs.size(digest) == 5)
        // Another one that somebody else brings too.
        let other = Array("other".utf8)
        let arrived = ArrivedBlobs()
        _ = try blobs.install(other, arrived: arrived)
        _ = try blobs.install(other)
        await database.settle(arrived)
        #expect(blobs.size(BlobDigest.of(other)) == 5)
        // A document names it.
        let named = ArrivedBlobs()
        let last = try blobs.install(Array("named".utf8), arrived: named)
        _ = try await store.save("a", #"{"f":{"@type":"blob","digest":"\#(last.text)"}}"#)
        await database.settle(named)
        #expect(blobs.size(last) == 5)
    }
}

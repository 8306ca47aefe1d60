@testable import DocumentStore
import Documents
import Glibc
import Synchronization
import Testing

/// Files of a database that go, or change, behind its back.
@Suite struct FileLossTests {
    private final class Log: Sendable {
        let problems = Mutex<[StoreError]>([])
        var options: DatabaseOptions {
            var options = DatabaseOptions()
            options.onProblem = { [self] error in problems.withLock { $0.append(error) } }
            return options
        }
    }

    @Test func nothingIsStoredInAFileThatIsGone() async throws {
        let log = Log()
        let store = try Store(log.options)
        let path = store.folder + "/db.sqlite3"
        _ = try await store.save("a", "{}")
        for folder in [false, true] {
            let (from, to) = folder ? (store.folder, store.folder + "-away") : (path, path + "-away")
            try #require(rename(from, to) == 0)
            let error = await #expect(throws: StoreError.self) { try await store.save("lost", "{}") }
            #expect(error == .fileGone(path: path, sign: nil))
            #expect(store.database.fileProblem() == .fileGone(path: path, sign: nil))
            #expect(log.problems.withLock { $0 }.count == (folder ? 2 : 1))
            // Another file in its place is not it.
            if !folder {
                try writeFile(path, [])
                await #expect(throws: StoreError.fileGone(path: path, sign: nil)) { try await store.save("lost", "{}") }
            }
            try #require(rename(to, from) == 0)
            #expect(store.database.fileProblem() == nil)
            _ = try await store.save(folder ? "c" : "b", "{}")
        }
        store.database.close()
        let again = try Store(folder: store.folder)
        #expect(try await again.statistics().documents == 3)
    }

    @Test(arguments: ["missing", "empty", "folder"]) func aDatabaseThatWasThereIsNotMadeAnew(_ how: String) throws {
        let store = try Store()
        let path = store.folder + "/db.sqlite3"
        store.database.close()
        switch how {
        case "missing": unlink(path)
        case "empty": try writeFile(path, [])
        default: try #require(rename(store.folder, store.folder + "-away") == 0)
        }
        let sign = store.folder + ".known"
        #expect(throws: StoreError.fileGone(path: path, sign: sign)) { try Store(folder: store.folder) }
        #expect(how == "empty" || access(path, F_OK) != 0, "nothing was made")
        #expect("\(StoreError.fileGone(path: path, sign: sign))".contains("remove \(sign)"))
        unlink(sign)
        try Store(folder: store.folder).database.close()
    }

    @Test func anAlteredBlobIsNamedUntilItIsRightAgain() async throws {
        let log = Log()
        let store = try Store(log.options)
        let bytes = [UInt8](repeating: 7, count: 10_000)
        let digest = try await store.database.blobs.perform { try $0.install(bytes) }
        let path = store.folder + "/blobs/" + digest.hex
        var altered = bytes
        altered[5_000] = 8
        for wrong in [altered, Array(bytes.dropLast())] {
            try writeFile(path, wrong)
            let expected = StoreError.blobAltered(digest: digest.text, path: path)
            await #expect(throws: expected) { try await store.database.blobs.perform { try $0.read(digest) } }
            #expect(try await store.database.lostBlobs().map(\.path) == [path])
            #expect(store.database.fileProblem() == nil)
            #expect(log.problems.withLock { $0 }.last == expected)
            _ = try await store.database.blobs.perform { try $0.install(bytes) }
            #expect(try await store.database.lostBlobs().isEmpty)
            _ = try await store.database.blobs.perform { try $0.read(digest) }
        }
        #expect(log.problems.withLock { $0 }.count == 2)
    }

    @Test func aBlobThatIsGoneIsNamedWhileALiveDocumentNeedsIt() async throws {
        let log = Log()
        let store = try Store(log.options)
        let (database, bytes) = (store.database, [UInt8](repeating: 7, count: 1_000))
        let digest = BlobDigest.of(bytes)
        let path = store.folder + "/blobs/" + digest.hex
        func miss() async { await #expect(throws: StoreError.blobMissing(digest: digest.text)) { try await database.blobs.check(digest, pieceBytes: 100) } }
        // Somebody asks for what nothing names.
        await miss()
        #expect(try await database.lostBlobs().isEmpty)
        _ = try await database.blobs.perform { try $0.install(bytes) }
        let saved = try await store.save("photo", "{\"file\":{\"@type\":\"blob\",\"digest\":\"\(digest.text)\",\"length\":1000}}")
        try #require(unlink(path) == 0)
        for _ in 0..<2 {
            await miss()
            let lost = try await database.lostBlobs()
            #expect(lost.map(\.path) == [path] && lost.first?.isMissing == true && lost.first?.names.map(\.id) == [doc("photo")], "\(lost)")
            #expect(log.problems.withLock { $0 } == [.blobMissing(digest: digest.text)])
        }
        // It is put back by hand; is gone again, which the full check finds; is stored again.
        try writeFile(path, bytes)
        #expect(try await database.lostBlobs().isEmpty)
        try #require(unlink(path) == 0)
        #expect(try await !database.integrity().isSound)
        #expect(try await database.lostBlobs().count == 1)
        _ = try await database.blobs.perform { try $0.install(bytes) }
        #expect(try await database.lostBlobs().isEmpty)
        // Nobody needs it once the document is deleted.
        try #require(unlink(path) == 0)
        await miss()
        #expect(try await database.lostBlobs().count == 1)
        _ = try await store.save("photo", "{}", deleted: true, parent: saved.revision)
        #expect(try await database.lostBlobs().isEmpty)
    }

    @Test func aCorruptPageIsNamedOnceWithWhatToDo() async throws {
        let log = Log()
        let store = try Store()
        for n in 0..<400 { _ = try await store.save("doc-\(n)", "{\"pad\":\"\(String(repeating: "x", count: 500))\"}") }
        store.database.close()
        let path = store.folder + "/db.sqlite3"
        var bytes = try readFile(path)
        for at in (bytes.count / 2)..<(bytes.count / 2 + 40_000) { bytes[at] = 0xA5 }
        try writeFile(path, bytes)
        let database = try Database.open(folder: store.folder, name: "test", options: log.options)
        let c = try #require(database.collection(.default))
        for _ in 0..<2 {
            await #expect(throws: StoreError.self) {
                try await database.read { try $0.changes(c, since: 0, limit: 1000, includeBodies: true).map { try $0.revisionTree() } }
            }
        }
        let problem = try #require(database.fileProblem())
        guard case .corrupt(path, _) = problem else { return #expect(Bool(false), "\(problem)") }
        #expect("\(problem)".contains("restore a copy"))
        #expect(log.problems.withLock { $0 } == [problem])
    }
}

@testable import DocumentStore
import Documents
import Glibc
import Synchronization
import Testing

/// What SQLite itself says of the file: found by a write, it ends all writing; found by a read, it is that read's alone.
@Suite struct MalformedFileTests {
    private let large = "{\"text\":\"\(String(repeating: "y", count: 20_000))\"}"

    /// Sets the header's count of free pages, which SQLite looks at before it takes a page. The file stays the same one.
    private func setFreePages(_ path: String, _ bytes: [UInt8]) throws {
        let descriptor = open(path, O_WRONLY)
        try #require(descriptor >= 0)
        defer { close(descriptor) }
        try #require(pwrite(descriptor, bytes, bytes.count, 36) == bytes.count)
    }

    @Test func aFileThatAWriteFindsMalformedTakesNoneUntilItIsSound() async throws {
        let first = try Store()
        _ = try await first.save("a", "{}")
        first.database.close()
        let path = first.folder + "/db.sqlite3"
        try setFreePages(path, [0, 0, 0x10, 0])
        let problems = Mutex<[StoreError]>([])
        var options = DatabaseOptions()
        options.onProblem = { error in problems.withLock { $0.append(error) } }
        var database = try Database.open(folder: first.folder, name: "test", options: options)
        let c = try #require(database.collection(.default))
        let tried = Mutex(0)
        func save(_ id: String, _ body: String, in database: Database) async throws {
            let saved = doc(id)
            _ = try await database.write { transaction in
                tried.withLock { $0 += 1 }
                return try transaction.save(c, id: saved, body: Array(body.utf8), parent: nil)
            }
        }
        func refusal(_ id: String, _ body: String, in database: Database) async -> StoreError? {
            do { try await save(id, body, in: database) } catch { return error as? StoreError }
            return nil
        }
        try await save("b", "{}", in: database)
        let error = try #require(await refusal("lost", large, in: database))
        guard case .corrupt(path, let detail) = error else { return #expect(Bool(false), "\(error)") }
        #expect(detail.contains("malformed, met by a write: nothing more is written"))
        let before = tried.withLock { $0 }
        // Small enough for a page that is there.
        #expect(await refusal("small", "{}", in: database) == error)
        #expect(tried.withLock { $0 } == before, "nothing is tried")
        #expect(database.fileProblem() == error && problems.withLock { $0 } == [error])
        // Reading goes on.
        let found = try await database.read { transaction in try ["a", "b", "lost", "small"].map { try transaction.document(c, doc($0)) != nil } }
        #expect(found == [true, true, false, false])
        #expect(try await !database.integrity().isSound)
        #expect(await refusal("small", "{}", in: database) == error)
        // A restart does not fix it.
        database.close()
        database = try Database.open(folder: first.folder, name: "test", options: options)
        #expect(await refusal("small", "{}", in: database) != nil)
        #expect(tried.withLock { $0 } == before && "\(String(describing: database.fileProblem()))".contains("met by a write"))
        // Somebody has mended it.
        try setFreePages(path, [0, 0, 0, 0])
        #expect(try await database.integrity().isSound)
        #expect(database.fileProblem() == nil)
        try await save("lost", large, in: database)
        database.close()
        database = try Database.open(folder: first.folder, name: "test", options: options)
        try await save("small", "{}", in: database)
        #expect(try await database.statistics().first?.documents == 4)
        database.close()
    }

    @Test func aDamagedPageThatOneWriteReadsRefusesNoOther() async throws {
        let first = try Store()
        _ = try await first.save("bad", "{\"text\":\"\(String(repeating: "x", count: 60_000))\"}")
        _ = try await first.save("good", "{}")
        first.database.close()
        let path = first.folder + "/db.sqlite3"
        var bytes = try readFile(path)
        let pages = stride(from: 0, to: bytes.count, by: 4096).filter { page in bytes[(page + 4)..<(page + 4096)].allSatisfy { $0 == UInt8(ascii: "x") } }
        try #require(pages.count > 5)
        // The chain of the body's pages breaks off.
        for at in pages[3]..<(pages[3] + 4) { bytes[at] = 0 }
        try writeFile(path, bytes)

        let store = try Store(folder: first.folder)
        let (c, database) = (try store.c, store.database)
        let answers = Mutex<[String: Bool]>([:])
        let hasBegun = Mutex(false)
        let (answered, continuation) = AsyncStream.makeStream(of: String.self)
        @Sendable func write(_ name: String, _ body: @escaping @Sendable (WriteTransaction) throws -> Void) {
            database.write(body) { result in
                let isStored = if case .success = result { true } else { false }
                answers.withLock { $0[name] = isStored }
                continuation.yield(name)
            }
        }
        // All of them share a transaction: they came while the first one ran.
        write("first") { _ in
            guard !hasBegun.withLock({ hasBegun in defer { hasBegun = true }; return hasBegun }) else { return }
            for name in ["x", "bad", "y"] {
                write(name) { transaction in
                    if name == "bad" { _ = try transaction.document(c, doc("bad")) } else { _ = try transaction.save(c, id: doc(name), body: Array("{}".utf8), parent: nil) }
                }
            }
        }
        var left: Set<String> = ["first", "x", "bad", "y"]
        for await name in answered {
            left.remove(name)
            if left.isEmpty { break }
        }
        #expect(answers.withLock { $0 } == ["first": true, "x": true, "bad": false, "y": true])
        guard case .corrupt(path, let detail)? = database.fileProblem() else { return #expect(Bool(false), "nothing is named") }
        #expect(!detail.contains("met by a write"))
        // One that is the first of its transaction, likewise.
        await #expect(throws: StoreError.self) { try await database.write { _ = try $0.document(c, doc("bad")) } }
        _ = try await store.save("z", "{}")
        let names = ["good", "x", "y", "z"]
        let found = try await database.read { transaction in try names.map { try transaction.document(c, doc($0)) != nil } }
        #expect(found == [true, true, true, true])
    }

    @Test func aFirstPageThatIsOverwrittenWhileTheDatabaseIsOpenIsReportedAsDamage() async throws {
        let first = try Store()
        _ = try await first.save("a", "{}")
        first.database.close()
        let store = try Store(folder: first.folder)
        let (c, database) = (try store.c, store.database)
        let file = open(first.folder + "/db.sqlite3", O_WRONLY)
        try #require(file >= 0)
        defer { close(file) }
        try #require(pwrite(file, [UInt8](repeating: 0, count: 4096), 4096, 0) == 4096)
        // What was read before is in memory until somebody writes.
        _ = try? await store.save("b", "{}")
        await #expect(throws: StoreError.self) { _ = try await database.read { try $0.document(c, doc("a")) } }
        guard case .corrupt(_, let detail)? = database.fileProblem() else { return #expect(Bool(false), "nothing is reported") }
        #expect(detail.contains("not a database"))
    }
}

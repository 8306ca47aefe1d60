@testable import DocumentStore
import Documents
import Glibc
import SQLite
import Testing

@Suite struct OpeningTests {
    @Test func everythingIsThereAfterwards() async throws {
        let store = try Store()
        let remote = try await store.remote()
        for n in 0..<100 { _ = try await store.save("d\(n)", "{\"n\":\(n)}") }
        let saved = try await store.save("a", #"{"n":1}"#)
        let c = try store.c
        try await store.database.write { try $0.setRemoteRevisions(remote, c, [(doc("a"), saved.revision)]) }
        let identifier = store.database.privateUUID
        #expect(identifier.utf8.count == 32 && identifier != store.database.publicUUID)
        store.database.close()
        store.database.close()
        // The log was moved into the file.
        #expect(access(store.folder + "/db.sqlite3-wal", F_OK) != 0)
        await #expect(throws: StoreError.closed(database: "test")) { try await store.save("b", "{}") }
        await #expect(throws: StoreError.closed(database: "test")) { try await store.get("a") }
        let again = try Database.open(folder: store.folder, name: "test")
        #expect(again.privateUUID == identifier)
        let found = try #require(again.collection(.default))
        #expect(try await text(again.read { try $0.document(found, doc("a"))?.body }) == #"{"n":1}"#)
        #expect(try await text(again.read { try $0.document(found, doc("d77"))?.body }) == #"{"n":77}"#)
        #expect(try await again.read { try $0.remoteRevision(remote, found, doc("a")) } == saved.revision)
        #expect(try await again.write { try $0.remoteID(for: "wss://peer/db") } == remote)
        #expect(try await again.statistics().first?.documents == 101)
        #expect(try await again.write { try $0.save(found, id: doc("b"), body: [], parent: nil) }.sequence == 102)
    }

    @Test func oneOwnerAtATime() throws {
        let store = try Store()
        let error = #expect(throws: StoreError.self) { try Database.open(folder: store.folder, name: "test") }
        #expect(error == .locked(folder: store.folder, pid: getpid()))
        #expect("\(error.map { "\($0)" } ?? "")".contains("process \(getpid())"))
        store.database.close()
        try Database.open(folder: store.folder, name: "test").close()
    }

    @Test func droppedDatabaseIsClosed() throws {
        let folder = try temporaryFolder() + "/x.nightjar"
        _ = try Database.open(folder: folder, name: "x")
        try Database.open(folder: folder, name: "x").close()
    }

    @Test func fileThatIsNoDatabaseIsLeftAlone() throws {
        let folder = try temporaryFolder() + "/x.nightjar"
        mkdir(folder, 0o700)
        let letter = Array(String(repeating: "Dear reader, ", count: 500).utf8)
        try writeFile(folder + "/db.sqlite3", letter)
        let error = #expect(throws: StoreError.self) { try Database.open(folder: folder, name: "x") }
        guard case .notADatabase(let path, _)? = error else { return #expect(Bool(false), "\(String(describing: error))") }
        #expect(path == folder + "/db.sqlite3")
        #expect(try readFile(folder + "/db.sqlite3") == letter)
    }

    @Test func databaseOfAnotherProgramIsLeftAlone() throws {
        let folder = try temporaryFolder() + "/x.nightjar"
        mkdir(folder, 0o700)
        let other = try Connection(path: folder + "/db.sqlite3", mode: .readWriteCreate)
        try other.execute("CREATE TABLE theirs(a); INSERT INTO theirs VALUES(1)")
        other.close()
        let before = try readFile(folder + "/db.sqlite3")
        let error = #expect(throws: StoreError.self) { try Database.open(folder: folder, name: "x") }
        guard case .notADatabase? = error else { return #expect(Bool(false), "\(String(describing: error))") }
        #expect(try readFile(folder + "/db.sqlite3") == before)
    }

    @Test func newerSchemaIsLeftAlone() throws {
        let store = try Store()
        store.database.close()
        let path = store.folder + "/db.sqlite3"
        let connection = try Connection(path: path, mode: .readWrite)
        try connection.execute("PRAGMA user_version = 99")
        connection.close()
        let before = try readFile(path)
        #expect(throws: StoreError.schemaTooNew(path: path, found: 99, supported: Schema.version)) {
            try Database.open(folder: store.folder, name: "test")
        }
        #expect(try readFile(path) == before)
    }

    @Test func damagedFileIsTold() async throws {
        let store = try Store()
        for n in 0..<200 { _ = try await store.save("d\(n)", "{\"text\":\"\(String(repeating: "x", count: 500))\"}") }
        store.database.close()
        let path = store.folder + "/db.sqlite3"
        var bytes = try readFile(path)
        try #require(bytes.count > 20 * 4096)
        for index in 8 * 4096..<bytes.count { bytes[index] = 0x5A }
        try writeFile(path, bytes)
        let error = await #expect(throws: StoreError.self) {
            let database = try Database.open(folder: store.folder, name: "test")
            let c = try #require(database.collection(.default))
            for n in 0..<200 { _ = try await database.read { try $0.document(c, doc("d\(n)")) } }
            _ = try await database.read { try $0.changes(c, since: 0, limit: 1000, includeBodies: true) }
        }
        guard case .corrupt(let damaged, _)? = error else { return #expect(Bool(false), "\(String(describing: error))") }
        #expect(damaged == path)
    }

    @Test func aCopyOfADamagedFileNamesTheFileThatIsDamaged() async throws {
        let store = try Store()
        for n in 0..<200 { _ = try await store.save("d\(n)", "{\"text\":\"\(String(repeating: "x", count: 500))\"}") }
        store.database.close()
        let path = store.folder + "/db.sqlite3"
        var bytes = try readFile(path)
        for index in 8 * 4096..<bytes.count { bytes[index] = 0x5A }
        try writeFile(path, bytes)
        let error = #expect(throws: StoreError.self) { try Copying.vacuum(path, into: store.folder + "/copy.sqlite3") }
        guard case .corrupt(path, _)? = error else { return #expect(Bool(false), "\(String(describing: error))") }
    }

    /// Of the page of a long document that has become ones, SQLite says that the disk is full.
    @Test func aCopyOfADamagedPageDoesNotSayThatTheDiskIsFull() async throws {
        let store = try Store()
        for n in 0..<50 { _ = try await store.save("d\(n)", "{\"text\":\"\(String(repeating: "x", count: 20_000))\"}") }
        store.database.close()
        let path = store.folder + "/db.sqlite3"
        let sound = try readFile(path)
        let middle = sound.count / 4096 / 2
        var failures: [StoreError] = []
        for page in middle..<middle + 8 {
            var bytes = sound
            bytes.replaceSubrange(page * 4096..<(page + 1) * 4096, with: repeatElement(0xFF, count: 4096))
            try writeFile(path, bytes)
            // The last page of a document names no other, and can be copied.
            do throws(StoreError) { try Copying.vacuum(path, into: store.folder + "/copy\(page).sqlite3") } catch { failures.append(error) }
        }
        #expect(failures.count > 4)
        #expect(failures.allSatisfy { if case .corrupt(path, _) = $0 { true } else { false } }, "\(failures)")
    }

    @Test func fullDiskFailsTheWriteOnly() async throws {
        var options = DatabaseOptions()
        options.maxPages = 100
        let store = try Store(options)
        let big = "{\"text\":\"\(String(repeating: "x", count: 100_000))\"}"
        var stored = 0
        var failure: (any Error)?
        while failure == nil && stored < 20 {
            do {
                _ = try await store.save("d\(stored)", big)
                stored += 1
            } catch { failure = error }
        }
        guard case .diskFull? = failure as? StoreError else { return #expect(Bool(false), "\(String(describing: failure))") }
        #expect(stored > 0)
        // Reading goes on, nothing half done is visible, counters are right.
        #expect(try await store.get("d\(stored)") == nil)
        #expect(try await store.statistics().documents == stored)
        // Room again: writing goes on.
        let c = try store.c
        for n in 0..<stored { #expect(try await store.database.write { try $0.purge(c, doc("d\(n)")) }) }
        _ = try await store.save("after", big)
        #expect(try await text(store.get("after")?.body) == big)
    }

    @Test func aDiskThatIsFullAtTheOpeningIsToldAsThat() throws {
        var options = DatabaseOptions()
        options.maxPages = 2
        let error = #expect(throws: StoreError.self) { try Store(options) }
        guard let error, case .diskFull = error else { return #expect(Bool(false), "\(String(describing: error))") }
        let words = "\(error)"
        #expect(words.contains("the disk is full") && words.contains("make room") && !words.contains("this write"), "\(words)")
    }

    @Test func swallowedFailureUndoesTheJob() async throws {
        var options = DatabaseOptions()
        options.maxPages = 60
        let store = try Store(options)
        let c = try store.c
        let big = Array("{\"text\":\"\(String(repeating: "x", count: 400_000))\"}".utf8)
        let error = await #expect(throws: StoreError.self) {
            try await store.database.write { transaction in
                try transaction.save(c, id: doc("small"), body: [], parent: nil)
                _ = try? transaction.save(c, id: doc("big"), body: big, parent: nil)
            }
        }
        guard case .diskFull? = error else { return #expect(Bool(false), "\(String(describing: error))") }
        #expect(try await store.get("small") == nil)
    }

    @Test func folderThatCannotBeMade() throws {
        let error = #expect(throws: StoreError.self) { try Database.open(folder: "/tmp/no/such/parent", name: "x") }
        guard case .folder(_, ENOENT, _)? = error else { return #expect(Bool(false), "\(String(describing: error))") }
    }

    /// The index of ids is written in large steps; documents must be found before, across and after them,
    /// by the writer, by readers and by a new process.
    @Test func documentsAreFoundWhereverTheIndexIs() async throws {
        var options = DatabaseOptions()
        options.durability = .process
        let store = try Store(options)
        let c = try store.c
        let count = StoreLimits.minIndexTail + 3000
        for start in stride(from: 0, to: count, by: 500) {
            try await store.database.write { transaction in
                for n in start..<min(start + 500, count) {
                    try transaction.save(c, id: doc("d\(n)"), body: Array("{\"n\":\(n)}".utf8), parent: nil)
                }
            }
            // An old and a new one, on readers that follow.
            #expect(try await store.get("d0") != nil)
            #expect(try await store.get("d\(min(start + 499, count - 1))") != nil)
            #expect(try await store.get("d\(count)") == nil)
        }
        // Edits and purges of entries on both sides of the step.
        for n in [5, count - 5] {
            let current = try #require(try await store.get("d\(n)"))
            _ = try await store.save("d\(n)", #"{"edited":true}"#, parent: current.revision)
        }
        for n in [6, count - 6] { #expect(try await store.database.write { try $0.purge(c, doc("d\(n)")) }) }
        func check(_ database: Database) async throws {
            let c = try #require(database.collection(.default))
            for n in [5, count - 5] {
                #expect(try await text(database.read { try $0.document(c, doc("d\(n)"))?.body }) == #"{"edited":true}"#)
            }
            for n in [6, count - 6] { #expect(try await database.read { try $0.document(c, doc("d\(n)")) } == nil) }
            for n in [0, 7, StoreLimits.minIndexTail - 1, StoreLimits.minIndexTail, count - 1] {
                #expect(try await text(database.read { try $0.document(c, doc("d\(n)"))?.body }) == "{\"n\":\(n)}")
                await #expect(throws: StoreError.self) { try await database.write { try $0.save(c, id: doc("d\(n)"), body: [], parent: nil) } }
            }
        }
        try await check(store.database)
        store.database.close()
        let again = try Database.open(folder: store.folder, name: "test", options: options)
        try await check(again)
        _ = try await again.write { try $0.save(c, id: doc("d6"), body: Array(#"{"new":1}"#.utf8), parent: nil) }
        #expect(try await text(again.read { try $0.document(c, doc("d6"))?.body }) == #"{"new":1}"#)
    }

    @Test(arguments: [
        "last_sequence = -1", "last_sequence = 9223372036854775807", "last_sequence = -9223372036854775807", "documents = 9223372036854775807",
        "deleted = -9223372036854775807",
    ])
    func countersThatNoDatabaseHasAreDamage(_ change: String) async throws {
        let store = try Store()
        _ = try await store.save("a", "{}")
        try store.alter("UPDATE collections SET \(change)")
        let error = #expect(throws: StoreError.self) { try Store(folder: store.folder) }
        guard case .corrupt? = error else { return #expect(Bool(false), "\(String(describing: error))") }
    }

    @Test func numbersBeyondAllBoundsEndNothing() async throws {
        let store = try Store()
        _ = try await store.save("a", "{}")
        try store.alter("INSERT OR REPLACE INTO properties(key, value) VALUES('\(VersionProperty.reserved)', 'ffffffffffffffff')")
        var options = DatabaseOptions()
        options.versionsEdits = true
        let again = try Database.open(folder: store.folder, name: "test", options: options)
        let c = try #require(again.collection(.default))
        _ = try await again.write { try $0.save(c, id: doc("b"), body: Array("{}".utf8), parent: nil) }
        #expect(try await again.read { try $0.conflictHistoryCounts() }.kept == 0)
        again.close()
        var marks = AgeMarks("\(Int64.min) 1 \(Int64.max) 2")
        marks.note(3, now: 2_000_000_000, age: 10)
        #expect(marks.sequence(olderThan: 10, now: 2_000_000_000) == 1)
        // Days of a mark each ten seconds: few are kept, and they tell each time to a sixth of the age.
        var waiting = AgeMarks()
        let end: Int64 = 30_000
        var isNew = true
        for n in 1...end { isNew = waiting.note(SequenceNumber(n), now: n * 10) && isNew }
        #expect(isNew && waiting.marks.count < 2 * AgeMarks.maximum)
        for sequence in stride(from: Int64(1), to: end, by: 107) {
            let (age, told) = (end - sequence, end - (waiting.marked(SequenceNumber(sequence)) ?? 0) / 10)
            #expect(told <= age && told >= age - age / 6 - 1, "\(sequence): \(told) of \(age)")
        }
        // What a backup has not is forgotten with it.
        isNew = waiting.note(5, now: end * 10 + 10)
        #expect(waiting.marked(6) == nil)
    }
}

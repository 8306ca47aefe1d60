import Glibc
import SQLite
import TestSupport
import Testing

/// A new folder under the system's temporary one.
func temporaryFolder() throws -> String { try TemporaryFolder.untilTheEnd() }

@Suite struct SQLiteTests {
    let path: String
    init() throws { path = try temporaryFolder() + "/test.db" }

    @Test func valuesComeBackAsTheyWent() throws {
        let connection = try Connection(path: path, mode: .readWriteCreate)
        try connection.execute("CREATE TABLE t(a, b, c, d, e)")
        let insert = try connection.prepare("INSERT INTO t VALUES(?1, ?2, ?3, ?4, ?5)")
        insert.bind(1, Int64.min)
        insert.bind(2, double: 0.1)
        insert.bind(3, "e\u{301} and é, \u{10FFFF}")
        insert.bind(4, [0, 255, 0] as [UInt8])
        insert.bindNull(5)
        try insert.runOnce()
        let select = try connection.prepare("SELECT * FROM t")
        #expect(try select.step())
        #expect(select.integer(0) == .min)
        #expect(select.double(1) == 0.1)
        #expect(Array(select.text(2).utf8) == Array("e\u{301} and é, \u{10FFFF}".utf8))
        #expect(select.blob(3) == [0, 255, 0])
        #expect(select.isNull(4))
        #expect(select.blobIfPresent(4) == nil)
        #expect(try !select.step())
    }

    @Test func emptyTextAndBlobAreNotNull() throws {
        let connection = try Connection(path: path, mode: .readWriteCreate)
        try connection.execute("CREATE TABLE t(a TEXT NOT NULL, b BLOB NOT NULL, c TEXT NOT NULL, d BLOB NOT NULL)")
        let insert = try connection.prepare("INSERT INTO t VALUES(?1, ?2, ?3, ?4)")
        insert.bind(1, "")
        insert.bind(2, [] as [UInt8])
        var result = Result<Void, any Error>.failure(CancellationError())
        insert.withBound(3, "") {
            insert.withBound(4, [] as [UInt8]) { result = Result { try insert.runOnce() } }
        }
        try result.get()
        let select = try connection.prepare("SELECT length(a) + length(b) + length(c) + length(d), typeof(c), typeof(d) FROM t")
        #expect(try select.step())
        #expect(select.integer(0) == 0)
        #expect(select.text(1) == "text")
        #expect(select.text(2) == "blob")
    }

    @Test func errorsNameTheStatement() throws {
        let connection = try Connection(path: path, mode: .readWriteCreate)
        let error = #expect(throws: SQLiteError.self) { try connection.prepare("SELECT a FROM nowhere") }
        #expect(error?.sql == "SELECT a FROM nowhere")
        #expect(error?.message == "no such table: nowhere")
        try connection.execute("CREATE TABLE t(a UNIQUE); INSERT INTO t VALUES(1)")
        let insert = try connection.prepare("INSERT INTO t VALUES(?1)")
        insert.bind(1, 1 as Int64)
        let constraint = #expect(throws: SQLiteError.self) { try insert.runOnce() }
        #expect(constraint?.kind == .constraint)
        // The statement is ready again.
        insert.bind(1, 2 as Int64)
        try insert.runOnce()
    }

    @Test func wrongParameterIsReportedOnce() throws {
        let connection = try Connection(path: path, mode: .readWriteCreate)
        try connection.execute("CREATE TABLE t(a)")
        let insert = try connection.prepare("INSERT INTO t VALUES(?1)")
        insert.bind(2, 1 as Int64)
        #expect(throws: SQLiteError.self) { try insert.runOnce() }
        insert.bind(1, 1 as Int64)
        try insert.runOnce()
        #expect(try connection.integer("SELECT count(*) FROM t") == 1)
    }

    @Test func failedTransactionLeavesNothing() throws {
        struct Stop: Error {}
        let connection = try Connection(path: path, mode: .readWriteCreate)
        try connection.execute("CREATE TABLE t(a)")
        #expect(throws: Stop.self) {
            try connection.transaction {
                try connection.execute("INSERT INTO t VALUES(1)")
                throw Stop()
            }
        }
        #expect(!connection.isInTransaction)
        #expect(try connection.integer("SELECT count(*) FROM t") == 0)
        try connection.transaction { try connection.execute("INSERT INTO t VALUES(1)") }
        #expect(try connection.integer("SELECT count(*) FROM t") == 1)
    }

    @Test func fullDatabaseIsToldApart() throws {
        let connection = try Connection(path: path, mode: .readWriteCreate)
        try connection.execute("CREATE TABLE t(a); PRAGMA max_page_count = 4")
        let error = #expect(throws: SQLiteError.self) { try connection.execute("INSERT INTO t VALUES(zeroblob(100000))") }
        #expect(error?.kind == .full)
    }

    @Test func fileThatIsNoDatabase() throws {
        let descriptor = open(path, O_CREAT | O_WRONLY, 0o600)
        let text = String(repeating: "this is a letter, not a database\n", count: 40)
        _ = write(descriptor, text, text.utf8.count)
        close(descriptor)
        let connection = try Connection(path: path, mode: .readWrite)
        let error = #expect(throws: SQLiteError.self) { try connection.integer("SELECT count(*) FROM sqlite_master") }
        #expect(error?.kind == .notADatabase)
    }

    @Test func absentFileIsNotMadeUnlessAsked() throws {
        let error = #expect(throws: SQLiteError.self) { try Connection(path: path, mode: .readWrite) }
        #expect(error?.kind == .cannotOpen)
    }

    @Test func logIsCountedAndMoved() throws {
        let connection = try Connection(path: path, mode: .readWriteCreate)
        try connection.execute("PRAGMA journal_mode = WAL; CREATE TABLE t(a)")
        connection.takeOverCheckpoints()
        try connection.execute("INSERT INTO t VALUES(zeroblob(100000))")
        #expect(connection.loggedPages > 20)
        let result = try connection.checkpoint(.truncate)
        #expect(result.logged == result.moved)
        let other = try Connection(path: path, mode: .readOnly)
        #expect(try other.integer("SELECT length(a) FROM t") == 100_000)
    }

    @Test func cachedStatementIsTheSame() throws {
        let connection = try Connection(path: path, mode: .readWriteCreate)
        let first = try connection.cached("SELECT 1")
        #expect(try first.step())
        first.reset()
        #expect(try connection.cached("SELECT 1") === first)
    }
}

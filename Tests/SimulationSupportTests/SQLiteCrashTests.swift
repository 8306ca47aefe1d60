import Environment
import SimulationSupport
import SQLite
import Testing

/// SQLite on a disk that loses what was not synced.
@Suite struct SQLiteCrashTests {
    private enum Outcome { case kept, lost, damaged }

    /// Commits transactions of two rows until the power goes at a random moment, and looks what is there afterwards.
    private func run(seed: UInt64, synchronous: String) throws -> Outcome {
        let random = SeededRandom(seed: seed)
        let disk = SimulatedDisk(time: StandingClock(), random: random)
        var acknowledged = 0
        do {
            let connection = try Connection(path: "/test.db", mode: .readWriteCreate, vfs: disk.vfsName)
            defer { connection.close() }
            try connection.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 8")
            try connection.execute("CREATE TABLE rows(n INTEGER, text TEXT)")
            try disk.syncFolder("/")
            // The schema is there in any case; the rest is what the test is about.
            try connection.execute("PRAGMA synchronous = \(synchronous)")
            disk.changesUntilPowerCut = random.below(200)
            let insert = try connection.prepare("INSERT INTO rows VALUES(?1, ?2)")
            for n in 1..<1000 {
                try connection.execute("BEGIN IMMEDIATE")
                for _ in 0..<2 {
                    insert.bind(1, Int64(n))
                    insert.bind(2, String(repeating: "x", count: random.below(3000)))
                    try insert.runOnce()
                }
                // One that is never committed, now and then.
                if n % 7 == 0 {
                    try connection.execute("ROLLBACK")
                    continue
                }
                try connection.execute("COMMIT")
                acknowledged = n
            }
            Issue.record("seed \(seed): the power did not go")
        } catch {
            // The power went.
        }
        disk.crash(random)
        do {
            let connection = try Connection(path: "/test.db", mode: .readWrite, vfs: disk.vfsName)
            defer { connection.close() }
            guard try connection.text("PRAGMA integrity_check") == "ok" else { return .damaged }
            guard try connection.integer("SELECT count(*) FROM (SELECT n FROM rows GROUP BY n HAVING count(*) <> 2)") == 0
            else { return .damaged }
            let wanted = (1...max(acknowledged, 1)).count { $0 <= acknowledged && $0 % 7 != 0 }
            let found = try connection.integer("SELECT count(DISTINCT n) FROM rows WHERE n <= \(acknowledged) AND n % 7 <> 0") ?? 0
            #expect(try connection.integer("SELECT count(*) FROM rows WHERE n % 7 = 0") == 0, "seed \(seed): rolled back, yet there")
            // The one that was under way may be there, no later one.
            #expect(try connection.integer("SELECT count(*) FROM rows WHERE n > \(acknowledged) + 2") == 0)
            return Int(found) == wanted ? .kept : .lost
        } catch {
            return .damaged
        }
    }

    @Test func acknowledgedCommitsSurviveAnyCrash() throws {
        for seed in 1...500 {
            let outcome = try run(seed: UInt64(seed), synchronous: "FULL")
            #expect(outcome == .kept, "seed \(seed)")
        }
    }

    @Test func withoutSyncsTheSameCrashesLoseData() throws {
        var outcomes: [Outcome] = []
        for seed in 1...100 { outcomes.append(try run(seed: UInt64(seed), synchronous: "OFF")) }
        #expect(outcomes.count { $0 != .kept } > 50)
    }

    @Test func disksAreIndependentAndShareNothing() throws {
        let disks = (0..<20).map { SimulatedDisk(time: StandingClock(), random: SeededRandom(seed: UInt64($0))) }
        let connections = try disks.map { try Connection(path: "/same.db", mode: .readWriteCreate, vfs: $0.vfsName) }
        for (number, connection) in connections.enumerated() {
            try connection.execute("PRAGMA journal_mode = WAL; CREATE TABLE t(a); INSERT INTO t VALUES(\(number))")
        }
        for (number, connection) in connections.enumerated() {
            #expect(try connection.integer("SELECT a FROM t") == Int64(number))
            connection.close()
        }
    }

    @Test func readersSeeTheirViewWhileAWriterCommits() throws {
        let disk = SimulatedDisk(time: StandingClock(), random: SeededRandom(seed: 1))
        let writer = try Connection(path: "/a.db", mode: .readWriteCreate, vfs: disk.vfsName)
        try writer.execute("PRAGMA journal_mode = WAL; CREATE TABLE t(a)")
        let reader = try Connection(path: "/a.db", mode: .readOnly, vfs: disk.vfsName)
        try reader.execute("BEGIN")
        #expect(try reader.integer("SELECT count(*) FROM t") == 0)
        try writer.execute("INSERT INTO t VALUES(1)")
        #expect(try reader.integer("SELECT count(*) FROM t") == 0)
        try reader.execute("COMMIT")
        #expect(try reader.integer("SELECT count(*) FROM t") == 1)
        // Two writers exclude each other.
        let second = try Connection(path: "/a.db", mode: .readWrite, vfs: disk.vfsName, busyTimeoutMilliseconds: 50)
        try writer.execute("BEGIN IMMEDIATE")
        let error = #expect(throws: SQLiteError.self) { try second.execute("BEGIN IMMEDIATE") }
        #expect(error?.kind == .busy)
        try writer.execute("COMMIT")
        try second.execute("INSERT INTO t VALUES(2)")
        for connection in [second, reader, writer] { connection.close() }
        // The last one moved the log into the file.
        #expect(disk.paths == ["/a.db"])
    }
}

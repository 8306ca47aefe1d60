import Digests
import Documents
import Encodings
import Environment
import SQLite

/// Opens or creates the database file: determines what it is before changing anything.
enum Opening {
    static func writerSession(
        path: String, options: DatabaseOptions, environment: Environment, problems: DatabaseProblems
    ) throws(StoreError) -> Session {
        try checkHeader(path, environment.files)
        let session = try Session(
            path: path, writer: true, options: options, vfs: environment.sqliteVFS, problems: problems)
        let connection = session.connection
        do {
            let application = try connection.integer("PRAGMA application_id") ?? 0
            let version = Int(clamping: try connection.integer("PRAGMA user_version") ?? 0)
            let tables = try connection.integer("SELECT count(*) FROM sqlite_master") ?? 0
            let isNew = application == 0 && version == 0 && tables == 0
            guard isNew || application == Schema.applicationID else {
                throw StoreError.notADatabase(
                    path: path, detail: "an SQLite file of another program, application id \(application)")
            }
            guard version <= Schema.version else {
                throw StoreError.schemaTooNew(path: path, found: version, supported: Schema.version)
            }
            if isNew {
                // Both must be set before the first table is created.
                try connection.execute("PRAGMA page_size = 4096; PRAGMA auto_vacuum = INCREMENTAL")
            }
            try connection.execute("PRAGMA journal_mode = WAL")
            guard try connection.text("PRAGMA journal_mode")?.lowercased() == "wal" else {
                throw StoreError.folder(path: path, errno: 0, detail: "the file system does not allow a write-ahead log (shared memory)")
            }
            try connection.execute(
                """
                PRAGMA synchronous = \(options.durability == .full ? "FULL" : "NORMAL");
                PRAGMA temp_store = MEMORY;
                PRAGMA journal_size_limit = \(Int64(StoreLimits.checkpointPages) * 4096 * 2)
                """)
            if let pages = options.maxPages { try connection.execute("PRAGMA max_page_count = \(pages)") }
            connection.takeOverCheckpoints()
            if version < Schema.version { try migrate(connection, from: version, environment.random) }
            for sql in ExpiryTable.statements + ExpiredTable.statements { try connection.execute(sql) }
        } catch { throw StoreError(any: error, path: path) }
        return session
    }

    /// Detects a file that is not an SQLite database without opening it.
    private static func checkHeader(_ path: String, _ files: any FileSystem) throws(StoreError) {
        var header = [UInt8](repeating: 0, count: 16)
        let count: Int
        do throws(FileError) {
            let file = try files.open(path, .read)
            count = try header.withUnsafeMutableBytes { buffer in
                Result { () throws(FileError) in try file.read(at: 0, into: buffer) }
            }.get()
        } catch {
            if error.isMissing { return }
            throw StoreError(error)
        }
        if count == 0 { return }
        guard count == 16 && header == Array("SQLite format 3\0".utf8) else {
            throw .notADatabase(path: path, detail: "it does not begin as an SQLite file does")
        }
    }

    private static func migrate(_ connection: Connection, from version: Int, _ random: any RandomSource) throws {
        try connection.transaction {
            for step in version..<Schema.version {
                for sql in Schema.migrations[step] { try connection.execute(sql) }
            }
            if version == 0 {
                let insert = try connection.prepare("INSERT INTO properties(key, value) VALUES(?1, ?2)")
                for key in ["private_uuid", "public_uuid", "id_hash_key"] {
                    insert.bind(1, key)
                    insert.bind(2, Hex.encode(random.bytes(16)))
                    try insert.runOnce()
                }
                try addCollection(connection, .default)
            }
            try connection.execute("PRAGMA application_id = \(Schema.applicationID); PRAGMA user_version = \(Schema.version)")
        }
    }

    /// Creates a collection's row and tables; inside a transaction.
    @discardableResult
    static func addCollection(_ connection: Connection, _ name: CollectionName) throws(SQLiteError) -> Collection {
        let insert = try connection.prepare("INSERT INTO collections(scope, name) VALUES(?1, ?2)")
        insert.bind(1, name.scope)
        insert.bind(2, name.name)
        try insert.runOnce()
        let number = Int(clamping: connection.lastInsertedRowID)
        for sql in Schema.collectionTables(number) { try connection.execute(sql) }
        return Collection(id: number, name: name)
    }
}

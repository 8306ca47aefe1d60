import CSQLite

/// The baseline to stay close to: SQLite's C API writing the same bytes with one index, in the same transactions, with the same durability
/// (write-ahead log, synced at each commit).
///
/// The page cache is that of the store, so that only the work differs; everything else is SQLite's default.
final class RawSQLite {
    private var handle: OpaquePointer?
    private var insertion: OpaquePointer?

    init(path: String, cacheBytes: Int) throws {
        guard sqlite3_open_v2(path, &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nil) == SQLITE_OK else {
            throw failure("open \(path)")
        }
        try execute("PRAGMA journal_mode = WAL")
        try execute("PRAGMA synchronous = FULL")
        try execute("PRAGMA cache_size = -\(cacheBytes / 1024)")
        try execute("CREATE TABLE documents(sequence INTEGER PRIMARY KEY, id TEXT NOT NULL, rev TEXT NOT NULL, body BLOB NOT NULL)")
        try execute("CREATE UNIQUE INDEX documents_id ON documents(id)")
        let sql = "INSERT INTO documents(id, rev, body) VALUES(?1, ?2, ?3)"
        guard sqlite3_prepare_v3(handle, sql, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &insertion, nil) == SQLITE_OK else {
            throw failure(sql)
        }
    }

    deinit { close() }

    func close() {
        sqlite3_finalize(insertion)
        sqlite3_close_v2(handle)
        insertion = nil
        handle = nil
    }

    /// One transaction. The revision is a text of the same length as the store's.
    func insert(_ readings: ArraySlice<Reading>, revision: StaticString) throws {
        try execute("BEGIN IMMEDIATE")
        for reading in readings {
            var id = reading.id
            let status = id.withUTF8 { id in
                reading.body.withUnsafeBytes { body in
                    // Not copied: the bytes outlive the statement's execution.
                    sqlite3_bind_text64(insertion, 1, UnsafeRawPointer(id.baseAddress)?.assumingMemoryBound(to: CChar.self), UInt64(id.count), nil, UInt8(SQLITE_UTF8))
                    sqlite3_bind_text64(insertion, 2, UnsafeRawPointer(revision.utf8Start).assumingMemoryBound(to: CChar.self), UInt64(revision.utf8CodeUnitCount), nil, UInt8(SQLITE_UTF8))
                    sqlite3_bind_blob64(insertion, 3, body.baseAddress, UInt64(body.count), nil)
                    return sqlite3_step(insertion)
                }
            }
            sqlite3_reset(insertion)
            guard status == SQLITE_DONE else { throw failure("insert") }
        }
        try execute("COMMIT")
    }

    private func execute(_ sql: String) throws {
        guard sqlite3_exec(handle, sql, nil, nil, nil) == SQLITE_OK else { throw failure(sql) }
    }

    private func failure(_ what: String) -> BenchError {
        BenchError("\(what): \(handle.map { String(cString: sqlite3_errmsg($0)) } ?? "SQLite has no memory")")
    }
}

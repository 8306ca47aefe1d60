import CSQLite

/// Bodies in an SQLite table, queried with `json_extract`.
final class RawDocuments {
    private var handle: OpaquePointer?

    init(path: String, _ readings: [Reading]) throws {
        guard sqlite3_open_v2(path, &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nil) == SQLITE_OK else {
            throw failure("open \(path)")
        }
        try execute("PRAGMA journal_mode = WAL")
        // SQLite does not accept JSON from blobs.
        try execute("CREATE TABLE documents(sequence INTEGER PRIMARY KEY, id TEXT NOT NULL, body TEXT NOT NULL)")
        try execute("BEGIN")
        let insertion = try prepare("INSERT INTO documents(id, body) VALUES(?1, ?2)")
        defer { sqlite3_finalize(insertion) }
        for reading in readings {
            bind(insertion, 1, reading.id)
            bind(insertion, 2, String(decoding: reading.body, as: UTF8.self))
            guard sqlite3_step(insertion) == SQLITE_DONE else { throw failure("insert") }
            sqlite3_reset(insertion)
        }
        try execute("COMMIT")
    }

    deinit { close() }

    func close() {
        sqlite3_close_v2(handle)
        handle = nil
    }

    func makeIndex() throws {
        try execute("CREATE INDEX documents_site ON documents(json_extract(body, '$.site'), json_extract(body, '$.value'))")
    }

    func find(site: String, from: Int, limit: Int) throws -> (found: Int, cost: Cost) {
        let start = Stopwatch()
        let statement = try prepare("""
            SELECT id, body FROM documents WHERE json_extract(body, '$.site') = ?1 AND json_extract(body, '$.value') >= ?2 \
            ORDER BY json_extract(body, '$.value') LIMIT ?3
            """)
        defer { sqlite3_finalize(statement) }
        bind(statement, 1, site)
        sqlite3_bind_int64(statement, 2, Int64(from))
        sqlite3_bind_int64(statement, 3, Int64(limit))
        var found = 0
        while sqlite3_step(statement) == SQLITE_ROW { found += 1 }
        return (found, start.cost)
    }

    private func prepare(_ sql: String) throws -> OpaquePointer? {
        var statement: OpaquePointer?
        guard sqlite3_prepare_v2(handle, sql, -1, &statement, nil) == SQLITE_OK else { throw failure(sql) }
        return statement
    }

    private func bind(_ statement: OpaquePointer?, _ index: Int32, _ text: String) {
        var text = text
        text.withUTF8 { utf8 in
            _ = utf8.withMemoryRebound(to: CChar.self) {
                sqlite3_bind_text(statement, index, $0.baseAddress, Int32($0.count), unsafeBitCast(-1, to: sqlite3_destructor_type.self))
            }
        }
    }

    private func execute(_ sql: String) throws {
        guard sqlite3_exec(handle, sql, nil, nil, nil) == SQLITE_OK else { throw failure(sql) }
    }

    private func failure(_ what: String) -> BenchError {
        BenchError("\(what): \(handle.map { String(cString: sqlite3_errmsg($0)) } ?? "SQLite has no memory")")
    }
}

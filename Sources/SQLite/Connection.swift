import CSQLite

/// One connection to a database file. Must be used by one thread at a time: it is opened without SQLite's own locks.
public final class Connection {
    public enum Mode: Sendable {
        /// Creates the file if there is none.
        case readWriteCreate
        case readWrite
        case readOnly
    }

    public let path: String
    /// Open until `close`; statements retain the connection, so it outlives them.
    let handle: OpaquePointer
    private var cache: [String: Statement] = [:]
    private var isClosed = false
    /// Written by SQLite after each commit in WAL mode.
    private let logSize = UnsafeMutablePointer<Int32>.allocate(capacity: 1)

    /// Opens the file. A file that is not a database is detected only by the first statement.
    /// - Parameter vfs: the name of a registered VFS, which performs the file operations; nil for the default one.
    public init(path: String, mode: Mode, vfs: String? = nil, busyTimeoutMilliseconds: Int32 = 5000) throws(SQLiteError) {
        self.path = path
        var flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE
        switch mode {
        case .readWriteCreate: flags |= SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE
        case .readWrite: flags |= SQLITE_OPEN_READWRITE
        case .readOnly: flags |= SQLITE_OPEN_READONLY
        }
        var pointer: OpaquePointer?
        let code = sqlite3_open_v2(path, &pointer, flags, vfs)
        guard code == SQLITE_OK, let pointer else {
            let message = pointer.flatMap { sqlite3_errmsg($0) }.map { String(cString: $0) } ?? "out of memory"
            sqlite3_close_v2(pointer)
            throw SQLiteError(code: code & 0xFF, extendedCode: code, message: message, sql: "open \(path)")
        }
        handle = pointer
        logSize.initialize(to: 0)
        sqlite3_busy_timeout(pointer, busyTimeoutMilliseconds)
    }

    deinit {
        close()
        logSize.deallocate()
    }

    /// Disables automatic checkpoints; from then on, `loggedPages` says when one is due.
    public func takeOverCheckpoints() {
        _ = sqlite3_wal_hook(handle, { context, _, _, pages in
            context?.assumingMemoryBound(to: Int32.self).pointee = pages
            return SQLITE_OK
        }, logSize)
    }

    /// Pages in the write-ahead log after this connection's last commit.
    public var loggedPages: Int32 { logSize.pointee }

    /// Finalizes cached statements and closes. Statements kept elsewhere keep the file open until they are released. Nothing else may be called
    /// afterwards. Must be called if `cached` was used: a cached statement and its connection retain each other.
    public func close() {
        guard !isClosed else { return }
        isClosed = true
        cache.removeAll()
        _ = sqlite3_wal_hook(handle, nil, nil)
        sqlite3_close_v2(handle)
    }

    /// Runs one or more statements without results.
    public func execute(_ sql: String) throws(SQLiteError) {
        let code = sqlite3_exec(handle, sql, nil, nil, nil)
        guard code == SQLITE_OK else { throw error(code, sql) }
    }

    /// Prepares a new statement, kept by the caller.
    public func prepare(_ sql: String) throws(SQLiteError) -> Statement {
        try Statement(self, sql)
    }

    /// A prepared statement, created once per SQL text. Must not be used in two places at the same time.
    public func cached(_ sql: String) throws(SQLiteError) -> Statement {
        if let statement = cache[sql] { return statement }
        let statement = try Statement(self, sql)
        cache[sql] = statement
        return statement
    }

    /// The first column of the first row as an integer; `nil` if there is no row.
    public func integer(_ sql: String) throws(SQLiteError) -> Int64? {
        let statement = try prepare(sql)
        return try statement.step() ? statement.integer(0) : nil
    }

    /// The first column of the first row as text; `nil` if there is no row.
    public func text(_ sql: String) throws(SQLiteError) -> String? {
        let statement = try prepare(sql)
        return try statement.step() ? statement.text(0) : nil
    }

    /// Rows changed by the last INSERT, UPDATE or DELETE.
    public var changes: Int { Int(sqlite3_changes64(handle)) }
    public var lastInsertedRowID: Int64 { sqlite3_last_insert_rowid(handle) }
    /// False if an error has already rolled back the transaction.
    public var isInTransaction: Bool { sqlite3_get_autocommit(handle) == 0 }

    /// Runs `body` in an immediate transaction; rolls back if it throws.
    public func transaction<T>(_ body: () throws -> T) throws -> T {
        try execute("BEGIN IMMEDIATE")
        do {
            let value = try body()
            try execute("COMMIT")
            return value
        } catch {
            if isInTransaction { try? execute("ROLLBACK") }
            throw error
        }
    }

    public enum CheckpointMode: Sendable {
        /// Moves as many pages as possible without waiting.
        case passive
        /// Waits (busy timeout) for readers, so that the log restarts from its beginning.
        case restart
        /// Like `restart`, and truncates the log file.
        case truncate
    }

    /// Moves the write-ahead log into the database file.
    /// - Returns: number of pages in the log, and how many of them were moved.
    @discardableResult
    public func checkpoint(_ mode: CheckpointMode) throws(SQLiteError) -> (logged: Int32, moved: Int32) {
        let constant = switch mode {
        case .passive: SQLITE_CHECKPOINT_PASSIVE
        case .restart: SQLITE_CHECKPOINT_RESTART
        case .truncate: SQLITE_CHECKPOINT_TRUNCATE
        }
        var logged: Int32 = 0
        var moved: Int32 = 0
        let code = sqlite3_wal_checkpoint_v2(handle, nil, constant, &logged, &moved)
        guard code == SQLITE_OK else { throw error(code, "checkpoint") }
        return (logged, moved)
    }

    public func setBusyTimeout(milliseconds: Int32) { sqlite3_busy_timeout(handle, milliseconds) }

    func error(_ code: Int32, _ sql: String) -> SQLiteError {
        let message = sqlite3_errmsg(handle).map { String(cString: $0) } ?? "unknown"
        return SQLiteError(code: code & 0xFF, extendedCode: code, message: message, sql: sql)
    }
}

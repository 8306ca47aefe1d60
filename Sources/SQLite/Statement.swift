import CSQLite

/// A prepared statement: bind, step, read, reset. Parameter indexes start at 1, column indexes at 0.
///
/// Binding does not report errors individually: a wrong index is a programming error, and a value beyond SQLite's size limit, or lack of memory,
/// makes the next `step` fail.
public final class Statement {
    let handle: OpaquePointer
    private let connection: Connection
    private var bindFailure: Int32 = SQLITE_OK

    init(_ connection: Connection, _ sql: String) throws(SQLiteError) {
        var pointer: OpaquePointer?
        // PERSISTENT: these statements live long and must not occupy the connection's lookaside memory.
        let code = sqlite3_prepare_v3(connection.handle, sql, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &pointer, nil)
        guard code == SQLITE_OK, let pointer else {
            throw connection.error(code == SQLITE_OK ? SQLITE_MISUSE : code, sql)
        }
        handle = pointer
        self.connection = connection
    }

    deinit { sqlite3_finalize(handle) }

    public var sql: String { sqlite3_sql(handle).map { String(cString: $0) } ?? "" }

    /// Whether it may change the file. COMMIT counts as a statement that does not.
    public var isWrite: Bool { sqlite3_stmt_readonly(handle) == 0 }

    // MARK: binding

    @inline(__always) private func note(_ code: Int32) {
        if code != SQLITE_OK { bindFailure = code }
    }

    public func bind(_ index: Int32, _ value: Int64) { note(sqlite3_bind_int64(handle, index, value)) }
    public func bind(_ index: Int32, double value: Double) { note(sqlite3_bind_double(handle, index, value)) }
    public func bindNull(_ index: Int32) { note(sqlite3_bind_null(handle, index)) }

    /// Copies the text.
    public func bind(_ index: Int32, _ text: String) {
        var text = text
        text.withUTF8 { utf8 in
            utf8.withMemoryRebound(to: CChar.self) {
                // An empty buffer may have no address, and SQLite would interpret that as NULL.
                note(sqlite3_bind_text64(handle, index, $0.baseAddress ?? Self.nothing, UInt64($0.count), Self.copy, UInt8(SQLITE_UTF8)))
            }
        }
    }

    /// Copies the bytes.
    public func bind(_ index: Int32, _ blob: [UInt8]) {
        blob.withUnsafeBytes {
            note(sqlite3_bind_blob64(handle, index, $0.baseAddress ?? UnsafeRawPointer(Self.nothing), UInt64($0.count), Self.copy))
        }
    }

    /// Copies the bytes; NULL for `nil`.
    public func bind(_ index: Int32, _ blob: [UInt8]?) {
        if let blob { bind(index, blob) } else { bindNull(index) }
    }

    public func bind(_ index: Int32, _ text: String?) {
        if let text { bind(index, text) } else { bindNull(index) }
    }

    /// References the bytes: they must remain valid until `reset`.
    public func bindUncopied(_ index: Int32, blob: UnsafeRawBufferPointer) {
        note(sqlite3_bind_blob64(handle, index, blob.baseAddress ?? UnsafeRawPointer(Self.nothing), UInt64(blob.count), nil))
    }

    /// References the UTF-8 bytes: they must remain valid until `reset`.
    public func bindUncopied(_ index: Int32, text: UnsafeBufferPointer<UInt8>) {
        text.withMemoryRebound(to: CChar.self) {
            note(sqlite3_bind_text64(handle, index, $0.baseAddress ?? Self.nothing, UInt64($0.count), nil, UInt8(SQLITE_UTF8)))
        }
    }

    // Not generic: other modules do not see the bodies of these functions, and would look up type metadata at each call.

    /// Binds the text as a parameter without copying it, while `body` runs; `body` must step and reset.
    public func withBound(_ index: Int32, _ text: String, _ body: () -> Void) {
        // Native strings provide their bytes without a copy; for others one is made here.
        var text = text
        text.withUTF8 { utf8 in
            bindUncopied(index, text: utf8)
            body()
        }
    }

    /// The same for bytes.
    public func withBound(_ index: Int32, _ blob: [UInt8], _ body: () -> Void) {
        blob.withUnsafeBytes { bytes in
            bindUncopied(index, blob: bytes)
            body()
        }
    }

    private static let copy = unsafeBitCast(-1, to: sqlite3_destructor_type.self)
    /// An address for empty values; never read or written.
    private nonisolated(unsafe) static let nothing = UnsafePointer(UnsafeMutablePointer<CChar>.allocate(capacity: 1))

    // MARK: running

    /// True if there is a row to read, false at the end. After an error the statement is reset.
    public func step() throws(SQLiteError) -> Bool {
        if bindFailure == SQLITE_OK {
            let code = sqlite3_step(handle)
            if code == SQLITE_ROW { return true }
            if code == SQLITE_DONE { return false }
            let failure = connection.error(code, sql)
            sqlite3_reset(handle)
            throw failure
        }
        let failure = connection.error(bindFailure, sql)
        bindFailure = SQLITE_OK
        sqlite3_reset(handle)
        throw failure
    }

    /// Makes it ready to run again. Bound values are kept.
    public func reset() { sqlite3_reset(handle) }

    /// Runs to completion, ignoring rows, and resets.
    public func run() throws(SQLiteError) {
        while try step() {}
        sqlite3_reset(handle)
    }

    /// Steps once and resets: for statements without rows.
    public func runOnce() throws(SQLiteError) {
        _ = try step()
        sqlite3_reset(handle)
    }

    // MARK: reading

    public func integer(_ column: Int32) -> Int64 { sqlite3_column_int64(handle, column) }
    public func double(_ column: Int32) -> Double { sqlite3_column_double(handle, column) }
    public func isNull(_ column: Int32) -> Bool { sqlite3_column_type(handle, column) == SQLITE_NULL }

    /// Text as a string; NULL is empty, invalid UTF-8 is repaired.
    public func text(_ column: Int32) -> String {
        withText(column) { String(decoding: $0, as: UTF8.self) }
    }

    /// The bytes; NULL is empty.
    public func blob(_ column: Int32) -> [UInt8] {
        withBlob(column) { [UInt8]($0) }
    }

    public func blobIfPresent(_ column: Int32) -> [UInt8]? {
        isNull(column) ? nil : blob(column)
    }

    public func textIfPresent(_ column: Int32) -> String? {
        isNull(column) ? nil : text(column)
    }

    /// The size of a text or blob, without reading its overflow pages.
    public func byteCount(_ column: Int32) -> Int { Int(sqlite3_column_bytes(handle, column)) }

    /// The column's bytes in SQLite's memory, valid while `body` runs.
    @inline(__always)
    public func withBlob<R, Failure: Error>(
        _ column: Int32, _ body: (UnsafeRawBufferPointer) throws(Failure) -> R
    ) throws(Failure) -> R {
        let pointer = sqlite3_column_blob(handle, column)
        let count = pointer == nil ? 0 : Int(sqlite3_column_bytes(handle, column))
        return try body(UnsafeRawBufferPointer(start: pointer, count: count))
    }

    /// The column's UTF-8 bytes in SQLite's memory, valid while `body` runs.
    @inline(__always)
    public func withText<R, Failure: Error>(
        _ column: Int32, _ body: (UnsafeBufferPointer<UInt8>) throws(Failure) -> R
    ) throws(Failure) -> R {
        let pointer = sqlite3_column_text(handle, column)
        let count = pointer == nil ? 0 : Int(sqlite3_column_bytes(handle, column))
        return try body(UnsafeBufferPointer(start: pointer, count: count))
    }
}

import CSQLite

/// A failure reported by SQLite.
public struct SQLiteError: Error, Sendable, Equatable, CustomStringConvertible {
    /// Primary result code (`SQLITE_FULL`, …).
    public var code: Int32
    /// Extended result code, which says more about input/output errors and constraints.
    public var extendedCode: Int32
    /// SQLite's message.
    public var message: String
    /// The statement, or the operation.
    public var sql: String

    public init(code: Int32, extendedCode: Int32, message: String, sql: String) {
        self.code = code
        self.extendedCode = extendedCode
        self.message = message
        self.sql = sql
    }

    public enum Kind: Sendable {
        case full, inputOutput, corrupt, notADatabase, constraint, busy, cannotOpen, readOnly, tooBig, interrupted, other
    }

    /// The kinds of errors that callers distinguish.
    public var kind: Kind {
        switch code {
        case SQLITE_FULL: .full
        // The memory shared by connections is a file next to the database's; running out of space is the only reason why it cannot grow.
        case SQLITE_IOERR where extendedCode == SQLITE_IOERR | 19 << 8: .full
        case SQLITE_IOERR: .inputOutput
        case SQLITE_CORRUPT: .corrupt
        case SQLITE_NOTADB: .notADatabase
        case SQLITE_CONSTRAINT: .constraint
        case SQLITE_BUSY, SQLITE_LOCKED: .busy
        case SQLITE_CANTOPEN: .cannotOpen
        case SQLITE_READONLY: .readOnly
        case SQLITE_TOOBIG: .tooBig
        case SQLITE_INTERRUPT: .interrupted
        default: .other
        }
    }

    public var description: String { "SQLite error \(extendedCode): \(message) (\(sql))" }
}

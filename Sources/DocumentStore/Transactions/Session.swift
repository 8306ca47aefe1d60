import Documents
import SQLite

/// One thread's connection with its prepared statements, and the translation of SQLite's errors.
final class Session {
    let connection: Connection
    let problems: DatabaseProblems
    let options: DatabaseOptions
    private var tables: [CollectionTables?] = []
    /// The first failure of SQLite itself in the running job. A job that swallowed one must not be committed half done.
    var failure: StoreError?
    /// SQLite encountered damage while reading for the running transaction. It then accepts nothing more in that transaction, which says nothing
    /// about the rest of the file.
    var hasReadDamage = false
    /// Counts a reader's transactions; stays 0 for the writer, whose view is always current.
    var view: UInt64 = 0
    /// Set as soon as the database's properties have been read.
    var idHash = IDHash(key: "")

    let savepoint: Statement
    let release: Statement
    let rollbackTo: Statement
    let begin: Statement
    let commit: Statement

    init(path: String, writer: Bool, options: DatabaseOptions, vfs: String?, problems: DatabaseProblems) throws(StoreError) {
        self.options = options
        self.problems = problems
        do {
            connection = try Connection(
                path: path, mode: writer ? .readWriteCreate : .readOnly, vfs: vfs,
                busyTimeoutMilliseconds: options.busyTimeoutMilliseconds)
            let cache = (writer ? options.writerCacheBytes : options.readerCacheBytes) / 1024
            try connection.execute("PRAGMA cache_size = -\(max(cache, 64))")
            savepoint = try connection.prepare("SAVEPOINT job")
            release = try connection.prepare("RELEASE job")
            rollbackTo = try connection.prepare("ROLLBACK TO job")
            begin = try connection.prepare(writer ? "BEGIN IMMEDIATE" : "BEGIN")
            commit = try connection.prepare("COMMIT")
        } catch {
            throw StoreError(error, path: path)
        }
    }

    /// Cached statements and their connection retain each other until the connection is closed.
    deinit { connection.close() }

    var path: String { connection.path }

    func tables(_ collection: Collection) throws(StoreError) -> CollectionTables {
        let index = collection.id
        if index < tables.count, let found = tables[index] { return found }
        guard index >= 0 && index <= StoreLimits.maxCollections else { throw .unknownCollection(collection.name) }
        let listed = try cached("SELECT 1 FROM collections WHERE id = ?1 AND scope = ?2 AND name = ?3")
        listed.bind(1, Int64(index))
        listed.bind(2, collection.name.scope)
        listed.bind(3, collection.name.name)
        defer { listed.reset() }
        guard try step(listed) else { throw .unknownCollection(collection.name) }
        while tables.count <= index { tables.append(nil) }
        let made = CollectionTables(collection, self)
        tables[index] = made
        return made
    }

    /// The id indexes used so far.
    func forEachIndex(_ body: (IDIndex) throws(StoreError) -> Void) throws(StoreError) {
        for table in tables { if let table { try body(table.index) } }
    }

    func index(_ collection: Int) -> IDIndex? { collection < tables.count ? tables[collection]?.index : nil }

    func forgetIndexes() {
        for table in tables { table?.index.forget() }
    }

    func prepare(_ sql: String) throws(StoreError) -> Statement {
        do { return try connection.prepare(sql) } catch { throw note(error) }
    }

    func cached(_ sql: String) throws(StoreError) -> Statement {
        do { return try connection.cached(sql) } catch { throw note(error) }
    }

    @inline(__always)
    func step(_ statement: Statement) throws(StoreError) -> Bool {
        do { return try statement.step() } catch { throw note(error, isWrite: statement.isWrite) }
    }

    /// Runs a statement without rows.
    @inline(__always)
    func run(_ statement: Statement) throws(StoreError) {
        do { try statement.runOnce() } catch { throw note(error, isWrite: statement.isWrite) }
    }

    /// The same, in a closure that cannot throw; nil on success.
    @inline(__always)
    func failure(running statement: Statement) -> StoreError? {
        do throws(StoreError) { try run(statement) } catch { return error }
        return nil
    }

    /// For a writer: runs statements that change something, or end a transaction.
    func execute(_ sql: String) throws(StoreError) {
        do { try connection.execute(sql) } catch { throw note(error, isWrite: true) }
    }

    /// Makes a writer's transaction durable.
    func commitWrites() throws(StoreError) {
        do { try commit.runOnce() } catch { throw note(error, isWrite: true) }
    }

    /// - Parameter isWrite: SQLite was changing the file. If it finds the file malformed then, nothing that is written is safe; damage that it finds
    ///   while reading may concern only one document.
    func note(_ error: SQLiteError, isWrite: Bool = false) -> StoreError {
        // It was a database when it was opened: its first page is damaged.
        var translated = error.kind == .notADatabase ? .corrupt(path: path, detail: error.message) : StoreError(error, path: path)
        if error.kind == .corrupt || error.kind == .notADatabase {
            if isWrite, !hasReadDamage {
                translated = .malformedOnWrite(path, error.message)
                problems.noteDamage(translated)
            } else {
                hasReadDamage = true
                if case .corrupt = translated { problems.note(translated) }
            }
        }
        if failure == nil { failure = translated }
        return translated
    }

    /// A collection's last sequence as stored, validated.
    func checked(lastSequence: Int64) throws(StoreError) -> Int64 {
        guard (0...Counters.bound).contains(lastSequence) else { throw damaged("\(lastSequence) as the last sequence of a collection") }
        return lastSequence
    }

    func damaged(_ what: String) -> StoreError {
        let error = StoreError.corrupt(path: path, detail: what)
        problems.note(error)
        if failure == nil { failure = error }
        return error
    }
}

extension StoreError {
    /// The error of file operations that call both SQLite and the store.
    init(any error: any Error, path: String) {
        switch error {
        case let error as StoreError: self = error
        case let error as SQLiteError: self.init(error, path: path)
        default: self = .database(code: 0, message: "\(error)", sql: "")
        }
    }

    init(_ error: SQLiteError, path: String) {
        switch error.kind {
        case .full: self = .diskFull(path: path, detail: error.message)
        case .inputOutput:
            // SQLite reports a quota or full disk encountered outside a plain write as an input/output error.
            self = .inputOutput(path: path, detail: "\(error.message), extended code \(error.extendedCode)")
        case .corrupt: self = .corrupt(path: path, detail: error.message)
        case .notADatabase: self = .notADatabase(path: path, detail: error.message)
        case .cannotOpen, .readOnly: self = .folder(path: path, errno: 0, detail: error.message)
        default: self = .database(code: error.extendedCode, message: error.message, sql: error.sql)
        }
    }
}

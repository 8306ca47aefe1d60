import Documents
import SQLite

/// How long and how many replaced bodies are kept.
public struct DeltaBaseBounds: Sendable, Equatable {
    public var maxAgeSeconds = StoreLimits.deltaBaseSeconds
    /// Total size of these bodies in a database.
    public var maxBytes = StoreLimits.deltaBaseBytes
    /// Smaller bodies are not worth a delta. 0 keeps all of them, for clients that merge.
    public var minBodyBytes = StoreLimits.minDeltaBaseBytes

    public init() {}
}

extension ReadTransaction {
    /// A revision's body as the base of a delta: one returned by ``body(_:_:_:)``, or one that was replaced recently.
    public final func deltaBase(_ collection: Collection, _ id: DocumentID, _ name: RevisionID) throws(StoreError) -> [UInt8]? {
        guard let row = try row(collection, id), let revision = try revision(named: name, collection, id, row) else { return nil }
        return try deltaBase(collection, id, revision, row: row)
    }

    /// The size of what ``deltaBase(_:_:_:)`` returns, without reading it.
    public final func deltaBaseSize(_ collection: Collection, _ id: DocumentID, _ name: RevisionID) throws(StoreError) -> Int? {
        guard let row = try row(collection, id), let revision = try revision(named: name, collection, id, row) else { return nil }
        if revision == row.revision {
            let statement = try session.cached("SELECT length(body) FROM documents_\(collection.id) WHERE sequence = ?1")
            statement.bind(1, row.sequence)
            defer { statement.reset() }
            return try session.step(statement) ? Int(statement.integer(0)) : nil
        }
        if row.flags & DocumentFlags.bodies != 0 {
            let statement = try session.cached("SELECT length(body) FROM bodies_\(collection.id) WHERE id = ?1 AND rev = ?2")
            statement.bind(1, id.text)
            statement.bind(2, revision.text)
            defer { statement.reset() }
            if try session.step(statement) { return Int(statement.integer(0)) }
        }
        let statement = try session.cached("SELECT size FROM delta_bases WHERE collection = ?1 AND id = ?2 AND rev = ?3")
        statement.bind(1, Int64(collection.id))
        statement.bind(2, id.text)
        statement.bind(3, revision.text)
        defer { statement.reset() }
        return try session.step(statement) ? max(0, Int(clamping: statement.integer(0))) : nil
    }

    final func deltaBase(_ collection: Collection, _ id: DocumentID, _ revision: RevisionID, row: Row) throws(StoreError) -> [UInt8]? {
        if let body = try body(collection, id, revision, row: row) { return body }
        let statement = try session.cached("SELECT body FROM delta_bases WHERE collection = ?1 AND id = ?2 AND rev = ?3")
        statement.bind(1, Int64(collection.id))
        statement.bind(2, id.text)
        statement.bind(3, revision.text)
        defer { statement.reset() }
        return try session.step(statement) ? statement.blob(0) : nil
    }
}

extension ReadTransaction {
    /// Whether an expired body is kept. False while space is short, because dropping it would need some.
    ///
    /// - Parameter now: seconds since 1970.
    final func hasEndedDeltaBase(now: Int64) throws(StoreError) -> Bool {
        let options = try active().options
        guard !options.usage.isShort else { return false }
        let statement = try session.cached("SELECT at FROM delta_bases ORDER BY number LIMIT 1")
        defer { statement.reset() }
        guard try session.step(statement) else { return false }
        return options.deltaBases.map { statement.integer(0) < now - $0.maxAgeSeconds } ?? true
    }
}

extension Database {
    /// Drops expired replaced bodies, a limited number at a time so that other writes can proceed in between. Each write that replaces a body also
    /// drops a few; without writes, they would stay.
    ///
    /// - Parameter now: seconds since 1970.
    public func dropEndedDeltaBases(now: Int64) async throws {
        guard try await read({ try $0.hasEndedDeltaBase(now: now) }) else { return }
        while try await write({ transaction in try transaction.dropOldDeltaBases() }) {}
    }
}

extension WriteTransaction {
    /// Keeps the body in a document's row, which is about to be replaced.
    func keepDeltaBase(_ collection: Collection, _ id: DocumentID, _ row: Row) throws(StoreError) {
        guard let bounds = deltaBounds else {
            // Data deleted to free space must not be kept as a base.
            if session.options.usage.isShort { try dropOldDeltaBases() }
            return
        }
        let statement = try session.cached("""
            INSERT INTO delta_bases(at, collection, id, rev, size, body) \
            SELECT ?1, ?2, id, rev, length(body), body FROM documents_\(collection.id) WHERE sequence = ?3 \
            AND length(body) BETWEEN ?4 AND \(StoreLimits.maxDeltaBaseBytes)
            """)
        statement.bind(1, state.now)
        statement.bind(2, Int64(collection.id))
        statement.bind(3, row.sequence)
        statement.bind(4, keepsSmallBases ? 0 : Int64(bounds.minBodyBytes))
        try session.run(statement)
        guard session.connection.changes > 0 else { return }
        let count = try session.cached(
            "UPDATE delta_bases_total SET bytes = bytes + (SELECT size FROM delta_bases WHERE number = ?1)")
        count.bind(1, session.connection.lastInsertedRowID)
        try session.run(count)
        try dropOldDeltaBases()
    }

    /// No bases are kept while space is short: sending whole documents is better than being unable to store any.
    private var deltaBounds: DeltaBaseBounds? { session.options.usage.isShort ? nil : session.options.deltaBases }

    /// Drops the bases of a document.
    func dropDeltaBases(_ collection: Collection, _ id: DocumentID) throws(StoreError) {
        let find = try session.cached("SELECT number, size FROM delta_bases WHERE collection = ?1 AND id = ?2")
        find.bind(1, Int64(collection.id))
        find.bind(2, id.text)
        var found: [(number: Int64, size: Int64)] = []
        do {
            defer { find.reset() }
            while try session.step(find) { found.append((find.integer(0), find.integer(1))) }
        }
        try drop(found)
    }

    /// Drops a few of the oldest bases if they have expired or there are too many.
    /// - Returns: whether there may be more to drop.
    @discardableResult
    func dropOldDeltaBases() throws(StoreError) -> Bool {
        let bounds = deltaBounds
        var total = try totalDeltaBaseBytes()
        let find = try session.cached(
            "SELECT number, size, at FROM delta_bases ORDER BY number LIMIT \(StoreLimits.deltaBasesDroppedPerWrite)")
        var old: [(number: Int64, size: Int64)] = []
        do {
            defer { find.reset() }
            while try session.step(find) {
                let isOld = bounds.map { find.integer(2) < state.now - $0.maxAgeSeconds } ?? true
                guard isOld || total > bounds?.maxBytes ?? 0 else { break }
                old.append((find.integer(0), find.integer(1)))
                total &-= find.integer(1)
            }
        }
        try drop(old)
        return old.count == StoreLimits.deltaBasesDroppedPerWrite
    }

    private func totalDeltaBaseBytes() throws(StoreError) -> Int64 {
        let statement = try session.cached("SELECT bytes FROM delta_bases_total")
        defer { statement.reset() }
        return try session.step(statement) ? statement.integer(0) : 0
    }

    private func drop(_ bases: [(number: Int64, size: Int64)]) throws(StoreError) {
        if bases.isEmpty { return }
        let statement = try session.cached("DELETE FROM delta_bases WHERE number = ?1")
        for base in bases {
            statement.bind(1, base.number)
            try session.run(statement)
        }
        let count = try session.cached("UPDATE delta_bases_total SET bytes = bytes - ?1")
        count.bind(1, bases.reduce(Int64(0)) { $0 &+ $1.size })
        try session.run(count)
    }
}

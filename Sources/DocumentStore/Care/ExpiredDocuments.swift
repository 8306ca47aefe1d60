import Documents

/// Why a document was purged automatically.
public enum ExpiryRule: Int64, Sendable {
    /// Its own `_exp`.
    case document = 0
    /// Its collection's `ttl`.
    case collection = 1
    /// `tombstone_age`: it was a tombstone.
    case tombstone = 2
}

/// A document that has expired.
public struct ExpiredDocument: Sendable, Equatable {
    /// When it was purged, in seconds since 1970.
    public var time: Int64
    public var rule: ExpiryRule

    public init(time: Int64, rule: ExpiryRule) {
        self.time = time
        self.rule = rule
    }
}

/// The most recently expired documents: a purge leaves no other trace of them.
enum ExpiredTable {
    static let statements = [
        """
        CREATE TABLE IF NOT EXISTS expired(
            number INTEGER PRIMARY KEY, collection INTEGER NOT NULL, id TEXT NOT NULL, at INTEGER NOT NULL, rule INTEGER NOT NULL)
        """,
        "CREATE INDEX IF NOT EXISTS expired_documents ON expired(collection, id)",
    ]
}

extension ReadTransaction {
    /// The last expiry of the document, if it is recent enough to be remembered.
    public final func lastExpiry(_ collection: Collection, _ id: DocumentID) throws(StoreError) -> ExpiredDocument? {
        let statement = try active().cached("SELECT at, rule FROM expired WHERE collection = ?1 AND id = ?2 ORDER BY number DESC LIMIT 1")
        statement.bind(1, Int64(collection.id))
        statement.bind(2, id.text)
        defer { statement.reset() }
        guard try session.step(statement), let rule = ExpiryRule(rawValue: statement.integer(1)) else { return nil }
        return ExpiredDocument(time: statement.integer(0), rule: rule)
    }

    /// A time by which a document had its last change, according to the marks of `ttl`, `tombstone_age` and waiting documents, in seconds since 1970;
    /// nil if there is no mark since.
    public final func changedBy(_ sequence: SequenceNumber, in collection: Collection) throws(StoreError) -> Int64? {
        var earliest: Int64?
        for kind in AgeMarks.Kind.allCases {
            guard let time = AgeMarks(try property(kind.key(collection)) ?? "").marked(sequence) else { continue }
            earliest = min(earliest ?? time, time)
        }
        return earliest
    }
}

extension WriteTransaction {
    func noteExpired(_ collection: Collection, _ id: DocumentID, at time: Int64, by rule: ExpiryRule) throws(StoreError) {
        let insert = try active().cached("INSERT INTO expired(collection, id, at, rule) VALUES(?1, ?2, ?3, ?4)")
        insert.bind(1, Int64(collection.id))
        insert.bind(2, id.text)
        insert.bind(3, time)
        insert.bind(4, rule.rawValue)
        try session.run(insert)
        let forget = try session.cached("DELETE FROM expired WHERE number <= (SELECT max(number) FROM expired) - ?1")
        forget.bind(1, Int64(StoreLimits.expiredDocuments))
        try session.run(forget)
        state.rows += 1
    }
}

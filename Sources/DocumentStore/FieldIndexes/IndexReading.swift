import Documents
import Selectors
import SQLite

extension ReadTransaction {
    /// The indexes of a collection, in order of name; those whose definition this version does not understand are left out.
    package final func fieldIndexes(_ collection: Collection) throws(StoreError) -> [FieldIndex] {
        let statement = try active().cached(
            "SELECT number, design, name, definition, state FROM field_indexes WHERE collection = ?1 AND state <> \(FieldIndexState.dropped) ORDER BY design, name")
        statement.bind(1, Int64(collection.id))
        defer { statement.reset() }
        var found: [FieldIndex] = []
        while try session.step(statement) {
            guard let definition = Self.definition(statement.text(3)) else { continue }
            found.append(
                FieldIndex(
                    number: statement.integer(0), design: statement.text(1), name: statement.text(2), definition: definition,
                    isReady: statement.integer(4) == FieldIndexState.ready))
        }
        return found
    }

    static func definition(_ text: String) -> IndexDefinition? {
        guard let json = try? JSONValue(parsing: text) else { return nil }
        return try? IndexDefinition(json)
    }

    /// Whether it still exists and is complete: code that reads it page by page has to check this in the same transaction, or it misses entries being
    /// removed.
    package final func isReady(_ index: FieldIndex) throws(StoreError) -> Bool {
        let statement = try active().cached("SELECT state FROM field_indexes WHERE number = ?1")
        statement.bind(1, index.number)
        defer { statement.reset() }
        return try session.step(statement) && statement.integer(0) == FieldIndexState.ready
    }

    /// Entries in order of key, and of id among equal keys, or in the reverse order.
    /// - Parameters:
    ///   - after: continues a list.
    ///   - limit: at most `StoreLimits.maxRowsPerRead` are returned, and fewer if their keys are large; an empty result means there are no more.
    package final func entries(
        of index: FieldIndex, in range: IndexRange, after: IndexEntry? = nil, isDescending: Bool, limit: Int
    ) throws(StoreError) -> [IndexEntry] {
        if range.isEmpty { return [] }
        let statement = try active().cached(isDescending ? """
            SELECT key, id FROM field_entries WHERE number = ?1 AND (key, id) < (?2, ?3) AND key >= ?4 ORDER BY key DESC, id DESC LIMIT ?5
            """ : """
            SELECT key, id FROM field_entries WHERE number = ?1 AND (key, id) > (?2, ?3) AND key < ?4 ORDER BY key, id LIMIT ?5
            """)
        // Ids are never empty, so the empty id precedes the first entry of a key.
        var start = IndexStart(key: isDescending ? range.high : range.low, id: "")
        if let after {
            let isInside = isDescending ? after.key.lexicographicallyPrecedes(range.high) : !after.key.lexicographicallyPrecedes(range.low)
            if isInside { start = IndexStart(key: after.key, id: after.id.text) }
        }
        statement.bind(1, index.number)
        statement.bind(2, start.key)
        statement.bind(3, start.id)
        statement.bind(4, isDescending ? range.low : range.high)
        statement.bind(5, Int64(min(max(limit, 0), StoreLimits.maxRowsPerRead)))
        defer { statement.reset() }
        var found: [IndexEntry] = []
        var bytes = 0
        while bytes < StoreLimits.maxKeyBytesPerRead, try session.step(statement) {
            let entry = IndexEntry(key: statement.blob(0), id: DocumentID(stored: statement.text(1)))
            bytes += entry.key.count
            found.append(entry)
        }
        return found
    }

    private struct IndexStart {
        var key: [UInt8]
        var id: String
    }

    /// Whether an index is being built or removed.
    package final func hasIndexWork() throws(StoreError) -> Bool {
        let statement = try active().cached("SELECT 1 FROM field_indexes WHERE state <> \(FieldIndexState.ready) LIMIT 1")
        defer { statement.reset() }
        return try session.step(statement)
    }
}

import Documents
import Selectors
import SQLite

// Creating indexes, keeping them up to date, and removing them.
extension WriteTransaction {
    /// Creates an index without entries, see ``Database/maintainIndexes()``. An index with the same names and another definition is replaced.
    ///
    /// - Returns: false if the same index already exists.
    /// - Throws: `StoreError.tooManyIndexes`.
    package func createIndex(_ collection: Collection, design: String, name: String, _ definition: IndexDefinition) throws(StoreError) -> Bool {
        _ = try tables(collection)
        let text = definition.json.text
        let existing = try fieldIndexes(collection)
        if let same = existing.first(where: { $0.design.utf8.elementsEqual(design.utf8) && $0.name.utf8.elementsEqual(name.utf8) }) {
            if same.definition.json.text.utf8.elementsEqual(text.utf8) { return false }
            _ = try dropIndex(collection, design: design, name: name)
        } else if existing.count >= StoreLimits.maxIndexes {
            throw .tooManyIndexes(limit: StoreLimits.maxIndexes)
        }
        let insert = try session.cached(
            "INSERT INTO field_indexes(collection, design, name, definition, state, built) VALUES(?1, ?2, ?3, ?4, \(FieldIndexState.building), 0)")
        insert.bind(1, Int64(collection.id))
        insert.bind(2, design)
        insert.bind(3, name)
        insert.bind(4, text)
        try session.run(insert)
        state.rows += 1
        state.indexes = [:]
        return true
    }

    /// Drops an index; its entries are removed later, see ``Database/maintainIndexes()``.
    ///
    /// - Returns: false if there was none.
    package func dropIndex(_ collection: Collection, design: String, name: String) throws(StoreError) -> Bool {
        let update = try active().cached("""
            UPDATE field_indexes SET state = \(FieldIndexState.dropped) \
            WHERE collection = ?1 AND design = ?2 AND name = ?3 AND state <> \(FieldIndexState.dropped)
            """)
        update.bind(1, Int64(collection.id))
        update.bind(2, design)
        update.bind(3, name)
        try session.run(update)
        state.rows += 1
        state.indexes = [:]
        return session.connection.changes > 0
    }

    // MARK: keeping up to date

    /// The parts of a document's current revision that indexes need.
    struct Winner {
        var revision: RevisionID
        var isDeleted: Bool
        var body: [UInt8]
    }

    /// Whether changes of the collection's documents have to be recorded.
    @inline(__always)
    func isIndexed(_ collection: Collection) throws(StoreError) -> Bool { try !indexes(collection).isEmpty }

    private func indexes(_ collection: Collection) throws(StoreError) -> [FieldIndex] {
        if let known = state.indexes[collection.id] { return known }
        let found = try fieldIndexes(collection)
        try dropUnknown(collection, known: found)
        state.indexes[collection.id] = found
        return found
    }

    /// An index whose definition this version does not understand cannot be kept up to date: it is dropped, so that a version that does understand it
    /// does not find it stale.
    private func dropUnknown(_ collection: Collection, known: [FieldIndex]) throws(StoreError) {
        let statement = try session.cached("SELECT number FROM field_indexes WHERE collection = ?1 AND state <> \(FieldIndexState.dropped)")
        statement.bind(1, Int64(collection.id))
        var unknown: [Int64] = []
        do {
            defer { statement.reset() }
            while try session.step(statement) { unknown.append(statement.integer(0)) }
        }
        unknown.removeAll { number in known.contains { $0.number == number } }
        for number in unknown {
            let update = try session.cached("UPDATE field_indexes SET state = \(FieldIndexState.dropped) WHERE number = ?1")
            update.bind(1, number)
            try session.run(update)
        }
    }

    /// The current revision of the row, before it is replaced or removed.
    func indexedWinner(_ collection: Collection, _ id: DocumentID, _ row: Row) throws(StoreError) -> Winner? {
        guard !row.isDeleted, try isIndexed(collection), let body = try body(collection, id, row.revision, row: row) else { return nil }
        return Winner(revision: row.revision, isDeleted: false, body: body)
    }

    /// Moves the document's index entries to where its new current revision belongs. The old entries follow from the previous revision, whatever
    /// state the index is in: removing a missing entry or adding an existing one does no harm.
    func noteWinner(_ collection: Collection, _ id: DocumentID, before: Winner?, after: Winner?) throws(StoreError) {
        for index in try indexes(collection) {
            let old = before.flatMap { key(index, id, $0) }
            let new = after.flatMap { key(index, id, $0) }
            if old == new { continue }
            if let old { try removeEntry(index.number, old, id) }
            if let new { try addEntry(index.number, new, id) }
        }
    }

    private func key(_ index: FieldIndex, _ id: DocumentID, _ winner: Winner) -> [UInt8]? {
        if winner.isDeleted { return nil }
        return index.definition.key(of: DocumentFields(id, winner.revision, isDeleted: false, body: winner.body))
    }

    private func addEntry(_ number: Int64, _ key: [UInt8], _ id: DocumentID) throws(StoreError) {
        let insert = try session.cached("INSERT OR IGNORE INTO field_entries(number, key, id) VALUES(?1, ?2, ?3)")
        try run(insert, number, key, id)
    }

    private func removeEntry(_ number: Int64, _ key: [UInt8], _ id: DocumentID) throws(StoreError) {
        let delete = try session.cached("DELETE FROM field_entries WHERE number = ?1 AND key = ?2 AND id = ?3")
        try run(delete, number, key, id)
    }

    private func run(_ statement: Statement, _ number: Int64, _ key: [UInt8], _ id: DocumentID) throws(StoreError) {
        statement.bind(1, number)
        statement.bind(2, key)
        statement.bind(3, id.text)
        try session.run(statement)
        state.rows += 1
    }

    // MARK: building and dropping

    /// Does a limited part of the outstanding work; after a crash, it continues from there.
    ///
    /// - Returns: false when nothing is left.
    func indexStep() throws(StoreError) -> Bool {
        let next = try active().cached(
            "SELECT number, collection, definition, state, built FROM field_indexes WHERE state <> \(FieldIndexState.ready) ORDER BY number LIMIT 1")
        let number: Int64, owner: Int, definition: IndexDefinition?, isDropped: Bool, built: Int64
        do {
            defer { next.reset() }
            guard try session.step(next) else { return false }
            (number, owner, isDropped, built) = (
                next.integer(0), Int(clamping: next.integer(1)), next.integer(3) == FieldIndexState.dropped, next.integer(4))
            definition = Self.definition(next.text(2))
        }
        guard !isDropped, let definition, let collection = try collections().first(where: { $0.id == owner }) else {
            try removeStep(number)
            return true
        }
        let rows = try changes(
            collection, since: SequenceNumber(clamping: built), limit: StoreLimits.indexRowsPerStep, includeBodies: true)
        for row in rows where !row.isDeleted {
            let fields = DocumentFields(row.id, row.revision, isDeleted: false, body: row.body ?? [])
            // A damaged document is in no index.
            if let key = definition.key(of: fields) { try addEntry(number, key, row.id) }
        }
        let update = try session.cached("UPDATE field_indexes SET built = ?2, state = ?3 WHERE number = ?1")
        update.bind(1, number)
        update.bind(2, rows.last.map { Int64(clamping: $0.sequence) } ?? built)
        update.bind(3, rows.isEmpty ? FieldIndexState.ready : FieldIndexState.building)
        try session.run(update)
        state.rows += 1
        state.indexes = [:]
        return true
    }

    private func removeStep(_ number: Int64) throws(StoreError) {
        let delete = try session.cached("""
            DELETE FROM field_entries WHERE number = ?1 AND (key, id) IN \
            (SELECT key, id FROM field_entries WHERE number = ?1 LIMIT \(StoreLimits.indexRowsPerStep))
            """)
        delete.bind(1, number)
        try session.run(delete)
        state.rows += 1
        guard session.connection.changes == 0 else { return }
        let end = try session.cached("DELETE FROM field_indexes WHERE number = ?1")
        end.bind(1, number)
        try session.run(end)
        state.indexes = [:]
    }
}

extension Database {
    /// Builds new indexes and removes the entries of dropped ones, step by step, so that writes can proceed in between. Returns when nothing is left,
    /// or at once if somebody else is already doing it.
    package func maintainIndexes() async throws {
        repeat {
            guard beginIndexMaintenance() else { return }
            defer { endIndexMaintenance() }
            while try await write({ try $0.indexStep() }) {}
            // Work that arrived after the last step must not be missed.
        } while try await read({ try $0.hasIndexWork() })
    }
}

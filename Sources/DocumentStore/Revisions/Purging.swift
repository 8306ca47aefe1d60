import Documents
import SQLite

extension WriteTransaction {
    /// Removes a document with all its revisions, marks and exclusions, and its bodies from the conflict history and the delta bases, without a
    /// tombstone; peers are not told.
    /// - Returns: false if there was none.
    @discardableResult
    public func purge(_ collection: Collection, _ id: DocumentID) throws(StoreError) -> Bool {
        let tables = try tables(collection)
        var counters = try counters(collection)
        guard let row = try row(collection, id) else { return false }
        if try isIndexed(collection) { try noteWinner(collection, id, before: indexedWinner(collection, id, row), after: nil) }
        let statement = try tables.statement(.remove)
        statement.bind(1, row.sequence)
        try session.run(statement)
        try tables.index.clear(row.slot)
        if row.flags & DocumentFlags.bodies != 0 { try run(tables, .dropBodies, id) }
        if row.flags & DocumentFlags.blobs != 0 { try run(tables, .dropBlobs, id) }
        if row.isConflicted { try run(tables, .dropConflict, id) }
        try run(tables, .dropExclusionsOf, id)
        try forgetHistoryBodies(collection, id)
        try dropDeltaBases(collection, id)
        try dropRoute(collection, id)
        try dropPurgeTime(collection, id)
        try dropBranchPurges(collection, id)
        counters = try self.counters(collection) // what the document granted ends at a sequence of its own
        if row.isDeleted { counters.deleted -= 1 } else { counters.documents -= 1 }
        counters.isChanged = true
        state.counters[collection.id] = counters
        state.rows += 1
        noteSize(collection, id, 0)
        session.problems.forget(collection.name, id)
        return true
    }

    /// Runs a statement whose only parameter is the document.
    func run(_ tables: CollectionTables, _ query: CollectionTables.Query, _ id: DocumentID) throws(StoreError) {
        let statement = try tables.statement(query)
        statement.bind(1, id.text)
        try session.run(statement)
    }
}

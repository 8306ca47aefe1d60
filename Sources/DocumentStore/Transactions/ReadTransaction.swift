import Documents
import SQLite

/// A consistent snapshot of the database, valid inside the closure it is passed to. All methods throw `StoreError` (`.transactionEnded` outside the
/// closure).
public class ReadTransaction {
    let session: Session
    var isActive = true
    /// Number of trees decoded.
    final private(set) var decodedTrees = 0

    init(_ session: Session) { self.session = session }

    /// How many revisions of a branch are kept.
    public final var historyDepth: Int { session.options.historyDepth }

    /// The collection's statements, if the transaction is still active.
    @inline(__always)
    final func tables(_ collection: Collection) throws(StoreError) -> CollectionTables {
        guard isActive else { throw .transactionEnded }
        return try session.tables(collection)
    }

    final func active() throws(StoreError) -> Session {
        guard isActive else { throw .transactionEnded }
        return session
    }

    // MARK: documents

    /// The current revision, possibly a tombstone; `nil` if the document does not exist.
    public final func document(_ collection: Collection, _ id: DocumentID) throws(StoreError) -> StoredDocument? {
        let tables = try tables(collection)
        let statement = try tables.statement(.document)
        defer { statement.reset() }
        let place = try tables.index.seek(id, statement)
        guard place.sequence > 0 else { return nil }
        let flags = statement.integer(2)
        return StoredDocument(
            id: id,
            revision: RevisionID(stored: statement.text(1)),
            isDeleted: flags & DocumentFlags.deleted != 0,
            sequence: SequenceNumber(place.sequence),
            body: statement.blob(3),
            hasConflict: flags & DocumentFlags.conflicted != 0,
            hasBlobs: flags & DocumentFlags.blobs != 0
        )
    }

    /// The revision tree; `nil` if the document does not exist.
    public final func tree(_ collection: Collection, _ id: DocumentID) throws(StoreError) -> RevisionTree? {
        guard let row = try row(collection, id) else { return nil }
        return try tree(collection, of: row, id)
    }

    /// The body of one revision: the current one, another leaf, or a kept base. `nil` if it is not stored.
    public final func body(_ collection: Collection, _ id: DocumentID, _ revision: RevisionID) throws(StoreError) -> [UInt8]? {
        guard let row = try row(collection, id) else { return nil }
        return try body(collection, id, revision, row: row)
    }

    /// The newest sequence assigned, whether or not its document still exists; 0 in a new collection.
    public func lastSequence(_ collection: Collection) throws(StoreError) -> SequenceNumber {
        let statement = try active().cached("SELECT last_sequence FROM collections WHERE id = ?1")
        statement.bind(1, Int64(collection.id))
        defer { statement.reset() }
        guard try session.step(statement) else { throw .unknownCollection(collection.name) }
        return SequenceNumber(try session.checked(lastSequence: statement.integer(0)))
    }

    // MARK: remotes

    /// The id of a remote that was registered before.
    public final func existingRemote(for key: String) throws(StoreError) -> RemoteID? {
        let statement = try active().cached("SELECT id FROM remotes WHERE key = ?1")
        statement.bind(1, key)
        defer { statement.reset() }
        return try session.step(statement) ? RemoteID(statement.integer(0)) : nil
    }

    /// The keys of registered remotes that start with a prefix.
    public final func remoteKeys(prefix: String) throws(StoreError) -> [String] {
        let statement = try active().cached("SELECT key FROM remotes WHERE substr(key, 1, ?2) = ?1 ORDER BY key")
        statement.bind(1, prefix)
        statement.bind(2, Int64(prefix.unicodeScalars.count))
        defer { statement.reset() }
        var keys: [String] = []
        while try session.step(statement) { keys.append(statement.text(0)) }
        return keys
    }

    /// The key of a remote; nil for one that was never registered.
    public final func remoteKey(_ remote: RemoteID) throws(StoreError) -> String? {
        let statement = try active().cached("SELECT key FROM remotes WHERE id = ?1")
        statement.bind(1, remote.number)
        defer { statement.reset() }
        return try session.step(statement) ? statement.text(0) : nil
    }

    /// The revision last known to be current at the remote.
    public final func remoteRevision(
        _ remote: RemoteID, _ collection: Collection, _ id: DocumentID
    ) throws(StoreError) -> RevisionID? {
        guard let row = try row(collection, id) else { return nil }
        return row.remotes.revision(remote, current: row.revision)
    }

    // MARK: rows, for the other files of this target

    struct Row {
        var sequence: Int64
        var slot: Int64
        var revision: RevisionID
        var flags: Int64
        var tree: [UInt8]?
        var remotes: KnownRemotes

        var isDeleted: Bool { flags & DocumentFlags.deleted != 0 }
        var isConflicted: Bool { flags & DocumentFlags.conflicted != 0 }
    }

    final func row(_ collection: Collection, _ id: DocumentID) throws(StoreError) -> Row? {
        switch try lookUp(tables(collection), id) {
        case .absent: nil
        case .present(let row): row
        }
    }

    enum LookUp {
        /// With the slot that a new document with this id would take.
        case absent(slot: Int64)
        case present(Row)
    }

    final func lookUp(_ tables: CollectionTables, _ id: DocumentID) throws(StoreError) -> LookUp {
        let statement = try tables.find()
        let place = try tables.index.seek(id, statement)
        guard place.sequence > 0 else { return .absent(slot: place.slot) }
        defer { statement.reset() }
        return .present(try row(statement, place, id))
    }

    /// Reads a row of `CollectionTables.find`.
    final func row(_ statement: Statement, _ place: IDIndex.Place, _ id: DocumentID) throws(StoreError) -> Row {
        Row(
            sequence: place.sequence,
            slot: place.slot,
            revision: RevisionID(stored: statement.text(1)),
            flags: statement.integer(2),
            tree: statement.blobIfPresent(3),
            remotes: remotes(statement, 4)
        )
    }

    /// A list that cannot be read counts as empty: the remotes are asked again what they have, and the next write replaces the list.
    @inline(__always)
    final func remotes(_ statement: Statement, _ column: Int32) -> KnownRemotes {
        do { return try statement.withBlob(column) { (bytes) throws(DamagedColumn) in try KnownRemotes(bytes) } } catch { return KnownRemotes() }
    }

    final func tree(_ collection: Collection, of row: Row, _ id: DocumentID) throws(StoreError) -> RevisionTree {
        if row.tree != nil { decodedTrees += 1 }
        do throws(StoreError) {
            return try StoredTree.decode(row.tree, id, only: row.revision, deleted: row.isDeleted)
        } catch {
            setAside(collection, error)
            throw error
        }
    }

    /// Records a damaged document, so that the database's state lists it. Other errors have no effect.
    /// - Returns: whether the error said that a document is damaged.
    @discardableResult
    public final func setAside(_ collection: Collection, _ error: StoreError) -> Bool {
        guard case .documentDamaged(let id, let detail) = error else { return false }
        session.problems.note(collection.name, id, detail)
        return true
    }

    final func body(_ collection: Collection, _ id: DocumentID, _ revision: RevisionID, row: Row) throws(StoreError) -> [UInt8]? {
        let tables = try tables(collection)
        if revision == row.revision {
            let statement = try tables.statement(.bodyAtSequence)
            statement.bind(1, row.sequence)
            defer { statement.reset() }
            return try session.step(statement) ? statement.blob(0) : nil
        }
        guard row.flags & DocumentFlags.bodies != 0 else { return nil }
        let statement = try tables.statement(.body)
        statement.bind(1, id.text)
        statement.bind(2, revision.text)
        defer { statement.reset() }
        return try session.step(statement) ? statement.blob(0) : nil
    }
}

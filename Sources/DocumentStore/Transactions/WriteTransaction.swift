import Documents
import SQLite

/// A transaction that may write, valid inside the closure it is passed to. If the closure throws, its changes are rolled back. A failure reported by
/// SQLite itself rolls them back even if the closure swallows the error.
public final class WriteTransaction: ReadTransaction {
    let state: WriterState
    /// Keep replaced bodies however small they are: clients may request them by revision, not only for deltas.
    public var keepsSmallBases = false

    init(_ session: Session, _ state: WriterState) {
        self.state = state
        super.init(session)
    }

    public override func lastSequence(_ collection: Collection) throws(StoreError) -> SequenceNumber {
        SequenceNumber(try counters(collection).lastSequence)
    }

    @inline(__always)
    func counters(_ collection: Collection) throws(StoreError) -> Counters {
        guard isActive else { throw .transactionEnded }
        guard collection.id > 0, collection.id < state.counters.count, let counters = state.counters[collection.id] else {
            throw .unknownCollection(collection.name)
        }
        return counters
    }

    // MARK: remotes

    /// The id of a remote, assigned when it is first used.
    public func remoteID(for key: String) throws(StoreError) -> RemoteID {
        if let found = try existingRemote(for: key) { return found }
        let statement = try session.cached("INSERT INTO remotes(key) VALUES(?1)")
        statement.bind(1, key)
        try session.run(statement)
        return RemoteID(session.connection.lastInsertedRowID)
    }

    /// Records the remote's current revisions. Documents that do not exist here are skipped.
    public func setRemoteRevisions(
        _ remote: RemoteID, _ collection: Collection, _ revisions: [(DocumentID, RevisionID)]
    ) throws(StoreError) {
        let tables = try tables(collection)
        for (id, name) in revisions {
            guard let row = try row(collection, id), let revision = try self.revision(named: name, collection, id, row) else { continue }
            // A late record must not overwrite newer knowledge: the remote has moved on from this revision.
            if let known = row.remotes.revision(remote, current: row.revision), known.generation > revision.generation,
                try tree(collection, of: row, id).isAncestor(revision, of: known)
            { continue }
            try setRemote(tables, id, row, remote, revision)
        }
    }

    /// The remote does not have this revision, or may not have it, although it is noted as the one that it has: it lost its data since. A document with a
    /// conflict keeps the note.
    public func forgetRemoteRevision(
        _ remote: RemoteID, _ collection: Collection, _ id: DocumentID, ifItIs revision: RevisionID
    ) throws(StoreError) {
        guard let row = try row(collection, id), !row.isConflicted, row.remotes.revision(remote, current: row.revision) == revision else { return }
        var remotes = row.remotes
        remotes.forget(remote)
        let statement = try tables(collection).statement(.setRemotes)
        statement.bind(1, row.sequence)
        statement.bind(2, remotes.encoded())
        try session.run(statement)
        state.rows += 1
    }

    func setRemote(
        _ tables: CollectionTables, _ id: DocumentID, _ row: Row, _ remote: RemoteID, _ revision: RevisionID
    ) throws(StoreError) {
        if row.remotes.revision(remote, current: row.revision) == revision { return }
        var remotes = row.remotes
        guard remotes.set(remote, revision) else {
            throw .tooManyBranches(id: id, limit: StoreLimits.maxRemotesPerDocument)
        }
        if row.isConflicted, let previous = try conflictRecord(tables.collection, id) {
            // The remote may have one of both sides now.
            var tree = try tree(tables.collection, of: row, id)
            remotes.spellOut(row.revision)
            let record = previous.settled(&tree, remotes, newest: revision)
            _ = try place(tables.collection, id, row, &tree, nil, remotes: remotes, record: record, previous: previous)
            return
        }
        remotes.abbreviate(row.revision)
        let statement = try tables.statement(.setRemotes)
        statement.bind(1, row.sequence)
        statement.bind(2, remotes.encoded())
        try session.run(statement)
        state.rows += 1
        if row.flags & DocumentFlags.bodies != 0 && !row.isConflicted {
            // The base kept for the remote's previous revision may no longer be needed.
            var needed = Set(remotes.entries.compactMap(\.revision))
            for leaf in try tree(tables.collection, of: row, id).leaves { needed.insert(leaf.revision) }
            try dropBodies(tables, id, except: needed)
        }
    }
}

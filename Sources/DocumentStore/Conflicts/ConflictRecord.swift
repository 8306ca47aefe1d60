import Documents
import SQLite

/// What is stored about a conflict besides the branches themselves: which side each belongs to.
struct ConflictRecord: Equatable {
    /// The local revision when the record was written; its branch may have grown since.
    var local: RevisionID
    var remoteID: RemoteID?
    /// The remote revision at that time.
    var remote: RevisionID
    var since: Int64

    /// The current ends of both branches; `nil` if there is nothing left to resolve.
    func sides(_ tree: RevisionTree, _ remotes: KnownRemotes) -> (local: RevisionTree.Leaf, remote: RevisionTree.Leaf)? {
        // Best first, so the first match is deterministic. A branch ended by a decision cannot be a side of another conflict.
        let leaves = tree.leaves.filter { !$0.isDeleted || !tree.isEnd($0.revision) }
        func end(of revision: RevisionID, not other: RevisionID? = nil) -> RevisionTree.Leaf? {
            leaves.first { leaf in
                leaf.revision != other && (leaf.revision == revision || tree.isAncestor(revision, of: leaf.revision))
            }
        }
        var remoteEnd: RevisionTree.Leaf?
        if let remoteID {
            for entry in remotes.entries where entry.remote == remoteID.number {
                if let known = entry.revision { remoteEnd = end(of: known) }
            }
        }
        guard let remoteEnd = remoteEnd ?? end(of: remote) else { return nil }
        // The remote side may have taken over the local branch: then the conflict is over.
        if remoteEnd.revision == local || tree.isAncestor(local, of: remoteEnd.revision) { return nil }
        guard let localEnd = end(of: local, not: remoteEnd.revision) else { return nil }
        // Both sides have deleted the document by now: it makes no difference which tombstone is current.
        return localEnd.isDeleted && remoteEnd.isDeleted ? nil : (localEnd, remoteEnd)
    }

    /// The record, unless the change to the tree ended the conflict; updated to the current ends, since pruning may remove the revisions it started
    /// with.
    func still(_ tree: RevisionTree, _ remotes: KnownRemotes) -> ConflictRecord? {
        guard let sides = sides(tree, remotes) else { return nil }
        var record = self
        record.local = sides.local.revision
        record.remote = sides.remote.revision
        return record
    }

    /// The record after a change; `nil` if no conflict is left. If the remote took over the local side, or another branch while the conflict waits,
    /// its former branch no longer belongs to anybody and is removed.
    /// - Parameters:
    ///   - newest: the revision that the remote took over.
    ///   - kept: other leaves that the remote has.
    func settled(
        _ tree: inout RevisionTree, _ remotes: KnownRemotes, newest: RevisionID, kept: Set<RevisionID> = []
    ) -> ConflictRecord? {
        let record = still(tree, remotes)
        // In an ongoing conflict, only the side of a remembered remote can have been dropped, since such a remote has one revision.
        if let record {
            guard record.remoteID != nil, record.remoteID != .pusher, record.remote == newest, !tree.isAncestor(remote, of: newest) else {
                return record
            }
        }
        let stale = tree.leaves.first { leaf in
            leaf.revision != newest && leaf.revision != record?.local && !kept.contains(leaf.revision)
                && (leaf.revision == remote || tree.isAncestor(remote, of: leaf.revision))
        }
        guard let record else {
            if let stale { tree.removeBranch(stale.revision) }
            return next(tree, result: newest)
        }
        let isAnothers = stale.map { stale in
            remotes.entries.contains { entry in
                entry.remote != remoteID?.number
                    && entry.revision.map { $0 == stale.revision || tree.isAncestor($0, of: stale.revision) } == true
            }
        }
        if let stale, isAnothers == false { tree.removeBranch(stale.revision) }
        return record
    }

    /// The record after a branch ended while others live: if it was a side of the conflict, it no longer is.
    func without(_ tombstone: RevisionID, _ tree: RevisionTree, _ remotes: KnownRemotes) -> ConflictRecord? {
        if let record = still(tree, remotes), record.local != tombstone, record.remote != tombstone { return record }
        return tree.winner.flatMap { next(tree, result: $0.revision) }
    }

    /// If branches of further remotes are left, the next two to be resolved.
    func next(_ tree: RevisionTree, result: RevisionID) -> ConflictRecord? {
        let leaves = tree.leaves.filter { !$0.isDeleted }
        guard let other = leaves.first(where: { $0.revision != result && !tree.isAncestor(result, of: $0.revision) }) else {
            return nil
        }
        return ConflictRecord(local: result, remoteID: nil, remote: other.revision, since: since).still(tree, KnownRemotes())
    }
}

extension ReadTransaction {
    /// Both sides of an unresolved conflict with their bodies; `nil` if there is none, or if the document is damaged.
    public final func conflict(_ collection: Collection, _ id: DocumentID) throws(StoreError) -> Conflict? {
        do throws(StoreError) {
            return try readConflict(collection, id)
        } catch {
            guard setAside(collection, error) else { throw error }
            return nil
        }
    }

    private func readConflict(_ collection: Collection, _ id: DocumentID) throws(StoreError) -> Conflict? {
        guard let row = try row(collection, id), row.isConflicted else { return nil }
        let tree = try tree(collection, of: row, id)
        var remotes = row.remotes
        remotes.spellOut(row.revision)
        guard let record = try conflictRecord(collection, id), let sides = record.sides(tree, remotes) else { return nil }
        func side(_ leaf: RevisionTree.Leaf) throws(StoreError) -> Conflict.Side {
            guard let body = try body(collection, id, leaf.revision, row: row) ?? (leaf.isDeleted ? Array("{}".utf8) : nil) else {
                throw .documentDamaged(id: id, detail: "the body of revision \(leaf.revision) is missing")
            }
            return Conflict.Side(revision: leaf.revision, isDeleted: leaf.isDeleted, body: body, version: tree.vector(of: leaf.revision)?.current)
        }
        let ancestor = tree.commonAncestor(of: sides.local.revision, and: sides.remote.revision)
        var conflict = Conflict(
            id: id, local: try side(sides.local), remote: try side(sides.remote),
            base: try base(collection, id, ancestor, row: row), baseRevision: ancestor, remoteID: record.remoteID)
        conflict.hasTimes = try haveTimes(conflict.local.version, conflict.remote.version)
        return conflict
    }

    /// A version that this database assigned to a revision from a peer with revision ids tells when it arrived, not when it was made.
    private func haveTimes(_ local: VectorVersion?, _ remote: VectorVersion?) throws(StoreError) -> Bool {
        guard let local, let remote, local.source != .revisionTree, remote.source != .revisionTree else { return false }
        return try property(VersionProperty.source) != remote.source.description
    }

    /// A common ancestor, if its body is still stored.
    final func base(_ collection: Collection, _ id: DocumentID, _ ancestor: RevisionID?, row: Row) throws(StoreError) -> Conflict.Base? {
        guard let ancestor, let body = try deltaBase(collection, id, ancestor, row: row) else { return nil }
        return Conflict.Base(revision: ancestor, body: body)
    }

    final func conflictRecord(_ collection: Collection, _ id: DocumentID) throws(StoreError) -> ConflictRecord? {
        let statement = try tables(collection).statement(.conflict)
        statement.bind(1, id.text)
        defer { statement.reset() }
        guard try session.step(statement) else { return nil }
        return ConflictRecord(
            local: RevisionID(stored: statement.text(0)),
            remoteID: statement.isNull(1) ? nil : RemoteID(statement.integer(1)),
            remote: RevisionID(stored: statement.text(2)),
            since: statement.integer(3)
        )
    }
}

extension WriteTransaction {
    /// Updates the stored record from `previous` to `record`.
    func write(
        _ record: ConflictRecord?, _ tables: CollectionTables, _ id: DocumentID, _ previous: ConflictRecord?
    ) throws(StoreError) {
        guard record != previous else { return }
        guard let record else { return try run(tables, .dropConflict, id) }
        let statement = try tables.statement(.setConflict)
        statement.bind(1, id.text)
        statement.bind(2, record.local.text)
        if let remote = record.remoteID { statement.bind(3, remote.number) } else { statement.bindNull(3) }
        statement.bind(4, record.remote.text)
        statement.bind(5, record.since)
        try session.run(statement)
    }
}

import Documents
import SQLite

// How a revision enters the tables, wherever it was made.
extension WriteTransaction {
    /// Inserts a document that does not exist.
    /// - Returns: its sequence.
    @inline(__always)
    func insertNew(
        _ collection: Collection, _ tables: CollectionTables, _ id: DocumentID, slot: Int64, _ revision: RevisionID,
        flags: Int64, tree: [UInt8]?, remotes: [UInt8], body: [UInt8]
    ) throws(StoreError) -> Int64 {
        var counters = try counters(collection)
        let sequence = counters.lastSequence + 1
        let statement = try tables.insert()
        statement.bind(1, sequence)
        statement.bind(4, flags)
        if let tree { statement.bind(5, tree) } else { statement.bindNull(5) }
        statement.bind(6, remotes)
        statement.bind(8, slot)
        var failure: StoreError?
        statement.withBound(2, id.text) {
            statement.withBound(3, revision.text) {
                statement.withBound(7, body) { failure = session.failure(running: statement) }
            }
        }
        if let failure { throw failure }
        tables.index.set(slot, sequence)
        let isDeleted = flags & DocumentFlags.deleted != 0
        if !isDeleted, try isIndexed(collection) {
            try noteWinner(collection, id, before: nil, after: Winner(revision: revision, isDeleted: false, body: body))
        }
        counters.lastSequence = sequence
        if isDeleted { counters.deleted += 1 } else { counters.documents += 1 }
        counters.isChanged = true
        state.counters[collection.id] = counters
        state.rows += 1
        noteSize(collection, id, isDeleted ? 0 : body.count)
        return sequence
    }

    /// - Parameter bytes: size of the document's current body; 0 if it is deleted or gone.
    @inline(__always)
    func noteSize(_ collection: Collection, _ id: DocumentID, _ bytes: Int) {
        // Documents that this transaction has made large are not known to `largeDocuments` before it is durable.
        guard !state.sizes.isEmpty || session.options.largeDocuments.concerns(bytes) else { return }
        state.sizes.append(.init(collection: collection.name, id: id, bytes: bytes))
    }

    /// The revision being added.
    struct NewRevision {
        var revision: RevisionID
        var isDeleted: Bool
        var body: [UInt8]
        var hasBlobs: Bool
        /// The vector by which peers with version vectors compare it, if known; otherwise it follows from its ancestors.
        var vector: VersionVector?
        /// It was made here.
        var isOurs = false
    }

    /// Writes an existing document after its tree has changed: the row, bodies of other leaves, kept bases, blob references, the conflict's record.
    /// - Parameters:
    ///   - tree: already contains the new revision, without removed branches; pruned here.
    ///   - remotes: with every revision spelled out.
    ///   - record: the conflict as it should be recorded; `nil` for none.
    /// - Returns: the new sequence, `nil` if the current revision and all other leaves are unchanged.
    func place(
        _ collection: Collection, _ id: DocumentID, _ row: Row, _ tree: inout RevisionTree, _ new: NewRevision?,
        remotes: KnownRemotes, record: ConflictRecord?, previous: ConflictRecord?
    ) throws(StoreError) -> SequenceNumber? {
        let tables = try tables(collection)
        // Revisions whose bodies may serve as a base, and which pruning must not remove.
        var kept = Set(remotes.entries.compactMap(\.revision))
        if let record, let sides = record.sides(tree, remotes),
            let base = tree.commonAncestor(of: sides.local.revision, and: sides.remote.revision) {
            kept.insert(base)
        }
        tree.prune(depth: session.options.historyDepth, keeping: kept)
        dropTombstones(&tree, keeping: [new?.revision, record?.local, record?.remote])
        let leaves = tree.leaves
        // While a conflict with a remote waits for its resolver, the local side remains the readable one, as in Couchbase Lite; branches that came
        // without a remote have no local side, so the deterministic winner is read.
        let local = record?.remoteID == nil ? nil : record?.sides(tree, remotes)?.local
        guard let winner = local ?? tree.current else {
            throw .documentDamaged(id: id, detail: "its revision tree is empty")
        }
        guard leaves.count <= StoreLimits.maxBranches else {
            throw .tooManyBranches(id: id, limit: StoreLimits.maxBranches)
        }
        var needed = kept
        for leaf in leaves { needed.insert(leaf.revision) }
        needed.remove(winner.revision)

        var winnerBody: [UInt8]?
        if winner.revision == new?.revision {
            winnerBody = new?.body
        } else if winner.revision != row.revision {
            winnerBody = try body(collection, id, winner.revision, row: row) ?? (winner.isDeleted ? Array("{}".utf8) : nil)
            if winnerBody == nil {
                let error = StoreError.documentDamaged(id: id, detail: "the body of revision \(winner.revision) is missing")
                setAside(collection, error)
                throw error
            }
        }
        let blobs = try blobReferences(collection, id, row, leaves, new)

        var hasBodies = row.flags & DocumentFlags.bodies != 0
        if winner.revision != row.revision && needed.contains(row.revision) {
            let statement = try tables.statement(.keepCurrentBody)
            statement.bind(1, row.sequence)
            try session.run(statement)
            hasBodies = true
        }
        if winner.isDeleted {
            try dropDeltaBases(collection, id)
        } else if winner.revision != row.revision, !row.isDeleted, !needed.contains(row.revision) {
            try keepDeltaBase(collection, id, row)
        }
        if let new, new.revision != winner.revision, needed.contains(new.revision) {
            let statement = try tables.statement(.keepBody)
            statement.bind(1, id.text)
            statement.bind(2, new.revision.text)
            statement.bind(3, new.body)
            try session.run(statement)
            hasBodies = true
        }
        if hasBodies { hasBodies = try dropBodies(tables, id, except: needed) }

        if row.flags & DocumentFlags.blobs != 0 { try run(tables, .dropBlobs, id) }
        try addBlobs(tables, id, blobs)
        try write(record, tables, id, previous)
        if row.isConflicted, record == nil { try resumeBranchPurges(collection, id) }

        var flags: Int64 = 0
        if winner.isDeleted { flags |= DocumentFlags.deleted }
        if record != nil { flags |= DocumentFlags.conflicted }
        if !blobs.isEmpty { flags |= DocumentFlags.blobs }
        if hasBodies { flags |= DocumentFlags.bodies }
        var remotes = remotes
        remotes.abbreviate(winner.revision)
        let encoded = (tree: StoredTree.encode(tree), remotes: remotes.encoded())
        guard let winnerBody else {
            let concernsPeers = try concernsPeers(collection, id, row, leaves, isConflicted: record != nil)
            return try writeRow(collection, tables, row, flags, encoded.tree, encoded.remotes, concernsPeers: concernsPeers)
        }
        return try writeRow(collection, tables, row, id, winner.revision, flags, encoded.tree, encoded.remotes, winnerBody)
    }

    /// If a document has too many branches, the least of the deleted ones are dropped: deletions are no reason to refuse a revision.
    private func dropTombstones(_ tree: inout RevisionTree, keeping kept: [RevisionID?]) {
        let leaves = tree.leaves
        guard leaves.count > StoreLimits.maxBranches else { return }
        let dropped = leaves.dropFirst().reversed().lazy.filter { $0.isDeleted && !kept.contains($0.revision) }
        for leaf in dropped.prefix(leaves.count - StoreLimits.maxBranches) { tree.removeBranch(leaf.revision) }
    }

    /// Whether peers have to learn of a change that leaves the current revision unchanged: of other leaves, for peers that keep all of them, and of
    /// the end of a conflict, for peers from which the document was kept in the meantime.
    private func concernsPeers(
        _ collection: Collection, _ id: DocumentID, _ row: Row, _ leaves: [RevisionTree.Leaf], isConflicted: Bool
    ) throws(StoreError) -> Bool {
        if row.isConflicted && !isConflicted { return true }
        do throws(StoreError) { return try tree(collection, of: row, id).leaves != leaves } catch {
            guard case .documentDamaged = error else { throw error }
            return true
        }
    }

    /// The current revision stays.
    private func writeRow(
        _ collection: Collection, _ tables: CollectionTables, _ row: Row, _ flags: Int64, _ tree: [UInt8]?, _ remotes: [UInt8], concernsPeers: Bool
    ) throws(StoreError) -> SequenceNumber? {
        state.rows += 1
        let statement = try tables.statement(concernsPeers ? .move : .update)
        statement.bind(1, row.sequence)
        statement.bind(2, flags)
        statement.bind(3, tree)
        statement.bind(4, remotes)
        guard concernsPeers else {
            try session.run(statement)
            return nil
        }
        let sequence = try nextSequence(collection)
        statement.bind(5, sequence)
        try session.run(statement)
        tables.index.set(row.slot, sequence)
        return SequenceNumber(sequence)
    }

    private func writeRow(
        _ collection: Collection, _ tables: CollectionTables, _ row: Row, _ id: DocumentID, _ revision: RevisionID, _ flags: Int64,
        _ tree: [UInt8]?, _ remotes: [UInt8], _ body: [UInt8]
    ) throws(StoreError) -> SequenceNumber? {
        state.rows += 1
        if try isIndexed(collection) {
            let winner = Winner(revision: revision, isDeleted: flags & DocumentFlags.deleted != 0, body: body)
            try noteWinner(collection, id, before: indexedWinner(collection, id, row), after: winner)
        }
        var counters = try counters(collection)
        let sequence = counters.lastSequence + 1
        let statement = try tables.statement(.replace)
        statement.bind(1, row.sequence)
        statement.bind(2, sequence)
        statement.bind(3, revision.text)
        statement.bind(4, flags)
        statement.bind(5, tree)
        statement.bind(6, remotes)
        var failure: StoreError?
        statement.withBound(7, body) { failure = session.failure(running: statement) }
        if let failure { throw failure }
        tables.index.set(row.slot, sequence)
        counters.lastSequence = sequence
        switch (row.isDeleted, flags & DocumentFlags.deleted != 0) {
        case (false, true):
            counters.documents -= 1
            counters.deleted += 1
        case (true, false):
            counters.documents += 1
            counters.deleted -= 1
        default: break
        }
        counters.isChanged = true
        state.counters[collection.id] = counters
        noteSize(collection, id, flags & DocumentFlags.deleted != 0 ? 0 : body.count)
        if flags & DocumentFlags.deleted != 0, !row.isDeleted { try endGrants(collection, id, at: sequence) }
        return SequenceNumber(sequence)
    }

    /// Removes bodies that are no longer needed. Returns whether any are left.
    @discardableResult
    func dropBodies(_ tables: CollectionTables, _ id: DocumentID, except needed: Set<RevisionID>) throws(StoreError) -> Bool {
        let list = try tables.statement(.bodiesOf)
        list.bind(1, id.text)
        var stored: [RevisionID] = []
        do {
            defer { list.reset() }
            while try session.step(list) { stored.append(RevisionID(stored: list.text(0))) }
        }
        let drop = try tables.statement(.dropBody)
        var left = stored.count
        for revision in stored where !needed.contains(revision) {
            drop.bind(1, id.text)
            drop.bind(2, revision.text)
            try session.run(drop)
            left -= 1
        }
        return left > 0
    }

    // MARK: blob references

    /// The blobs of all leaves. Bodies are read only if the document had or gets any.
    private func blobReferences(
        _ collection: Collection, _ id: DocumentID, _ row: Row, _ leaves: [RevisionTree.Leaf], _ new: NewRevision?
    ) throws(StoreError) -> Set<BlobDigest> {
        var found: Set<BlobDigest> = []
        for leaf in leaves {
            if let new, leaf.revision == new.revision {
                if new.hasBlobs { found.formUnion(try blobs(in: new.body, id)) }
            } else if row.flags & DocumentFlags.blobs != 0, let body = try body(collection, id, leaf.revision, row: row) {
                found.formUnion(try blobs(in: body, id))
            }
        }
        return found
    }

    func blobs(in body: [UInt8], _ id: DocumentID) throws(StoreError) -> [BlobDigest] {
        do {
            return try BlobReferences.find(in: body).map(\.digest)
        } catch {
            throw .bodyInvalid(id: id, detail: "\(error)")
        }
    }

    func addBlobs(_ tables: CollectionTables, _ id: DocumentID, _ digests: some Sequence<BlobDigest>) throws(StoreError) {
        let statement = try tables.statement(.addBlob)
        for digest in digests {
            statement.bind(1, id.text)
            statement.bind(2, digest.bytes)
            try session.run(statement)
        }
    }
}

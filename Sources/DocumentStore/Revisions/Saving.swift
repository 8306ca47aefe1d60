import Documents
import SQLite

// Local edits.
extension WriteTransaction {
    /// Stores a new revision of a document. If the document is damaged, this repairs it: its other branches and its ancestors are dropped.
    /// - Parameters:
    ///   - body: a JSON object without top-level keys that start with `_`, except `_attachments`; empty means `{}`.
    ///   - parent: the revision that was edited, which must be the current one. `nil`: the document must not exist, or be a tombstone, whose child
    ///     the revision then is.
    /// - Throws: `StoreError.conflict` with the current revision; `.bodyTooLarge`, `.bodyInvalid`, `.reservedKey`.
    @discardableResult
    public func save(
        _ collection: Collection, id: DocumentID, body: [UInt8], deleted: Bool = false, parent: RevisionID?
    ) throws(StoreError) -> SavedRevision {
        if !deleted { try checkAdmission(.local, bytes: body.count) }
        let tables = try tables(collection)
        let body = body.isEmpty ? Array("{}".utf8) : body
        let (scan, canonical) = try scanned(body, id, isPeers: false)
        let deletedFlag = deleted ? DocumentFlags.deleted : 0
        let digests = scan.mayHoldBlobs ? try blobs(in: body, id) : []

        let row: Row
        switch try lookUp(tables, id) {
        case .present(let found):
            row = found
        case .absent(let slot):
            guard parent == nil else { throw .conflict(id: id, current: nil) }
            let revision = RevisionDigest.revision(parent: nil, deleted: deleted, canonicalBody: canonical)
            let flags = deletedFlag | (digests.isEmpty ? 0 : DocumentFlags.blobs)
            let sequence = try insertNew(
                collection, tables, id, slot: slot, revision, flags: flags, tree: try firstTree(revision, isDeleted: deleted), remotes: KnownRemotes.none,
                body: body)
            if !digests.isEmpty { try addBlobs(tables, id, digests) }
            return SavedRevision(revision: revision, sequence: SequenceNumber(sequence))
        }
        guard parent == row.revision || (parent == nil && row.isDeleted) else {
            throw .conflict(id: id, current: row.revision)
        }
        // Peers would refuse it; but they accept a deletion.
        guard deleted || row.revision.generation < DocumentLimits.revisionGeneration else {
            throw .historyInvalid(
                id: id, revision: row.revision,
                detail: "nothing but a deletion can follow a generation of revisionGeneration = \(DocumentLimits.revisionGeneration) or more; "
                    + "to use the id again, purge the document wherever it is")
        }
        let new = NewRevision(
            revision: RevisionDigest.revision(parent: row.revision, deleted: deleted, canonicalBody: canonical),
            isDeleted: deleted, body: body, hasBlobs: !digests.isEmpty, isOurs: true)
        var (tree, isRebuilt) = try treeToWrite(collection, row, id)
        try add(new, history: [row.revision], to: &tree, id)
        var remotes = row.remotes
        remotes.spellOut(row.revision)
        let previous = row.isConflicted ? try conflictRecord(collection, id) : nil
        let record = previous?.still(tree, remotes)
        let sequence = try place(
            collection, id, row, &tree, new, remotes: remotes, record: record, previous: previous)
        if isRebuilt { session.problems.forget(collection.name, id) }
        return SavedRevision(revision: new.revision, sequence: sequence ?? SequenceNumber(row.sequence))
    }

    /// The tree of a document created here.
    func firstTree(_ revision: RevisionID, isDeleted: Bool) throws(StoreError) -> [UInt8]? {
        guard session.options.versionsEdits else { return nil }
        return RevisionTree.encoded(revision, isDeleted: isDeleted, vector: VersionVector(try nextVersion()))
    }

    /// The tree to which a new revision is added. Of a damaged one, nothing is left but the current revision, which is in the row.
    func treeToWrite(_ collection: Collection, _ row: Row, _ id: DocumentID) throws(StoreError) -> (tree: RevisionTree, isRebuilt: Bool) {
        do throws(StoreError) {
            return (try tree(collection, of: row, id), false)
        } catch {
            guard case .documentDamaged = error, let rebuilt = try? RevisionTree(row.revision, isDeleted: row.isDeleted) else { throw error }
            return (rebuilt, true)
        }
    }

    /// Checks size, form and reserved keys. `_attachments` from peers are kept whatever they contain; local ones must name blobs.
    func scan(_ body: [UInt8], _ id: DocumentID, isPeers: Bool) throws(StoreError) -> DocumentScan {
        try check(body, id, isPeers: isPeers) { (body) throws(JSONError) in
            (try JSONScanner.scanDocument(body, unusualKeys: session.options.unusualKeys), body)
        }.0
    }

    /// Like `scan`, and returns the canonical form used for the digest.
    func scanned(_ body: [UInt8], _ id: DocumentID, isPeers: Bool) throws(StoreError) -> (DocumentScan, canonical: [UInt8]) {
        try check(body, id, isPeers: isPeers) { (body) throws(JSONError) in
            try CanonicalJSON.scanned(body, unusualKeys: session.options.unusualKeys)
        }
    }

    @inline(__always)
    private func check(
        _ body: [UInt8], _ id: DocumentID, isPeers: Bool, read: ([UInt8]) throws(JSONError) -> (DocumentScan, [UInt8])
    ) throws(StoreError) -> (DocumentScan, canonical: [UInt8]) {
        guard body.count <= session.options.maxBodyBytes else {
            throw .bodyTooLarge(id: id, bytes: body.count, limit: session.options.maxBodyBytes)
        }
        do {
            let (scan, canonical) = try read(body)
            if scan.hasReservedKeys {
                let keys = try ReservedKeys.all(in: body, scan: scan)
                if let key = keys.first(where: { $0 != "_attachments" }) { throw StoreError.reservedKey(id: id, key: key) }
                if !isPeers, let root = try JSONValue(stored: body).asObject, let problem = ReservedKeys.attachmentsProblem(in: root) {
                    throw StoreError.bodyInvalid(id: id, detail: problem)
                }
            }
            return (scan, canonical)
        } catch let error as StoreError {
            throw error
        } catch {
            throw .bodyInvalid(id: id, detail: "\(error)")
        }
    }

    func add(_ new: NewRevision, history: RevisionHistory, to tree: inout RevisionTree, _ id: DocumentID) throws(StoreError) {
        // A revision based on one with a version gets a version as well: otherwise its peers cannot tell which is newer.
        let below = tree.hasVectors ? history.first { tree.contains($0) }.flatMap { tree.nearestVector(of: $0) } : nil
        do {
            try tree.insert(new.revision, history: history, isDeleted: new.isDeleted, depth: session.options.historyDepth)
        } catch {
            throw .historyInvalid(id: id, revision: new.revision, detail: "\(error)")
        }
        if var vector = new.vector {
            // Its ancestor may have a different version here than where it was made, or may stand for what lost a decision here; peers that have one
            // of those must recognise this revision as newer.
            if let below, !vector.knows(all: below) { vector.take(older: [below.current] + below.others) }
            tree.setVector(vector, of: new.revision)
        } else if let below, tree.vector(of: new.revision) == nil {
            tree.setVector(below.edited(try version(for: new.revision, knowing: [below], in: tree)), of: new.revision)
        } else if new.isOurs, session.options.versionsEdits, tree.vector(of: new.revision) == nil {
            tree.setVector(VersionVector(try version(for: new.revision, knowing: [], in: tree)), of: new.revision)
        }
    }
}

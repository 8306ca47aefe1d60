import Documents

/// What things hold in memory beside the bytes of a body, for the budget. A peer chooses all of it: ids, ancestors, names of blobs.
enum HeldBytes {
    /// A revision on its way: itself, its places in queues and tables, what the allocator adds.
    static let revision = 512
    /// An element of a set or list of revision ids, whose room doubles when it grows.
    static let version = 2 * MemoryLayout<Version>.stride
    /// A blob that a revision names, and its room in the list.
    static let reference = 2 * MemoryLayout<BlobReference>.stride
    /// A row of the peer's feed that is not done: its places in three tables, and the document that was asked for.
    static let openRow = 512
    /// A blob that is to be had: its entry, its attempt in a queue.
    static let transfer = 512
    /// A revision that waits for blobs: its places in a table and a queue.
    static let waiter = 256
    /// A blob that the peer may have anyway, as one of many of a revision.
    static let known = 48
    /// A revision that waits for a blob, as one of many: on the blob's list and on the revision's.
    static let need = 128
    /// A blob that a revision on its way names, as one of many: on the revision's list, and in the count of those that name it.
    static let named = 96
    /// While names are found: the set of those that were met, and the list before it grew for the last time.
    static let finding = 128
    /// A row of a list of changes, beside its texts: itself, the question about it, the answer.
    static let row = 512
    /// A request that waits.
    static let request = 256

    /// A text of 15 bytes or less is held in place.
    static func text(_ text: String) -> Int { text.utf8.count > 15 ? text.utf8.count + 48 : 0 }

    static func versions(_ versions: some Swift.Collection<Version>) -> Int { versions.reduce(0) { $0 + version + text($1.text) } }

    static func vector(_ history: VectorHistory?) -> Int {
        guard let history else { return 0 }
        return 256 + history.vector.others.count * 2 * MemoryLayout<VectorVersion>.stride + history.revisions.heldBytes
    }

    /// What a revision holds beside its body.
    static func revision(
        _ id: DocumentID, _ version: Version, _ history: RevisionHistory, _ sequence: RemoteSequence?, _ offeredBefore: [Version],
        _ branches: PeerBranches?
    ) -> Int {
        var bytes = revision + text(id.text) + text(version.text) + history.heldBytes + versions(offeredBefore)
        if let sequence { bytes += text(sequence.json) }
        // The leaves of a document share the set of them: each counts as one of it.
        if let branches { bytes += (branches.others.first.map { Self.version + text($0.text) } ?? 0) + versions(branches.ended) }
        return bytes
    }

    /// A list of changes, and its rows where they were read.
    static func list(_ list: IncomingList) -> Int {
        var bytes = request + list.body.storageCapacity
        switch list.rows {
        case .offered(let rows)?:
            for case .row(let each) in rows { bytes += row + text(each.sequence.json) + text(each.id.text) + text(each.revision.text) }
        case .proposed(let rows)?:
            for case .row(let each) in rows {
                bytes += row + text(each.id.text) + text(each.revision.text) + (each.parent.map { text($0.text) } ?? 0) + vector(each.vector)
            }
        case nil: break
        }
        return bytes
    }

    /// Ids that a peer subscribes to, as a list and as a set.
    static func ids(_ ids: [DocumentID]) -> Int { ids.reduce(0) { $0 + 4 * MemoryLayout<DocumentID>.stride + text($1.text) } }

    /// What it takes to find so many blobs in a body of so many bytes, whose texts may be anything in it, and to hold their names.
    static func names(_ count: Int, in body: Int) -> Int { count * (reference + named + finding) + body }

    static func references(_ blobs: [BlobReference]) -> Int {
        blobs.reduce(0) { $0 + reference + ($1.contentType.map(text) ?? 0) + ($1.encoding.map(text) ?? 0) }
    }
}

import Documents

/// Memory that things take beyond the bytes of a body, for the memory budget. A peer controls all of it: ids, ancestors, names of blobs.
enum HeldBytes {
    /// A revision on its way: the value itself, its entries in queues and tables, allocator overhead.
    static let revision = 512
    /// An element of a set or list of revision ids, whose capacity doubles when it grows.
    static let version = 2 * MemoryLayout<Version>.stride
    /// A blob named by a revision, and its entry in the list.
    static let reference = 2 * MemoryLayout<BlobReference>.stride
    /// An open row of the peer's feed: its entries in three tables, and the requested document.
    static let openRow = 512
    /// A blob to obtain: its entry, and its attempt in a queue.
    static let transfer = 512
    /// A revision that waits for blobs: its entries in a table and a queue.
    static let waiter = 256
    /// A blob that the peer may have in any case, as one of many of a revision.
    static let known = 48
    /// A revision that waits for a blob, as one of many: in the blob's list and in the revision's.
    static let need = 128
    /// A blob named by a revision on its way, as one of many: in the revision's list, and in the count of revisions that name it.
    static let named = 96
    /// While names are being collected: the set of those seen, and the list before it last grew.
    static let finding = 128
    /// A row of a change list, without its texts: the row, the question about it, and the answer.
    static let row = 512
    /// A queued request.
    static let request = 256

    /// A text of up to 15 bytes is stored inline.
    static func text(_ text: String) -> Int { text.utf8.count > 15 ? text.utf8.count + 48 : 0 }

    static func versions(_ versions: some Swift.Collection<Version>) -> Int { versions.reduce(0) { $0 + version + text($1.text) } }

    static func vector(_ history: VectorHistory?) -> Int {
        guard let history else { return 0 }
        return 256 + history.vector.others.count * 2 * MemoryLayout<VectorVersion>.stride + history.revisions.heldBytes
    }

    /// Memory of a revision beyond its body.
    static func revision(
        _ id: DocumentID, _ version: Version, _ history: RevisionHistory, _ sequence: RemoteSequence?, _ offeredBefore: [Version],
        _ branches: PeerBranches?
    ) -> Int {
        var bytes = revision + text(id.text) + text(version.text) + history.heldBytes + versions(offeredBefore)
        if let sequence { bytes += sequence.heldBytes }
        // The leaves of a document share the set of them, so each counts as one element of it.
        if let branches { bytes += (branches.others.first.map { Self.version + text($0.text) } ?? 0) + versions(branches.ended) }
        return bytes
    }

    /// A change list: its text, or its rows once they are parsed.
    static func list(_ list: IncomingList) -> Int {
        var bytes = request
        switch list.content {
        case .text(let body, _): bytes += body.storageCapacity
        case .rows(.offered(let rows)):
            for case .row(let each) in rows { bytes += row + each.sequence.heldBytes + text(each.id.text) + text(each.revision.text) }
        case .rows(.proposed(let rows)):
            for case .row(let each) in rows {
                bytes += row + text(each.id.text) + text(each.revision.text) + (each.parent.map { text($0.text) } ?? 0) + vector(each.vector)
            }
        }
        return bytes
    }

    /// Ids that a peer subscribes to, as a list and as a set.
    static func ids(_ ids: [DocumentID]) -> Int { ids.reduce(0) { $0 + 4 * MemoryLayout<DocumentID>.stride + text($1.text) } }

    /// Memory to find this many blobs in a body of this size, whose texts may be anything in it, and to keep their names.
    static func names(_ count: Int, in body: Int) -> Int { count * (reference + named + finding) + body }

    static func references(_ blobs: [BlobReference]) -> Int {
        blobs.reduce(0) { $0 + reference + ($1.contentType.map(text) ?? 0) + ($1.encoding.map(text) ?? 0) }
    }
}

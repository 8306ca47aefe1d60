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
    /// A revision that waits for a blob, as one of many: on the blob's list and on the revision's.
    static let need = 128
    /// A request that waits.
    static let request = 256

    /// A text of 15 bytes or less is held in place.
    static func text(_ text: String) -> Int { text.utf8.count > 15 ? text.utf8.count + 48 : 0 }

    static func versions(_ versions: some Swift.Collection<Version>) -> Int { versions.reduce(0) { $0 + version + text($1.text) } }

    /// What a revision holds beside its body.
    static func revision(
        _ id: DocumentID, _ version: Version, _ history: [Version], _ sequence: RemoteSequence?, _ offeredBefore: [Version],
        _ branches: PeerBranches?
    ) -> Int {
        var bytes = revision + text(id.text) + text(version.text) + versions(history) + versions(offeredBefore)
        if let sequence { bytes += text(sequence.json) }
        if let branches { bytes += versions(branches.others) + versions(branches.ended) }
        return bytes
    }

    static func references(_ blobs: [BlobReference]) -> Int {
        blobs.reduce(0) { $0 + reference + ($1.contentType.map(text) ?? 0) + ($1.encoding.map(text) ?? 0) }
    }
}

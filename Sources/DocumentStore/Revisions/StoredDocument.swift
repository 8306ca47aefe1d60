import Documents

/// The current revision of a document, a tombstone included.
public struct StoredDocument: Sendable, Equatable {
    public var id: DocumentID
    public var revision: RevisionID
    public var isDeleted: Bool
    public var sequence: SequenceNumber
    /// JSON object, the bytes as they came.
    public var body: [UInt8]
    /// A conflict waits for its resolver.
    public var hasConflict: Bool
    /// The body refers to blobs.
    public var hasBlobs: Bool
}

/// One row of the change feed: a document's current revision, in the order of sequences.
public struct ChangeRow: Sendable {
    public var sequence: SequenceNumber
    public var id: DocumentID
    public var revision: RevisionID
    public var isDeleted: Bool
    public var hasConflict: Bool
    public var hasBlobs: Bool
    /// Size of the stored body in bytes.
    public var bodySize: Int
    /// The body, if asked for.
    public var body: [UInt8]?
    /// The revision last known to be current at the remote that was named in the call.
    public var remoteRevision: RevisionID?
    /// Encoded tree; `nil` = the revision is the only one.
    var tree: [UInt8]?

    /// There is more than the current revision.
    public var hasTree: Bool { tree != nil }

    /// Bytes of the stored tree, which the row holds.
    public var storedTreeSize: Int { tree?.count ?? 0 }

    /// Of the body, if it was asked for, and of the stored tree.
    var heldBytes: Int { (body?.count ?? 0) + storedTreeSize }

    /// What ``revisionTree()`` comes to in memory, in bytes.
    public var treeMemorySize: Int { tree.map { RevisionTree.memorySize(ofEncoded: $0) } ?? 0 }

    /// Ancestors of `revision`, newest first, without itself, at most `limit`. When `downTo` is an
    /// ancestor it is the last one and included even beyond `limit`.
    /// Throws `StoreError.documentDamaged` if the stored tree cannot be read.
    public func history(limit: Int, downTo: RevisionID? = nil) throws(StoreError) -> [RevisionID] {
        guard let tree else { return [] }
        let decoded = try StoredTree.decode(tree, id, only: revision, deleted: isDeleted)
        return decoded.history(of: revision, limit: limit, until: downTo.map { [$0] } ?? [])
    }

    /// For a peer that is told that the document went, and nothing else of it. The name in place of a revision is nobody's; it is the same
    /// whenever that is told of this place.
    func withheld(at place: SequenceNumber) -> ChangeRow {
        var row = self
        row.revision = RevisionDigest.revision(parent: nil, deleted: false, canonicalBody: Array("went \(id.text) \(place)".utf8))
        (row.isDeleted, row.hasConflict, row.hasBlobs, row.tree) = (false, false, false, nil)
        row.body = Array(#"{"_removed":true}"#.utf8)
        return row
    }

    /// The revision tree. Throws `StoreError.documentDamaged` if the stored tree cannot be read.
    public func revisionTree() throws(StoreError) -> RevisionTree {
        try StoredTree.decode(tree, id, only: revision, deleted: isDeleted)
    }
}

/// What a local edit became.
public struct SavedRevision: Sendable, Equatable {
    public var revision: RevisionID
    public var sequence: SequenceNumber
}

/// State of one collection.
public struct CollectionStatistics: Sendable, Equatable {
    public var name: CollectionName
    /// Live documents.
    public var documents: Int
    /// Tombstones.
    public var deleted: Int
    public var lastSequence: SequenceNumber
    /// Documents whose conflict waits for a resolver.
    public var conflictsPending: Int
    /// Excluded documents that wait for a plugin to recover.
    public var held: Int
    /// Excluded documents a filter or a peer refused.
    public var rejected: Int
    /// Documents that a sync function could not put into channels, see ``DocumentRoute/error``.
    public var unrouted = 0
    /// Of the conflicts that wait, the time of the first (seconds since 1970).
    public var conflictsPendingSince: Int64?
}

/// What a compaction achieved.
public struct CompactionReport: Sendable, Equatable {
    public var blobsRemoved = 0
    public var blobBytesFreed: UInt64 = 0
    /// Blobs that nothing refers to, and that are kept for a while: whoever brought one may be about to save its document.
    public var blobsWaiting = 0
    public var blobBytesWaiting: UInt64 = 0
    /// When the last of those may go (seconds since 1970).
    public var blobsWaitUntil: Int64?
    /// Bodies of old revisions that nothing needed any more.
    public var bodiesRemoved = 0
    /// Bytes by which the database file shrank.
    public var fileBytesFreed: Int64 = 0
}

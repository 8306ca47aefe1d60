import Documents

/// The current revision of a document, possibly a tombstone.
public struct StoredDocument: Sendable, Equatable {
    public var id: DocumentID
    public var revision: RevisionID
    public var isDeleted: Bool
    public var sequence: SequenceNumber
    /// A JSON object, as the original bytes.
    public var body: [UInt8]
    /// A conflict waits for its resolver.
    public var hasConflict: Bool
    /// The body refers to blobs.
    public var hasBlobs: Bool
}

/// One row of the change feed: a document's current revision, in order of sequence.
public struct ChangeRow: Sendable {
    public var sequence: SequenceNumber
    public var id: DocumentID
    public var revision: RevisionID
    public var isDeleted: Bool
    public var hasConflict: Bool
    public var hasBlobs: Bool
    /// Size of the stored body in bytes.
    public var bodySize: Int
    /// The body, if requested.
    public var body: [UInt8]?
    /// The revision last known to be current at the remote that was passed in the call.
    public var remoteRevision: RevisionID?
    /// The encoded tree; `nil` if there is only one revision.
    var tree: [UInt8]?

    /// Whether there is more than the current revision.
    public var hasTree: Bool { tree != nil }

    /// Size of the stored tree, which the row contains, in bytes.
    public var storedTreeSize: Int { tree?.count ?? 0 }

    /// Size of the body, if requested, and of the stored tree, in bytes.
    var heldBytes: Int { (body?.count ?? 0) + storedTreeSize }

    /// Memory that ``revisionTree()`` takes, in bytes.
    public var treeMemorySize: Int { tree.map { RevisionTree.memorySize(ofEncoded: $0) } ?? 0 }

    /// Ancestors of `revision`, newest first, without itself, at most `limit`. If `downTo` is an ancestor, it is the last one, and is included even
    /// beyond `limit`. Throws `StoreError.documentDamaged` if the stored tree cannot be read.
    public func history(limit: Int, downTo: RevisionID? = nil) throws(StoreError) -> [RevisionID] {
        guard let tree else { return [] }
        let decoded = try StoredTree.decode(tree, id, only: revision, deleted: isDeleted)
        return decoded.history(of: revision, limit: limit, until: downTo.map { [$0] } ?? [])
    }

    /// For a peer that learns only that the document is gone. The name in place of a revision belongs to no real one; it is the same whenever this is
    /// sent for this position.
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

/// The result of a local edit.
public struct SavedRevision: Sendable, Equatable {
    public var revision: RevisionID
    public var sequence: SequenceNumber
}

/// The state of one collection.
public struct CollectionStatistics: Sendable, Equatable {
    public var name: CollectionName
    /// Live documents.
    public var documents: Int
    /// Tombstones.
    public var deleted: Int
    public var lastSequence: SequenceNumber
    /// Documents with a conflict that waits for its resolver.
    public var conflictsPending: Int
    /// Excluded documents that wait until the cause is fixed.
    public var held: Int
    /// Excluded documents that a filter rejected or a peer refused.
    public var rejected: Int
    /// Documents that a sync function could not assign to channels, see ``DocumentRoute/error``.
    public var unrouted = 0
    /// The time of the oldest pending conflict, in seconds since 1970.
    public var conflictsPendingSince: Int64?
}

/// The result of a compaction.
public struct CompactionReport: Sendable, Equatable {
    public var blobsRemoved = 0
    public var blobBytesFreed: UInt64 = 0
    /// Unreferenced blobs in their grace period: a document that refers to them may be about to be saved.
    public var blobsWaiting = 0
    public var blobBytesWaiting: UInt64 = 0
    /// When the grace period of the last of those ends, in seconds since 1970.
    public var blobsWaitUntil: Int64?
    /// Bodies of old revisions that were no longer needed.
    public var bodiesRemoved = 0
    /// Bytes by which the database file shrank.
    public var fileBytesFreed: Int64 = 0
}

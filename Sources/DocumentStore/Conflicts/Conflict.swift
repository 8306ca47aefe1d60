import Documents

/// Two branches of a document that await a decision.
public struct Conflict: Sendable {
    public struct Side: Sendable, Equatable {
        public var revision: RevisionID
        public var isDeleted: Bool
        /// A JSON object; `{}` for a tombstone without one.
        public var body: [UInt8]
        /// Its name for peers with version vectors; nil if no such peer has edited the document.
        public var version: VectorVersion?

        public init(revision: RevisionID, isDeleted: Bool, body: [UInt8], version: VectorVersion? = nil) {
            self.revision = revision
            self.isDeleted = isDeleted
            self.body = body
            self.version = version
        }
    }
    public struct Base: Sendable, Equatable {
        public var revision: RevisionID
        public var body: [UInt8]

        public init(revision: RevisionID, body: [UInt8]) {
            self.revision = revision
            self.body = body
        }
    }

    public var id: DocumentID
    public var local: Side
    public var remote: Side
    /// The newest common ancestor, if its body is still stored.
    public var base: Base?
    /// The newest common ancestor, whether or not its body is stored; nil if there is none.
    public var baseRevision: RevisionID?
    /// The peer that the remote side came from; `.pusher` for one that connected to a listener.
    public var remoteID: RemoteID?
    /// Both sides have a version of their own, the remote one from a peer with version vectors, so their times tell which edit is the later one.
    public var hasTimes = false
}

/// How a conflict ends. For a conflict pulled by a replicator, the remote branch always survives; for one pushed to a listener, the branch with the
/// greater revision survives, so that every other peer also sees the document's revisions increase.
public enum Resolution: Sendable, Equatable {
    /// The remote revision becomes the current one, or its body becomes a child of the surviving branch.
    case remoteWins
    /// The local body becomes a child of the surviving branch.
    case localWins
    /// This body becomes a child of the surviving branch.
    case merged([UInt8])
    /// A tombstone becomes a child of the surviving branch.
    case delete
}

extension RemoteID {
    /// Stands for any peer that pushes to a listener; the store remembers nothing about those.
    public static let pusher = RemoteID(0)
}

/// A stored conflict whose resolver failed or has not run yet.
public struct PendingConflict: Sendable, Equatable {
    public var id: DocumentID
    /// The revisions of both sides when the conflict was stored; their branches may have grown since.
    public var local: RevisionID
    public var remote: RevisionID
    public var remoteID: RemoteID?
    /// The last failure of a resolver; empty if none has run.
    public var error: String
    public var plugin: String
    public var version: String
    public var tries: Int
    /// When the conflict was stored, in Unix seconds.
    public var since: Int64
}

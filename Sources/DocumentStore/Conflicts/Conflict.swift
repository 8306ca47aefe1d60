import Documents

/// Two branches of a document that wait for a resolver.
public struct Conflict: Sendable {
    public struct Side: Sendable, Equatable {
        public var revision: RevisionID
        public var isDeleted: Bool
        /// JSON object; `{}` for a tombstone without one.
        public var body: [UInt8]
        /// What peers of version vectors call it; nil where no such peer has edited the document.
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
    /// The newest common ancestor, whether or not its body is stored; nil where the two have none.
    public var baseRevision: RevisionID?
    /// The peer the remote side came from; `.pusher` for one that connected to a listener.
    public var remoteID: RemoteID?
    /// The remote side came with a version of its own, from a peer of version vectors, and the local one has one too: their times say which
    /// edit is the later one.
    public var hasTimes = false
}

/// How a conflict ends. Of what a replicator pulled the remote branch survives in all cases; of what a peer pushed to a
/// listener the branch with the greater revision does, so that every other peer, too, sees the document go upwards.
public enum Resolution: Sendable, Equatable {
    /// The remote revision becomes the current one, or its body a child of the branch that survives.
    case remoteWins
    /// The local body becomes a child of the branch that survives.
    case localWins
    /// This body becomes a child of the branch that survives.
    case merged([UInt8])
    /// A tombstone becomes a child of the branch that survives.
    case delete
}

extension RemoteID {
    /// Stands for any peer that pushes to a listener: of those nothing is remembered.
    public static let pusher = RemoteID(0)
}

/// A stored conflict whose resolver failed or has not run yet.
public struct PendingConflict: Sendable, Equatable {
    public var id: DocumentID
    /// Revisions of the two sides when the conflict was stored; their branches may have grown since.
    public var local: RevisionID
    public var remote: RevisionID
    public var remoteID: RemoteID?
    /// Last failure of a resolver; empty if none ran.
    public var error: String
    public var plugin: String
    public var version: String
    public var tries: Int
    /// Unix seconds when the conflict was stored.
    public var since: Int64
}

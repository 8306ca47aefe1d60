import Documents

/// Two branches of a document that wait for a resolver.
public struct Conflict: Sendable {
    public struct Side: Sendable, Equatable {
        public var revision: RevisionID
        public var isDeleted: Bool
        /// JSON object; `{}` for a tombstone without one.
        public var body: [UInt8]
    }
    public struct Base: Sendable, Equatable {
        public var revision: RevisionID
        public var body: [UInt8]
    }

    public var id: DocumentID
    public var local: Side
    public var remote: Side
    /// The newest common ancestor, if its body is still stored.
    public var base: Base?
    /// The peer the remote side came from.
    public var remoteID: RemoteID?
}

/// How a conflict ends. The remote branch survives in all cases.
public enum Resolution: Sendable, Equatable {
    /// The remote revision becomes the current one.
    case remoteWins
    /// The local body becomes a child of the remote revision.
    case localWins
    /// This body becomes a child of the remote revision.
    case merged([UInt8])
    /// A tombstone becomes a child of the remote revision.
    case delete
}

/// A stored conflict whose resolver failed or has not run yet.
public struct PendingConflict: Sendable, Equatable {
    public var id: DocumentID
    public var remoteID: RemoteID?
    /// Last failure of a resolver; empty if none ran.
    public var error: String
    public var plugin: String
    public var version: String
    public var tries: Int
    /// Unix seconds when the conflict was stored.
    public var since: Int64
}

/// Whose checkpoint it is: the two share no names.
public enum CheckpointKind: Int64, Sendable {
    /// Written by our own replicators.
    case own = 0
    /// Written by peers that replicate with us.
    case peer = 1
}

/// A stored checkpoint or local document: the body's bytes as they came, and its token.
public struct StoredCheckpoint: Sendable, Equatable {
    /// `<n>-cc` for checkpoints, `0-<n>` for local documents; opaque to clients.
    public var revision: String
    public var body: [UInt8]
}

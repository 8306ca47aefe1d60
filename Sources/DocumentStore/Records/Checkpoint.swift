/// A stored local document or checkpoint: the body's original bytes, and its revision token.
public struct StoredLocalDocument: Sendable, Equatable {
    /// `<n>-cc` for checkpoints, `0-<n>` for local documents; opaque to clients.
    public var revision: String
    public var body: [UInt8]
}

/// A checkpoint is stored like a local document.
public typealias StoredCheckpoint = StoredLocalDocument

/// A checkpoint without its body.
public struct CheckpointEntry: Sendable, Equatable {
    public var id: String
    /// As in ``StoredCheckpoint``.
    public var revision: String
    /// Size of its body in bytes.
    public var size: Int
}

/// Whose checkpoints a peer reads and writes. A user of a listener has its own; peers without a name share theirs, since nothing tells
/// them apart. Nobody reads, replaces or crowds out those of another owner.
public struct CheckpointOwner: Hashable, Sendable {
    let key: String

    /// - Parameter user: nil for an anonymous peer.
    public init(user: String?, listener: String) { key = user.map { "\(listener)\u{1}\($0)" } ?? "" }
}

/// How much one owner may store; beyond it, the checkpoints not written for the longest time are dropped. A peer whose checkpoint is gone starts
/// over, which costs time but loses nothing.
public struct CheckpointBounds: Sendable {
    /// Number of checkpoints.
    public var count: Int
    /// Total size of their bodies, in bytes.
    public var bytes: Int

    public init(count: Int, bytes: Int) {
        self.count = count
        self.bytes = bytes
    }
}

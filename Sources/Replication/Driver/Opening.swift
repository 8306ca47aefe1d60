import Documents
import Interfaces

/// How a session that speaks first agrees with its peer on what is replicated, before anything is.
struct Opening: Sendable {
    typealias Continuation = CheckedContinuation<Result<[PeerCheckpoint], ReplicationError>?, Never>

    /// What the peer knows our checkpoints by, one for each collection.
    var checkpointIDs: [String]
    var collections: [CollectionName]
    /// Gets the peer's checkpoints, one for each collection; nil when the connection ended first.
    let done: Continuation
    /// The peer was seen to refuse messages that name collections.
    var namesNone: Bool

    var isOnlyDefault: Bool { collections == [.default] }

    func fail(_ error: ReplicationError) { done.resume(returning: .failure(error)) }
}

/// A peer's copy of a checkpoint of ours.
struct PeerCheckpoint: Sendable {
    /// Nil where it has none.
    var body: [UInt8]?
    /// What it calls this copy.
    var token = ""

    /// It refused to keep the copy that is here, and what it has is older.
    func keptNoCopy(of own: [UInt8]?) -> Bool { own.map { CheckpointBody.isHereOnly($0, besides: token) } ?? false }
}

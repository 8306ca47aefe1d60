import Documents
import Interfaces

/// How the active session agrees with its peer on what is replicated, before replication starts.
struct Opening: Sendable {
    typealias Continuation = CheckedContinuation<Result<[PeerCheckpoint], ReplicationError>?, Never>

    /// The ids under which the peer keeps our checkpoints, one for each collection.
    var checkpointIDs: [String]
    var collections: [CollectionName]
    /// Gets the peer's checkpoints, one for each collection; nil if the connection ended first.
    let done: Continuation
    /// The peer has been seen to refuse messages that name collections.
    var namesNoCollections: Bool

    var isOnlyDefault: Bool { collections == [.default] }

    func fail(_ error: ReplicationError) { done.resume(returning: .failure(error)) }
}

/// A peer's copy of a checkpoint of ours.
struct PeerCheckpoint: Sendable {
    /// Nil if the peer has none.
    var body: [UInt8]?
    /// The peer's revision id of this copy.
    var token = ""

    /// Whether the peer refused to keep our newer copy, and has an older one.
    func refusedOurCopy(of own: [UInt8]?) -> Bool { own.map { CheckpointBody.isHereOnly($0, besides: token) } ?? false }
}

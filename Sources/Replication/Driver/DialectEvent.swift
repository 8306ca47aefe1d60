import Documents
import DocumentStore
import Interfaces
import NIOCore

/// What a peer said, in the engine's terms. `slot` is the collection's index in the session's list.
enum DialectEvent: Sendable {
    case push(slot: Int, PushEvent)
    /// The peer accepted a revision of ours, or refused it.
    case revisionAnswered(InFlightRevision, ReplicationError?, _ taking: PeerTaking = .stored)
    case pull(slot: Int, PullEvent)
    case checkpoint(slot: Int, CheckpointMachine.Event)
    case blob(BlobEvent)
    /// A request that only the passive side receives.
    case passive(slot: Int, AnswerHandle?, PassiveRequest)
    /// The peer uses collections, and names those it wants.
    case collectionsWanted(AnswerHandle?, CollectionsRequest)
    /// The peer does not use collections: it means the default one.
    case defaultCollectionWanted
    /// A streamed answer of ours needs more bytes.
    case wantsMore(AnswerHandle)
    /// A request cannot be continued. `wantsLegacy`: the peer refuses messages that name collections.
    case failed(ReplicationError, wantsLegacy: Bool)
    /// The peer has a push filter, which may have failed on requested documents that it did not announce.
    case filters(slot: Int)
    /// The peer does not select documents in a continuous pull.
    case cannotSelectDocuments(ReplicationError)
    case refuse(AnswerHandle?, MessageError)
    /// A long message to be parsed elsewhere: megabytes of JSON must not block the other connections of an event loop.
    case parseElsewhere(ByteBuffer, @Sendable () -> DialectEvent)
    case warn(String)
}

/// A revision in flight to the peer. The pushes of a collection on one connection are numbered, so that a late answer is recognised.
struct InFlightRevision: Hashable, Sendable {
    var slot: Int
    var generation: Int
    var id: DocumentID
}

/// A request that only the passive side receives.
enum PassiveRequest: Sendable {
    case subscribe(PeerSubscription)
    case unsubscribe
    case checkpoint(id: String)
    case setCheckpoint(id: String, body: [UInt8], expectedRevision: String?)
}

/// A peer's subscription to our changes.
struct PeerSubscription: Sendable {
    /// The text of the sequence after which it wants to start; empty for the beginning.
    var since = ""
    /// Only future changes.
    var wantsFuture = false
    var isContinuous = false
    /// Tombstones in the backlog are skipped.
    var activeOnly = false
    /// It wants to be notified of documents that it may no longer have.
    var wantsRevocations = false
    var documentIDs: [DocumentID]?
    /// The name of the filter, and its channels.
    var filter: String?
    var channels: String?
}

/// The first message of a peer that uses collections: their names, each with the id of its checkpoint.
struct CollectionsRequest: Sendable {
    var items: [(checkpointID: String, name: CollectionName?)] = []
}

import BLIP
import Documents
import DocumentStore
import Interfaces
import NIOCore

/// What a peer said, in the engine's terms. `slot` is the collection's place in the session's list.
enum DialectEvent: Sendable {
    case push(slot: Int, PushEvent)
    /// The peer took a revision of ours, or could not.
    case revisionAnswered(RevisionTrip, ReplicationError?, kept: KeptThere.Reason? = nil)
    case pull(slot: Int, PullEvent)
    case checkpoint(slot: Int, CheckpointMachine.Event)
    case blob(BlobEvent)
    /// Something that only the passive side is asked.
    case passive(slot: Int, AnswerHandle?, PassiveRequest)
    /// The peer speaks of collections, and names those it wants.
    case collectionsWanted(AnswerHandle?, CollectionsRequest)
    /// The peer does not speak of collections: it means the default one.
    case defaultCollectionWanted
    /// A streamed answer of ours needs more bytes.
    case wantsMore(AnswerHandle)
    /// What was asked cannot go on. `wantsLegacy`: the peer refuses messages that name collections.
    case failed(ReplicationError, wantsLegacy: Bool)
    /// The peer does not pick documents in a continuous pull.
    case cannotPick(ReplicationError)
    case refuse(AnswerHandle?, MessageError)
    /// A long message that is to be read elsewhere: megabytes of JSON must not hold up the other connections of an event loop.
    case readElsewhere(ByteBuffer, @Sendable () -> DialectEvent)
    case warn(String)
}

/// A revision on its way to the peer. A collection's pushes on one connection are counted, so that a late answer is known.
struct RevisionTrip: Hashable, Sendable {
    var slot: Int
    var generation: Int
    var id: DocumentID
}

/// A request that only the passive side is asked.
enum PassiveRequest: Sendable {
    case subscribe(PeerSubscription)
    case unsubscribe
    case checkpoint(id: String)
    case setCheckpoint(id: String, body: [UInt8], expectedRevision: String?)
}

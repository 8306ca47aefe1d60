import Documents
import DocumentStore
import Interfaces
import NIOCore

/// A wire protocol on one connection: turns the engine's actions into messages, and the peer's messages into events for the engine. Confined to its
/// session.
protocol Dialect: ~Copyable {
    /// What is the same for every connection that speaks this protocol.
    var traits: DialectTraits { get }
    var wire: WireLog? { get }
    /// Whether deltas are created and accepted.
    var takesDeltas: Bool { get }

    /// Called once, before anything else. Events that do not arise from ``receive(_:inflationLimit:into:)`` are passed to `deliver`.
    mutating func begin(deliver: @escaping @Sendable ([DialectEvent]) -> Void)

    // MARK: Frames

    var hasPendingOutput: Bool { get }
    var bufferedBytes: Int { get }
    /// The part of ``bufferedBytes`` that the peer is responsible for.
    var messageBytes: Int { get }
    /// The part of ``bufferedBytes`` that ``trim()`` releases.
    var spareBytes: Int { get }
    mutating func trim()
    /// Bytes that compression will allocate for the next message; 0 if they are already allocated or none are needed.
    var compressionBytes: Int { get }
    /// While compression is not allowed, messages that would need its memory are sent uncompressed.
    mutating func allowCompression(_ isAllowed: Bool)
    var owedBytes: Int { get }
    /// Size of messages that are created and not sent yet, if they are created before they can be sent.
    var queuedBytes: Int { get }
    /// Memory of unsent messages, in bytes.
    var outgoingMessageBytes: Int { get }
    var awaitedReplies: Int { get }
    /// Since when the peer has made no progress with what it owes, in seconds since 1970; nil while it owes nothing. Asked for only if the dialect
    /// accounts for that.
    var owedSince: Int64? { get }
    var shouldPauseReading: Bool { get }
    /// Bytes of all messages so far, after inflation.
    var takenBytes: Int { get }
    #if DEBUG
    /// Bytes copied to assemble messages.
    var copiedBytes: Int { get }
    #endif
    /// An error thrown here ends the connection; its code is the close code.
    ///
    /// - Parameter inflationLimit: bytes to which the message may inflate now. A message that needs more is suspended, and
    ///   ``resume(inflationLimit:into:)`` continues it.
    mutating func receive(_ message: ByteBuffer, inflationLimit: Int, into events: inout [DialectEvent]) throws(ReplicationError)
    var isSuspended: Bool { get }
    mutating func resume(inflationLimit: Int, into events: inout [DialectEvent]) throws(ReplicationError)
    /// The next frame to send. A call also marks the end of a turn: what was queued in it may be sent.
    mutating func nextFrame(into events: inout [DialectEvent]) -> ByteBuffer?
    mutating func end()

    // MARK: What machines and the opening of a session ask for

    /// Agrees with the peer on the collections, and gets its checkpoints.
    mutating func open(_ opening: Opening)
    /// What both copies of a checkpoint agree on.
    ///
    /// - Parameter own: nil if there is no local copy.
    mutating func agree(own: [UInt8]?, _ peer: PeerCheckpoint) -> CheckpointBody.Agreement
    mutating func subscribe(_ slot: Int, _ subscription: PullSubscription)
    mutating func push(_ slot: Int, _ style: PushStyle, generation: Int)
    mutating func maximumHistory(_ slot: Int) -> Int
    mutating func sendsDeltas(_ slot: Int) -> Bool
    mutating func knowsBlobs(_ slot: Int) -> Bool
    mutating func offer(_ slot: Int, _ list: ChangeListID, _ documents: [OutgoingDocument])
    mutating func send(_ slot: Int, _ document: OutgoingDocument, delta: [UInt8]?)
    mutating func answer(_ handle: AnswerHandle?, changes: [ChangeAnswer])
    mutating func settle(_ handle: AnswerHandle, _ settlement: Settlement)
    mutating func refuse(_ handle: AnswerHandle?, _ error: MessageError)
    /// Fetches the attachments of a document that is here without them. The result arrives as an event.
    ///
    /// - Throws: if the protocol cannot do that.
    mutating func fetchAttachments(_ fetch: FetchID, _ revision: CheckedRevision) throws(ReplicationError)
    /// These revisions from the peer were passed to the store, with these outcomes.
    mutating func stored(_ slot: Int, _ revisions: [StorableRevision], _ outcomes: [StoreOutcome])
    /// These conflicts are decided, and the peer may still hold branches that lost.
    mutating func decided(_ slot: Int, _ outcomes: [ConflictDecider.Outcome])
    /// The text of a checkpoint, stored on both sides.
    mutating func checkpointText(_ body: CheckpointBody, time: Int64) -> [UInt8]
    mutating func saveCheckpoint(_ slot: Int, id: String, body: [UInt8], token: String)
    mutating func fetchCheckpoint(_ slot: Int, id: String)
    mutating func requestProof(_ transfer: BlobTransfer, _ slot: Int, for document: DocumentID, nonce: [UInt8])
    mutating func requestBlob(_ transfer: BlobTransfer, _ slot: Int, for document: DocumentID, compresses: Bool, offset: UInt64)
    mutating func consumed(_ transfer: BlobTransfer, bytes: Int)
    mutating func abandon(_ transfer: BlobTransfer)
    mutating func forget(_ transfer: BlobTransfer)

    // MARK: Only towards a peer that sends messages of its own, see ``RequestingDialect``

    /// The peer will be served this many collections, which it names; or the default one, which it does not name.
    mutating func serve(_ collections: Int, byName: Bool)
    mutating func announceCaughtUp(_ slot: Int, isFiltered: Bool)
    mutating func withdraw(_ slot: Int, _ document: OutgoingDocument, _ reason: Withdrawal)
    /// An answer without content.
    mutating func acknowledge(_ handle: AnswerHandle?)
    mutating func answer(_ handle: AnswerHandle?, proposals: [ProposalAnswer], namesCurrent: Bool, refusal: String?)
    mutating func answer(_ handle: AnswerHandle?, checkpoint: StoredCheckpoint?)
    mutating func answer(_ handle: AnswerHandle?, savedCheckpoint revision: String)
    mutating func answer(_ handle: AnswerHandle?, collections checkpoints: [StoredCheckpoint??])
    mutating func answer(_ handle: AnswerHandle, proof: BlobDigest)
    mutating func beginBlob(_ handle: AnswerHandle, compresses: Bool, offset: UInt64) -> Bool
    mutating func supply(_ handle: AnswerHandle, _ bytes: ByteBuffer, isLast: Bool)
}

/// Why a revision is not sent although the peer wants it.
enum Withdrawal: Sendable, Equatable {
    /// The peer may not see the document any more.
    case notVisible
    /// Another revision of the document comes next.
    case superseded
    /// There is no memory here to send it.
    case exceedsMemory(bytes: Int, memory: Int)
}

/// What we want from a peer's changes.
struct PullSubscription: Sendable {
    var since: RemoteSequence?
    var isContinuous: Bool
    /// Nothing from the peer is here yet, so its deletions are irrelevant.
    var isFirst: Bool
    var channels: [String]?
    var documentIDs: [DocumentID]?
    var sourceFilter: SourceFilter?
}

extension Dialect where Self: ~Copyable {
    mutating func begin(deliver: @escaping @Sendable ([DialectEvent]) -> Void) {}
    mutating func fetchAttachments(_ fetch: FetchID, _ revision: CheckedRevision) throws(ReplicationError) {
        throw ReplicationError(domain: .http, code: 404, message: "the attachments of document \(revision.id) are available over CouchDB's protocol only")
    }
    mutating func stored(_ slot: Int, _ revisions: [StorableRevision], _ outcomes: [StoreOutcome]) {}
    mutating func decided(_ slot: Int, _ outcomes: [ConflictDecider.Outcome]) {}
    var owedSince: Int64? { nil }
    #if DEBUG
    var copiedBytes: Int { 0 }
    #endif
    var messageBytes: Int { bufferedBytes }
    var queuedBytes: Int { 0 }
    var outgoingMessageBytes: Int { 0 }
    var spareBytes: Int { 0 }
    var compressionBytes: Int { 0 }
    mutating func allowCompression(_ isAllowed: Bool) {}
    mutating func trim() {}
    mutating func checkpointText(_ body: CheckpointBody, time: Int64) -> [UInt8] { body.bytes(time: time) }
    mutating func agree(own text: [UInt8]?, _ peer: PeerCheckpoint) -> CheckpointBody.Agreement {
        let own = text.map { CheckpointBody(parsing: $0) }
        return CheckpointBody.agree(own: own, peer: peer.refusedOurCopy(of: text) ? own : peer.body.map { CheckpointBody(parsing: $0) })
    }
}

/// A dialect in which the peer sends no messages of its own.
protocol RequestingDialect: Dialect {}

extension RequestingDialect {
    var owedBytes: Int { 0 }
    var awaitedReplies: Int { 0 }
    var shouldPauseReading: Bool { false }
    var takenBytes: Int { 0 }
    var takesDeltas: Bool { false }
    func receive(_ message: ByteBuffer, inflationLimit: Int, into events: inout [DialectEvent]) throws(ReplicationError) {}
    var isSuspended: Bool { false }
    func resume(inflationLimit: Int, into events: inout [DialectEvent]) throws(ReplicationError) {}
    func serve(_ collections: Int, byName: Bool) {}
    func sendsDeltas(_ slot: Int) -> Bool { false }
    func knowsBlobs(_ slot: Int) -> Bool { false }
    func settle(_ handle: AnswerHandle, _ settlement: Settlement) {}
    func announceCaughtUp(_ slot: Int, isFiltered: Bool) {}
    func withdraw(_ slot: Int, _ document: OutgoingDocument, _ reason: Withdrawal) {}
    func acknowledge(_ handle: AnswerHandle?) {}
    func answer(_ handle: AnswerHandle?, proposals: [ProposalAnswer], namesCurrent: Bool, refusal: String?) {}
    func answer(_ handle: AnswerHandle?, checkpoint: StoredCheckpoint?) {}
    func answer(_ handle: AnswerHandle?, savedCheckpoint revision: String) {}
    func answer(_ handle: AnswerHandle?, collections checkpoints: [StoredCheckpoint??]) {}
    func answer(_ handle: AnswerHandle, proof: BlobDigest) {}
    func beginBlob(_ handle: AnswerHandle, compresses: Bool, offset: UInt64) -> Bool { false }
    func supply(_ handle: AnswerHandle, _ bytes: ByteBuffer, isLast: Bool) {}
}

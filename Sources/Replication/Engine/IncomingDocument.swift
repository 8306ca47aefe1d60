import Documents
import DocumentStore
import Interfaces
import NIOCore

/// What a dialect needs to answer the peer, such as the number of a request. Opaque to the engine.
struct AnswerHandle: Hashable, Sendable {
    var number: UInt64
}

/// A row of the peer's changes whose revision was requested.
struct RequestedRow: Sendable {
    var id: DocumentID
    var revision: Version
    /// What the peer was known to have before it offered the row.
    var peerHad: PeerRevision
    /// Revisions of the document that the peer offered earlier and that were still in flight at that time.
    var offeredBefore: [Version]
}

extension RevisionNeed {
    var isNeeded: Bool { if case .need = self { true } else { false } }

    /// If the record of what the peer had is not trusted, what it had counts as unknown.
    func believing(_ isCredible: Bool) -> RevisionNeed {
        guard !isCredible, case .need(let ancestors, _) = self else { return self }
        return .need(ancestors: ancestors, known: .unknown)
    }

    /// Takes into account what the peer acknowledged before it offered the row.
    ///
    /// - Parameter hasOne: the peer keeps one revision of each document.
    func knowing(_ acknowledged: Version?, _ hasOne: Bool) -> RevisionNeed {
        guard case .need(let ancestors, let known) = self else { return hasOne ? self : .have }
        return .need(ancestors: ancestors, known: hasOne ? acknowledged.map { .had($0) } ?? known : .unknown)
    }
}

/// A received revision: its ids are checked, its body is still raw bytes.
typealias ReceivedRevision = Shared<ReceivedFields>

struct ReceivedFields: Sendable {
    /// Nil if the sender wants no answer.
    var replyTo: AnswerHandle?
    var id: DocumentID
    var revision: Version
    /// Ancestors, newest first, without the revision itself.
    var history: RevisionHistory
    /// Set for a peer with version vectors, where a version names the revision.
    var vector: VectorHistory?
    var isDeleted: Bool
    var sequence: RemoteSequence?
    var body: ByteBuffer
    /// The revision that the body is a delta of; the driver expands it to the full body.
    var deltaSource: Version?
    /// Its blobs came with it and are stored.
    var hasShownBlobs = false
    /// Nil if they are here, or if it has none.
    var attachments: MissingAttachments?
    /// What the peer was known to have when it offered this one.
    var peerHad = PeerRevision.unknown
    /// Revisions of the document that the peer offered earlier and that were still in flight at that time.
    var offeredBefore: [Version] = []
    /// Set for a document with several leaves at a peer that keeps all of them.
    var branches: PeerBranches?

    /// Memory it holds, in bytes. A body may be a slice of something larger, which it keeps alive.
    var bytes: Int {
        body.storageCapacity + HeldBytes.revision(id, revision, history, sequence, offeredBefore, branches)
            + HeldBytes.vector(vector)
    }
}

extension ReceivedRevision {
    init(
        replyTo: AnswerHandle? = nil, id: DocumentID, revision: Version, history: RevisionHistory, vector: VectorHistory? = nil,
        isDeleted: Bool, sequence: RemoteSequence? = nil, body: ByteBuffer, deltaSource: Version? = nil, hasShownBlobs: Bool = false,
        peerHad: PeerRevision = .unknown, offeredBefore: [Version] = [], branches: PeerBranches? = nil
    ) {
        self.init(
            ReceivedFields(
                replyTo: replyTo, id: id, revision: revision, history: history, vector: vector, isDeleted: isDeleted, sequence: sequence,
                body: body, deltaSource: deltaSource, hasShownBlobs: hasShownBlobs, peerHad: peerHad, offeredBefore: offeredBefore,
                branches: branches))
    }
}

extension ReceivedRevision {
    /// Adds what was known when the revision was requested.
    mutating func fillIn(from row: RequestedRow) { (self.peerHad, self.offeredBefore) = (row.peerHad, row.offeredBefore) }
}

extension ReplicationError {
    /// An unsolicited revision skipped the checks that an offer goes through, such as whether the document is wanted here.
    static func unsolicitedRevision(for id: DocumentID) -> Self {
        .malformed("nobody asked for document \(id) under this sequence")
    }

    /// The requested revision is still owed, and is requested again on another connection.
    static func receivedInstead(of id: DocumentID, _ other: DocumentID) -> Self {
        .mistaken("the peer was asked for document \(id) and sent a revision of document \(other.text.prefix(100)) in its place")
    }
}

/// The leaves of a document at a peer that keeps all leaves, as CouchDB does.
struct PeerBranches: Sendable {
    /// The peer's winner is another leaf.
    var isLoser: Bool
    /// The peer's leaves, possibly including this one.
    var others: Set<Version> = []
    /// Revisions whose branches the peer ended.
    var ended: Set<Version> = []
    /// What the revision deletes, if it is a tombstone.
    var deletion: Deletion = .document
    /// The peer's winner was dropped here.
    var isResumed = false
}

/// Attachments of a revision that are missing here, and that its body names as the peer does: by a different kind of digest than ours.
enum MissingAttachments: Sendable {
    /// They were requested, and cannot be obtained or stored.
    case failed(ReplicationError)
    /// The revision was held because of them; they have yet to be requested.
    case due
}

/// A received revision after its body was checked: valid JSON, reserved keys removed, blobs determined.
typealias CheckedRevision = Shared<CheckedFields>

struct CheckedFields: Sendable {
    var replyTo: AnswerHandle?
    var id: DocumentID
    var revision: Version
    var history: RevisionHistory
    var vector: VectorHistory?
    var isDeleted: Bool
    var sequence: RemoteSequence?
    var body: [UInt8]
    var blobs: [BlobReference]
    /// All of its blobs were stored once, and its sender had proved them.
    var hasShownBlobs = false
    /// Nil if they are here, or if it has none.
    var attachments: MissingAttachments?
    /// Set once its blobs were requested.
    var fetch: FetchID?
    /// Its blobs were fetched on this connection, and are stored.
    var hasFetchedBlobs = false
    /// What the filter and the sync function answered before the blobs were fetched.
    var answer: FilterAnswer?
    var judgement: SyncJudgement?
    /// The revision with its original body, if the filter replaced the body before the blobs were fetched.
    var asReceived: CheckedRevision?
    /// Blobs that the filter's body names and the peer's does not: the peer is not asked for these.
    var addedBlobs: Set<BlobDigest> = []
    /// Sync Gateway's marker for a document that left the peer's channels.
    var isRemoval = false
    var peerHad = PeerRevision.unknown
    var offeredBefore: [Version] = []
    var branches: PeerBranches?
    /// From `_exp` in its body: when it is to be purged here.
    var expiry: DocumentExpiry?
    /// It was kept back before the peer turned out to have lost data, and the peer has not sent it again.
    var mayBeLostAtPeer = false
    /// It was on the kept-back list here; the peer has not sent it on this connection.
    var wasKeptBack = false

    /// Memory it holds, in bytes. Changes only with the bodies and the blobs.
    var bytes: Int {
        body.capacity + HeldBytes.revision(id, revision, history, sequence, offeredBefore, branches)
            + HeldBytes.vector(vector)
            + HeldBytes.references(blobs) + (asReceived?.bytes ?? 0)
    }

    /// The blobs that the peer has to send or prove.
    var ownBlobs: [BlobReference] { addedBlobs.isEmpty ? blobs : blobs.filter { !addedBlobs.contains($0.digest) } }
}

extension CheckedRevision {
    init(
        replyTo: AnswerHandle? = nil, id: DocumentID, revision: Version, history: RevisionHistory, vector: VectorHistory? = nil,
        isDeleted: Bool, sequence: RemoteSequence? = nil, body: [UInt8], blobs: [BlobReference], hasShownBlobs: Bool = false,
        isRemoval: Bool = false, peerHad: PeerRevision = .unknown, offeredBefore: [Version] = [], branches: PeerBranches? = nil,
        expiry: DocumentExpiry? = nil
    ) {
        self.init(
            CheckedFields(
                replyTo: replyTo, id: id, revision: revision, history: history, vector: vector, isDeleted: isDeleted, sequence: sequence,
                body: body, blobs: blobs, hasShownBlobs: hasShownBlobs, isRemoval: isRemoval, peerHad: peerHad,
                offeredBefore: offeredBefore, branches: branches, expiry: expiry))
    }
}

/// The outcome of checking a revision's body.
enum CheckOutcome: Sendable {
    case checked(CheckedRevision)
    case refused(ReceivedRevision, ReplicationError)
}

/// A list of changes that the peer offers or proposes.
struct IncomingList: Sendable {
    enum Content: Sendable {
        /// As it came, and how the dialect reads it.
        case text(ByteBuffer, read: @Sendable (ByteBuffer) -> Result<ListRows, ReplicationError>)
        case rows(ListRows)
    }

    var handle: AnswerHandle?
    var content: Content
    /// In a conflict, the peer wants to receive our revision.
    var wantsCurrentVersions = false
}

/// Our answer to an offered change.
enum ChangeAnswer: Sendable {
    case notWanted
    /// It is not here, and should be offered again on another connection.
    case notNow
    /// We hold these ancestors of it, the best delta base first.
    case wanted(ancestors: [Version])
}

/// Our answer to a proposed change.
enum ProposalAnswer: Sendable, Equatable {
    case send
    case have
    case conflict(current: Version)
    /// The row could not be parsed.
    case unreadable
}

/// The reply to a peer about a revision that it sent.
enum Settlement: Sendable {
    case stored
    case alreadyHere
    /// It is on our list; that is all the peer needs to know to continue.
    case kept(KeptByPeer.Reason)
    case refused(ReplicationError)
}

/// A revision to be stored, with the channels and access that a sync function assigned to it.
struct StorableRevision: Sendable {
    var revision: CheckedRevision
    var route: DocumentRoute?
    /// The revision of the document that the sync function saw; nil if there was none.
    var seen: Version?
    /// The revision was created here from a client's edit.
    var isEdit = false
}

/// The outcome of storing one revision.
enum StoreOutcome: Sendable {
    case stored(InsertOutcome)
    case failed(StoreError)
    /// The document changed after the sync function had seen it.
    case moved
}

/// The answer of one version of the filter about a revision.
struct FilterAnswer: Sendable {
    var verdict: FilterVerdict
    var plugin: String
    var version: String

    /// Whether the answer came from this version. Always false for a version without a name.
    func wasJudgedBy(_ plugin: String, _ version: String) -> Bool { !version.isEmpty && self.version == version && self.plugin == plugin }
}

/// A sync function's verdict, and the revision of the document that it was based on.
struct SyncJudgement: Sendable {
    var verdict: SyncVerdict
    var seen: Version?
    var plugin: String
    var version: String
    /// Who asked, and whether the stored revision was hidden from the function.
    var caller: SyncCaller?
    var isHidden = false

    /// Whether this version, asked the same question, gave this answer.
    func isAnswer(to caller: SyncCaller, seen: Version?, isHidden: Bool, by plugin: String, _ version: String) -> Bool {
        !version.isEmpty && self.version == version && self.plugin == plugin && self.caller == caller && self.seen == seen && self.isHidden == isHidden
    }
}

/// Identifies a group of revisions on its way into the store.
struct BatchID: Hashable, Sendable {
    var number: Int
}

/// Identifies a revision that waits for its blobs.
struct FetchID: Hashable, Sendable {
    var number: Int
}

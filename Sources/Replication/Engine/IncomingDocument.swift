import Documents
import DocumentStore
import Interfaces
import NIOCore

/// What a dialect needs to answer the peer, for example a request's number. The engine passes it on.
struct AnswerHandle: Hashable, Sendable {
    var number: UInt64
}

/// A row of the peer's changes whose revision was asked for.
struct AskedRow: Sendable {
    var id: DocumentID
    var revision: Version
    /// What the peer was known to have until then.
    var peerHad: PeerRevision
    /// Revisions of the document that the peer offered before it, and that were on their way then.
    var offeredBefore: [Version]
}

extension RevisionNeed {
    /// Where what was noted of the peer is not believed, nobody knows what it had.
    func believing(_ isBelieved: Bool) -> RevisionNeed {
        guard !isBelieved, case .need(let ancestors, _) = self else { return self }
        return .need(ancestors: ancestors, known: .unknown)
    }

    /// With what the peer acknowledged before it offered the row.
    ///
    /// - Parameter hasOne: the peer has one revision of a document.
    func knowing(_ acknowledged: Version?, _ hasOne: Bool) -> RevisionNeed {
        guard case .need(let ancestors, let known) = self else { return self }
        return .need(ancestors: ancestors, known: hasOne ? acknowledged.map { .had($0) } ?? known : .unknown)
    }
}

/// A revision that arrived: its ids checked, its body still bytes.
typealias ReceivedRevision = Shared<ReceivedFields>

struct ReceivedFields: Sendable {
    /// Nil when the sender wants no answer.
    var replyTo: AnswerHandle?
    var id: DocumentID
    var revision: Version
    /// Ancestors, newest first, without the revision itself.
    var history: RevisionHistory
    /// Of a peer that has version vectors, whose version names the revision.
    var vector: VectorHistory?
    var isDeleted: Bool
    var sequence: RemoteSequence?
    var body: ByteBuffer
    /// The body is a delta from this revision; the driver makes the body of it.
    var deltaSource: Version?
    /// Its blobs came with it, and are here.
    var hasShownBlobs = false
    /// Nil where they are here, or it has none.
    var attachments: MissingAttachments?
    /// What the peer was known to have when it offered this one.
    var peerHad = PeerRevision.unknown
    /// Revisions of the document that the peer offered before it, and that were on their way then.
    var offeredBefore: [Version] = []
    /// Of a document with several leaves at the peer, which keeps all of them.
    var branches: PeerBranches?

    /// What it holds in memory. A body may be part of something larger, which it keeps alive.
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
    /// What was known when it was asked for.
    mutating func fillIn(from row: AskedRow) { (self.peerHad, self.offeredBefore) = (row.peerHad, row.offeredBefore) }
}

extension ReplicationError {
    /// A revision that comes by itself passed none of the questions that an offer does, such as whether the document is wanted here.
    static func nobodyAsked(for id: DocumentID) -> Self {
        .malformed("nobody asked for document \(id) under this sequence")
    }

    /// It is still owed, and asked for again on another connection.
    static func cameInstead(of id: DocumentID, _ other: DocumentID) -> Self {
        .mistaken("the peer was asked for document \(id) and sent a revision of document \(other.text.prefix(100)) in its place")
    }
}

/// The leaves of a document at a peer that keeps all of them, as CouchDB does.
struct PeerBranches: Sendable {
    /// Another leaf is the peer's current revision.
    var isLoser: Bool
    /// The peer's leaves, this one perhaps among them.
    var others: Set<Version> = []
    /// Revisions whose branches ended there.
    var ended: Set<Version> = []
    /// What the revision ends, if it is a tombstone.
    var deletion: Deletion = .document
}

/// Attachments of a revision that are not here, and that its body names as the peer does: by digests of another kind than ours.
enum MissingAttachments: Sendable {
    /// They were asked for, and cannot be had or taken.
    case failed(ReplicationError)
    /// The revision was held for them: they are to be asked for.
    case due
}

/// A received revision after its body was looked at: valid JSON, reserved keys gone, blobs known.
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
    /// All its blobs were here once, and its sender had shown them.
    var hasShownBlobs = false
    /// Nil where they are here, or it has none.
    var attachments: MissingAttachments?
    /// Its blobs were asked for.
    var fetch: FetchID?
    /// They were fetched on this connection, and are here.
    var hasFetchedBlobs = false
    /// What the filter and the sync function said before they were.
    var answer: FilterAnswer?
    var judgement: SyncJudgement?
    /// Itself with its own body, where the filter put another one in its place before the blobs were fetched.
    var asItCame: CheckedRevision?
    /// What the filter named in it that the peer did not: that is none of the peer's to give.
    var addedBlobs: Set<BlobDigest> = []
    /// Sync Gateway's way to say that the document left the peer's channels.
    var isRemoval = false
    var peerHad = PeerRevision.unknown
    var offeredBefore: [Version] = []
    var branches: PeerBranches?
    /// `_exp` in its body: when it is to be purged here.
    var expiry: DocumentExpiry?
    /// It was kept back before the peer was found to have lost data, and the peer did not give it again.
    var mayBeLostThere = false
    /// It waited here on the list of what was kept back: the peer has not given it on this connection.
    var wasKeptBack = false

    /// What it holds in memory. It changes with the bodies and the blobs only.
    var bytes: Int {
        body.capacity + HeldBytes.revision(id, revision, history, sequence, offeredBefore, branches)
            + HeldBytes.vector(vector)
            + HeldBytes.references(blobs) + (asItCame?.bytes ?? 0)
    }

    /// The blobs that the peer is to give, or to show.
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

/// What became of checking a revision's body.
enum CheckOutcome: Sendable {
    case checked(CheckedRevision)
    case refused(ReceivedRevision, ReplicationError)
}

/// A list of changes that the peer offers or proposes; nobody has read it yet.
struct IncomingList: Sendable {
    var handle: AnswerHandle?
    var body: ByteBuffer
    /// With a conflict the peer wants to hear our revision.
    var wantsCurrentVersions = false
    /// The rows, where the dialect has read them.
    var rows: ListRows?
}

/// What we answer to an offered change.
enum ChangeAnswer: Sendable {
    case notWanted
    /// It is not here, and is to be offered again on another connection.
    case notNow
    /// We hold these revisions of it, the best base first.
    case wanted(ancestors: [Version])
}

/// What we answer to a proposed change.
enum ProposalAnswer: Sendable, Equatable {
    case send
    case have
    case conflict(current: Version)
    /// It could not be read.
    case unreadable
}

/// What a peer hears of a revision that it sent.
enum Settlement: Sendable {
    case stored
    case alreadyHere
    /// It is on our list, which is all that the peer has to know to go on.
    case kept(KeptThere.Reason)
    case refused(ReplicationError)
}

/// A revision to be stored, with what a sync function assigned to it.
struct StorableRevision: Sendable {
    var revision: CheckedRevision
    var route: DocumentRoute?
    /// The document's revision that the sync function saw; nil: there was none.
    var seen: Version?
    /// The revision was made here, of a client's edit.
    var isEdit = false
}

/// What became of storing one revision.
enum StoreOutcome: Sendable {
    case stored(InsertOutcome)
    case failed(StoreError)
    /// The document changed after the sync function looked at it.
    case moved
}

/// What a version of the filter said of a revision.
struct FilterAnswer: Sendable {
    var verdict: FilterVerdict
    var plugin: String
    var version: String

    /// Whether it is the word of this version. Of one that has no name nobody can say so.
    func isBy(_ plugin: String, _ version: String) -> Bool { !version.isEmpty && self.version == version && self.plugin == plugin }
}

/// A sync function's verdict, and the revision of the document that it saw.
struct SyncJudgement: Sendable {
    var verdict: SyncVerdict
    var seen: Version?
    var plugin: String
    var version: String
    /// Who asked, and whether what is here was kept from the function.
    var caller: SyncCaller?
    var isHidden = false

    /// Whether it is what this version said when it was asked the same.
    func isAnswer(to caller: SyncCaller, seen: Version?, isHidden: Bool, by plugin: String, _ version: String) -> Bool {
        !version.isEmpty && self.version == version && self.plugin == plugin && self.caller == caller && self.seen == seen && self.isHidden == isHidden
    }
}

/// One group of revisions on its way into the store.
struct BatchID: Hashable, Sendable {
    var number: Int
}

/// One revision that waits for its blobs.
struct FetchID: Hashable, Sendable {
    var number: Int
}

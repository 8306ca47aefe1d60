import Documents

/// A revision made elsewhere, as a peer sent it.
public struct IncomingRevision: Sendable {
    public var id: DocumentID
    public var revision: RevisionID
    /// Ancestors, newest first, `revision` itself not included.
    public var history: RevisionHistory
    /// Of a peer with version vectors. `revision` is the vector's version then, until the revision has its place in the tree.
    public var vector: VectorHistory?
    public var isDeleted: Bool
    /// JSON object without reserved keys; empty means `{}`.
    public var body: [UInt8]
    /// `body` was already checked to be a JSON object (`JSONScanner.scanDocument`); `hasBlobs` is right then.
    public var isValidated: Bool
    /// The body holds blob references (only looked at if `isValidated`).
    public var hasBlobs: Bool
    /// The peer it came from; its last known revision becomes this one.
    public var remote: RemoteID?
    /// The peer has one revision of each document: with another one it has left that. Else it says what it left, and what it has beside it.
    public var peerHasOne = true
    /// Leaves that the peer has beside it: those are in conflict with it, not replaced by it.
    public var peerLeaves: Set<RevisionID> = []
    /// Revisions whose branches ended at the peer in favour of this one.
    public var endedLeaves: Set<RevisionID> = []
    /// What it ends, if it is a tombstone.
    public var deletion: Deletion = .document
    /// What the peer was known to have when it offered this revision.
    public var peerHad = PeerRevision.unknown
    /// Its sender is about to hear that the document was deleted here, and made this without knowing: it follows no tombstone.
    public var missesDeletion = false
    /// Its version vector knew versions of ours that were never made: what is here was not left for it, whatever its sender was known to have.
    var isDisputed = false
    /// What the peer had offered of the document before this revision, and what was still on its way then.
    public var offeredBefore: [RevisionID] = []
    /// It is an edit that the agent made a revision of itself, of a client that names none: it gets a version as other edits made here do.
    package var isMadeHere = false
    /// Who gave it, in words: to name whoever's clock is ahead.
    public var sender: String?

    public init(
        id: DocumentID, revision: RevisionID, history: RevisionHistory, isDeleted: Bool = false, body: [UInt8],
        isValidated: Bool = false, hasBlobs: Bool = false, remote: RemoteID? = nil
    ) {
        self.id = id
        self.revision = revision
        self.history = history
        self.isDeleted = isDeleted
        self.body = body
        self.isValidated = isValidated
        self.hasBlobs = hasBlobs
        self.remote = remote
    }
}

/// How far a tombstone reaches. A peer that keeps every leaf of a document, as CouchDB does, ends branches with tombstones; its document
/// is deleted when all of them are.
public enum Deletion: Sendable {
    /// The document is deleted.
    case document
    /// A branch ends, and with the last of them the document.
    case leaf
    /// A branch ends of a document that lives on at the peer: never the last one here, whose successor comes by itself.
    case otherLeaf
}

/// What to do with an incoming revision that does not descend from the current one.
public enum ConflictHandling: Sendable {
    /// Passive side: refuse it (`InsertOutcome.conflict`).
    case refuse
    /// Active side: keep it as a branch, to be resolved.
    case store
    /// Passive side with a resolver: what `.refuse` refuses is kept as a branch, to be resolved.
    case storePushed
}

/// What became of an incoming revision.
public enum InsertOutcome: Sendable, Equatable {
    /// It was stored before; nothing changed (but the remote's last known revision).
    case alreadyPresent
    /// It is the current revision now.
    case inserted(sequence: SequenceNumber)
    /// It was stored as a branch beside a local revision. `sequence` is set if the current revision or another leaf changed.
    case insertedConflict(local: RevisionID, remote: RevisionID, sequence: SequenceNumber?)
    /// It was not stored (`ConflictHandling.refuse`).
    case conflict(current: RevisionID)
}

/// Which revision of a document a peer had at some time.
public enum PeerRevision: Sendable, Equatable {
    case had(RevisionID)
    /// None that is known here.
    case none
    /// Nobody remembers, or it may have several.
    case unknown

    init(_ known: RevisionID?) { self = known.map { .had($0) } ?? .none }
}

extension IncomingRevision {
    /// The peer had that revision, and no later one as far as is known here, when it offered this one.
    func wasOffered(after known: RevisionID?) -> Bool {
        peerHad == .unknown || peerHad == PeerRevision(known) || known.map { offeredBefore.contains($0) } == true
    }
}

/// One row of a peer's `changes`.
public struct RevisionOffer: Sendable, Equatable {
    public var id: DocumentID
    public var revision: RevisionID
    public var isDeletion: Bool
    /// It went to the peer from here a moment ago.
    public var isEcho: Bool

    public init(id: DocumentID, revision: RevisionID, isDeletion: Bool = false, isEcho: Bool = false) {
        (self.id, self.revision, self.isDeletion, self.isEcho) = (id, revision, isDeletion, isEcho)
    }
}

/// Answer to one row of a peer's `changes`.
public enum RevisionNeed: Sendable, Equatable {
    /// We hold the revision.
    case have
    /// We want it; these revisions of the document are held, the best base first. `known`: what the peer was known to have until now.
    case need(ancestors: [RevisionID], known: PeerRevision = .unknown)
}

/// Answer to one row of a peer's `proposeChanges`.
public enum ProposalVerdict: Sendable, Equatable {
    case accept
    case have
    case conflict(current: RevisionID)
}

/// One row of a peer's `proposeChanges`.
public struct Proposal: Sendable {
    public var id: DocumentID
    public var revision: RevisionID
    /// The revision the peer believes to be ours.
    public var parent: RevisionID?
    /// With the revision's version vector, as far as the peer names it.
    public var vector: VectorHistory?
    /// The peer is about to hear that the document was deleted here, and made this without knowing: a conflict, also in its eyes.
    public var missesDeletion = false

    public init(id: DocumentID, revision: RevisionID, parent: RevisionID?, vector: VectorHistory? = nil) {
        self.id = id
        self.revision = revision
        self.parent = parent
        self.vector = vector
    }
}

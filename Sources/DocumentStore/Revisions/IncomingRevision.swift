import Documents

/// A revision made elsewhere, as received from a peer.
public struct IncomingRevision: Sendable {
    public var id: DocumentID
    public var revision: RevisionID
    /// Ancestors, newest first, without `revision` itself.
    public var history: RevisionHistory
    /// Set for a peer with version vectors. `revision` is then the vector's version, until the revision has been placed in the tree.
    public var vector: VectorHistory?
    public var isDeleted: Bool
    /// JSON object without reserved keys; empty means `{}`.
    public var body: [UInt8]
    /// `body` was already checked to be a JSON object (`JSONScanner.scanDocument`); then `hasBlobs` is valid.
    public var isValidated: Bool
    /// The body contains blob references (used only if `isValidated`).
    public var hasBlobs: Bool
    /// The peer it came from; this becomes its last known revision.
    public var remote: RemoteID?
    /// The peer has one revision of each document, so it has abandoned any other one. Otherwise it says what it has abandoned, and what else it has.
    public var peerHasOne = true
    /// The peer's other leaves: they are in conflict with it, not replaced by it.
    public var peerLeaves: Set<RevisionID> = []
    /// Revisions whose branches ended at the peer in favour of this one.
    public var endedLeaves: Set<RevisionID> = []
    /// It is alive at the peer, as its winner: if it was dropped here, it is taken up again, whatever ended its branch.
    public var isResumed = false
    /// What it ends if it is a tombstone.
    public var deletion: Deletion = .document
    /// What the peer was known to have when it offered this revision.
    public var peerHad = PeerRevision.unknown
    /// The deletion of the document here is in flight to the sender, which made this revision without knowing: it does not follow any tombstone.
    public var missesDeletion = false
    /// Its version vector contains versions under our source id that were never made: so the sender has not abandoned our revision for it, whatever
    /// the sender was known to have.
    var isDisputed = false
    /// Revisions of the document that the peer offered earlier and that were still in flight at that time.
    public var offeredBefore: [RevisionID] = []
    /// A revision that the agent made from the edit of a client that does not name revisions: it gets a version like other local edits.
    package var isLocallyGenerated = false
    /// A description of the sender, to report a clock that is ahead.
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

/// The scope of a tombstone. A peer that keeps every leaf of a document, as CouchDB does, ends branches with tombstones; its document is deleted when
/// all branches are.
public enum Deletion: Sendable {
    /// The document is deleted.
    case document
    /// A branch ends; if it is the last one, the document is deleted.
    case leaf
    /// A branch of a document ends that lives on at the peer: never the last one here, whose successor arrives separately.
    case otherLeaf
}

/// How to treat an incoming revision that does not descend from the current one.
public enum ConflictHandling: Sendable {
    /// Passive side: refuse it (`InsertOutcome.conflict`).
    case refuse
    /// Active side: keep it as a branch, to be resolved.
    case store
    /// Passive side with a resolver: keep what `.refuse` would refuse as a branch, to be resolved.
    case storePushed
}

/// The outcome of inserting a revision.
public enum InsertOutcome: Sendable, Equatable {
    /// It was already stored; nothing changed (except the remote's last known revision).
    case alreadyPresent
    /// It is now the current revision.
    case inserted(sequence: SequenceNumber)
    /// It was stored as a branch alongside a local revision. `sequence` is set if the current revision or another leaf changed.
    case insertedConflict(local: RevisionID, remote: RevisionID, sequence: SequenceNumber?)
    /// It was not stored (`ConflictHandling.refuse`).
    case conflict(current: RevisionID)
    /// The same for one that is here and was deleted, beside the current one: its sender has yet to learn of that deletion.
    case ended(current: RevisionID)
}

/// The revision of a document that a peer had at some time.
public enum PeerRevision: Sendable, Equatable {
    case had(RevisionID)
    /// None that is known here.
    case none
    /// Unknown, or the peer may have several.
    case unknown

    init(_ known: RevisionID?) { self = known.map { .had($0) } ?? .none }
}

extension IncomingRevision {
    /// Whether the peer had that revision, and no later one as far as is known here, when it offered this one.
    func wasOffered(after known: RevisionID?) -> Bool {
        peerHad == .unknown || peerHad == PeerRevision(known) || known.map { offeredBefore.contains($0) } == true
    }
}

/// One row of a peer's `changes`.
public struct RevisionOffer: Sendable, Equatable {
    public var id: DocumentID
    public var revision: RevisionID
    public var isDeletion: Bool
    /// It was sent to the peer from here a moment ago.
    public var isEcho: Bool

    public init(id: DocumentID, revision: RevisionID, isDeletion: Bool = false, isEcho: Bool = false) {
        (self.id, self.revision, self.isDeletion, self.isEcho) = (id, revision, isDeletion, isEcho)
    }
}

/// The answer to one row of a peer's `changes`.
public enum RevisionNeed: Sendable, Equatable {
    /// We hold the revision.
    case have
    /// We hold the revision, or one that came from it, and another one is current here.
    case haveEarlier
    /// We want it; these ancestors of it are held, the best delta base first. `known`: what the peer was known to have so far.
    case need(ancestors: [RevisionID], known: PeerRevision = .unknown)
}

/// The answer to one row of a peer's `proposeChanges`.
public enum ProposalVerdict: Sendable, Equatable {
    case accept
    case have
    /// The current revision here includes it, and more.
    case haveNewer
    case conflict(current: RevisionID)
}

/// One row of a peer's `proposeChanges`.
public struct Proposal: Sendable {
    public var id: DocumentID
    public var revision: RevisionID
    /// The revision that the peer believes to be ours.
    public var parent: RevisionID?
    /// The revision's version vector, as far as the peer sends it.
    public var vector: VectorHistory?
    /// The deletion of the document here is in flight to the peer, which made this revision without knowing: a conflict, from its point of view as
    /// well.
    public var missesDeletion = false

    public init(id: DocumentID, revision: RevisionID, parent: RevisionID?, vector: VectorHistory? = nil) {
        self.id = id
        self.revision = revision
        self.parent = parent
        self.vector = vector
    }
}

import Documents
import DocumentStore
import Interfaces

/// The identity of a revision as the engine sees it. Machines only compare versions for equality and never look inside; only the store knows which of
/// two is newer.
typealias Version = RevisionID

/// How a branch ended.
struct BranchEnd: Sendable, Equatable {
    var version: Version
    /// Ancestors, newest first.
    var history: [Version]
    /// Set for a peer with version vectors.
    var vector: VectorHistory?
    /// It lost a decision here. If the peer does not take that, nothing is lost: see ``CrossedRevisions``.
    var isDecided = false
}

/// What has happened here since a revision was read.
enum Freshness: Sendable {
    /// Nothing: it is still the current one.
    case current
    /// Something was written, perhaps this document. A peer that gets it takes it as an earlier revision, unless it is far behind.
    case storeHasChanged
    /// The peer itself has sent a revision of the document: this one goes out only if it is still the current one.
    case overtakenByPeer
}

/// One of our documents on its way to the peer.
typealias OutgoingDocument = Shared<OutgoingFields>

struct OutgoingFields: Sendable {
    var sequence: SequenceNumber
    var id: DocumentID
    var version: Version
    var isDeleted = false
    /// The blobs that the body names.
    var blobs: [BlobDigest] = []
    /// The newest sequence of the collection when it was read.
    var newestWhenRead = SequenceNumber.max
    /// Whether it may have been replaced here by the time it goes out.
    var freshness = Freshness.current
    /// The body's bytes as stored. Opaque to the machines, apart from their number.
    var body: [UInt8] = []
    /// The size of a body that is left out because there is no memory to send it; 0 if it is not.
    var bytesLeftOut = 0
    /// Ancestors, newest first.
    var history: [Version] = []
    /// Set for a peer with version vectors: sent in place of the history with a revision that has a vector.
    var vector: VectorHistory?
    /// The peer's current revision, as far as we know.
    var peerVersion: Version?
    /// Other branches end here too, possibly as tombstones: the peer may have dropped this one in favour of theirs.
    var hasOtherBranches = false
    /// The oldest revision of its history is the peer's, which lost a decision here, and no ancestor.
    var followsLoser = false
    /// The peer knows an ancestor by its revision id, although it uses version vectors.
    var isKnownByID = false
    /// A revision that the peer says it holds or is known to hold: the driver may send a delta from it.
    var base: Version?
    /// The peer could not apply a delta of it, so the whole body is sent.
    var sendsFullBody = false
    /// Its body with blobs named as the peer expects them, if that was prepared in advance.
    var wireBody: [UInt8]?
    /// What the peer is told of the document; for everything but `visible`, the body says no more than that the document is gone.
    var visibility = ChannelVisibility.visible
    /// The change of access that the row belongs to.
    var event: SequenceNumber?
    /// Where the peer must resume after a reconnect, because the filter failed on an earlier document; nil: after this one.
    var low: SequenceNumber?
    /// The row itself does not say that the document is gone; only the revision's body does.
    var goesByBody = false
    /// How often it was offered in vain on this trip; bounded, so that a peer that names a different revision each time cannot keep it going in
    /// circles.
    var offersBefore = 0
    /// Maximum number of rows of the list that offers it; nil: the usual limit.
    var rowsOfList: Int?
    /// The pull was complete when the document was read for this trip: a revision that the peer holds and we do not is not on its way here.
    var isAfterPull = false
    /// The end of a branch that is the peer's current one and was dropped here: the document itself follows.
    var isEndOfBranch = false
    /// See ``BranchEnd/isDecided``.
    var isDecidedEnd = false
    /// If the peer's known revision is on another branch: how that branch ended here.
    var peerBranchEnd: BranchEnd?
    /// The peer asked for it, so it does not have it, and refused what it was sent.
    var wasWanted = false
    /// The peer refused it when it arrived; its body may be gone from memory.
    var wasSent = false
    /// The peer answered "forbidden" once; the second time is final.
    var wasForbidden = false
    /// The version of the push filter that decided about it.
    var judgedBy = ""
    /// What has to exist for as long as the document does: the claim for a large body's memory. Opaque to the machines.
    var claim: (any AnyObject & Sendable)?

    /// Size of its history when it was read: the history only gets shorter from there.
    fileprivate(set) var historyBytes = 0

    /// Size of the body and the history, in bytes.
    var heldBytes: Int { body.count + historyBytes }
}

extension OutgoingDocument {
    init(
        sequence: SequenceNumber, id: DocumentID, version: Version, isDeleted: Bool = false, blobs: [BlobDigest] = [], body: [UInt8] = [],
        peerVersion: Version? = nil
    ) {
        self.init(
            OutgoingFields(
                sequence: sequence, id: id, version: version, isDeleted: isDeleted, blobs: blobs, body: body, peerVersion: peerVersion))
    }

    var hasBlobs: Bool { !self.blobs.isEmpty }

    /// Size of the body in bytes, also of one that is left out.
    var bodySize: Int { self.bytesLeftOut > 0 ? self.bytesLeftOut : self.body.count }

    /// Without its body, for which there is no memory.
    mutating func leaveOutBody() {
        self.bytesLeftOut = self.body.count
        (self.body, self.blobs) = ([], [])
    }

    /// Records the size of its history, which is at its longest now.
    mutating func noteHistory() {
        guard !self.history.isEmpty || self.vector != nil || self.peerBranchEnd != nil else { return }
        self.historyBytes = HeldBytes.versions(self.history) + HeldBytes.vector(self.vector) + HeldBytes.versions(self.peerBranchEnd?.history ?? [])
            + HeldBytes.vector(self.peerBranchEnd?.vector)
    }

    /// The newest time in its version vector; nil if it has none. Versions that stand for tree revisions have no time.
    var latestTime: UInt64? { self.vector?.vector.latestTime }

    /// Cuts the history at the newest ancestor that the peer holds, which becomes the base of a delta.
    mutating func cutHistory(_ known: [Version]) {
        // Unnecessary writes would unshare the value.
        if self.base != self.peerVersion { self.base = self.peerVersion }
        if known.contains(where: { $0.namesTreeRevision }) { self.isKnownByID = true }
        guard !known.isEmpty, let cut = self.history.firstIndex(where: { known.contains($0) }) else { return }
        self.history.removeSubrange((cut + 1)...)
        self.base = self.history[cut]
    }

    /// A tombstone that says no more than that the document is deleted.
    func withoutBody() -> OutgoingDocument {
        var document = self
        (document.body, document.blobs, document.wireBody, document.bytesLeftOut, document.claim) = ([], [], nil, 0, nil)
        return document
    }

    /// The deletion that ended a branch, sent before the document itself.
    func endOfBranch(_ branch: BranchEnd) -> OutgoingDocument {
        var end = self
        (end.version, end.history, end.vector, end.peerVersion) = (branch.version, branch.history, branch.vector, branch.history.last ?? branch.version)
        (end.isDeleted, end.isEndOfBranch, end.body, end.blobs, end.bytesLeftOut, end.claim) = (true, true, [], [], 0, nil)
        end.isDecidedEnd = branch.isDecided
        return end
    }
}

/// How far a feed has been read.
struct FeedPosition: Sendable, Equatable {
    var sequence: SequenceNumber
    /// For a peer limited to channels: the position within its channels. Opaque to the engine.
    var channels: ChannelPlace?

    init(_ sequence: SequenceNumber, channels: ChannelPlace? = nil) {
        self.sequence = sequence
        self.channels = channels
    }

    /// The position right after a document that was read from here.
    func behind(_ document: OutgoingDocument) -> FeedPosition {
        guard channels != nil else { return FeedPosition(document.sequence) }
        let place = ChannelPlace(behind: document.sequence, in: document.event)
        return FeedPosition(place.sequence, channels: place)
    }
}

/// The result of one read of the feed.
struct FeedPage: Sendable {
    /// A row that was skipped because the store knows that the peer has the revision.
    struct Known: Sendable {
        var id: DocumentID
        var sequence: SequenceNumber
        var version: Version
    }

    var documents: [OutgoingDocument] = []
    var known: [Known] = []
    /// Where the next read continues.
    var next: FeedPosition
    /// The end of the feed was reached.
    var isEnd: Bool
    /// The next document has not been assigned to channels yet.
    var isBlocked = false
    /// The newest sequence of the collection at the time of the read.
    var newest: SequenceNumber
}

/// Documents that were read together and are judged together.
struct PushPage: Sendable {
    var documents: [OutgoingDocument]
    /// Where they were read from; nil for documents that do not come from the feed.
    var from: FeedPosition?

    /// What remains of the page when the feed stalls at `position`: a page from the feed is read again from there; of any other page, the documents
    /// up to there.
    func remains(before position: FeedPosition) -> PushPage? {
        if from != nil { return nil }
        let rest = documents.filter { $0.sequence <= position.sequence }
        return rest.isEmpty ? nil : PushPage(documents: rest)
    }
}

/// The result of one read of this peer's kept-back list.
struct KeptBackPage: Sendable {
    /// Documents to be judged again.
    var documents: [OutgoingDocument] = []
    /// Documents that are gone, or known to be at the peer.
    var settled: [DocumentID] = []
    /// Where the list continues; nil at its end.
    var next: DocumentID?
    /// Whether anything is kept back, even if nothing on this page is due.
    var isAny: Bool
}

/// A peer's answer to an offered document.
enum OfferAnswer: Sendable, Equatable {
    /// The peer wants it, and holds these ancestors of it.
    case wanted(known: [Version])
    /// The peer already has this revision.
    case has
    /// The peer does not want it.
    case declined
    /// The peer holds another revision, which it may name.
    case conflict(current: Version?)
    case refused(ReplicationError)
    /// The peer does not have it, and accepts nothing from us.
    case forbidden(ReplicationError)
}

/// How our revision of a document relates to the one that the peer named.
enum Comparison: Sendable, Equatable {
    /// Ours descends from it; the history goes back to it.
    case newer(history: [Version])
    /// It is current here as well, or both are deletions: the peer has everything there is of the document.
    case same(Version)
    /// Ours is an ancestor of it: it arrived here in the meantime, and supersedes ours.
    case older
    /// Both are here as branches of a conflict that is decided here.
    case branches
    /// Ours goes on although the peer's revision, a tombstone, is here as well: the pull does not bring it. `sinceDeletion`: its history back to where it
    /// was created on another tombstone; nil if it was not, or if its versions tell.
    case goesOn(beside: Version, sinceDeletion: [Version]? = nil)
    /// The peer's revision is an ancestor of a branch that was deleted here; the peer's branch has to end in the same way.
    case ended(BranchEnd)
    /// The end of a branch was offered, and the peer has left that branch for this revision, which is not here and which the current one covers.
    case covered(Version)
    /// The peer's revision is not known here.
    case unknown
}

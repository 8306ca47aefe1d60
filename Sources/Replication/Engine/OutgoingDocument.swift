import Documents
import DocumentStore
import Interfaces

/// The identity of a revision as the engine sees it. Machines compare versions for equality and never look inside; which
/// of two is newer is the store's to say.
typealias Version = RevisionID

/// How a branch ended.
struct BranchEnd: Sendable, Equatable {
    var version: Version
    /// Ancestors, newest first.
    var history: [Version]
    /// For a peer that has version vectors.
    var vector: VectorHistory?
}

/// One of our documents on its way to the peer.
typealias OutgoingDocument = Shared<OutgoingFields>

struct OutgoingFields: Sendable {
    var sequence: SequenceNumber
    var id: DocumentID
    var version: Version
    var isDeleted = false
    /// What the body names.
    var blobs: [BlobDigest] = []
    /// The body's bytes as they are stored. A machine counts them and passes them on.
    var body: [UInt8] = []
    /// Ancestors, newest first.
    var history: [Version] = []
    /// For a peer that has version vectors: what goes with a revision that has one, in place of the history.
    var vector: VectorHistory?
    /// The peer's current revision, as far as we know.
    var peerVersion: Version?
    /// Other branches end here too, be it as tombstones: the peer may have given up this one in favour of theirs.
    var hasOtherBranches = false
    /// The peer knows an ancestor by its id, although it has version vectors.
    var isKnownByID = false
    /// A revision that the peer says it holds, or was known to hold: its driver may send what changed since.
    var base: Version?
    /// The peer could do nothing with a delta of it.
    var travelsWhole = false
    /// Its body with the names of its blobs as the peer expects them, where that was made beforehand.
    var travellingBody: [UInt8]?
    /// What the peer is told of the document; for all but `visible` the body says no more than that it went.
    var news = ChannelNews.visible
    /// The change of access that the row belongs to.
    var event: SequenceNumber?
    /// Where the peer has to begin when it comes back, because the filter failed on a document there; nil: behind this one.
    var low: SequenceNumber?
    /// The row says nothing of it, only the revision's body does.
    var goesByBody = false
    /// How often it was offered on this trip in vain; a peer that always names another revision must not keep it going round.
    var offersBefore = 0
    /// How many rows its next list may have; nil: as many as any.
    var rowsOfList: Int?
    /// When it was read for this trip, the pull was complete: what the peer holds and we do not is not on its way here.
    var isAfterPull = false
    /// The end of a branch that is the peer's current one and was given up here: the document itself follows it.
    var isEndOfBranch = false
    /// How the branch ended here that the peer is known to have, where this one is of another.
    var peersEnd: BranchEnd?
    /// The peer forbade it once; the second time is final.
    var wasForbidden = false
    /// The version of the push filter that said what becomes of it.
    var judgedBy = ""

    /// What its history took when it was read: what is left of that is no more.
    fileprivate(set) var historyBytes = 0

    /// Of the body and the history.
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

    /// Its history is as long as it gets.
    mutating func noteHistory() {
        guard !self.history.isEmpty || self.vector != nil || self.peersEnd != nil else { return }
        self.historyBytes = HeldBytes.versions(self.history) + HeldBytes.vector(self.vector) + HeldBytes.versions(self.peersEnd?.history ?? [])
            + HeldBytes.vector(self.peersEnd?.vector)
    }

    /// Of the versions that go with it; nil where none does. Those that stand for revisions of trees have no time.
    var latestTime: UInt64? { self.vector?.vector.latestTime }

    /// The history ends at the newest ancestor that the peer holds, which is the base of a delta.
    mutating func cutHistory(_ known: [Version]) {
        // What does not change it leaves it shared.
        if self.base != self.peerVersion { self.base = self.peerVersion }
        if known.contains(where: { $0.isOfTree }) { self.isKnownByID = true }
        guard !known.isEmpty, let cut = self.history.firstIndex(where: { known.contains($0) }) else { return }
        self.history.removeSubrange((cut + 1)...)
        self.base = self.history[cut]
    }

    /// A tombstone that says no more than that it is one.
    func withoutBody() -> OutgoingDocument {
        var document = self
        (document.body, document.blobs, document.travellingBody) = ([], [], nil)
        return document
    }

    /// The deletion that ended a branch, to be sent before the document.
    func endOfBranch(_ branch: BranchEnd) -> OutgoingDocument {
        var end = self
        (end.version, end.history, end.vector, end.peerVersion) = (branch.version, branch.history, branch.vector, branch.history.last ?? branch.version)
        (end.isDeleted, end.isEndOfBranch, end.body, end.blobs) = (true, true, [], [])
        return end
    }
}

/// How far a feed has been read.
struct FeedPosition: Sendable, Equatable {
    var sequence: SequenceNumber
    /// Where the peer is bound to channels: its place among them. The engine does not look inside.
    var channels: ChannelPlace?

    init(_ sequence: SequenceNumber, channels: ChannelPlace? = nil) {
        self.sequence = sequence
        self.channels = channels
    }

    /// Right behind a document that was read from here.
    func behind(_ document: OutgoingDocument) -> FeedPosition {
        guard channels != nil else { return FeedPosition(document.sequence) }
        let place = ChannelPlace(behind: document.sequence, in: document.event)
        return FeedPosition(place.sequence, channels: place)
    }
}

/// One read of the feed.
struct FeedPage: Sendable {
    /// A row that was left out, since the store knows that the peer has the revision.
    struct Known: Sendable {
        var id: DocumentID
        var sequence: SequenceNumber
        var version: Version
    }

    var documents: [OutgoingDocument] = []
    var known: [Known] = []
    /// Where reading goes on.
    var next: FeedPosition
    /// Nothing more was there.
    var isEnd: Bool
    /// The next document waits to be assigned to channels.
    var isBlocked = false
    /// The newest sequence of the collection when it was read.
    var newest: SequenceNumber
}

/// Documents that were read together and are judged together.
struct PushPage: Sendable {
    var documents: [OutgoingDocument]
    /// Where they were read from; nil for those that do not come from the feed.
    var from: FeedPosition?

    /// What is left when the feed stands still there: the feed will be read again from there, and all else lies before it.
    func remains(before position: FeedPosition) -> PushPage? {
        if from != nil { return nil }
        let rest = documents.filter { $0.sequence <= position.sequence }
        return rest.isEmpty ? nil : PushPage(documents: rest)
    }
}

/// One read of what the filter kept back for this peer.
struct KeptBackPage: Sendable {
    /// What is to be judged again.
    var documents: [OutgoingDocument] = []
    /// No longer there, or known to be at the peer.
    var settled: [DocumentID] = []
    /// Where the list goes on; nil at its end.
    var next: DocumentID?
    /// Something is kept back, even if nothing of this page is due.
    var isAny: Bool
}

/// What a peer answers to an offered document.
enum OfferAnswer: Sendable, Equatable {
    /// Send it; the peer holds these ancestors of it.
    case wanted(known: [Version])
    /// The peer has this very revision.
    case has
    /// The peer does not want it.
    case declined
    /// The peer holds another revision, which it may name.
    case conflict(current: Version?)
    case refused(ReplicationError)
    /// The peer does not have it, and takes nothing of us.
    case forbidden(ReplicationError)
}

/// How our revision of a document stands to the one that the peer named.
enum Comparison: Sendable, Equatable {
    /// Ours descends from it; the history leads down to it.
    case newer(history: [Version])
    /// It is the current one here, or both are deletions: the peer has all that there is of the document.
    case same(Version)
    /// Ours is an ancestor of it: it came here meanwhile, and is the one to look at.
    case older
    /// Both are here as branches; the conflict is decided here.
    case branches
    /// The peer's is an ancestor of a branch that was deleted here, which is how the peer's ends too.
    case ended(BranchEnd)
    /// The peer's revision is not here.
    case unknown
}

import BLIP
import Documents
import DocumentStore
import Interfaces
import NIOCore

/// The state of one collection on one connection. Confined to its self.
final class CollectionSync {
    /// Position in the session's list.
    let slot: Int
    let collection: Collection
    /// The number that stands for the collection in messages; nil in legacy mode.
    let wireIndex: Int?
    var pushFilter: (any DocumentFilter)?
    var pullFilter: (any DocumentFilter)?
    /// Decides conflicts; nil on a passive side without a resolver, which refuses them.
    var resolver: ConflictDecider?
    /// Documents in conflict that wait for a decision.
    var conflicts: [DocumentID] = []
    var isDeciding = false
    /// Passive: the peer has subscribed to our changes on this connection.
    var peerPulls = false
    var documentIDs: [DocumentID]?
    var channels: [String]?
    /// Under which the store knows the peer; nil where nothing is remembered of it (a passive session).
    var remote: RemoteID?

    var push: PushFeed?
    var pull = PullFeed()
    var checkpoint: CheckpointSync?

    /// The peer said that it understands inline blobs, so `_attachments` need not be added.
    var peerKnowsBlobs = false
    /// Ancestors that the peer wants with a revision.
    var peerMaximumHistory: Int
    /// Revisions this peer gave us, by document: not offered back to it.
    var echoes: [DocumentID: RevisionID] = [:]
    /// The store knows what the peer's authenticator said of its channels.
    var hasSetAccess = false

    init(slot: Int, collection: Collection, wireIndex: Int?, limits: ReplicationLimits) {
        self.slot = slot
        self.collection = collection
        self.wireIndex = wireIndex
        peerMaximumHistory = limits.maximumHistory
    }
}

/// One of our documents on its way to the peer.
struct PushRow: Sendable {
    var sequence: SequenceNumber
    var id: DocumentID
    var revision: RevisionID
    var isDeleted: Bool
    var hasBlobs: Bool
    var body: [UInt8]
    /// Ancestors, newest first.
    var history: [RevisionID]
    /// The peer's current revision, as far as we know.
    var peerRevision: RevisionID?
    /// `rev` was refused with 403 once; the second time is final.
    var wasForbidden = false
    /// What the peer is told of the document; for all but `visible` the body says no more than that it went.
    var news = ChannelNews.visible
    /// The change of access that the row belongs to.
    var event: SequenceNumber?
    /// The row says nothing of it, only the revision's body does.
    var goesByBody = false

    /// The row's sequence as the peer sees it: JSON.
    var sequenceJSON: String { event.map { "\"\($0):\(sequence)\"" } ?? String(sequence) }
    /// Bits of a changes row: 1 deleted, 2 access revoked, 4 removed from the channels.
    var flags: Int {
        let deleted = isDeleted ? 1 : 0
        if goesByBody { return deleted }
        return switch news {
        case .visible: deleted
        case .revoked: deleted | 2
        case .removed: deleted | 4
        }
    }
}

/// How far a peer that is bound to channels has come.
struct ChannelFeed {
    var question: ChannelQuestion
    var place: ChannelPlace
    /// The peer wants to hear of documents that it may no longer have.
    var wantsRevocations: Bool
    /// The next document waits to be assigned to channels.
    var isStalled = false
}

/// The state of the pushing side of one collection.
final class PushFeed {
    enum Style {
        /// We are active: `proposeChanges`, answered by statuses.
        case propose
        /// The peer subscribed: `changes`, answered by wishes.
        case changes
    }

    let style: Style
    let isContinuous: Bool
    /// Tombstones of the backlog are left out.
    let activeOnly: Bool
    var documentIDs: [DocumentID]?
    /// Nil: the peer may have everything.
    var channels: ChannelFeed?
    /// Every sequence up to this one was read.
    var cursor: SequenceNumber
    var tracker: LocalSequenceTracker
    /// What we noted of the peer's documents counts; false when the peer seems to have lost data.
    var trustsKnownRevisions = true

    /// The newest sequence that the store told of.
    var newest: SequenceNumber = 0
    /// The last read found nothing more.
    var reachedEnd = false
    var announcedCaughtUp = false
    var isCaughtUp = false
    /// A one-shot feed has nothing more to do.
    var isFinished = false
    var needsReoffer = false

    var listsInFlight = 0
    /// Rows whose `rev` the peer asked for and that wait for room.
    var wanted: [PushRow] = []
    var wantedHead = 0
    var revisionsInFlight = 0
    var bytesInFlight = 0
    /// Documents proposed or sent and not yet answered.
    var inFlight: Set<DocumentID> = []
    /// A newer revision of a document in flight; only the newest waits.
    var waiting: [DocumentID: PushRow] = [:]
    /// Rows to be offered again, before new ones are read.
    var again: [PushRow] = []
    /// Revisions that the peer acknowledged and that are not noted in the store yet.
    var acknowledged: [DocumentID: RevisionID] = [:]
    var unsavedMarks: [(DocumentID, RevisionID)] = []
    /// Documents refused for the moment (503) and their sequences, which stay open: offered again after a while, or in the
    /// next run.
    var deferred: [DocumentID: SequenceNumber] = [:]
    var deferralSeconds = 0
    var deferralIsScheduled = false
    var retriesDeferred = false
    /// Exclusions may be stored for this peer, so what gets through must be taken off them.
    var mayHaveExclusions = false
    /// Documents that got through and may be on the list of exclusions still.
    var unsavedInclusions: Set<DocumentID> = []

    let wakes: AsyncStream<Void>
    private let wakeContinuation: AsyncStream<Void>.Continuation
    var tasks: [Task<Void, Never>] = []

    init(style: Style, since: SequenceNumber, isContinuous: Bool, activeOnly: Bool, documentIDs: [DocumentID]?) {
        self.style = style
        self.isContinuous = isContinuous
        self.activeOnly = activeOnly
        self.documentIDs = documentIDs
        cursor = since
        tracker = LocalSequenceTracker(from: since)
        (wakes, wakeContinuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
    }

    /// Moves the beginning, before anything was read.
    func start(from sequence: SequenceNumber) {
        cursor = sequence
        tracker = LocalSequenceTracker(from: sequence)
    }

    /// The loop has something to look at.
    func wake() { wakeContinuation.yield() }

    func end() {
        wakeContinuation.finish()
        for task in tasks { task.cancel() }
        tasks = []
    }

    /// A one-shot subscription ends with the marker; what changes later is for the next one.
    var isOver: Bool { style == .changes && !isContinuous && announcedCaughtUp }

    var wantedCount: Int { wanted.count - wantedHead }

    /// Nothing is under way: all that was read is done or parked.
    var isDrained: Bool { listsInFlight == 0 && wantedCount == 0 && revisionsInFlight == 0 && again.isEmpty && waiting.isEmpty }

    func isFull(_ limits: ReplicationLimits) -> Bool {
        listsInFlight >= limits.changeListsInFlight || revisionsInFlight + wantedCount >= limits.revisionsInFlight
            || bytesInFlight >= limits.revisionBytesInFlight
    }
}

/// The state of the receiving side of one collection.
final class PullFeed {
    /// We subscribed (active) and the end of the backlog was announced.
    var isCaughtUp = false
    var isSubscribed = false
    /// Order of the peer's rows; only where we are active.
    var tracker: RemoteSequenceTracker?

    /// Change lists that wait for room.
    var lists: [WaitingList] = []
    var listBytes = 0
    var isProcessingLists = false
    /// Active: rows whose revision was asked for and has not come.
    var awaited: Set<RemoteSequence> = []
    /// Passive: revisions accepted and not come yet. A hint only: a pusher may drop what changed meanwhile.
    var expected = 0
    /// Revisions that came and are not settled yet.
    var buffered = 0
    /// Revisions of this peer may be stored as held or rejected, so what gets through must be taken off them.
    var mayHaveHeld = false

    var incoming: [ReceivedRevision] = []
    var incomingBytes = 0
    var batchesInFlight = 0
    var flushIsScheduled = false
    /// Watchers of the policies.
    var tasks: [Task<Void, Never>] = []

    var isDrained: Bool { lists.isEmpty && !isProcessingLists && awaited.isEmpty && incoming.isEmpty && batchesInFlight == 0 }

    /// More revisions may be asked for.
    func hasRoom(_ limits: ReplicationLimits) -> Bool { awaited.count + buffered < limits.requestedRevisions }
}

/// A change list of the peer that was not answered yet.
struct WaitingList {
    var request: IncomingRequest
    /// The rows of `changes`, read already; empty for proposals.
    var offers: [RowResult<OfferedRow>] = []
}

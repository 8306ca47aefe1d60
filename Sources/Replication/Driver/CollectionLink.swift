import Documents
import DocumentStore
import Environment
import Interfaces

/// One collection on one connection: its machines, and the state needed to carry out their actions. Confined to its session.
final class CollectionLink {
    /// Position in the session's list.
    let slot: Int
    let collection: Collection
    /// Revisions of collections with a higher priority are sent first.
    var priority = 0
    var push: PushMachine?
    var pull: PullMachine
    var checkpoint: CheckpointMachine?
    /// The sequence at which the pull started; nil: the beginning.
    var pulledFrom: RemoteSequence?
    /// What was sent to the peer last; the same bytes are kept here.
    var checkpointBytes: [UInt8] = []

    /// The store's notes on documents up to this sequence are not trusted until the push has passed it, over as many connections as that takes.
    var comparesThrough: SequenceNumber = 0

    /// Where the push reads from.
    var source: FeedSource
    var pushFilter: (any DocumentFilter)?
    /// Number of documents on the list of those that the peer refused.
    let refusals = RefusalCount()
    /// The same of those of the peer that cannot be stored here; whether there may be any, if that is known; and how often some were noted.
    let notTaken = RefusalCount()
    var mayHaveNotTaken: Bool?
    var notedNotTaken = 0
    var pullFilter: (any DocumentFilter)?
    var syncFunction: (any SyncFunction)?
    /// Decides conflicts; nil on a passive side without a resolver, which refuses them.
    var resolver: ConflictDecider?
    /// The store's id for the peer; nil if nothing is remembered about it (a passive session).
    var remote: RemoteID?
    /// The remote may have all of our documents, so it may learn which revisions are here.
    var mayNameAll = false
    /// The store knows the channels that the peer's authenticator reported.
    var hasSetAccess = false

    /// How far the store's notes on the peer are trusted.
    var marks: PeerMarks

    /// There may be documents here that the peer took away.
    var mayHaveOrphans = false
    /// The review of orphans continues behind this document, once the removals that it has found are decided. Nil: it has found all.
    var orphansReviewed: DocumentID?

    /// Revisions that the peer wants, checked once more before they are sent.
    var leaving = PreSendReview()

    /// Documents that the peer refused because of its clock.
    var awaitedTimes = AwaitedTimes()

    /// The revisions of each batch that are not checked yet.
    var unchecked: [BatchID: UncheckedRevisions] = [:]

    var deltas = DeltaCounts()
    var outgoingDeltas = OutgoingDeltas()
    /// Bytes saved by each delta in flight to the peer.
    var deltasInFlight: [DocumentID: Int] = [:]
    var incomingDeltas: IncomingDeltas
    /// Used only if the peer may not have everything.
    var exchanged: ExchangedRevisions

    /// Number of pushes so far on this connection, to recognise what belongs to an earlier one.
    var generation = 0
    var observation: ChangeObservation?
    /// Observes repairs of blobs.
    var mends: ChangeObservation?
    /// Tasks that watch the policies for changes.
    var watchers: [Task<Void, Never>] = []

    /// The counts that the session saw when it last looked.
    var countsSeen = ReplicationCounts()
    var bytesSeen = 0
    var awaitedSeen = 0
    var outgoingSeen = 0
    /// Memory of the ids that the peer subscribed to, in bytes.
    var subscribedBytes = 0
    /// Something has happened to the link since the session last looked.
    var hasActivity = false
    var wasBusy = false
    var pullWasComplete = true
    var wasOwed = false

    init(slot: Int, collection: Collection, pull: PullMachine, source: FeedSource) {
        self.slot = slot
        self.collection = collection
        self.pull = pull
        self.source = source
        incomingDeltas = IncomingDeltas()
        exchanged = ExchangedRevisions(limit: pull.settings.limits.exchangedRevisions)
        marks = PeerMarks(limit: pull.settings.limits.echoMemory)
    }

    var isBusy: Bool {
        if !pull.isComplete || pull.pauses.paused > 0 || !incomingDeltas.isEmpty { return true }
        guard let push, !pull.settings.limits.hasPlanted(.idleWhileOwed) else { return false }
        return !push.isFinished && !push.isIdle
    }

    var counts: ReplicationCounts {
        var counts = push.map { $0.ledger.counts + pull.counts + endedPushes } ?? pull.counts
        counts.deltas = deltas
        return counts
    }

    /// Counts of pushes that another subscription replaced.
    private var endedPushes = ReplicationCounts()

    /// Memory of what was received and is not stored yet, in bytes.
    var bufferedBytes: Int { pull.bufferedBytes + incomingDeltas.bytes }

    /// How far push and pull are.
    var progress: CheckpointBody {
        CheckpointBody(
            local: (push?.ledger.completedThrough ?? checkpoint?.saved.local ?? 0) + (pull.settings.limits.hasPlanted(.checkpointTooFar) ? 1 : 0),
            remote: pull.tracker?.completedThrough ?? checkpoint?.saved.remote)
    }

    /// How much of ``ReplicationCounts/completed`` is covered by the checkpoint that is being saved, and by the last one that was saved.
    private var covered: (saving: UInt64, saved: UInt64) = (0, 0)

    /// A checkpoint of the present progress is about to be saved.
    func coverCounts() {
        let (completed, beyond) = (counts.completed, (push?.ledger.doneBeyond ?? 0) + (pull.tracker?.offeredAgain ?? 0))
        covered.saving = completed - min(completed, beyond)
    }

    /// The checkpoint is saved.
    func checkpointSaved() { covered.saved = covered.saving }

    /// Documents that were processed, and are again on the next connection: no checkpoint covers them.
    var processedAgain: UInt64 { counts.completed - min(counts.completed, covered.saved) }

    /// Ends the push, if there is one.
    func endPush() {
        if var ended = push?.ledger.counts {
            // The next push counts again what was under way.
            ended.total = min(ended.total, ended.completed)
            endedPushes = endedPushes + ended
        }
        push = nil
        awaitedTimes = AwaitedTimes()
        leaving = PreSendReview()
        outgoingDeltas = OutgoingDeltas()
        deltasInFlight = [:]
        observation?.cancel()
        observation = nil
        mends?.cancel()
        mends = nil
    }

    func end() {
        observation?.cancel()
        observation = nil
        mends?.cancel()
        mends = nil
        for task in watchers { task.cancel() }
        watchers = []
    }

    /// Drops the documents under way. The connection keeps its session until the peer has answered CLOSE, which may take time, and they no longer
    /// count towards the memory budget.
    func release() {
        push = nil
        awaitedTimes = AwaitedTimes()
        for batch in unchecked.values { batch.giveUp() }
        unchecked = [:]
        leaving = PreSendReview()
        outgoingDeltas = OutgoingDeltas()
        deltasInFlight = [:]
        incomingDeltas = IncomingDeltas()
        exchanged = ExchangedRevisions(limit: pull.settings.limits.exchangedRevisions)
        pull = PullMachine(pull.settings)
    }
}

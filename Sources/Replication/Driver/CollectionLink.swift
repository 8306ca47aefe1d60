import Documents
import DocumentStore
import Environment
import Interfaces

/// One collection on one connection: its machines, and what their actions are executed with. Confined to its session.
final class CollectionLink {
    /// Position in the session's list.
    let slot: Int
    let collection: Collection
    /// Revisions of collections with a higher one are sent first.
    var priority = 0
    var push: PushMachine?
    var pull: PullMachine
    var checkpoint: CheckpointMachine?
    /// Where the pull began; nil: at the beginning.
    var pulledFrom: RemoteSequence?
    /// What was sent to the peer last; the same bytes are kept here.
    var checkpointBytes: [UInt8] = []

    /// What is noted of the documents up to this sequence is not believed until the push has passed it, over as many connections as that takes.
    var comparesThrough: SequenceNumber = 0

    /// Where the push reads from.
    var source: FeedSource
    var pushFilter: (any DocumentFilter)?
    /// How many documents are on the list of what the peer refused.
    let refusals = RefusalCount()
    var pullFilter: (any DocumentFilter)?
    var syncFunction: (any SyncFunction)?
    /// Decides conflicts; nil on a passive side without a resolver, which refuses them.
    var resolver: ConflictDecider?
    /// Under which the store knows the peer; nil where nothing is remembered of it (a passive session).
    var remote: RemoteID?
    /// The remote may have every document of ours, so it may be told which revisions are here.
    var mayNameAll = false
    /// The store knows what the peer's authenticator said of its channels.
    var hasSetAccess = false

    /// What is believed of the store's notes on the peer.
    var marks: PeerMarks

    /// Documents may be here that the peer took away.
    var mayHaveOrphans = false

    /// What the peer wants, and what is looked at once more before it goes.
    var leaving = LeavingRevisions()

    /// What the peer refused because of its clock.
    var awaitedTimes = AwaitedTimes()

    /// What is being checked of each batch.
    var unchecked: [BatchID: UncheckedRevisions] = [:]

    var deltas = DeltaCounts()
    var outgoingDeltas = OutgoingDeltas()
    /// Bytes that a delta on its way to the peer saves.
    var deltaTrips: [DocumentID: Int] = [:]
    var incomingDeltas: IncomingDeltas
    /// Only where the peer may not have everything.
    var exchanged: ExchangedRevisions

    /// Counts the pushes on this connection, so that what belongs to an earlier one is known.
    var generation = 0
    var observation: ChangeObservation?
    /// Of blobs that become right again.
    var mends: ChangeObservation?
    /// Watchers of the policies.
    var watchers: [Task<Void, Never>] = []

    /// What the session knows of the link since it last looked.
    var countsSeen = ReplicationCounts()
    var bytesSeen = 0
    var awaitedSeen = 0
    var outgoingSeen = 0
    /// Of ids that the peer subscribed to.
    var subscribedBytes = 0
    /// Something happened to it since then.
    var isTouched = false
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
        if !pull.isComplete || !incomingDeltas.isEmpty { return true }
        guard let push, !pull.settings.limits.has(.idleWhileOwed) else { return false }
        return !push.isFinished && !push.isIdle
    }

    var counts: ReplicationCounts {
        var counts = push.map { $0.ledger.counts + pull.counts + endedPushes } ?? pull.counts
        counts.deltas = deltas
        return counts
    }

    /// Of pushes that another subscription replaced.
    private var endedPushes = ReplicationCounts()

    /// What was received and is not stored yet holds.
    var bufferedBytes: Int { pull.bufferedBytes + incomingDeltas.bytes }

    /// How far push and pull have come.
    var progress: CheckpointBody {
        CheckpointBody(
            local: (push?.ledger.completedThrough ?? checkpoint?.saved.local ?? 0) + (pull.settings.limits.has(.checkpointTooFar) ? 1 : 0),
            remote: pull.tracker?.completedThrough ?? checkpoint?.saved.remote)
    }

    /// Ends the push, if there is one.
    func endPush() {
        if var ended = push?.ledger.counts {
            // What is under way is counted anew by the next push.
            ended.total = min(ended.total, ended.completed)
            endedPushes = endedPushes + ended
        }
        push = nil
        awaitedTimes = AwaitedTimes()
        leaving = LeavingRevisions()
        outgoingDeltas = OutgoingDeltas()
        deltaTrips = [:]
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

    /// Lets go of the documents under way. The connection keeps its session until the peer has answered CLOSE, for which it may take its
    /// time, and the budget does not count them any more.
    func release() {
        push = nil
        awaitedTimes = AwaitedTimes()
        for batch in unchecked.values { batch.giveUp() }
        unchecked = [:]
        leaving = LeavingRevisions()
        outgoingDeltas = OutgoingDeltas()
        deltaTrips = [:]
        incomingDeltas = IncomingDeltas()
        exchanged = ExchangedRevisions(limit: pull.settings.limits.exchangedRevisions)
        pull = PullMachine(pull.settings)
    }
}

import Documents
import Interfaces
import NIOCore
import Synchronization

/// What a replicator is doing, in Couchbase Lite's terms.
public enum ActivityLevel: String, Sendable {
    case stopped, offline, connecting, idle, busy
}

/// Something that happened to one document in a replication.
public struct DocumentEvent: Sendable {
    public var id: DocumentID
    public var collection: CollectionName
    public var direction: Direction
    public var isDeleted: Bool
    public var isAccessRemoved: Bool
    /// Nil if the document was replicated.
    public var error: ReplicationError?
    /// The peer accepted a document that we sent without storing it.
    public var kept: KeptByPeer?
    /// It waited here for a blob, which could not be obtained this time either: the remote may no longer have the document.
    var isHeldAgain = false
    /// When a replicator reported it, in seconds since 1970, and the id of the connection in its own and the peer's logs.
    public internal(set) var time: Int64?
    public internal(set) var correlationID: String?

    public init(
        id: DocumentID, collection: CollectionName, direction: Direction, isDeleted: Bool = false,
        isAccessRemoved: Bool = false, error: ReplicationError? = nil
    ) {
        self.id = id
        self.collection = collection
        self.direction = direction
        self.isDeleted = isDeleted
        self.isAccessRemoved = isAccessRemoved
        self.error = error
    }
}

/// Counts of one replicator or of one peer's session. They only increase during a run, except for ``completed`` and ``total``: when a connection ends
/// early, they go back to what the last checkpoint covers, because the next one goes through the rest again.
public struct ReplicationCounts: Sendable, Equatable {
    /// Documents that the peer acknowledged.
    public var pushed: UInt64 = 0
    /// Documents from the peer that are durably stored here.
    public var pulled: UInt64 = 0
    /// Documents that a filter kept back.
    public var rejected: UInt64 = 0
    /// Documents that failed with an error.
    public var failed: UInt64 = 0
    /// Documents that are held: their filter failed, they are too large, or a blob cannot be obtained or sent.
    public var held: UInt64 = 0
    /// Conflicts that were decided.
    public var resolved: UInt64 = 0
    /// Documents purged here because the peer revoked access.
    public var accessRemoved: UInt64 = 0
    /// Documents processed, out of ``total``.
    public var completed: UInt64 = 0
    /// Documents known to need processing.
    public var total: UInt64 = 0
    public var deltas = DeltaCounts()
    /// Bytes of the protocol's frames, without WebSocket and TLS overhead; with a database reached by HTTP requests, of their bodies.
    public var bytesSent: UInt64 = 0
    public var bytesReceived: UInt64 = 0
    /// Bytes of blobs as stored, including those of incomplete ones.
    public var blobBytesSent: UInt64 = 0
    public var blobBytesReceived: UInt64 = 0

    public init() {}

    // Written out instead of using key paths: this runs for every message.
    package static func + (a: Self, b: Self) -> Self {
        var sum = a
        sum.pushed &+= b.pushed
        sum.pulled &+= b.pulled
        sum.rejected &+= b.rejected
        sum.failed &+= b.failed
        sum.held &+= b.held
        sum.resolved &+= b.resolved
        sum.accessRemoved &+= b.accessRemoved
        sum.completed &+= b.completed
        sum.total &+= b.total
        sum.bytesSent &+= b.bytesSent
        sum.bytesReceived &+= b.bytesReceived
        sum.blobBytesSent &+= b.blobBytesSent
        sum.blobBytesReceived &+= b.blobBytesReceived
        sum.deltas = a.deltas + b.deltas
        return sum
    }

    static func - (a: Self, b: Self) -> Self { a + b.negated }

    /// The counts that subtract these when added, as unsigned numbers wrap around.
    private var negated: Self {
        var result = Self()
        result.pushed = 0 &- pushed
        result.pulled = 0 &- pulled
        result.rejected = 0 &- rejected
        result.failed = 0 &- failed
        result.held = 0 &- held
        result.resolved = 0 &- resolved
        result.accessRemoved = 0 &- accessRemoved
        result.completed = 0 &- completed
        result.total = 0 &- total
        result.bytesSent = 0 &- bytesSent
        result.bytesReceived = 0 &- bytesReceived
        result.blobBytesSent = 0 &- blobBytesSent
        result.blobBytesReceived = 0 &- blobBytesReceived
        result.deltas = deltas.negated
        return result
    }
}

/// A document that a pulling peer does not get because the push filter could not decide about it.
public struct Stall: Sendable, Equatable {
    public var collection: CollectionName
    public var id: DocumentID
    public var failure: PolicyFailure
}

/// The counts of a replicator, written by its session and read by anyone.
public final class ReplicationCounters: Sendable {
    private struct State {
        var counts = ReplicationCounts()
        var beforeBurst = ReplicationCounts()
        var isAtRest = false
        /// Documents that the last connection processed and the next one processes again.
        var processedAgain: UInt64 = 0
        /// What connections sent and got no answer for.
        var unanswered: [CollectionName: UnansweredPushes] = [:]
    }

    private let state = Mutex(State())
    private let stallsBySlot = Mutex([Int: [Stall]]())
    let blobs = BlobProgress()

    public init() {}

    public var snapshot: ReplicationCounts { state.withLock { $0.counts } }

    /// The counts, and their values before the first work since the replicator was last idle, as of the same moment.
    var withBurst: (counts: ReplicationCounts, before: ReplicationCounts) { state.withLock { ($0.counts, $0.beforeBurst) } }

    /// The replicator is idle: the next counted work starts a new burst. Other activity, such as saving a checkpoint, does not.
    func rest() { state.withLock { $0.isAtRest = true } }

    /// Documents held for this peer because the push filter could not decide about them; only a few per collection.
    public var stalls: [Stall] { stallsBySlot.withLock { $0.sorted { $0.key < $1.key }.flatMap(\.value) } }

    func stall(_ slot: Int, at stalls: [Stall]) {
        stallsBySlot.withLock { if $0[slot] ?? [] != stalls { $0[slot] = stalls } }
    }

    /// Adds what happened since the last call.
    func add(_ difference: ReplicationCounts) {
        guard difference != ReplicationCounts() else { return }
        state.withLock { state in
            if state.isAtRest, difference.completed != 0 || difference.total != 0 { (state.beforeBurst, state.isAtRest) = (state.counts, false) }
            state.counts = state.counts + difference
        }
    }

    #if DEBUG
    /// Bytes of received messages, after inflation, and bytes copied to assemble them. For the simulation.
    package var copying: (taken: Int, copied: Int) { copies.withLock { $0 } }
    private let copies = Mutex((taken: 0, copied: 0))

    func took(_ bytes: Int, copied: Int) {
        copies.withLock {
            $0.taken += bytes
            $0.copied += copied
        }
    }
    #endif

    /// Counts the bytes, and returns the messages.
    func sent(_ messages: [ByteBuffer], _ bytes: Int) -> [ByteBuffer] {
        update { $0.bytesSent += UInt64(bytes) }
        return messages
    }

    func received(_ messages: [ByteBuffer]) -> [ByteBuffer] {
        let bytes = messages.reduce(0) { $0 + UInt64($1.readableBytes) }
        update { $0.bytesReceived += bytes }
        return messages
    }

    /// Counts a request and its answer.
    func exchanged(sent: Int, received: Int) {
        guard sent > 0 || received > 0 else { return }
        update { counts in
            counts.bytesSent += UInt64(sent)
            counts.bytesReceived += UInt64(received)
        }
    }

    /// A connection ended prematurely: this much of what it processed is not covered by a checkpoint.
    func note(processedAgain count: UInt64) { state.withLock { $0.processedAgain = count } }

    /// The next connection counts these documents again.
    func restartCounts() {
        state.withLock { state in
            state.counts.completed -= min(state.counts.completed, state.processedAgain)
            if state.processedAgain > 0 { state.counts.total = min(state.counts.total, state.counts.completed) }
            state.processedAgain = 0
        }
    }

    func note(unanswered: UnansweredPushes, of collection: CollectionName) { state.withLock { $0.unanswered[collection] = unanswered } }

    func takeUnanswered(of collection: CollectionName) -> UnansweredPushes {
        state.withLock { $0.unanswered.removeValue(forKey: collection) ?? UnansweredPushes() }
    }

    func update(_ change: (inout ReplicationCounts) -> Void) { state.withLock { change(&$0.counts) } }
}

/// Counts of checks whether an idle connection misses something.
public struct SilenceCounts: Sendable, Equatable {
    public var checks: UInt64 = 0
    public var reconnects: UInt64 = 0

    public init() {}
}

/// A replicator's status at one moment.
public struct ReplicatorStatus: Sendable {
    public var activity: ActivityLevel
    public var counts: ReplicationCounts
    /// Documents processed and known to need processing since the replicator was last idle: the completedChangesCount and changesCount of Couchbase
    /// Lite 1.x.
    public internal(set) var burst: (completed: UInt64, total: UInt64) = (0, 0)
    /// The last run's error; nil while all is well.
    public var error: ReplicationError?
    /// Blob transfers in progress.
    public var blobs: [BlobUnderWay] = []
    /// What the peer does not let us do, as far as the current or last connection has shown.
    public var refusals = PeerRefusals()
    /// Since when this has been so.
    public internal(set) var behindSince = BehindTimes()
    /// The id that both sides use in their logs for the current or last connection; nil if there was none, or the peer was not told.
    public var correlationID: String?
    /// What is spoken with the peer, or was on the last connection of this run: a subprotocol such as `BLIP_3+CBMobile_3`, or `CouchDB`; nil if there
    /// was no connection.
    public var peerProtocol: String?
    /// An operator suspended it.
    public var isSuspended = false
    /// How often an idle connection was checked for whether the peer is ahead, and how often that led to a new connection.
    public var silence = SilenceCounts()
    /// When the remote was last found in an older state; nil if never.
    public internal(set) var wentBack: RemoteWentBack?
    /// Retries since the last connection.
    public var attempt: Int
    /// Seconds until the next attempt, while offline.
    public var retryInSeconds: Int?
    /// When the current activity began, in seconds since 1970.
    public var since: Int64
    /// When a run last ended well or reached idle, in seconds since 1970. A run in which the peer accepts nothing from us does not count.
    public var lastSuccess: Int64?

    /// Seconds since both sides were last known to be in sync; nil if they never were.
    public func lag(now: Int64) -> Int64? {
        activity == .idle && refusals.behind == nil ? 0 : lastSuccess.map { max(0, now - $0) }
    }

    public init(activity: ActivityLevel = .stopped, since: Int64 = 0, lastSuccess: Int64? = nil) {
        self.lastSuccess = lastSuccess
        self.activity = activity
        counts = ReplicationCounts()
        attempt = 0
        self.since = since
    }
}

/// Attempts and connections of a replicator that ended with an error since both sides were last known to be in sync.
public struct Interruptions: Sendable, Equatable {
    /// When the first of them ended, in seconds since 1970.
    public var since: Int64
    public var count = 0
}

import BLIP
import Environment

/// The limits of the replication protocol. Exceeding one produces an error that names it.
///
/// Copies share their values: each connection has a dozen parts that use the limits, and a copy in each of them would count a thousandfold with a
/// thousand idle connections.
@dynamicMemberLookup
public struct ReplicationLimits: Sendable {
    private final class Shared: Sendable {
        let values: ReplicationLimitValues
        let blip: BLIPLimits

        init(_ values: ReplicationLimitValues) {
            self.values = values
            blip = BLIPLimits(values)
        }
    }

    private static let standard = Shared(ReplicationLimitValues())
    private var shared = Self.standard

    public init() {}

    public subscript<Value>(dynamicMember path: WritableKeyPath<ReplicationLimitValues, Value>) -> Value {
        get { shared.values[keyPath: path] }
        set {
            var values = shared.values
            values[keyPath: path] = newValue
            shared = Shared(values)
        }
    }

    /// The limits of the BLIP connection underneath.
    var blip: BLIPLimits { shared.blip }

    #if DEBUG
    package mutating func plant(_ fault: PlantedFault?) { self.planted = fault }
    /// Whether the simulation has planted this bug here. It is carried by the limits because every machine has those at hand.
    func hasPlanted(_ fault: PlantedFault) -> Bool { shared.values.planted == fault }
    #else
    package mutating func plant(_ fault: PlantedFault?) {}
    @inline(__always) func hasPlanted(_ fault: PlantedFault) -> Bool { false }
    #endif
}

/// The values of ``ReplicationLimits``, each with the reason for its default.
public struct ReplicationLimitValues: Sendable {
    /// `rows_per_change_list`: rows in one `changes` or `proposeChanges`. Other implementations send 200.
    public var rowsPerChangeList = 200
    /// The same in the lists that we subscribe to. Sync Gateway sends at least 10.
    var rowsPerSubscribedList = 200
    /// `max_rows_in_change_list`: rows accepted in one list from a peer; five times what any known peer sends.
    public var maximumRowsInChangeList = 1_000
    /// `max_values_per_row`: JSON values per row of a change list, on average; twice what any known peer sends.
    public var maximumValuesPerRow = 10
    /// `max_sequence_bytes`: a sequence of a peer's feed. Those of a CouchDB cluster with many shards are several kilobytes long.
    public var maximumSequenceBytes = 8 << 10
    /// `max_change_list_bytes`: the size of a `changes` or `proposeChanges` body from a peer.
    public var maximumChangeListBytes = 4 << 20
    /// `change_lists_in_flight`: unanswered change lists while the backlog is sent.
    public var changeListsInFlight = 5
    /// `revs_in_flight`: unanswered `rev` messages.
    public var revisionsInFlight = 2_000
    /// `rev_bytes_in_flight`: body bytes of unanswered `rev` messages.
    public var revisionBytesInFlight = 4 << 20
    /// `requested_revs`: revisions requested from a peer and not stored yet; at the limit, its change lists wait.
    public var requestedRevisions = 2_000
    /// `max_waiting_change_lists`: change lists from a peer that wait to be processed; peers keep about five in flight.
    public var maximumWaitingChangeLists = 200
    /// `max_waiting_change_list_bytes`: the bodies of these lists, in total.
    public var maximumWaitingChangeListBytes = 32 << 20
    /// `rows_read_again`: documents re-read in one go because they changed while being pushed or are due again; each may have the maximum document
    /// size.
    public var rowsReadAgain = 10
    /// `offers_per_document`: how often one revision is offered to a peer that names a different current revision each time, and how often a peer that goes
    /// back to the same revision is offered the current one on a connection.
    public var offersPerDocument = 5
    /// `held_documents`: documents that a peer's feed may skip because the filter fails on them. A filter that fails on more is considered broken,
    /// and the feed stalls.
    public var heldDocuments = 1_000
    /// `refused_documents`: documents per collection on the list of those that the peer refused; any further ones are only logged.
    public var refusedDocuments = 10_000
    /// `not_taken_documents`: documents per collection on the list of those of the remote that cannot be stored here; any further ones are only logged.
    public var notTakenDocuments = 10_000
    /// `unsaved_marks`: acknowledgements that are written to the store together.
    public var unsavedMarks = 1_000
    /// `conflicts_at_once`: conflicts decided in one go.
    public var conflictsAtOnce = 50
    /// `insertion_batch_rows`: number of received revisions at which a batch starts without waiting for more.
    public var insertionBatchRows = 100
    /// `insertion_batch`: revisions in one transaction.
    public var insertionBatch = 500
    /// `insertion_batch_bytes`: total size of the revisions of one transaction.
    public var insertionBatchBytes = 8 << 20
    /// `insertion_batches_in_flight`: transactions of one collection in flight, so that the store never waits for the network.
    public var insertionBatchesInFlight = 2
    /// `buffered_rev_bytes`: memory of revisions received and not stored yet (bodies, ancestors, names of blobs); above it the connection is not
    /// read.
    public var bufferedRevisionBytes = 32 << 20
    /// `buffered_message_overhead`: what each conflict that waits for its decision counts towards `buffered_rev_bytes`.
    public var bufferedMessageOverhead = 512
    /// `max_buffered_rev_bytes`: above it revisions are refused temporarily. Reading continues above `buffered_rev_bytes` only while blobs are
    /// fetched, because they arrive on the same connection.
    public var maximumBufferedRevisionBytes = 128 << 20
    /// `owed_reply_bytes`: bytes of our replies that the peer has not read; above it the connection is not read.
    public var owedReplyBytes = 4 << 20
    /// `waiting_requests`: queued requests from a peer for checkpoints, collections or blobs; above it the connection is not read, unless they wait for
    /// the peer's acknowledgements of earlier answers.
    public var waitingRequests = 64
    /// `queued_requests`: the same; above it they are refused (503).
    public var queuedRequests = 1_024
    /// `turn_bytes`: bytes of a peer's messages, after inflation, that are processed before the other connections of the event loop get their turn.
    /// Each frame counts as an additional kilobyte. Two or three milliseconds at worst.
    public var turnBytes = 512 << 10
    /// `blob_piece_bytes`: bytes of a blob that are read from disk and sent at a time.
    public var blobPieceBytes = 64 << 10
    /// `blob_looks`: blobs that a connection looks up in the store at the same time, so that a document that names many does not block the others.
    public var blobLookUps = 64
    /// `awaited_blobs`: blobs that the revisions of a connection wait for at the same time; a single revision waits for at most a quarter of them. Of
    /// any further blobs, only the name is held.
    public var awaitedBlobs = 256
    /// `blob_fetches`: blobs that are fetched at the same time.
    public var blobFetches = 8
    /// `blob_reads`: requests for blobs served at the same time, piece by piece.
    public var blobReads = 2
    /// `proof_bytes`: blob bytes that a peer may have read for repeated proofs, of blobs that were already proved to it once: a few large blobs.
    public var proofBytes = 128 << 20
    /// `proof_bytes_per_second`: the rate at which that allowance refills; a hundredth of what one core reads and hashes.
    public var proofBytesPerSecond = 4 << 20
    /// `proof_piece_bytes`: bytes of a blob that are read and hashed at a time for a proof.
    public var proofPieceBytes = 1 << 20
    /// `proof_accounts`: peers whose use of that allowance is remembered, by user or address.
    public var proofAccounts = 10_000
    /// `first_proofs`: blobs remembered as proved, over all peers.
    public var firstProofs = 20_000
    /// `known_proofs`: proofs given on a connection that are cached rather than computed again; each takes at most 300 bytes.
    public var knownProofs = 1_000
    /// `max_blobs_per_document`: blobs that one revision from a peer may name.
    public var maximumBlobsPerDocument = 10_000
    /// `shown_blobs`: blobs that a session remembers as proved or sent by its peer, so that they need not be proved again.
    public var shownBlobs = 1_000
    /// `known_blob_bytes`: stored bodies up to this size are searched, many at a time, for the blobs that a document already names; the blobs of a
    /// larger one have to be proved again.
    public var knownBlobBytes = 64 << 10
    /// `max_document_bytes`: body of one document. Sync Gateway's limit.
    public var maximumDocumentBytes = 20 << 20
    /// `max_history`: revision ids sent with a revision, and requested. Couchbase Lite's limit.
    public var maximumHistory = 50
    /// `max_received_history`: ancestors accepted with a revision.
    public var maximumReceivedHistory = 1_000
    /// `max_collections`: collections in one `getCollections`.
    public var maximumCollections = 1_000
    /// `max_collections_bytes`: the size of a `getCollections` body, and of the answer to ours: a checkpoint of about 100 bytes per collection.
    public var maximumCollectionsBytes = 512 << 10
    /// `max_document_ids`: ids in a `subChanges` or a configuration.
    public var maximumDocumentIDs = 100_000
    /// `inline_list_bytes`: lists and answers up to this size are parsed on the connection's event loop; longer ones elsewhere.
    public var inlineListBytes = 64 << 10
    /// `max_channels`: channels in a `subChanges`. Sync Gateway warns from 50 on.
    public var maximumChannels = 10_000
    /// `max_checkpoint_bytes`: body of a peer's checkpoint, and of ours as a peer returns it. Couchbase Lite's take about 100 bytes, and a few more
    /// for each document that could not be pushed.
    public var maximumCheckpointBytes = 128 << 10
    /// `max_checkpoints`: checkpoints stored in a database by the peers of one user, or by all anonymous peers: one per device, remote and
    /// collection. The one not written for the longest time is replaced.
    public var maximumCheckpoints = 10_000
    /// `max_checkpoints_bytes`: the bodies of these checkpoints, in total.
    public var maximumCheckpointsBytes = 8 << 20
    /// `max_checkpoint_id_bytes`: a peer's checkpoint id.
    public var maximumCheckpointIDBytes = 512
    /// `max_blob_bytes`: one blob.
    public var maximumBlobBytes = 256 << 20
    /// `min_delta_bytes`: smaller bodies are sent whole. LiteCore's limit.
    public var minimumDeltaBytes = 200
    /// `max_delta_body_bytes`: larger bodies are sent whole; computing a delta takes many times the size of the bodies in memory.
    public var maximumDeltaBodyBytes = 1 << 20
    /// `delta_batch_bytes`: total size of the bodies and deltas processed together, unless a single one is larger. A delta never makes a body larger
    /// than its base and itself together, and at most ``insertionBatchBytes`` of the results wait to be stored before the next batch begins.
    public var deltaBatchBytes = 256 << 10
    /// `delta_copies`: how many copies of the base and the delta are in memory while a delta is applied, at worst, when it patches a long text. That
    /// much of `limits.memory` is reserved for it, and for the values of the delta. To compute a delta, both bodies are held as values.
    public var deltaCopies = 8
    /// `exchanged_revisions`: documents whose last exchanged revision a session remembers, for a peer that may not have everything; deltas from these
    /// revisions are safe.
    public var exchangedRevisions = 2_000
    /// `echo_memory`: revisions that a passive session remembers as received from its peer, so that it does not offer them back.
    public var echoMemory = 10_000
    /// `resolve_attempts`: how often a conflict is decided again because the document changed in the meantime.
    public var resolveAttempts = 10
    /// `checkpoint_interval`: seconds from the first progress to the saving of a checkpoint.
    public var checkpointIntervalSeconds = 5
    /// `deferral`: seconds until a continuous push again offers what the peer could not take temporarily; doubles each time, up to `max_deferral`.
    public var deferralSeconds = 30
    /// `max_deferral`: the longest such delay, in seconds. Couchbase Lite's longest retry delay.
    public var maximumDeferralSeconds = 300
    /// `refused_retry`: seconds until a continuous push again offers what the peer refused; doubles per document with each refusal of the same
    /// version, up to `longest_refused_retry`. 0: only when the document changes, on a new connection, or on request.
    public var refusedRetrySeconds = 60
    /// `room_look`: seconds between two checks for free space by a pull that has none. A wait takes at least this long; each time that the space
    /// found ran out again, it takes twice as long as before, up to `max_room_look`.
    public var spaceCheckSeconds = 3
    /// `max_room_look`: the longest such wait, in seconds.
    public var maximumSpaceCheckSeconds = 60
    /// `removal_wait`: seconds for which a peer may delay a removal by neither answering our edit of the document nor making progress with it.
    public var removalWaitSeconds = 120
    /// `insertion_delay`: milliseconds for which received revisions wait for more, to fill a batch.
    public var insertionDelayMilliseconds = 5
    /// `logged_documents`: failed documents of one batch of events that the log names; the rest is only counted.
    public var loggedDocumentsPerBatch = 5
    /// The compression level, as in zlib; 0: none. Level 3 was measured to compress four times as fast as the usual 6, for 9 % more bytes.
    public var compressionLevel: Int32 = 3
    /// Set if `limits.memory` is so small that it bounds the size of a document.
    var memoryForDocuments: DocumentMemory?
    /// The largest body, in bytes, that a pulling peer is sent; nil: any. Set if `limits.memory` is small.
    var largestGivenBody: Int?
    #if DEBUG
    /// Fault injection, for tests of the simulation itself.
    var planted: PlantedFault?
    #endif
}

/// Limits of the engine that are the same for every connection.
enum EngineBounds {
    /// `checkpoint_attempts`: how often a checkpoint is sent to a peer whose copy changes concurrently.
    static let checkpointAttempts = 3
    /// While there is no space here for a checkpoint, it is saved at doubling intervals: at most this many times the usual one.
    static let checkpointIntervalsWithoutSpace = 64
    /// `shown_held_documents`: documents skipped by a feed that are listed with their error; the others are only counted.
    static let shownHeldDocuments = 10
    /// `silence_grace`: seconds allowed for data in flight to arrive, before an idle connection that misses something counts as dead.
    static let silenceGraceSeconds = 30
    /// `retry_after`: the longest time for which a peer's `Retry-After` is honoured, in seconds.
    static let longestRetryAfterSeconds = 3_600
    /// `one_shot_retries`: retries of a one-shot replication whose configuration sets none. Couchbase Lite's.
    static let oneShotRetries = 9
    /// `longest_retry`: the longest delay before a retry if the configuration sets none, in seconds. Couchbase Lite's.
    static let longestRetrySeconds = 300
    /// `blocked_retry`: the first delay in seconds if somebody has to fix something first; doubles each time, up to `longest_blocked_retry`.
    static let blockedRetrySeconds = 60
    /// `longest_blocked_retry`: the longest such delay, in seconds.
    static let longestBlockedRetrySeconds = 3_600
    /// `longest_refused_retry`: the longest time until a document that the peer refused is offered again on the same connection, in seconds.
    static let longestRefusedRetrySeconds = 3_600
    /// Revisions remembered that were sent on connections which ended before the answer; with more, all are forgotten, and some do not count as pushed.
    static let unansweredPushes = 10_000
    /// Earlier offers of a document that a requested row lists, if it is unknown what the peer had: beyond that it lists none.
    static let namedOffers = 32
    /// The size in bytes assumed for a document at most, whatever sizes it claims: beyond any disk, the exact value does not matter.
    static let assumedDocumentBytes = 1 << 60
    /// Slots of a table that are kept for reuse once it is empty.
    static let spareSlots = 1_024
    /// Slots taken from the front of a queue beyond which they are removed, if they are more than half of it.
    static let takenSlots = 1_024
    /// The same for the local sequences that are being pushed; also the number of slots beyond which completed ones between open ones are removed, if
    /// they are three quarters of all.
    static let takenSequences = 4_096
}

/// Limits of a connection's driver that are the same for every connection.
enum DriverBounds {
    // MARK: Turns

    /// Events of the machines that are removed from the inbox together, once they are handled.
    static let handledEvents = 4_096
    /// Bytes of frames that are passed to the transport at a time.
    static let framesBytes = 64 << 10
    /// Events of documents that are reported to the session's owner together.
    static let documentEvents = 100
    /// Bytes of a peer's messages that are processed in a turn while memory is short.
    static let shortTurnBytes = 16 << 10
    /// Bytes to which a frame may always inflate, however little of the turn is left.
    static let leastInflatedBytes = 16 << 10
    /// Bytes of bodies that are checked before other batches get their turn.
    static let checkedBytes = 64 << 10

    // MARK: Pages

    /// Documents of a list in the store, or conflicts, that are read at a time.
    static let documentsPerPage = 200
    /// Bytes of bodies of the held revisions of one page; the one that reaches it is the last.
    static let heldRevisionBytes = 8 << 20
    /// Bytes of bodies read at a time for a peer while memory is short.
    static let shortPageBytes = 64 << 10
    /// Bytes of bodies shown to a filter at a time.
    static let filteredBytes = 4 << 20
    /// Bytes of current bodies shown to a sync function at a time: a write may be small, and the revision it replaces large.
    static let syncedBytes = 4 << 20
    /// Blobs of one revision that are looked for in other documents of the peer, documents that are examined for each of them, and for all of them
    /// together.
    static let blobsLookedFor = 100
    static let documentsPerBlob = 4
    static let documentsExamined = 16

    // MARK: Sending

    /// The next message is created when no more than this many bytes of earlier ones are left. Others learn what a session holds only after its turn.
    static let queueBytes = 1 << 20
    /// More than this is a single large message.
    static let largeQueueBytes = 2 << 20
    /// The same while memory is short: one message is always in flight.
    static let shortQueueBytes = 16 << 10
    /// The same if collections have different priorities: the most urgent one waits for no more than this.
    static let rankedQueueBytes = 64 << 10
    /// `owed_progress_bytes`: this many bytes show that a long document or blob is arriving. Fewer may come from a peer that only shows that it is
    /// alive.
    static let progressBytes = 16 << 10
    /// `reconnect_look`: seconds between two checks whether a busy connection makes progress. One that is to end, so that something can be requested again,
    /// goes on as long as it does.
    static let reconnectCheckSeconds = 5
    /// `longest_reconnect_wait`: how long such a connection may go on at most, in seconds.
    static let longestReconnectWaitSeconds = 3_600
    /// Bytes that a peer has not read when its connection ends, up to which they are not accounted for.
    static let negligibleUnreadBytes = 4 << 10

    // MARK: What takes no reservation of memory

    /// Bodies up to this size in bytes are checked and stored without one.
    static let smallBodyBytes = 64 << 10
    /// A body that we push needs a claim if it is larger than `limits.memory` divided by this.
    static let largeBodyFraction = 32
    /// `large_push_bytes`: if others wait for the memory of a large body that we push, this much at least has to go out every five seconds, in bytes; more
    /// if the body divided by `slowestLargeFraction` is more.
    static let slowestLargeBytes = 8 << 10
    static let slowestLargeFraction = 256
    /// Up to this many blobs of a revision are collected without one.
    static let namesWithoutReservation = 40
    /// Change lists up to this size in bytes are always parsed.
    static let smallListBytes = 2 << 10
    /// Answers up to this size in bytes are read in any case: everything that replicators store by themselves is far smaller.
    static let smallAnswerBytes = 4 << 10
    /// Bytes of requests that each connection may have waiting in any case: everything that known peers ask at once.
    static let smallRequestBytes = 16 << 10

    // MARK: Waiting for memory

    /// Milliseconds between two checks for memory for a frame.
    static let frameRoomMilliseconds = 20
    /// After this many checks, a second's worth, a frame is processed anyway: memory that nobody owes is not released on its own, whereas memory that
    /// the frame takes is owed by its peer, which may then be evicted for it.
    static let frameRoomChecks = 50
    /// Milliseconds between two checks for memory for an answer, and how often they are repeated: in that time, peers with unread answers disconnect
    /// or are evicted.
    static let answerRoomMilliseconds = 100
    static let answerRoomChecks = 20
    /// The same for the rows of a change list: in that time, connections that hold memory end or are evicted.
    static let listRoomMilliseconds = 50
    static let listRoomChecks = 40
}

/// Limits that follow from those of a connection.
extension ReplicationLimits {
    /// Documents, and likewise deletions, that are requested in a row while none fits: as many as are stored in one transaction.
    var triesForSpace: Int { self.insertionBatch }
    /// Arrived revisions that are searched for documents at most: as many as are stored in one transaction.
    var searchedArrivals: Int { self.insertionBatch }
}

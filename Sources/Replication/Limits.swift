import BLIP
import Environment

/// The bounds of the replication protocol. What exceeds one gets an error that names it.
///
/// Copies share their values: each connection has a dozen parts that know the limits, and a thousand idle connections are a
/// thousand times what one of them holds.
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

    /// The same where we asked for the documents: one for which there is no room fails by itself, and not its connection.
    func within(_ memory: MemoryBudget) -> ReplicationLimits {
        guard memory.limit / 2 < blip.maximumMessage else { return self }
        var limits = self
        limits.memoryForDocuments = memory.limit
        return limits
    }

    /// Of the connection beneath.
    var blip: BLIPLimits { shared.blip }

    #if DEBUG
    package mutating func plant(_ fault: PlantedFault?) { self.planted = fault }
    func has(_ fault: PlantedFault) -> Bool { shared.values.planted == fault }
    #else
    package mutating func plant(_ fault: PlantedFault?) {}
    @inline(__always) func has(_ fault: PlantedFault) -> Bool { false }
    #endif
}

/// What ``ReplicationLimits`` holds, each with its reason.
public struct ReplicationLimitValues: Sendable {
    /// `rows_per_change_list`: rows in one `changes` or `proposeChanges`. Peers of this field send 200.
    public var rowsPerChangeList = 200
    /// `max_rows_in_change_list`: rows that a peer may send in one list; five times what any peer sends.
    public var maximumRowsInChangeList = 1_000
    /// `max_values_per_row`: JSON values in a row of a change list, on average; twice what any peer sends.
    public var maximumValuesPerRow = 10
    /// `max_sequence_bytes`: a sequence of a peer's feed. Those of a CouchDB cluster with many shards have some kilobytes.
    public var maximumSequenceBytes = 8 << 10
    /// `max_change_list_bytes`: the size of a `changes` or `proposeChanges` body from a peer.
    public var maximumChangeListBytes = 4 << 20
    /// `change_lists_in_flight`: unanswered change lists while the backlog is sent.
    public var changeListsInFlight = 5
    /// `revs_in_flight`: unanswered `rev` messages.
    public var revisionsInFlight = 2_000
    /// `rev_bytes_in_flight`: body bytes of unanswered `rev` messages.
    public var revisionBytesInFlight = 4 << 20
    /// `requested_revs`: revisions requested from a peer and not stored yet; at the limit its change lists wait.
    public var requestedRevisions = 2_000
    /// `max_waiting_change_lists`: change lists of a peer that wait for room; peers keep five or so under way.
    public var maximumWaitingChangeLists = 200
    /// `max_waiting_change_list_bytes`: their bodies, all together.
    public var maximumWaitingChangeListBytes = 32 << 20
    /// `rows_read_again`: documents read again at once because they changed on their way, or their time has come; each may be as
    /// large as documents get.
    public var rowsReadAgain = 10
    /// `offers_per_document`: how often one revision is offered to a peer that names another one each time.
    public var offersPerDocument = 5
    /// `held_documents`: documents that a peer's feed goes on behind because the filter fails on them. A filter that fails on more is broken, and
    /// the feed stands still.
    public var heldDocuments = 1_000
    /// `refused_documents`: documents of a collection on the list of what the peer refused; of those beyond, the log tells.
    public var refusedDocuments = 10_000
    /// `unsaved_marks`: acknowledgements that are noted in the store together.
    public var unsavedMarks = 1_000
    /// `conflicts_at_once`: conflicts that are decided in one go.
    public var conflictsAtOnce = 50
    /// `insertion_batch_rows`: revisions that do not wait for more company.
    public var insertionBatchRows = 100
    /// `insertion_batch`: revisions in one transaction.
    public var insertionBatch = 500
    /// `insertion_batch_bytes`: what the revisions of one transaction hold.
    public var insertionBatchBytes = 8 << 20
    /// `insertion_batches_in_flight`: transactions of one collection under way, so that the store never waits for the network.
    public var insertionBatchesInFlight = 2
    /// `buffered_rev_bytes`: what revisions hold that are received and not stored: bodies, ancestors, names of blobs; above it the connection is not read.
    public var bufferedRevisionBytes = 32 << 20
    /// `buffered_message_overhead`: what a conflict costs that waits for its decision, for `buffered_rev_bytes`.
    public var bufferedMessageOverhead = 512
    /// `max_buffered_rev_bytes`: above it revisions are refused for the moment. Reading goes on above `buffered_rev_bytes`
    /// only while blobs are fetched, because they come by the same connection.
    public var maximumBufferedRevisionBytes = 128 << 20
    /// `owed_reply_bytes`: bytes of our replies that the peer has not taken; above it the connection is not read.
    public var owedReplyBytes = 4 << 20
    /// `waiting_requests`: requests of a peer for checkpoints, collections or blobs that wait for their turn; above it the
    /// connection is not read.
    public var waitingRequests = 64
    /// `turn_bytes`: bytes of a peer's messages, after inflation, that are looked at before the other connections of the event loop have their turn;
    /// a frame counts for a kilobyte more. Two or three milliseconds at worst.
    public var turnBytes = 512 << 10
    /// `blob_piece_bytes`: bytes of a blob that are read from disk and sent at once.
    public var blobPieceBytes = 64 << 10
    /// `blob_looks`: blobs that a connection has looked for at the same time; another's are not behind all that one document names.
    public var blobLooks = 64
    /// `awaited_blobs`: blobs that the revisions of a connection wait for at the same time, one revision for a quarter of them at most. Of the others
    /// nothing but the name is held.
    public var awaitedBlobs = 256
    /// `blob_fetches`: blobs that are fetched at the same time.
    public var blobFetches = 8
    /// `blob_reads`: requests for blobs that are served at the same time, piece by piece.
    public var blobReads = 2
    /// `proof_bytes`: bytes of blobs that a peer may have read for proofs of blobs that were proved to it before: a few large ones.
    public var proofBytes = 128 << 20
    /// `proof_bytes_per_second`: by how much that grows again; a hundredth of what a core reads and hashes.
    public var proofBytesPerSecond = 4 << 20
    /// `proof_piece_bytes`: bytes of a blob that are read and hashed at once for a proof.
    public var proofPieceBytes = 1 << 20
    /// `proof_accounts`: peers whose use of that is remembered, by user or address.
    public var proofAccounts = 10_000
    /// `first_proofs`: blobs that are remembered as proved, of all peers together.
    public var firstProofs = 20_000
    /// `known_proofs`: proofs that a connection was given and that are not made anew; each has 300 bytes or less.
    public var knownProofs = 1_000
    /// `max_blobs_per_document`: blobs that one revision from a peer may name.
    public var maximumBlobsPerDocument = 10_000
    /// `shown_blobs`: blobs that a session remembers as proved or sent by its peer, so that they need not be proved again.
    public var shownBlobs = 1_000
    /// `known_blob_bytes`: bodies up to this size are looked at for the blobs that a document names already, many at a time; those of a
    /// larger one are shown anew.
    public var knownBlobBytes = 64 << 10
    /// `max_document_bytes`: body of one document. Sync Gateway's limit.
    public var maximumDocumentBytes = 20 << 20
    /// `max_history`: revision ids sent with a revision, and asked for. Couchbase Lite's.
    public var maximumHistory = 50
    /// `max_received_history`: ancestors accepted with a revision.
    public var maximumReceivedHistory = 1_000
    /// `max_collections`: collections in one `getCollections`.
    public var maximumCollections = 1_000
    /// `max_collections_bytes`: the size of a `getCollections` body, and of the answer to ours: a checkpoint of about 100 bytes for each.
    public var maximumCollectionsBytes = 512 << 10
    /// `max_document_ids`: ids in a `subChanges` or a configuration.
    public var maximumDocumentIDs = 100_000
    /// `inline_list_bytes`: lists and answers up to this size are read where the connection runs; longer ones elsewhere.
    public var inlineListBytes = 64 << 10
    /// `max_channels`: channels in a `subChanges`. Sync Gateway warns from 50 on.
    public var maximumChannels = 10_000
    /// `max_checkpoint_bytes`: a peer's checkpoint body, and ours as a peer gives it back. Couchbase Lite's has about 100 bytes, and a few for
    /// each document that could not be pushed.
    public var maximumCheckpointBytes = 128 << 10
    /// `max_checkpoints`: checkpoints that the peers of one user have stored in a database, or those without a name; one for each
    /// device, remote and collection. The one that was not written for longest makes room.
    public var maximumCheckpoints = 10_000
    /// `max_checkpoints_bytes`: their bodies, all together.
    public var maximumCheckpointsBytes = 8 << 20
    /// `max_checkpoint_id_bytes`: a peer's checkpoint id.
    public var maximumCheckpointIDBytes = 512
    /// `max_blob_bytes`: one blob.
    public var maximumBlobBytes = 256 << 20
    /// `min_delta_bytes`: bodies below it travel whole. LiteCore's.
    public var minimumDeltaBytes = 200
    /// `max_delta_body_bytes`: bodies above it travel whole; to make a delta, bodies are in memory at many times their size.
    public var maximumDeltaBodyBytes = 1 << 20
    /// `delta_batch_bytes`: what bodies and deltas come to that are looked at together, or one of them alone. A delta never makes more than its
    /// base and itself, and no more than ``insertionBatchBytes`` of it waits to be stored before the next batch is begun.
    public var deltaBatchBytes = 256 << 10
    /// `delta_copies`: how often the text of a base and of its delta is in memory while the delta is applied, one that patches a long text at worst: so
    /// much of `limits.memory` is reserved for it, and for the values of the delta. To make a delta, both bodies are values.
    public var deltaCopies = 8
    /// `exchanged_revisions`: documents whose last revision a session remembers as sent or received, where the peer may not have
    /// everything; deltas from them are safe.
    public var exchangedRevisions = 2_000
    /// `echo_memory`: revisions a passive session remembers as received from its peer, so that it does not offer them back.
    public var echoMemory = 10_000
    /// `resolve_attempts`: how often a conflict is decided anew because the document changed meanwhile.
    public var resolveAttempts = 10
    /// `checkpoint_interval`: seconds from the first progress to the saving of a checkpoint.
    public var checkpointIntervalSeconds = 5
    /// `deferral`: seconds until a continuous push offers again what the peer could not take for the moment; doubles each
    /// time, up to `max_deferral`.
    public var deferralSeconds = 30
    /// `max_deferral`: the longest such delay, in seconds. Couchbase Lite's longest retry delay.
    public var maximumDeferralSeconds = 300
    /// `refused_retry`: seconds until a continuous push offers again what the peer refused; doubles for each document with each refusal of the same
    /// version, up to `longest_refused_retry`. 0: only when the document changes, on another connection, or when it is asked for.
    public var refusedRetrySeconds = 60
    /// `room_look`: seconds between two looks for room, of a pull that has none here. Its wait lasts at least as long, and each time that the room which
    /// it found did not last, twice as long as before, up to `max_room_look`.
    public var roomLookSeconds = 3
    /// `max_room_look`: the longest such time, in seconds.
    public var maximumRoomLookSeconds = 60
    /// `removal_wait`: seconds that a peer may let a removal wait, because it neither answers our edit of the document nor goes on with it.
    public var removalWaitSeconds = 120
    /// `insertion_delay`: milliseconds that received revisions wait for company.
    public var insertionDelayMilliseconds = 5
    /// `logged_documents`: failed documents of one batch of events that the log names; the others are counted.
    public var loggedDocumentsPerBatch = 5
    /// The level of compression, as zlib counts; 0: none. 3 was measured to encode four times as fast as the usual 6, for 9 % more bytes.
    public var compressionLevel: Int32 = 3
    /// `limits.memory`, where it is so small that a document may take half of it at most: with what its message leaves behind it is counted half as much again.
    var memoryForDocuments: Int?
    #if DEBUG
    /// For the simulation's tests of itself.
    var planted: PlantedFault?
    #endif
}

/// Bounds of the engine that are the same for every connection.
enum EngineBounds {
    /// `checkpoint_attempts`: how often a checkpoint is sent to a peer whose copy of it was changed meanwhile.
    static let checkpointAttempts = 3
    /// `shown_held_documents`: documents that a feed goes on behind and that are named with what failed; the others are counted.
    static let shownHeldDocuments = 10
    /// `silence_grace`: seconds that what is under way gets to arrive, before an idle connection that misses something is taken for deaf.
    static let silenceGraceSeconds = 30
    /// `retry_after`: the longest time that a peer's `Retry-After` is followed, in seconds.
    static let longestRetryAfterSeconds = 3_600
    /// `one_shot_retries`: retries of a one-shot replication whose configuration names none. Couchbase Lite's.
    static let oneShotRetries = 9
    /// `longest_retry`: the longest delay before a retry where the configuration names none, in seconds. Couchbase Lite's.
    static let longestRetrySeconds = 300
    /// `blocked_retry`: the first delay where somebody has to do something first, in seconds; doubles each time, up to `longest_blocked_retry`.
    static let blockedRetrySeconds = 60
    /// `longest_blocked_retry`: the longest such delay, in seconds.
    static let longestBlockedRetrySeconds = 3_600
    /// `longest_refused_retry`: the longest time until what the peer refused is offered again on the same connection, in seconds.
    static let longestRefusedRetrySeconds = 3_600
}

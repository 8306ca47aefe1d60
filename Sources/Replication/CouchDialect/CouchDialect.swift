import Documents
import DocumentStore
import Encodings
import Environment
import Interfaces
import NIOCore
import Synchronization

/// CouchDB's replication protocol, version 3, as its replicator uses it: turns the engine's actions into requests to `_revs_diff`, `_bulk_docs`,
/// `_changes`, `_bulk_get` and `_local`, and the answers into events for the engine. It decides nothing, except which
/// of the peer's branches are over once a conflict is decided here (`CouchBranches.swift`).
///
/// Requests run in tasks; the results go back to the session as events, to be processed in its turns.
final class CouchDialect: RequestingDialect, Sendable {
    /// The state of one of the peer's leaves.
    enum Leaf {
        case announced
        case here
        /// It lost here, and is ended at the peer once the peer has the winner.
        case lost
        /// A tombstone from here that ends a loser.
        case end
    }

    /// What is known about a document with several leaves at the peer.
    struct Branches {
        var leaves: [RevisionID: Leaf] = [:]
        /// The leaves in the peer's last row.
        var row: Set<RevisionID> = []
        /// Leaves ended by others, and the tombstones that ended them.
        var ended: Set<RevisionID> = []
        var deleted: Set<RevisionID> = []

        /// It lost here, or was created here as a tombstone: it need not be fetched.
        func isOver(_ leaf: RevisionID) -> Bool { leaves[leaf] == .lost || leaves[leaf] == .end }

        /// Whether the peer has a greater live leaf.
        func isLoser(_ leaf: RevisionID) -> Bool { row.contains { leaf < $0 && leaves[$0] != .end && !deleted.contains($0) } }
    }

    struct State {
        var generation = 0
        var isOver = false
        var tasks: [Int: Task<Void, Never>] = [:]
        var lastTask = 0
        // Push
        var outgoing: [OutgoingDocument] = []
        var writes = 0
        /// Size of the documents in them, each of which is a copy of what the push holds.
        var writeBytes = 0
        // Pull
        var lists: [UInt64: CouchFeedPage] = [:]
        var lastList: UInt64 = 0
        var feedWaits: CheckedContinuation<Void, Never>?
        var wanted: [WantedRevision] = []
        /// How many revisions were wanted so far.
        var wantedCount = 0
        var fetches = 0
        /// Documents that turned out to be large, each with its leaves, and how many of them are being requested. Others do not wait behind them.
        var large: [Portion] = []
        var largeFetches = 0
        /// The last request was for one of them.
        var wasLarge = false
        /// Revisions whose attachments have yet to be requested: held ones, and all of them if a filter is asked first. And how many of them are
        /// being processed.
        var held: [HeldFetch] = []
        var attachmentFetches = 0
        /// How many revisions are requested together: fewer while answers are too large.
        var fetchSize = CouchBounds.firstFetch
        /// Documents in a row that the peer failed to send (500).
        var failedFetches = 0
        /// Memory of rows that wait to be passed to the engine, and of those that it is processing, in bytes.
        var entryBytes = 0
        var listBytes = 0
        /// Answers that were given up because they arrived too slowly, less those that came since.
        var slowAnswers = 0
        /// Attachments were given up for the same reason, and no pause has followed yet.
        var hasSlowAttachments = false
        /// The peer does not support `_bulk_get`.
        var lacksBulkGet = false
        /// Documents with several leaves at the peer: the losers have to be ended.
        var branches: [DocumentID: Branches] = [:]
        /// Those whose branches are being compared with the peer's, and those of them that are looked at again afterwards: true if only in a review.
        var ending: Set<DocumentID> = []
        var endedNext: [DocumentID: Bool] = [:]
        /// Total number of the peer's leaves in these documents.
        var leaves = 0
        var log = ReplicationLog()
        /// The peer's copy, as it was when the session began: it can be long, and is kept outside the session.
        var peerLog = ReplicationLog()
        /// The peer has shown a checkpoint that was saved there: if it shows none later, it has lost it.
        var showsCheckpoints = false
        /// Attachments received, by the peer's name for them.
        var attachments: [AttachmentName: BlobReference] = [:]

        /// Memory of what is remembered about leaves, in bytes.
        var leafBytes: Int { leaves * CouchBounds.leafBytes }

        /// Whether another document's leaves can be remembered.
        ///
        /// - Parameter bytes: memory that they may take.
        func canRememberMore(_ bytes: Int) -> Bool {
            branches.count < CouchBounds.branched && leaves < CouchBounds.branchedLeaves && leafBytes < bytes
        }
    }

    var traits: DialectTraits {
        DialectTraits(
            peerHasOne: false, refusesUnsolicited: false, saysThatCheckpointIsMissing: false, isRestartedByConflicts: true, hasSubprotocol: false,
            listsBlobsInBodies: false, messagesHoldBodies: false, holdsOnlyOwnWork: true, accountsForDebts: true)
    }

    let peer: any HTTPPeer
    let wire: WireLog?
    let limits: ReplicationLimits
    let environment: Environment
    let database: Database
    let memory: MemoryBudget
    /// The part of it for the rows of the peer's feed.
    let feedMemory: MemoryBudget.Feed
    /// This peer's place in line for the memory of answers.
    private let claimant: MemoryBudget.Claimant
    let collection: CollectionName
    /// The peer's branches are pulled and decided here, so ours wait for them.
    let pulls: Bool
    let pushes: Bool
    /// A filter judges a document before its attachments are requested.
    let filtersBeforeAttachments: Bool
    let counters: ReplicationCounters
    /// The owner under which the peer's unfinished blobs are kept.
    let blobOwner: String?
    /// Called when the beginning of an attachment was here from an earlier connection.
    let noteResumed: @Sendable (BlobDigest, _ offset: UInt64) -> Void
    let owed = OwedRequests()
    let state = Mutex(State())
    private let deliver = Mutex<@Sendable ([DialectEvent]) -> Void> { _ in }

    /// Nil if the transport carries messages instead of HTTP requests.
    init?(
        _ transport: any MessageTransport, _ role: SessionRole, _ environment: Environment, _ memory: MemoryBudget, _ wire: WireLog?,
        _ counters: ReplicationCounters, resumed: @escaping @Sendable (BlobDigest, UInt64) -> Void = { _, _ in }
    ) {
        guard let peer = transport as? any HTTPPeer, case .active(let active) = role else { return nil }
        self.peer = peer
        self.wire = wire
        self.counters = counters
        (blobOwner, noteResumed) = (role.blobOwner, resumed)
        self.environment = environment
        self.memory = memory
        feedMemory = memory.feed()
        claimant = memory.claimant()
        limits = active.replicator.limits
        database = active.replicator.database
        let wanted = active.replicator.collections.first
        (collection, filtersBeforeAttachments) = (wanted?.collection ?? .default, wanted?.pullFilter != nil)
        (pulls, pushes) = (active.replicator.type.pulls, active.replicator.type.pushes)
    }

    func begin(deliver: @escaping @Sendable ([DialectEvent]) -> Void) {
        self.deliver.withLock { $0 = deliver }
        let session = Hex.encode(environment.random.bytes(16))
        state.withLock { $0.log.session = session }
    }

    func tell(_ events: [DialectEvent]) { deliver.withLock { $0 }(events) }

    // MARK: - Work

    /// Runs work outside the session. An error thrown by it ends the connection.
    ///
    /// - Parameter finally: updates the state when the work has ended, after which the session reviews what to do.
    func run(_ work: @escaping @Sendable (CouchDialect) async throws -> Void, finally: @escaping @Sendable (inout State) -> Void = { _ in }) {
        state.withLock { state in
            guard !state.isOver else { return }
            state.lastTask += 1
            let number = state.lastTask
            state.tasks[number] = environment.task {
                do { try await work(self) } catch {
                    if !self.isOver { self.tell([.failed(ReplicationError(couch: error), wantsLegacy: false)]) }
                }
                self.state.withLock { state in
                    state.tasks[number] = nil
                    finally(&state)
                }
                self.tell([])
            }
        }
    }

    var isOver: Bool { state.withLock { $0.isOver } }
    var hasPendingOutput: Bool { state.withLock { !$0.outgoing.isEmpty || $0.writes > 0 } }
    /// Answers themselves are claimed in the budget.
    var bufferedBytes: Int { state.withLock { $0.entryBytes + $0.leafBytes + $0.writeBytes } }
    /// Answers being processed are our own work.
    var messageBytes: Int { 0 }
    var owedSince: Int64? { owed.since }

    /// How many requests of a kind may be in flight: fewer if there are many replicators for the memory that there is, since what is on its way to each
    /// is in memory before it can be claimed. One if the peer's answers arrive so slowly that they block those of others.
    var fetches: Int { state.withLock { $0.slowAnswers } > 0 ? 1 : max(1, min(CouchBounds.fetches, feedMemory.share / (64 << 10))) }

    func nextFrame(into events: inout [DialectEvent]) -> ByteBuffer? {
        write()
        fetch()
        fetchNextAttachments()
        return nil
    }

    func end() {
        let (tasks, waits) = state.withLock { state in
            state.isOver = true
            defer { (state.tasks, state.feedWaits, state.wanted, state.large, state.outgoing, state.lists, state.held) = ([:], nil, [], [], [], [:], []) }
            return (Array(state.tasks.values), state.feedWaits)
        }
        for task in tasks { task.cancel() }
        waits?.resume()
    }

    /// Sends a request. If the peer is overloaded (429, 503), it is sent again after the delay that the peer asked for, a few times.
    ///
    /// - Parameter keepsBeginning: whether all that came of an answer that is too long is of use.
    func ask(_ request: PeerRequest, keepsBeginning: Bool = false) async throws -> PeerAnswer {
        var request = request
        request.patience = max(request.patience, CouchBounds.patienceMilliseconds)
        request.maximumAnswer = min(request.maximumAnswer, mostAnswerBytes)
        var attempt = 1
        while true {
            let answer = try await exchange(request, keepsBeginning)
            guard answer.status == 429 || answer.status == 503, attempt < CouchBounds.attempts else { return answer }
            let seconds = RetryAfter.seconds(answer.header("retry-after"), date: answer.header("date")) ?? 1 << attempt
            guard seconds <= CouchBounds.longestPauseSeconds else { return answer }
            attempt += 1
            try await environment.time.sleep(seconds: seconds)
        }
    }

    /// Sends a request once. The answer's memory is claimed while it arrives.
    private func exchange(_ request: PeerRequest, _ keepsBeginning: Bool) async throws -> PeerAnswer {
        var request = request
        let claim = claimant.claim()
        request.collecting = { try await claim.grow(to: $0) }
        var answer: PeerAnswer
        do {
            answer = try await claim.whileGranted(environment) { [request] in try await self.owed.during(request, self.environment.time) { try await self.peer.exchange($0) } }
        } catch let refusal as MemoryBudget.ClaimRefusal {
            claim.complete(at: 0)
            try await pause(after: refusal)
            // The path may contain parameters that are secrets.
            throw outOfMemory(refusal, "\(request.method) \(request.path.prefix { $0 != "?" })")
        }
        counters.exchanged(sent: request.body.length, received: answer.body.readableBytes)
        if answer.isTooLarge, !keepsBeginning {
            answer.keepBeginning()
            return answer
        }
        claim.complete(at: answer.body.readableBytes)
        state.withLock { $0.slowAnswers = max(0, $0.slowAnswers - 1) }
        answer.claim = claim
        if answer.isGood { answer.countValues() }
        return answer
    }

    /// Sends JSON and parses a JSON answer; throws unless the status is 2xx.
    ///
    /// - Parameter rows: number of documents asked about.
    func askJSON(_ method: String, _ path: String, _ body: JSONValue? = .none, rows: Int) async throws -> JSONValue {
        let answer = try await ask(PeerRequest(method, path, json: body, atMost: CouchBounds.answerBytes(rows: rows)))
        guard answer.isGood else { throw ReplicationError(answer, to: "\(method) \(path)") }
        return try await reading(answer, "\(method) \(path)") { $0 }
    }

    // MARK: - Requirements with a trivial implementation

    func push(_ slot: Int, _ style: PushStyle, generation: Int) { state.withLock { $0.generation = generation } }
    func maximumHistory(_ slot: Int) -> Int { limits.maximumReceivedHistory }

    /// This protocol has no proofs: the blob itself is requested.
    func requestProof(_ transfer: BlobTransfer, _ slot: Int, for document: DocumentID, nonce: [UInt8]) {
        tell([.blob(.proofArrived(transfer, nil))])
    }

    /// Attachments come with their documents; a blob that is still requested was named by a digest that the peer does not know.
    func requestBlob(_ transfer: BlobTransfer, _ slot: Int, for document: DocumentID, compresses: Bool, offset: UInt64) {
        let error = ReplicationError(domain: .http, code: 404, message: "document \(document) names the blob \(transfer.digest), which is not one of its attachments")
        tell([.blob(.failed(transfer, error))])
    }

    func consumed(_ transfer: BlobTransfer, bytes: Int) {}
    func abandon(_ transfer: BlobTransfer) {}
    func forget(_ transfer: BlobTransfer) {}
}

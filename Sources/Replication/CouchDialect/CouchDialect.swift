import Documents
import DocumentStore
import Encodings
import Environment
import Interfaces
import NIOCore
import Synchronization

/// CouchDB's replication protocol, version 3, as its replicator speaks it: the engine's actions become requests to `_revs_diff`,
/// `_bulk_docs`, `_changes`, `_bulk_get` and `_local`, and the answers become the engine's events. It decides nothing.
///
/// Requests run in tasks; what a task finds out goes back to the session as events, in the session's own time.
final class CouchDialect: RequestingDialect, Sendable {
    /// What is asked of one peer at the same time, and in which portions.
    enum Portions {
        /// `couch_rows`: rows of `_changes` in one answer.
        static let rows = 500
        /// `couch_lists`: such answers that wait for the store.
        static let lists = 3
        /// `couch_fetch`: revisions in one `_bulk_get`.
        static let fetch = 100
        /// `couch_fetches`: such requests under way, and documents whose attachments are asked for by themselves.
        static let fetches = 3
        /// `couch_docs`, `couch_doc_bytes`: documents and bytes in one `_bulk_docs`.
        static let documents = 200
        static let documentBytes = 1 << 20
        /// `couch_writes`: such requests under way.
        static let writes = 3
        /// `couch_heartbeat`: milliseconds between two signs of life of a feed that has no news.
        static let heartbeat = 10_000
        /// `couch_patience`: milliseconds without a byte after which a request is given up.
        static let patience = 60_000
        /// `couch_answer_bytes`: of one answer. A `_bulk_get` that has more is asked for in halves.
        static let answerBytes = 48 << 20
        /// `couch_branched`: documents with several leaves whose leaves are remembered.
        static let branched = 10_000
        /// `couch_branched_leaves`: about so many leaves of such documents.
        static let branchedLeaves = 100_000
        /// `couch_leaves`: leaves of one document at the peer; one that has more is not taken. CouchDB has no limit, and a document that is in conflict
        /// with itself for long has thousands, of which a store here keeps `StoreLimits.maxBranches` in any case.
        static let leaves = 1_000
        /// `couch_ended`: branches of one document that are looked at together when they lost here: their names stand in a request's path.
        static let ended = 50
        /// `couch_attempts`: how often a request is sent that the peer puts off (429, 503).
        static let attempts = 5
        /// `couch_pause`: the longest that a request waits for its next attempt, in seconds; a peer that wants more ends the connection.
        static let pause = 60
    }

    /// How far a leaf of the peer's has come.
    enum Leaf {
        case announced
        case here
        /// It lost here, and ends at the peer once the peer has what won.
        case lost
        /// A tombstone from here, which ends one that lost.
        case end
    }

    /// What is known of a document that has several leaves at the peer.
    struct Branches {
        var leaves: [RevisionID: Leaf] = [:]
        /// Those of the peer's last row.
        var row: Set<RevisionID> = []
        /// Leaves that others ended, and the tombstones that ended them.
        var ended: Set<RevisionID> = []
        var deleted: Set<RevisionID> = []

        /// It was given up here, or is from here: there is no use in fetching it.
        func isOver(_ leaf: RevisionID) -> Bool { leaves[leaf] == .lost || leaves[leaf] == .end }

        /// The peer has a greater leaf that is not deleted.
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
        // Pull
        var lists: [UInt64: CouchFeedPage] = [:]
        var lastList: UInt64 = 0
        var feedWaits: CheckedContinuation<Void, Never>?
        var wanted: [WantedRevision] = []
        var fetches = 0
        /// Revisions whose attachments are to be asked for: of those that were held, and of all where a filter is asked first. And for how many of them
        /// that is under way.
        var held: [HeldFetch] = []
        var brings = 0
        var atHand = AnswersAtHand()
        /// The peer has no `_bulk_get`.
        var lacksBulkGet = false
        /// The leaves of documents that have several at the peer: those that lose are to be ended.
        var branches: [DocumentID: Branches] = [:]
        /// How many leaves of the peer's were met in them.
        var leaves = 0
        var log = ReplicationLog()
        /// The peer's, as it was when the session began: it can be long, and is read beside the session.
        var peerLog = ReplicationLog()
        /// Attachments that came, by what the peer calls them.
        var attachments: [AttachmentName: BlobReference] = [:]

        /// There is room for the leaves of one document more.
        var remembersMore: Bool { branches.count < Portions.branched && leaves < Portions.branchedLeaves }
    }

    let peer: any HTTPPeer
    let wire: WireLog?
    let limits: ReplicationLimits
    let environment: Environment
    let database: Database
    let memory: MemoryBudget
    let collection: CollectionName
    /// The peer's branches come here and are decided here, so that ours wait for them.
    let pulls: Bool
    let pushes: Bool
    /// A filter sees a document before its attachments are asked for.
    let asksFirst: Bool
    let counters: ReplicationCounters
    /// As which the peer's unfinished blobs are kept.
    let blobOwner: String?
    /// Told where the beginning of an attachment was here from an earlier connection.
    let noteResumed: @Sendable (BlobDigest, _ offset: UInt64) -> Void
    let owed = OwedRequests()
    let state = Mutex(State())
    private let deliver = Mutex<@Sendable ([DialectEvent]) -> Void> { _ in }

    /// Nil where the transport carries messages.
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
        limits = active.replicator.limits
        database = active.replicator.database
        let wanted = active.replicator.collections.first
        (collection, asksFirst) = (wanted?.collection ?? .default, wanted?.pullFilter != nil)
        (pulls, pushes) = (active.replicator.type.pulls, active.replicator.type.pushes)
    }

    func begin(deliver: @escaping @Sendable ([DialectEvent]) -> Void) {
        self.deliver.withLock { $0 = deliver }
        let session = Hex.encode(environment.random.bytes(16))
        state.withLock { $0.log.session = session }
    }

    func tell(_ events: [DialectEvent]) { deliver.withLock { $0 }(events) }

    // MARK: - Work

    /// Runs a piece of work beside the session. What it fails with ends the connection.
    ///
    /// - Parameter finally: what is different when it is over; the session looks around then.
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
    var bufferedBytes: Int { state.withLock { $0.atHand.bytes } }
    /// What is at hand is work of ours.
    var messageBytes: Int { 0 }

    func nextFrame(into events: inout [DialectEvent]) -> ByteBuffer? {
        write()
        fetch()
        bringNext()
        return nil
    }

    func end() {
        let (tasks, waits) = state.withLock { state in
            state.isOver = true
            defer { (state.tasks, state.feedWaits, state.wanted, state.outgoing, state.lists, state.held) = ([:], nil, [], [], [:], []) }
            return (Array(state.tasks.values), state.feedWaits)
        }
        for task in tasks { task.cancel() }
        waits?.resume()
    }

    /// Sends a request. One that the peer puts off (429, 503) is sent again when the peer said, a few times.
    func ask(_ request: PeerRequest) async throws -> PeerAnswer {
        var request = request
        request.patience = max(request.patience, Portions.patience)
        var attempt = 1
        while true {
            var answer = try await owed.during(request, environment.time) { try await peer.exchange($0) }
            counters.exchanged(sent: request.body.length, received: answer.body.readableBytes)
            if answer.isGood { answer.countValues() }
            guard answer.status == 429 || answer.status == 503, attempt < Portions.attempts else { return answer }
            let seconds = answer.header("retry-after").flatMap { Int($0) } ?? 1 << attempt
            guard seconds <= Portions.pause else { return answer }
            attempt += 1
            try await environment.time.sleep(seconds: max(0, seconds))
        }
    }

    /// Sends JSON and reads JSON; what is no 2xx is thrown.
    ///
    /// - Parameter rows: how many documents are asked about.
    func askJSON(_ method: String, _ path: String, _ body: JSONValue? = .none, rows: Int) async throws -> JSONValue {
        let answer = try await ask(PeerRequest(method, path, json: body, atMost: AnswerBounds.rows(rows)))
        guard answer.isGood else { throw ReplicationError(answer, to: "\(method) \(path)") }
        return try await reading(answer, "\(method) \(path)") { $0 }
    }

    // MARK: - What does not differ

    func push(_ slot: Int, _ style: PushStyle, generation: Int) { state.withLock { $0.generation = generation } }
    func maximumHistory(_ slot: Int) -> Int { limits.maximumReceivedHistory }

    /// There is no proof in this protocol: the blob itself is asked for.
    func requestProof(_ transfer: BlobTransfer, _ slot: Int, for document: DocumentID, nonce: [UInt8]) {
        tell([.blob(.proofArrived(transfer, nil))])
    }

    /// Attachments come with their documents; what is still asked for was named by a digest that the peer does not know.
    func requestBlob(_ transfer: BlobTransfer, _ slot: Int, for document: DocumentID, compresses: Bool, offset: UInt64) {
        let error = ReplicationError(domain: .http, code: 404, message: "document \(document) names the blob \(transfer.digest), which is no attachment of it")
        tell([.blob(.failed(transfer, error))])
    }

    func consumed(_ transfer: BlobTransfer, bytes: Int) {}
    func abandon(_ transfer: BlobTransfer) {}
    func forget(_ transfer: BlobTransfer) {}
}

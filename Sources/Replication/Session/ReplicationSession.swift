import BLIP
import Digests
import Documents
import DocumentStore
import Environment
import Interfaces
import Logging
import NIOCore

/// One connection that replicates, on either side.
///
/// The session runs on the event loop of its transport: messages are decoded, decided and answered there without a hop.
/// What may take time goes elsewhere in batches: bodies are checked on the concurrent pool, the store works on its own
/// threads, policies on theirs.
public actor ReplicationSession: MessageReceiver {
    public nonisolated let context: any SerialContext
    private nonisolated let serialExecutor: any SerialExecutor
    public nonisolated var unownedExecutor: UnownedSerialExecutor { serialExecutor.asUnownedSerialExecutor() }

    public nonisolated let counters: ReplicationCounters
    public nonisolated let role: SessionRole
    nonisolated let database: Database
    nonisolated let limits: ReplicationLimits
    nonisolated let observer: SessionObserver
    nonisolated let logger: Logger

    let transport: any MessageTransport
    private var blip: BLIPConnection
    private var pending: [RequestToken: PendingReply] = [:]
    /// While it is above 0, frames gather and go out together.
    private var corks = 0
    private var readingIsPaused = false
    /// Body bytes received and not stored yet, over all collections.
    var bufferedBytes = 0 { didSet { adjustReading() } }
    /// Blobs asked of the peer and not come yet: the connection must be read for them.
    var blobsAwaited = 0 { didSet { adjustReading() } }
    /// Requests for blobs that wait for their turn.
    var blobRequests: [BlobRequest] = []
    var blobRequestsHead = 0
    var blobReads = 0
    /// Blobs of revisions that are under way to a peer bound to channels; it may have these only.
    var lentBlobs: [BlobDigest: Int] = [:]

    /// Whether messages name collections; unknown until the first message.
    enum Mode { case unknown, legacy, collections }
    var mode = Mode.unknown
    var collections: [CollectionSync] = []
    /// Active: set-up is complete, the feeds run.
    var isRunning = false

    private(set) var hasEnded = false
    var wantsLegacy = false
    private var activity = ActivityLevel.busy
    /// Tasks of this session under way that keep it busy.
    var workInFlight = 0
    var documentEvents: [DocumentEvent] = []

    public init(
        transport: any MessageTransport, role: SessionRole, observer: SessionObserver = .init(),
        counters: ReplicationCounters = .init(), logger: Logger
    ) {
        self.transport = transport
        context = transport.executionContext
        serialExecutor = transport.executionContext.serialExecutor
        self.role = role
        self.observer = observer
        self.counters = counters
        self.logger = logger
        switch role {
        case .active(let active):
            database = active.replicator.database
            limits = active.replicator.limits
        case .passive(let passive):
            database = passive.database
            limits = passive.limits
        }
        var blipLimits = BLIPLimits()
        blipLimits.maximumReply = limits.maximumBlobBytes + (1 << 20)
        blip = BLIPConnection(limits: blipLimits, compressionLevel: limits.compressionLevel)
    }

    /// Begins: the transport delivers from now on, and an active session speaks first.
    public func start() {
        transport.start(self)
        if case .active(let active) = role {
            Task { await self.setUpActive(active) }
        }
    }

    /// Ends the session from our side.
    ///
    /// - Parameter code: the WebSocket close code; 4001 asks the peer to come back.
    public func stop(code: UInt16 = 1000, reason: String = "", error: ReplicationError? = nil) {
        finish(error: error, closeCode: code, reason: reason)
    }

    // MARK: - From the transport

    public nonisolated func received(_ messages: [ByteBuffer]) {
        assumeIsolated { $0.receive(messages) }
    }

    public nonisolated func writabilityChanged(_ isWritable: Bool) {
        if isWritable { assumeIsolated { $0.pump() } }
    }

    public nonisolated func closed(_ end: ConnectionEnd) {
        assumeIsolated { $0.connectionClosed(end) }
    }

    private func receive(_ messages: [ByteBuffer]) {
        guard !hasEnded else { return }
        corks += 1
        var events: [BLIPEvent] = []
        for message in messages {
            do { try blip.receive(message, into: &events) } catch {
                handle(events)
                corks -= 1
                logger.warning("\(error)", metadata: ["peer": "\(transport.peerDescription)"])
                finish(
                    error: ReplicationError(domain: .blip, code: Int(error.closeCode), message: "\(error)"),
                    closeCode: error.closeCode, reason: "\(error)")
                return
            }
        }
        handle(events)
        corks -= 1
        pump()
        evaluate()
    }

    private func handle(_ events: [BLIPEvent]) {
        for event in events {
            if hasEnded { return }
            switch event {
            case .request(let request): dispatch(request)
            case .reply(let token, let reply):
                if let waiting = pending.removeValue(forKey: token) { handleReply(waiting, reply) }
            case .replyProgress, .sent, .replyBegan, .replyBytes, .replyEnded, .wantsMore: break
            }
        }
    }

    private func connectionClosed(_ end: ConnectionEnd) {
        guard !hasEnded else { return }
        // Couchbase Lite, too, treats an unasked-for 1000 from the peer as 1001: the peer went away.
        let code = end.code == 1000 ? 1001 : end.code
        let error = ReplicationError(
            domain: .websocket, code: Int(code),
            message: end.reason.isEmpty ? "the peer closed the connection (\(end.code))" : end.reason)
        finish(error: isPassive ? nil : error, closeCode: nil, reason: "")
    }

    var isPassive: Bool {
        if case .passive = role { true } else { false }
    }

    // MARK: - To the peer

    /// What waits for a reply.
    enum PendingReply {
        case continuation(CheckedContinuation<IncomingReply?, Never>)
        case proposals(CollectionSync, PushFeed, [PushRow])
        case changes(CollectionSync, PushFeed, [PushRow])
        case revision(CollectionSync, PushFeed, PushRow)
        case ignored
    }

    func send(_ request: OutgoingRequest, _ waiting: PendingReply? = nil) {
        guard !hasEnded else {
            if case .continuation(let continuation)? = waiting { continuation.resume(returning: nil) }
            return
        }
        if let token = blip.send(request), let waiting { pending[token] = waiting }
        pump()
    }

    /// Sends a request and waits; nil when the connection ended first.
    func ask(_ request: OutgoingRequest) async -> IncomingReply? {
        await withCheckedContinuation { send(request, .continuation($0)) }
    }

    func reply(to number: UInt64?, _ reply: OutgoingReply = OutgoingReply()) {
        guard let number, !hasEnded else { return }
        blip.reply(to: number, reply)
        pump()
    }

    func refuse(_ number: UInt64?, _ code: Int, _ message: String, domain: String = "HTTP") {
        reply(to: number, OutgoingReply(error: BLIPErrorReply(domain: domain, code: code, message: message)))
    }

    /// A request with the collection named where the mode wants it.
    func request(
        _ profile: String, _ sync: CollectionSync?, body: [UInt8] = [], isCompressed: Bool = false, isUrgent: Bool = false,
        isNoReply: Bool = false
    ) -> OutgoingRequest {
        var request = OutgoingRequest(
            profile: profile, isCompressed: isCompressed, isUrgent: isUrgent, isNoReply: isNoReply)
        if let index = sync?.wireIndex { request.properties.append(Property.collection, String(index)) }
        if !body.isEmpty { request.body = ByteBuffer(bytes: body) }
        return request
    }

    /// Gathers what is sent meanwhile, so that it goes out in few large writes.
    func together(_ body: () -> Void) {
        corks += 1
        body()
        corks -= 1
        pump()
    }

    /// Bytes that wait to be sent.
    var outgoingBytes: Int { blip.queuedBytes }

    /// Puts frames on the wire as far as the transport takes them.
    func pump() {
        guard corks == 0, !hasEnded else { return }
        defer { if blobRequestsHead < blobRequests.count { serveBlobs() } }
        while transport.isWritable {
            var frames: [ByteBuffer] = []
            var bytes = 0
            while bytes < 128 << 10, let frame = blip.nextFrame() {
                bytes += frame.readableBytes
                frames.append(frame)
            }
            if frames.isEmpty { return }
            transport.write(frames)
        }
    }

    private func adjustReading() {
        if !readingIsPaused, blobsAwaited == 0, bufferedBytes > limits.bufferedRevisionBytes {
            readingIsPaused = true
            transport.setReading(false)
        } else if readingIsPaused, blobsAwaited > 0 || bufferedBytes < limits.bufferedRevisionBytes / 2 {
            readingIsPaused = false
            transport.setReading(true)
        }
    }

    // MARK: - The end

    /// Fails the run: the connection is closed with a code that says whether to come back.
    func fail(_ error: ReplicationError) {
        finish(error: error, closeCode: error.isTransient ? 4001 : 4002, reason: error.message)
    }

    /// Fails the run because of the store.
    func fail(_ error: any Error) {
        logger.error("\(error)")
        let replication = error as? ReplicationError ?? ReplicationError(store: error)
        fail(replication)
    }

    func finish(error: ReplicationError?, closeCode: UInt16?, reason: String) {
        guard !hasEnded else { return }
        hasEnded = true
        if let closeCode { transport.close(code: closeCode, reason: String(reason.prefix(100))) }
        _ = blip.fail()
        let waiting = pending
        pending = [:]
        for case .continuation(let continuation) in waiting.values { continuation.resume(returning: nil) }
        for sync in collections {
            sync.push?.end()
            sync.pull.incoming = []
            sync.pull.lists = []
            sync.pull.listBytes = 0
            for task in sync.pull.tasks { task.cancel() }
        }
        blobRequests = []
        blobRequestsHead = 0
        flushDocumentEvents()
        observer.activityChanged(.stopped)
        // What was under way is counted anew by the next run.
        counters.update { $0.total = $0.completed }
        // Marks that were not written yet only save a question next time; try, then say it is over.
        let marks = collections.compactMap { sync in
            sync.push.map { (sync.collection, sync.remote, $0.unsavedMarks, Array($0.unsavedInclusions)) }
        }.filter { $0.1 != nil && !$0.2.isEmpty }
        let end = SessionEnd(error: error, wantsLegacy: wantsLegacy)
        let observer = observer
        let database = database
        Task {
            if !marks.isEmpty {
                _ = try? await database.write { transaction in
                    for (collection, remote, rows, included) in marks {
                        guard let remote else { continue }
                        try transaction.markRemote(remote, collection, rows)
                        if !included.isEmpty { try transaction.unexclude(collection, remote: remote, direction: .push, ids: included) }
                    }
                }
            }
            observer.ended(end)
        }
    }

    // MARK: - Status

    /// Looks whether the session is busy, idle or done, after anything happened.
    func evaluate() {
        guard !hasEnded else { return }
        let busy = isBusy
        if !busy { flushDocumentEvents() }
        if case .active(let active) = role, isRunning {
            if !active.replicator.isContinuous { endPushes() }
            if !busy { saveCheckpoints() }
            if !active.replicator.isContinuous, !isBusy, feedsAreFinished, checkpointsAreSaved {
                finish(error: nil, closeCode: 1000, reason: "")
                return
            }
        }
        let level: ActivityLevel = isBusy ? .busy : .idle
        if level != activity {
            activity = level
            observer.activityChanged(level)
        }
    }

    private var isBusy: Bool {
        if workInFlight > 0 || blip.hasPendingOutput { return true }
        if case .active = role, !isRunning { return true }
        for sync in collections {
            if let push = sync.push, !push.isFinished, !push.isCaughtUp || !push.isDrained { return true }
            if sync.pull.isSubscribed, !sync.pull.isCaughtUp { return true }
            if !sync.pull.isDrained { return true }
            if sync.isDeciding || !sync.conflicts.isEmpty { return true }
        }
        return false
    }

    /// One-shot pushes wait for the pulls to be complete; nothing else tells their loops.
    private func endPushes() {
        for sync in collections {
            guard let feed = sync.push, !feed.isFinished, feed.isCaughtUp, feed.isDrained else { continue }
            if pullsAreComplete { feed.wake() }
        }
    }

    private var feedsAreFinished: Bool {
        collections.allSatisfy { sync in
            (sync.push?.isFinished ?? true) && (!sync.pull.isSubscribed || sync.pull.isCaughtUp && sync.pull.isDrained)
        }
    }

    func report(_ event: DocumentEvent) {
        documentEvents.append(event)
        if documentEvents.count >= 100 { flushDocumentEvents() }
    }

    func flushDocumentEvents() {
        guard !documentEvents.isEmpty else { return }
        let events = documentEvents
        documentEvents = []
        observer.documents(events)
    }

    /// Runs work that keeps the session busy while it lasts.
    func work(@_inheritActorContext _ body: sending @escaping @isolated(any) () async -> Void) {
        workInFlight += 1
        Task {
            await body()
            self.workInFlight -= 1
            self.pump()
            self.evaluate()
        }
    }

    /// Where a policy is asked.
    func policyContext(_ sync: CollectionSync, _ direction: Direction) -> PolicyContext {
        switch role {
        case .active(let active):
            PolicyContext(
                database: database.name, collection: sync.collection.name, direction: direction,
                replicator: active.replicator.name, remote: active.replicator.target)
        case .passive(let passive):
            PolicyContext(
                database: database.name, collection: sync.collection.name, direction: direction, listener: passive.listener,
                remote: transport.peerDescription, user: passive.principal.name)
        }
    }
}

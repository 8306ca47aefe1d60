import Documents
import DocumentStore
import Environment
import Interfaces
import Logging
import NIOCore

/// One connection that replicates, on either side: the driver of the engine.
///
/// It hands what the peer says, what the store answers and what policies decide to the machines, one event at a time, and does
/// what they ask for. It decides nothing itself. It runs where its transport runs; what may take time goes elsewhere in batches:
/// bodies are checked on the pool, the store works on its own workers, policies on theirs.
public actor ReplicationSession: MessageReceiver {
    public nonisolated let context: any SerialContext
    private nonisolated let serialExecutor: any SerialExecutor
    public nonisolated var unownedExecutor: UnownedSerialExecutor { serialExecutor.asUnownedSerialExecutor() }

    public nonisolated let counters: ReplicationCounters
    public nonisolated let role: SessionRole
    nonisolated let isPassive: Bool
    /// We are active, and push.
    nonisolated let pushesHere: Bool
    /// The peer as the store's channels know it; nil where it may have everything.
    nonisolated let channelPeer: ChannelPeer?
    /// Nil where the peer may push, or is the one that we opened a connection to.
    nonisolated let whyNothingMayBePushed: String?
    nonisolated let database: Database
    nonisolated let limits: ReplicationLimits
    nonisolated let observer: SessionObserver
    nonisolated let environment: Environment
    nonisolated let logger: Logger

    let transport: any MessageTransport
    var dialect: any Dialect & ~Copyable
    /// The dialect of a peer that is spoken to by requests.
    let couch: CouchDialect?
    var links: [CollectionLink] = []
    var blobs: BlobMachine
    var files: BlobFiles
    var passiveRequests = PassiveRequests()
    var outgoing = OutgoingRevisions()
    var intake = FrameIntake()
    /// What waits for its turn, in order.
    private var inbox: [Event?] = []
    private var isHandling = false
    /// Links that something happened to since the session last looked.
    private var touched: [CollectionLink] = []
    private var busyLinks = 0
    private var incompletePulls = 0
    var bufferedBytes = 0
    /// Of rows of the peer's feed that are open.
    var awaitedBytes = 0
    /// Bytes of bodies that are on their way out.
    var outgoingBytes = 0
    /// Of long messages that are being read elsewhere.
    var bytesElsewhere = 0
    /// Of ids that the peer subscribed to.
    var subscribedBytes = 0
    /// Set-up, answers to the peer's own questions: what keeps the session busy beside its links.
    var errands = 0
    var readingIsPaused = false
    let memory: MemoryBudget
    var share: MemoryBudget.Share?
    var standing = MemoryBudget.Standing.free
    /// Of a message of the transport that is not complete.
    var unfinishedBytes = 0

    /// How far it is. A passive one does what it is asked from the start, and never runs by itself.
    enum Life { case opening, running, ended }
    var life = Life.opening
    var hasEnded: Bool { life == .ended }
    /// There is something that only another connection may bring, however this one ends.
    var comesBack = false
    private var mayGetVersions = false  // Of one of our own, that is spoken to by ids.
    private var activity = ActivityLevel.busy
    var documentEvents: [DocumentEvent] = []
    var refusals = PeerRefusals()

    private enum Event {
        case push(CollectionLink, PushEvent)
        case pull(CollectionLink, PullEvent)
        case checkpoint(CollectionLink, CheckpointMachine.Event)
        case blob(BlobEvent)
        /// What the push was told to note is on its way to the store: the checkpoint follows it.
        case noteIsUnderWay(CollectionLink)
    }

    public init(
        transport: any MessageTransport, role: SessionRole, observer: SessionObserver = .init(),
        counters: ReplicationCounters = .init(), environment: Environment, memory: MemoryBudget = .unlimited, logger: Logger
    ) {
        self.transport = transport
        context = transport.executionContext
        serialExecutor = transport.executionContext.serialExecutor
        self.role = role
        self.observer = observer
        self.counters = counters
        self.environment = environment
        self.memory = memory
        self.logger = logger
        switch role {
        case .active(let active):
            database = active.replicator.database
            limits = active.replicator.limits
            (isPassive, channelPeer, whyNothingMayBePushed) = (false, nil, nil)
            pushesHere = active.replicator.type.pushes
        case .passive(let passive):
            database = passive.database
            limits = passive.limits
            (isPassive, channelPeer, whyNothingMayBePushed) = (true, passive.channelPeer, passive.whyNothingMayBePushed)
            pushesHere = false
        }
        let wire = role.wireLog(transport)
        couch = CouchDialect(transport, role, environment, wire, counters)
        if let couch { dialect = couch } else { dialect = BLIPDialect(isPassive: isPassive, takesDeltas: Self.usesDeltas(role), naming: role.naming(transport), limits: limits, wire: wire) }
        (blobs, files) = (BlobMachine(limits), BlobFiles(limits))
    }

    /// Begins: the transport delivers from now on, and an active session speaks first.
    public func start() {
        share = memory.share(trim: { [weak self] in self?.later { $0.trim() } }) { [weak self] standing in
            // What others do is no reason to wait: an evicted connection ends in its own time, a relieved one goes on.
            self?.later { $0.stand(standing) }
        }
        if naming != .trees { database.noteVersionPeer() }
        mayGetVersions = naming == .trees && transport.peerHasBothNames && !database.hasVersions
        transport.start(self)
        dialect.begin { [weak self] events in self?.later { session in for event in events { session.handle(event) } } }
        guard case .active(let active) = role else { return }
        errands += 1
        environment.task { await self.setUp(active) }
    }

    /// Ends the session from our side.
    ///
    /// - Parameter code: the WebSocket close code; 4001 asks the peer to come back.
    public func stop(code: UInt16 = 1000, reason: String = "", error: ReplicationError? = nil) {
        finish(error: error, closeCode: code, reason: reason)
    }

    // MARK: - Events

    /// Everything that happens to a session goes through here: it happens, the machines do what follows from it, frames go out, and
    /// the session looks where it stands.
    func turn(_ body: (isolated ReplicationSession) -> Void) {
        guard !hasEnded else { return }
        body(self)
        repeat {
            receive()
            drain()
        } while mayReceive
        pump()
        lookAround()
        guard !hasEnded else { return }
        receiveLater()
        if let end = intake.end { connectionClosed(end) }
    }

    /// A turn that is due as soon as the session's context has time. Any thread.
    nonisolated func later(_ body: @escaping @Sendable (isolated ReplicationSession) -> Void) {
        context.execute { self.assumeIsolated { $0.turn(body) } }
    }

    /// A turn at its time, unless the session is gone by then.
    func later(milliseconds: Int, _ body: @escaping @Sendable (isolated ReplicationSession) -> Void) {
        context.schedule(afterMilliseconds: milliseconds) { [weak self] in
            guard let self else { return }
            self.assumeIsolated { $0.turn(body) }
        }
    }

    func tell(_ link: CollectionLink, push event: PushEvent) { inbox.append(.push(link, event)) }
    func tell(_ link: CollectionLink, pull event: PullEvent) { inbox.append(.pull(link, event)) }
    func tell(_ link: CollectionLink, checkpoint event: CheckpointMachine.Event) { inbox.append(.checkpoint(link, event)) }
    /// Something about the link changed outside of its machines.
    func touch(_ link: CollectionLink) {
        guard !link.isTouched else { return }
        link.isTouched = true
        touched.append(link)
    }

    func tellWhenNoted(_ link: CollectionLink) { inbox.append(.noteIsUnderWay(link)) }
    func tell(blobs event: BlobEvent) { inbox.append(.blob(event)) }

    /// Hands the events to the machines in order, and does what they ask for; that may be the cause of more events.
    func drain() {
        guard !isHandling else { return }
        isHandling = true
        defer { isHandling = false }
        var next = 0
        var (pushes, pulls, checkpoints, blobActions) = ([PushAction](), [PullAction](), [CheckpointMachine.Action](), [BlobAction]())
        while next < inbox.count, !hasEnded {
            guard let event = inbox[next].take() else { return }
            next += 1
            switch consume event {
            case .push(let link, let event):
                link.push?.handle(event, &pushes)
                touch(link)
                // Taken out one by one, the first last: what is looped over is copied.
                if pushes.count > 1 { pushes.reverse() }
                while let action = pushes.popLast() { perform(action, link) }
            case .pull(let link, let event):
                link.pull.handle(event, &pulls)
                touch(link)
                if pulls.count > 1 { pulls.reverse() }
                while let action = pulls.popLast() { perform(action, link) }
            case .checkpoint(let link, let event):
                guard let progress = link.checkpoint.map({ _ in link.progress }) else { continue }
                link.checkpoint?.handle(event, progress, &checkpoints)
                for action in checkpoints { perform(action, link) }
                checkpoints.removeAll(keepingCapacity: true)
            case .blob(let event):
                blobs.handle(event, &blobActions)
                for action in blobActions { perform(action) }
                blobActions.removeAll(keepingCapacity: true)
            case .noteIsUnderWay(let link):
                // The writer works in order: when this one is through, what was to be noted before it is.
                let slot = link.slot
                write { _ in } then: { session, _ in session.tell(session.links[slot], checkpoint: .noted) }
            }
            if next == inbox.count || next >= 4_096 {
                inbox.removeFirst(min(next, inbox.count))  // Empty if the session ended meanwhile.
                next = 0
            }
        }
        if hasEnded { inbox = [] }
    }

    /// Puts frames on the wire as far as the transport takes them.
    private func pump() {
        var events: [DialectEvent] = []
        putRevisions()
        grantCompression()
        while !hasEnded, transport.isWritable {
            var (frames, bytes) = ([ByteBuffer](), 0)
            while bytes < 64 << 10, let frame = dialect.nextFrame(into: &events) {
                bytes += frame.readableBytes
                frames.append(frame)
            }
            if !frames.isEmpty { transport.write(counters.sent(frames, bytes)) }
            for event in events { handle(event) }
            events.removeAll(keepingCapacity: true)
            if frames.isEmpty { break }
            putRevisions()
        }
        servePassiveRequests()
        drain()
    }

    // MARK: - Where the session stands

    /// Looks at what the turn changed: counts, back-pressure, whether all is pulled, whether there is anything left to do.
    private func lookAround() {
        while !touched.isEmpty, !hasEnded {
            takeStock()
            drain()
            pump()
        }
        reportRefusals()
        if life == .running, !isBusy {
            saveCheckpoints()
            if life == .running, case .active(let active) = role, !active.replicator.isContinuous, !isBusy,
                links.allSatisfy({ $0.push?.isFinished ?? true })
            {
                reportRefusals()
                let behind = refusals.behind
                return finish(behind == nil ? .complete : .over, error: behind, closeCode: 1000, reason: "")
            }
        }
        guard !hasEnded else { return }
        settleAccounts()
        guard !hasEnded else { return }
        adjustReading()
        let level: ActivityLevel = isBusy ? .busy : .idle
        if level == .idle {
            flushDocumentEvents()
            if mayGetVersions, database.hasVersions {
                mayGetVersions = false
                return renewForVersions()
            }
        }
        if level != activity {
            activity = level
            observer.activityChanged(level)
        }
    }

    private func takeStock() {
        let touched = touched
        self.touched = []
        let wereComplete = incompletePulls == 0
        for link in touched {
            link.isTouched = false
            counters.add(link.counts - link.countsSeen)
            link.countsSeen = link.counts
            if !link.incomingDeltas.isEmpty { applyDeltas(link) }
            bufferedBytes += link.bufferedBytes - link.bytesSeen
            link.bytesSeen = link.bufferedBytes
            let awaited = link.pull.tracker?.bytes ?? 0
            awaitedBytes += awaited - link.awaitedSeen
            link.awaitedSeen = awaited
            if isPassive {
                let stalls = link.push.map { ($0.feed.stall.map { [$0] } ?? []) + $0.held.first } ?? []
                counters.stand(link.slot, at: stalls.map { Standstill(collection: link.collection.name, id: $0.id, failure: $0.failure) })
            }
            let outgoing = link.push?.ledger.bytesAtHand ?? 0
            outgoingBytes += outgoing - link.outgoingSeen
            link.outgoingSeen = outgoing
            if link.isBusy != link.wasBusy {
                busyLinks += link.wasBusy ? -1 : 1
                link.wasBusy.toggle()
            }
            if link.pull.isComplete != link.pullWasComplete {
                incompletePulls += link.pullWasComplete ? 1 : -1
                link.pullWasComplete.toggle()
            }
            if let checkpoint = link.checkpoint, checkpoint.isIdle, link.progress != checkpoint.saved {
                tell(link, checkpoint: .progressed)
            }
        }
        // A one-shot push waits for the pulls: a conflict that these bring may still be decided into something to push.
        if !isPassive, wereComplete != (incompletePulls == 0) {
            for link in links where link.push != nil { tell(link, push: .pullIsComplete(incompletePulls == 0)) }
        }
    }

    var isBusy: Bool {
        errands > 0 || !intake.isEmpty || busyLinks > 0 || !blobs.isIdle || dialect.hasPendingOutput || !passiveRequests.isEmpty
            || life == .running && links.contains { $0.checkpoint.map { !$0.isSaved($0.saved) } ?? false }
    }

    private func saveCheckpoints() {
        for link in links where link.checkpoint.map({ !$0.isSaved(link.progress) }) ?? false { tell(link, checkpoint: .saveNow) }
        drain()
        pump()
    }

    // MARK: - The end

    func finish(_ ending: SessionEnd.Ending = .over, error: ReplicationError?, closeCode: UInt16?, reason: String) {
        guard !hasEnded else { return }
        life = .ended
        if let closeCode { transport.close(code: closeCode, reason: String(reason.prefix(100))) }
        dialect.end()
        endBlobs()
        counters.blobs.endAll()
        let left = (passiveRequests.bytes + links.reduce(0) { $0 + $1.pull.bytesElsewhere }) / 4 * 5
        if limits.has(.keptShare), let share { _ = Unmanaged.passRetained(share) } else { share?.end(leaving: left) }
        share = nil
        for link in links {
            counters.add(link.counts - link.countsSeen)
            link.countsSeen = link.counts
            link.end()
        }
        (inbox, intake, outgoing) = ([], FrameIntake(), OutgoingRevisions())
        passiveRequests = PassiveRequests()
        flushDocumentEvents()
        observer.activityChanged(.stopped)
        // What was under way is counted anew by the next run. A one-shot that came to its end has nothing under way, and more completed than
        // was begun would be a fault: neither is covered up.
        if ending != .complete { counters.update { $0.total = min($0.total, $0.completed) } }
        noteLast(SessionEnd(error: error, ending: ending, comesBack: comesBack))
        for link in links { link.release() }
    }
}

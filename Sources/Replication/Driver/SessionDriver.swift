import Documents
import DocumentStore
import Environment
import Interfaces
import Logging
import NIOCore

/// The driver of the engine, one for each connection: it hands what the peer says, what the store answers and what policies decide to the machines,
/// one event at a time, and has what they ask for done. It decides nothing itself. What may take time goes elsewhere in batches: bodies are checked
/// on the pool, the store works on its own workers, policies on theirs.
///
/// Confined to its session, and so are its parts, each of which does one thing for the machines.
final class SessionDriver {
    let counters: ReplicationCounters
    let role: SessionRole
    let isPassive: Bool
    /// We are active, and push.
    let pushesHere: Bool
    /// The peer as the store's channels know it; nil where it may have everything.
    let channelPeer: ChannelPeer?
    /// Nil where the peer may push, or is the one that we opened a connection to.
    let whyNothingMayBePushed: String?
    let database: Database
    let limits: ReplicationLimits
    let observer: SessionObserver
    let environment: Environment
    let memory: MemoryBudget
    let logger: Logger
    let transport: any MessageTransport
    var dialect: any Dialect & ~Copyable
    /// The dialect of a peer that is spoken to by requests.
    let couch: CouchDialect?
    /// Has turns for the driver.
    private(set) weak var owner: ReplicationSession?

    var links: [CollectionLink] = []
    /// What waits for its turn, in order.
    private var inbox: [Event?] = []
    private var isHandling = false
    /// It ends because the peer saves no checkpoint, and has saved none on this connection.
    var savedNoCheckpoint = false
    /// Set-up, answers to the peer's own questions: what keeps the session busy beside its links.
    var errands = 0

    /// How far it is. A passive one does what it is asked from the start, and never runs by itself.
    enum Life { case opening, running, ended }
    var life = Life.opening
    var hasEnded: Bool { life == .ended }

    private enum Event {
        case push(CollectionLink, PushEvent)
        case pull(CollectionLink, PullEvent)
        case checkpoint(CollectionLink, CheckpointMachine.Event)
        case blob(BlobEvent)
        /// What the push was told to note is on its way to the store: the checkpoint follows it.
        case noteIsUnderWay(CollectionLink)
    }

    // MARK: - Parts

    /// What happens to a connection beside its collections.
    private(set) lazy var intake = FrameIntake(self)
    private(set) lazy var accounts = SessionAccounts(self)
    private(set) lazy var overview = SessionOverview(self)
    private(set) lazy var owed = OwedAnswers(self)
    private(set) lazy var reports = SessionReports(self)
    private(set) lazy var reconnecting = Reconnecting(self)
    private(set) lazy var blobs = BlobDriver(self)
    private(set) lazy var questions = PeerQuestions(self)
    private(set) lazy var outgoing = OutgoingQueue(self)
    var dialectEvents: DialectEvents { DialectEvents(session: self) }
    var opener: SessionOpener { SessionOpener(session: self) }
    var service: PassiveService { PassiveService(session: self) }
    /// What the machines of a collection ask for.
    var pushes: PushActions { PushActions(session: self) }
    var pulls: PullActions { PullActions(session: self) }
    var checkpoints: CheckpointActions { CheckpointActions(session: self) }
    var outgoingChecks: OutgoingChecks { OutgoingChecks(session: self) }
    var deltas: DeltaDriver { DeltaDriver(session: self) }
    var lists: ListReader { ListReader(session: self) }
    var writing: RevisionWriter { RevisionWriter(session: self) }
    var removals: AccessRemovals { AccessRemovals(session: self) }
    var refused: RefusedList { RefusedList(session: self) }
    var clockRetries: ClockRetries { ClockRetries(session: self) }
    var serving: BlobServing { BlobServing(session: self) }
    var proofs: BlobProver { BlobProver(session: self) }

    init(
        _ transport: any MessageTransport, _ role: SessionRole, _ observer: SessionObserver, _ counters: ReplicationCounters,
        _ environment: Environment, _ memory: MemoryBudget, _ logger: Logger
    ) {
        self.transport = transport
        self.role = role
        self.observer = observer
        self.counters = counters
        self.environment = environment
        self.memory = memory
        self.logger = logger
        switch role {
        case .active(let active):
            database = active.replicator.database
            limits = active.replicator.limits.within(memory)
            (isPassive, channelPeer, whyNothingMayBePushed) = (false, nil, nil)
            pushesHere = active.replicator.type.pushes
        case .passive(let passive):
            database = passive.database
            limits = passive.limits
            (isPassive, channelPeer, whyNothingMayBePushed) = (true, passive.channelPeer, passive.whyNothingMayBePushed)
            pushesHere = false
        }
        let wire = role.wireLog(transport)
        couch = CouchDialect(transport, role, environment, memory, wire, counters, resumed: observer.blobResumed)
        if let couch {
            dialect = couch
        } else {
            dialect = BLIPDialect(
                isPassive: isPassive, takesDeltas: role.usesDeltas, naming: role.naming(transport), limits: limits, wire: wire)
        }
    }

    func start(_ owner: ReplicationSession) {
        self.owner = owner
        if !isPassive { counters.beginAnew() }
        accounts.open()
        if naming != .trees { database.noteVersionPeer() }
        reconnecting.start()
        transport.start(owner)
        dialect.begin { [weak owner] events in owner?.later { session in for event in events { session.dialectEvents.handle(event) } } }
        if case .active(let active) = role { opener.open(active) }
    }

    // MARK: - Events

    /// Everything that happens to a session goes through here: it happens, the machines do what follows from it, frames go out, and
    /// the session looks where it stands.
    func turn(_ body: (SessionDriver) -> Void) {
        guard !hasEnded else { return }
        body(self)
        repeat {
            intake.receive()
            drain()
        } while intake.mayReceive
        pump()
        overview.review()
        guard !hasEnded else { return }
        owed.look()
        intake.receiveLater()
        if let end = intake.end { connectionClosed(end) }
    }

    /// A turn that is due as soon as the session's context has time.
    func later(_ body: @escaping @Sendable (SessionDriver) -> Void) { owner?.later(body) }

    /// A turn at its time, unless the session is gone by then.
    func later(milliseconds: Int, _ body: @escaping @Sendable (SessionDriver) -> Void) { owner?.later(milliseconds: milliseconds, body) }

    func tell(_ link: CollectionLink, push event: PushEvent) { inbox.append(.push(link, event)) }
    func tell(_ link: CollectionLink, pull event: PullEvent) { inbox.append(.pull(link, event)) }
    func tell(_ link: CollectionLink, checkpoint event: CheckpointMachine.Event) { inbox.append(.checkpoint(link, event)) }
    /// Something about the link changed outside of its machines.
    func touch(_ link: CollectionLink) { overview.touch(link) }

    /// Tells the push that asked, unless another subscription has taken its place.
    func tell(_ slot: Int, _ generation: Int, push event: PushEvent) {
        let link = links[slot]
        if link.generation == generation { tell(link, push: event) }
    }

    func tellWhenNoted(_ link: CollectionLink) { inbox.append(.noteIsUnderWay(link)) }
    func tell(blobs event: BlobEvent) { inbox.append(.blob(event)) }

    /// Hands the events to the machines in order, and does what they ask for; that may be the cause of more events.
    func drain() {
        guard !isHandling else { return }
        isHandling = true
        defer { isHandling = false }
        var next = 0
        var (pushActions, pullActions, checkpointActions, blobActions) = ([PushAction](), [PullAction](), [CheckpointMachine.Action](), [BlobAction]())
        while next < inbox.count, !hasEnded {
            guard let event = inbox[next].take() else { return }
            next += 1
            switch consume event {
            case .push(let link, let event):
                link.push?.handle(event, &pushActions)
                touch(link)
                // Taken out one by one, the first last: what is looped over is copied.
                if pushActions.count > 1 { pushActions.reverse() }
                while let action = pushActions.popLast() { pushes.perform(action, link) }
            case .pull(let link, let event):
                link.pull.handle(event, &pullActions)
                touch(link)
                if pullActions.count > 1 { pullActions.reverse() }
                while let action = pullActions.popLast() { pulls.perform(action, link) }
            case .checkpoint(let link, let event):
                guard let progress = link.checkpoint.map({ _ in link.progress }) else { continue }
                link.checkpoint?.handle(event, progress, &checkpointActions)
                for action in checkpointActions { checkpoints.perform(action, link) }
                checkpointActions.removeAll(keepingCapacity: true)
            case .blob(let event):
                blobs.machine.handle(event, &blobActions)
                for action in blobActions { blobs.perform(action) }
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
    func pump() {
        var events: [DialectEvent] = []
        outgoing.putRevisions()
        accounts.grantCompression()
        while !hasEnded, transport.isWritable {
            var (frames, bytes) = ([ByteBuffer](), 0)
            while bytes < 64 << 10, let frame = dialect.nextFrame(into: &events) {
                bytes += frame.readableBytes
                frames.append(frame)
            }
            if !frames.isEmpty { transport.write(counters.sent(frames, bytes)) }
            owed.sent(bytes)
            for event in events { dialectEvents.handle(event) }
            events.removeAll(keepingCapacity: true)
            if frames.isEmpty { break }
            outgoing.putRevisions()
        }
        questions.servePassiveRequests()
        drain()
    }

    // MARK: - The end

    func finish(_ ending: SessionEnd.Ending = .over, error: ReplicationError?, closeCode: UInt16?, reason: String) {
        guard !hasEnded else { return }
        life = .ended
        if let closeCode { transport.close(code: closeCode, reason: String(reason.prefix(100))) }
        dialect.end()
        blobs.end()
        counters.blobs.endAll()
        accounts.end()
        if !isPassive, ending != .complete { counters.note(offeredAgain: links.reduce(0) { $0 + ($1.pull.tracker?.offeredAgain ?? 0) }) }
        for link in links {
            counters.add(link.counts - link.countsSeen)
            link.countsSeen = link.counts
            link.end()
        }
        inbox = []
        intake.clear()
        outgoing.end()
        questions.end()
        reports.flushDocumentEvents()
        observer.activityChanged(.stopped)
        // What was under way is counted anew by the next run. A one-shot that came to its end has nothing under way, and more completed than
        // was begun would be a fault: neither is covered up.
        if ending != .complete { counters.update { $0.total = min($0.total, $0.completed) } }
        reports.noteLast(SessionEnd(error: error, ending: ending, comesBack: reconnecting.comesBack, savedNoCheckpoint: savedNoCheckpoint))
        for link in links { link.release() }
    }

    /// Fails the run because of the store or the peer: the connection is closed with a code that says whether to come back.
    func fail(_ error: any Error) {
        let failure = error as? ReplicationError ?? ReplicationError(store: error)
        // The replicator of an active session says why it goes offline, in the same words.
        if isPassive || failure.domain == .store { log(error, "\(failure)") } else { logger.debug("\(failure)") }
        // What is wrong with a listener's own store is no reason for its peers to stop for good, as they do after 4002.
        let mayComeBack = failure.isTransient || isPassive && failure.domain == .store
        finish(error: failure, closeCode: mayComeBack ? 4001 : 4002, reason: failure.reasonForPeer)
    }

    /// A database that is closed is no fault: the agent stops, or its configuration changed.
    func log(_ error: any Error, _ text: String? = nil) {
        if case StoreError.closed? = error as? StoreError { return logger.debug("\(error)") }
        logger.error("\(text ?? "\(error)")")
    }

    func connectionClosed(_ end: ConnectionEnd) {
        accounts.disconnected()
        guard !hasEnded else { return }
        if !intake.isEmpty, !intake.isPaused {
            intake.end = end
            return intake.receiveLater()
        }
        // Couchbase Lite, too, treats an unasked-for 1000 from the peer as 1001: the peer went away.
        let code = end.code == 1000 ? 1001 : end.code
        var error = ReplicationError(
            domain: .websocket, code: Int(code),
            message: end.reason.isEmpty ? "the peer closed the connection (\(end.code))" : end.reason)
        // The peer has spoken the protocol, so that bytes were changed on the way: the connection broke, and nobody has to mend the target.
        if life == .running, [1002, 1003, 1007].contains(error.code) { error.isTransient = true }
        finish(error: isPassive ? nil : error, closeCode: nil, reason: "")
    }

    /// Anything is under way, of this connection's collections or beside them.
    var isBusy: Bool { overview.isBusy }

    // MARK: - Who asks

    /// What the peer calls revisions.
    var naming: RevisionNaming { role.naming(transport) }

    /// Where a policy is asked.
    func policyContext(_ collection: CollectionName, _ direction: Direction) -> PolicyContext {
        var context = role.policyContext(collection, direction, database, remote: transport.peerDescription)
        if couch == nil { context.subprotocol = role.subprotocol(transport) }
        return context
    }

    // MARK: - Work elsewhere

    /// Reads, and goes on here. A store that cannot read ends the session, unless something else is said.
    func read<T: Sendable>(
        _ body: @escaping @Sendable (ReadTransaction) throws -> T,
        then: @escaping @Sendable (SessionDriver, T) -> Void,
        failed: @escaping @Sendable (SessionDriver, any Error) -> Void = { $0.fail($1) }
    ) {
        guard let owner else { return }
        database.read(body) { result in owner.goOn(result, then, failed) }
    }

    /// Writes, and goes on here when it is durable.
    func write<T: Sendable>(
        _ body: @escaping @Sendable (WriteTransaction) throws -> T,
        then: @escaping @Sendable (SessionDriver, T) -> Void,
        failed: @escaping @Sendable (SessionDriver, any Error) -> Void = { $0.fail($1) }
    ) {
        guard let owner else { return }
        database.write(body) { [share = accounts.share] result in withExtendedLifetime(share) { owner.goOn(result, then, failed) } }
    }

    /// Asks a policy, or the pool, and goes on here.
    ///
    /// - Parameter atLength: the answer may take milliseconds of work, such as a look at a large body.
    func ask<T: Sendable>(
        atLength: Bool = false, _ question: @escaping @Sendable () async -> T, then: @escaping @Sendable (SessionDriver, T) -> Void
    ) {
        guard let owner else { return }
        let body: @Sendable () async -> Void = { [share = accounts.share] in
            let answer = await question()
            withExtendedLifetime(share) { owner.later { then($0, answer) } }
        }
        if atLength { environment.lengthyTask(body) } else { environment.task(body) }
    }
}

extension ReplicationSession {
    /// Asks the peer; nobody does where the session is over.
    nonisolated func ask(_ opening: Opening) {
        context.execute {
            self.assumeIsolated { session in
                if session.driver.hasEnded { return opening.done.resume(returning: nil) }
                session.driver.turn { $0.dialect.open(opening) }
            }
        }
    }

    /// What comes of work elsewhere.
    nonisolated func goOn<T: Sendable>(
        _ result: Result<T, any Error>, _ then: @escaping @Sendable (SessionDriver, T) -> Void,
        _ failed: @escaping @Sendable (SessionDriver, any Error) -> Void
    ) {
        later { session in
            switch result {
            case .success(let value): then(session, value)
            case .failure(let error): failed(session, error)
            }
        }
    }
}

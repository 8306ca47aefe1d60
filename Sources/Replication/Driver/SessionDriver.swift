import Documents
import DocumentStore
import Environment
import Interfaces
import Logging
import NIOCore

/// The driver of the engine, one per connection. It feeds the peer's messages, the store's answers and the policies' decisions to the machines, one
/// event at a time, and has their actions carried out. It decides nothing itself. Slow work is done elsewhere in batches: bodies are checked on the
/// pool, the store uses its own workers, and so do policies.
///
/// Confined to its session, and so are its parts, each of which does one thing for the machines.
final class SessionDriver {
    let counters: ReplicationCounters
    let role: SessionRole
    let isPassive: Bool
    /// We are active, and push.
    let pushesAsActive: Bool
    /// The peer as known to the store's channels; nil if it may see everything.
    let channelPeer: ChannelPeer?
    /// Why the peer may not push; nil if it may, or if we opened the connection.
    let pushRefusalReason: String?
    let database: Database
    let limits: ReplicationLimits
    let observer: SessionObserver
    let environment: Environment
    let memory: MemoryBudget
    let logger: Logger
    let transport: any MessageTransport
    var dialect: any Dialect & ~Copyable
    /// Schedules turns for the driver.
    private(set) weak var owner: ReplicationSession?

    var links: [CollectionLink] = []
    /// Events that wait for their turn, in order.
    private var inbox: [Event?] = []
    private var isHandling = false
    /// The session ends because the peer saves no checkpoint, and has saved none on this connection.
    var savedNoCheckpoint = false
    /// Number of batches of the peer's revisions that the store has not answered for yet.
    var batchesUnderWay = 0
    /// Number of pending pieces of set-up work, such as for what the peer subscribes to: what keeps the session busy apart from its links.
    var pendingSetUp = 0

    /// The phase of the session. A passive one serves requests from the start, and is never `running`.
    enum Life { case opening, running, ended }
    var life = Life.opening
    var hasEnded: Bool { life == .ended }

    private enum Event {
        case push(CollectionLink, PushEvent)
        case pull(CollectionLink, PullEvent)
        case checkpoint(CollectionLink, CheckpointMachine.Event)
        case blob(BlobEvent)
        /// What the push was told to record is on its way to the store; the checkpoint follows it.
        case noteIsUnderWay(CollectionLink)
    }

    // MARK: - Parts

    /// Parts with state of their own, for the connection as a whole.
    private(set) lazy var intake = FrameIntake(self)
    private(set) lazy var accounts = SessionAccounts(self)
    private(set) lazy var overview = SessionOverview(self)
    private(set) lazy var owed = OwedAnswers(self)
    private(set) lazy var reports = SessionReports(self)
    private(set) lazy var reconnecting = Reconnecting(self)
    private(set) lazy var blobs = BlobDriver(self)
    private(set) lazy var questions = PeerQuestions(self)
    private(set) lazy var outgoing = OutgoingQueue(self)
    /// The session's place in line for the memory of large bodies.
    private(set) lazy var claimant = memory.claimant()
    /// Parts without state: each is a value that is made where it is used, and only divides the driver's work among files.
    var dispatcher: DialectEventDispatcher { DialectEventDispatcher(driver: self) }
    var opener: SessionOpener { SessionOpener(driver: self) }
    var service: PassiveService { PassiveService(driver: self) }
    /// These carry out the actions of a collection's machines.
    var pushes: PushActions { PushActions(driver: self) }
    var largeReads: LargeReads { LargeReads(driver: self) }
    var pulls: PullActions { PullActions(driver: self) }
    var checkpoints: CheckpointActions { CheckpointActions(driver: self) }
    var outgoingChecks: OutgoingChecks { OutgoingChecks(driver: self) }
    var deltas: DeltaDriver { DeltaDriver(driver: self) }
    var lists: ListReader { ListReader(driver: self) }
    var writing: RevisionWriter { RevisionWriter(driver: self) }
    var removals: AccessRemovals { AccessRemovals(driver: self) }
    var refused: RefusedList { RefusedList(driver: self) }
    var clockRetries: ClockRetries { ClockRetries(driver: self) }
    var serving: BlobServing { BlobServing(driver: self) }
    var proofs: BlobProver { BlobProver(driver: self) }

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
            limits = active.replicator.limits.within(memory, active.caution)
            (isPassive, channelPeer, pushRefusalReason) = (false, nil, nil)
            pushesAsActive = active.replicator.type.pushes
        case .passive(let passive):
            database = passive.database
            limits = passive.limits.within(memory, nil)
            (isPassive, channelPeer, pushRefusalReason) = (true, passive.channelPeer, passive.pushRefusalReason)
            pushesAsActive = false
        }
        dialect = role.dialect(transport, limits, environment, memory, counters, resumed: observer.blobResumed)
    }

    func start(_ owner: ReplicationSession) {
        self.owner = owner
        if !isPassive { counters.restartCounts() }
        accounts.open()
        if naming != .trees { database.noteVersionPeer() }
        reconnecting.start()
        transport.start(owner)
        dialect.begin { [weak owner] events in owner?.later { driver in for event in events { driver.dispatcher.handle(event) } } }
        if case .active(let active) = role { opener.open(active) }
    }

    // MARK: - Events

    /// Everything that happens to a session goes through here: the event is handled, the machines react, frames are sent, and the session reviews its
    /// state.
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

    /// Schedules a turn as soon as the session's context has time.
    func later(_ body: @escaping @Sendable (SessionDriver) -> Void) { owner?.later(body) }

    /// Schedules a turn after a delay, unless the session is gone by then.
    func later(milliseconds: Int, _ body: @escaping @Sendable (SessionDriver) -> Void) { owner?.later(milliseconds: milliseconds, body) }

    func tell(_ link: CollectionLink, push event: PushEvent) { inbox.append(.push(link, event)) }
    func tell(_ link: CollectionLink, pull event: PullEvent) { inbox.append(.pull(link, event)) }
    func tell(_ link: CollectionLink, checkpoint event: CheckpointMachine.Event) { inbox.append(.checkpoint(link, event)) }
    /// Something about the link changed outside its machines.
    func touch(_ link: CollectionLink) { overview.touch(link) }

    /// Passes the event to the push that asked, unless another subscription has replaced it.
    func tell(_ slot: Int, _ generation: Int, push event: PushEvent) {
        let link = links[slot]
        if link.generation == generation { tell(link, push: event) }
    }

    func notifyWhenNoted(_ link: CollectionLink) { inbox.append(.noteIsUnderWay(link)) }
    func tell(blobs event: BlobEvent) { inbox.append(.blob(event)) }

    /// Passes the events to the machines in order and carries out their actions, which may cause more events.
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
                // Removed one at a time, the first one last, because iterating would copy them.
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
                // The writer works in order: when this job is done, everything to be recorded before it is, too.
                let slot = link.slot
                write { _ in } then: { driver, _ in driver.tell(driver.links[slot], checkpoint: .noted) }
            }
            if next == inbox.count || next >= DriverBounds.handledEvents {
                inbox.removeFirst(min(next, inbox.count)) // Empty if the session ended in the meantime.
                next = 0
            }
        }
        if hasEnded { inbox = [] }
    }

    /// Sends frames as far as the transport takes them.
    func pump() {
        var events: [DialectEvent] = []
        outgoing.putRevisions()
        accounts.grantCompression()
        while !hasEnded, transport.isWritable {
            var (frames, bytes) = ([ByteBuffer](), 0)
            while bytes < DriverBounds.framesBytes, let frame = dialect.nextFrame(into: &events) {
                bytes += frame.readableBytes
                frames.append(frame)
            }
            if !frames.isEmpty { transport.write(counters.sent(frames, bytes)) }
            owed.sent(bytes)
            for event in events { dispatcher.handle(event) }
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
        if !isPassive, ending != .complete { counters.note(processedAgain: links.reduce(0) { $0 + $1.processedAgain }) }
        for link in links {
            if let unanswered = link.push?.takeUnanswered(), !isPassive { counters.note(unanswered: unanswered, of: link.collection.name) }
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
        // The next run counts again what was under way. A one-shot that completed has nothing under way, and more completed than begun would be a
        // bug: neither is hidden here.
        if ending != .complete { counters.update { $0.total = min($0.total, $0.completed) } }
        reports.noteLast(SessionEnd(error: error, ending: ending, needsReconnect: reconnecting.needsReconnect, savedNoCheckpoint: savedNoCheckpoint, wasEvicted: accounts.standing == .evicted))
        for link in links { link.release() }
    }

    /// Fails the run because of the store or the peer: the connection is closed with a code that says whether to come back.
    func fail(_ error: any Error) {
        let failure = error as? ReplicationError ?? ReplicationError(store: error)
        // The replicator of an active session logs why it goes offline, in the same words.
        if isPassive || failure.domain == .store { log(error, "\(failure)") } else { logger.debug("\(failure)") }
        // An error of a listener's own store is no reason for its peers to stop permanently, as they do after 4002.
        let mayReconnect = failure.isTransient || isPassive && failure.domain == .store
        finish(error: failure, closeCode: mayReconnect ? CloseCode.comeBack : CloseCode.stayAway, reason: failure.reasonForPeer)
    }

    /// A closed database is not an error: the agent is stopping, or its configuration changed.
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
        // Like Couchbase Lite, treat an unexpected 1000 from the peer as 1001: the peer went away.
        let code = end.code == CloseCode.normal ? CloseCode.goingAway : end.code
        var error = ReplicationError(domain: .websocket, code: Int(code), message: end.sentence)
        // The peer has spoken the protocol correctly before, so bytes were corrupted in transit: a broken connection, not a wrong target.
        if life == .running, [1002, 1003, 1007].contains(error.code) { error.isTransient = true }
        finish(error: isPassive ? nil : error, closeCode: nil, reason: "")
    }

    /// Whether anything is under way, in this connection's collections or besides them.
    var isBusy: Bool { overview.isBusy }

    // MARK: - Context

    /// How the peer names revisions.
    var naming: RevisionNaming { role.naming(transport) }

    /// The context passed to a policy.
    func policyContext(_ collection: CollectionName, _ direction: Direction) -> PolicyContext {
        var context = role.policyContext(collection, direction, database, remote: transport.peerDescription)
        if dialect.traits.hasSubprotocol { context.subprotocol = role.subprotocol(transport) }
        return context
    }

    // MARK: - Work elsewhere

    /// Reads, and continues on the session. A store that cannot read ends the session, unless `failed` says otherwise.
    func read<T: Sendable>(
        _ body: @escaping @Sendable (ReadTransaction) throws -> T,
        then: @escaping @Sendable (SessionDriver, T) -> Void,
        failed: @escaping @Sendable (SessionDriver, any Error) -> Void = { $0.fail($1) }
    ) {
        guard let owner else { return }
        database.read(body) { result in owner.deliver(result, then, failed) }
    }

    /// Writes, and continues on the session once the write is durable.
    ///
    /// - Parameter late: called instead if the session has ended in the meantime, and the write was successful all the same.
    func write<T: Sendable>(
        _ body: @escaping @Sendable (WriteTransaction) throws -> T,
        then: @escaping @Sendable (SessionDriver, T) -> Void,
        failed: @escaping @Sendable (SessionDriver, any Error) -> Void = { $0.fail($1) },
        late: @escaping @Sendable (SessionDriver, T) -> Void = { _, _ in }
    ) {
        guard let owner else { return }
        database.write(body) { [share = accounts.share] result in withExtendedLifetime(share) { owner.deliver(result, then, failed, late) } }
    }

    /// Asks a policy, or the pool, and continues on the session.
    ///
    /// - Parameter atLength: whether the answer may take milliseconds of work, such as examining a large body.
    func ask<T: Sendable>(
        atLength: Bool = false, _ question: @escaping @Sendable () async -> T, then: @escaping @Sendable (SessionDriver, T) -> Void
    ) {
        guard let owner else { return }
        let body: @Sendable () async -> Void = { [share = accounts.share] in
            let answer = await question()
            withExtendedLifetime(share) { owner.later { then($0, answer) } }
        }
        if atLength { environment.backgroundTask(body) } else { environment.task(body) }
    }

    /// The same with a question that may fail. A failure ends the session, unless `failed` says otherwise.
    func attempt<T: Sendable>(
        _ question: @escaping @Sendable () async throws -> T,
        then: @escaping @Sendable (SessionDriver, T) -> Void,
        failed: @escaping @Sendable (SessionDriver, any Error) -> Void = { $0.fail($1) }
    ) {
        ask { () async -> Result<T, any Error> in
            do { return .success(try await question()) } catch { return .failure(error) }
        } then: { driver, result in
            switch result {
            case .success(let value): then(driver, value)
            case .failure(let error): failed(driver, error)
            }
        }
    }
}

extension ReplicationSession {
    /// Asks the peer; does nothing once the session has ended.
    nonisolated func ask(_ opening: Opening) {
        context.execute {
            self.assumeIsolated { session in
                if session.driver.hasEnded { return opening.done.resume(returning: nil) }
                session.driver.turn { $0.dialect.open(opening) }
            }
        }
    }

    /// Continues with the result of work done elsewhere.
    nonisolated func deliver<T: Sendable>(
        _ result: Result<T, any Error>, _ then: @escaping @Sendable (SessionDriver, T) -> Void,
        _ failed: @escaping @Sendable (SessionDriver, any Error) -> Void, _ late: @escaping @Sendable (SessionDriver, T) -> Void = { _, _ in }
    ) {
        context.execute {
            self.assumeIsolated { session in
                switch result {
                case .success(let value) where session.driver.hasEnded: late(session.driver, value)
                case .success(let value): session.driver.turn { then($0, value) }
                case .failure(let error): session.driver.turn { failed($0, error) }
                }
            }
        }
    }
}

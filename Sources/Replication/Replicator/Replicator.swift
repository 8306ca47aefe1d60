import Documents
import Environment
import DocumentStore
import Interfaces
import Logging
import NIOCore
import Synchronization

/// A replicator: keeps a local database and a remote one in step, over as many connections as it takes.
///
/// Its life is Couchbase Lite's: stopped → connecting → busy ⇄ idle (continuous only), offline between attempts.
public actor Replicator {
    public nonisolated let configuration: ReplicatorConfiguration
    private let connector: any TransportConnector
    private nonisolated let environment: Environment
    private let memory: MemoryBudget
    nonisolated let logger: Logger
    nonisolated let shared: Mutex<Shared>

    /// What status readers see, without waiting for the actor.
    struct Shared {
        var status = ReplicatorStatus()
        var counters = ReplicationCounters()
        var statusListeners: [Int: AsyncStream<ReplicatorStatus>.Continuation] = [:]
        var eventListeners: [Int: AsyncStream<[DocumentEvent]>.Continuation] = [:]
        var nextListener = 0
        var missing = MissingRevisions()
        /// Something was replicated on this connection, or there was nothing to replicate.
        var hasFlowed = false
        /// Of this run (seconds since 1970).
        var startedAt: Int64 = 0
        /// Of runs before the present start.
        var past = ReplicationCounts()

        /// The status with the counts as they are now.
        var current: ReplicatorStatus {
            var status = status
            status.counts = counters.snapshot
            // Counts of several documents at once are taken between two of them.
            status.counts.total = max(status.counts.total, status.counts.completed)
            return status
        }
    }

    private var runner: Task<Void, Never>?
    var sessions: [ReplicationSession] = []
    /// Fetches what the pull does not bring, over a connection of its own.
    private var fetcher: Task<Bool, Never>?
    private var isStopping = false
    /// Started while it was stopping, perhaps with a reset.
    private var startsAgain: Bool?
    private var speaksLegacy = false
    private var retry: RetryMachine
    private nonisolated let pause = RetryPause()
    /// Documents that wait although the connection is up.
    public nonisolated let waiting = DocumentTroubles(notesPolicies: false)
    /// When the run began whose counts are in ``status`` (seconds since 1970).
    public nonisolated var startedAt: Int64 { shared.withLock { $0.startedAt } }

    /// When the first of the attempts failed that have failed since data flowed (seconds since 1970).
    private nonisolated let failingSince = Mutex<(time: Int64, attempts: Int)?>(nil)

    public init(
        configuration: ReplicatorConfiguration, connector: any TransportConnector, environment: Environment = .system,
        memory: MemoryBudget = .unlimited, logger: Logger
    ) {
        self.configuration = configuration
        self.connector = connector
        self.environment = environment
        self.memory = memory
        retry = RetryMachine(settings: configuration.retry, isContinuous: configuration.isContinuous)
        var logger = logger
        logger[metadataKey: "replicator"] = "\(configuration.name)"
        self.logger = logger
        let now = environment.time.wallSeconds()
        shared = Mutex(Shared(status: ReplicatorStatus(since: now), startedAt: now))
    }

    // MARK: - Control

    /// Starts, or starts again once stopped; one that is still stopping as soon as it has. One that waits for its next attempt makes it
    /// now. No effect otherwise.
    ///
    /// - Parameter reset: the saved checkpoint is ignored and every document is looked at again.
    public func start(reset: Bool = false) {
        guard runner == nil else {
            if isStopping { startsAgain = .some(reset) } else { retryNow("it was started again") }
            return
        }
        isStopping = false
        retry = RetryMachine(settings: configuration.retry, isContinuous: configuration.isContinuous)
        failingSince.withLock { $0 = nil }
        pause.forget()
        let now = environment.time.wallSeconds()
        shared.withLock {
            $0.past = $0.past + $0.counters.snapshot
            $0.counters = ReplicationCounters()
            $0.startedAt = now
            $0.status = ReplicatorStatus(activity: .connecting, since: now, lastSuccess: $0.status.lastSuccess)
        }
        publish()
        runner = environment.task { await self.run(reset: reset) }
    }

    /// Has the next attempt made now: something changed that may help. No effect while connected or stopped.
    ///
    /// - Parameter reason: for the log.
    public nonisolated func retryNow(_ reason: String) {
        switch status.activity {
        case .offline: logger.info("the next attempt is made now: \(reason)")
        case .connecting: break
        case .stopped, .idle, .busy: return
        }
        pause.end()
    }

    /// Stops and waits until stopped.
    ///
    /// - Parameter code: the WebSocket close code for the peer.
    ///
    /// An error from before is forgotten: who stops a replicator knows of it, and nothing of what stands still is ill.
    public func stop(code: UInt16 = 1000) async {
        let running = runner
        beginStop(code: code)
        await running?.value
    }

    /// Stops without waiting until stopped: a start that comes afterwards comes after it.
    public func beginStop(code: UInt16 = 1000) {
        startsAgain = nil
        guard let runner else {
            if status.error != nil { update { $0.error = nil } }
            return
        }
        isStopping = true
        runner.cancel()
        let sessions = sessions
        environment.task { for session in sessions { await session.stop(code: code) } }
    }

    /// Waits until the replicator has stopped by itself, and gives its last status.
    public func waitUntilStopped() async -> ReplicatorStatus {
        await runner?.value
        return status
    }

    // MARK: - Status

    /// The status now.
    public nonisolated var status: ReplicatorStatus {
        shared.withLock { $0.current }
    }

    /// When the first of the attempts failed that have failed since data flowed (seconds since 1970); nil while all is well.
    public nonisolated var failing: Int64? { failingSince.withLock { $0?.time } }

    /// What was counted in all runs, those before a restart included.
    public nonisolated var lifetime: ReplicationCounts { shared.withLock { $0.past + $0.counters.snapshot } }

    /// Goes on from what was counted before a restart.
    public nonisolated func restore(_ counts: ReplicationCounts, lastSuccess: Int64?) {
        shared.withLock { ($0.past, $0.status.lastSuccess) = (counts, lastSuccess) }
    }

    private nonisolated func publish() {
        let (status, listeners) = shared.withLock { ($0.statusListeners.isEmpty ? $0.status : $0.current, Array($0.statusListeners.values)) }
        for listener in listeners { listener.yield(status) }
    }

    private nonisolated func update(_ change: (inout ReplicatorStatus) -> Void) {
        let now = environment.time.wallSeconds()
        shared.withLock { shared in
            let before = shared.status.activity
            change(&shared.status)
            if shared.status.activity != before { shared.status.since = now }
        }
        publish()
    }

    private nonisolated func tell(_ events: [DocumentEvent]) {
        log(events)
        waiting.note(events, at: environment.time.wallSeconds())
        let (listeners, isAnyMissing) = shared.withLock { shared in
            if configuration.type == .pushAndPull { shared.missing.note(events) }
            return (Array(shared.eventListeners.values), !shared.missing.isEmpty)
        }
        for listener in listeners { listener.yield(events) }
        if events.contains(where: { $0.error == nil }) { noteFlow() }
        // The counts moved on.
        publish()
        if isAnyMissing { environment.task { await self.hasFetchedMissing() } }
    }

    // MARK: - Runs

    private func run(reset: Bool) async {
        var resets = reset
        while !isStopping {
            update {
                $0.activity = .connecting
                $0.retryInSeconds = nil
            }
            let end = await runOnce(resets: resets)
            if end.wantsLegacy, !speaksLegacy {
                logger.info("the peer wants no collections in messages; trying again without")
                speaksLegacy = true
                continue
            }
            guard !isStopping else { break }
            guard let error = end.error else {
                update {
                    $0.error = nil
                    $0.lastSuccess = environment.time.wallSeconds()
                }
                waiting.lookedAtAll()
                // What was fetched meanwhile may have been decided into something to push.
                guard await hasFetchedMissing() else { break }
                resets = false
                continue
            }
            // A reset was meant for one run; what that run achieved is kept.
            resets = false
            let (now, chance) = (environment.time.wallSeconds(), environment.random.next())
            failingSince.withLock { $0 = ($0?.time ?? now, ($0?.attempts ?? 0) + 1) }
            switch retry.failed(error, chance: chance) {
            case .stop:
                logger.error("stopped: \(error.sentence)")
                update { $0.error = error }
                await finish()
                return
            case .retry(let milliseconds):
                let seconds = (milliseconds + 999) / 1_000
                logger.warning("offline, next attempt in \(seconds) s: \(error.sentence)")
                let attempt = retry.retries
                update {
                    $0.activity = .offline
                    $0.error = error
                    $0.attempt = attempt
                    $0.retryInSeconds = seconds
                }
                if await pause.wait(milliseconds: milliseconds, environment) { retry.conditionsChanged() }
            }
        }
        await finish()
    }

    private func finish() async {
        _ = await fetcher?.value
        if isStopping || status.error == nil {
            let counts = status.counts
            logger.info("stopped", metadata: ["pushed": "\(counts.pushed)", "pulled": "\(counts.pulled)", "failed": "\(counts.failed)"])
        }
        runner = nil
        update {
            if isStopping { ($0.error, $0.attempt) = (nil, 0) }
            $0.activity = .stopped
            $0.retryInSeconds = nil
        }
        guard let reset = startsAgain else { return }
        startsAgain = nil
        start(reset: reset)
    }

    private func runOnce(resets: Bool) async -> SessionEnd {
        let transport: any MessageTransport
        do {
            transport = try await connector.connect()
        } catch let error as ReplicationError {
            return SessionEnd(error: error, wantsLegacy: false)
        } catch {
            return SessionEnd(
                error: ReplicationError(network: .notConnected, message: "\(error)"), wantsLegacy: false)
        }
        guard !isStopping else {
            transport.drop()
            return SessionEnd(error: nil, wantsLegacy: false)
        }
        pause.forget()
        waiting.connected()
        shared.withLock { $0.hasFlowed = false }
        // A peer that accepts and drops is no news each time.
        logger.log(level: retry.retries == 0 ? .info : .debug, "connected", metadata: ["peer": "\(transport.peerDescription)"])
        update { $0.error = nil }
        update { $0.activity = .busy }
        let end = await replicate(
            over: transport, ActiveConfiguration(replicator: configuration, resets: resets, startsLegacy: speaksLegacy),
            shared.withLock { $0.counters }
        ) { [weak self, environment] level in
            guard level != .stopped else { return }
            if level == .idle {
                self?.noteFlow()
                self?.waiting.lookedAtAll()
            }
            self?.update {
                $0.activity = level
                if level == .idle { $0.lastSuccess = environment.time.wallSeconds() }
            }
        }
        if shared.withLock({ $0.hasFlowed }) { retry.flowed() }
        return end
    }

    /// The connection did what it is for.
    private nonisolated func noteFlow() {
        let isFirst = shared.withLock { shared in
            defer { shared.hasFlowed = true }
            return !shared.hasFlowed
        }
        guard isFirst else { return }
        if let failing = failingSince.withLock({ failing in
            defer { failing = nil }
            return failing
        }) {
            let seconds = max(0, environment.time.wallSeconds() - failing.time)
            logger.info("recovered after \(failing.attempts) failed attempts in \(seconds) s")
        }
        update { $0.attempt = 0 }
    }

    /// Asks once more, by name, for documents whose revision at the peer is not here although the pull is over. One attempt at a
    /// time; false where there was nothing to ask for.
    @discardableResult
    private func hasFetchedMissing() async -> Bool {
        if let fetcher { return await fetcher.value }
        let missing = shared.withLock { $0.missing.take() }
        guard !missing.isEmpty, !isStopping else { return false }
        let task = environment.task { await self.fetch(missing) }
        fetcher = task
        let isDone = await task.value
        fetcher = nil
        return isDone
    }

    private func fetch(_ missing: [CollectionName: [DocumentID]]) async -> Bool {
        guard let transport = try? await connector.connect() else { return false }
        guard !isStopping else {
            transport.drop()
            return false
        }
        var only = configuration
        (only.type, only.isContinuous) = (.pull, false)
        only.collections = configuration.collections.compactMap { wanted in
            guard let ids = missing[wanted.collection] else { return nil }
            var wanted = wanted
            wanted.documentIDs = ids
            return wanted
        }
        let counters = ReplicationCounters()
        let active = ActiveConfiguration(replicator: only, resets: true, startsLegacy: speaksLegacy, savesCheckpoint: false)
        let end = await replicate(over: transport, active, counters)
        shared.withLock { $0.counters.add(counters.snapshot) }
        return end.error == nil
    }

    /// One session, from its start to its end.
    private func replicate(
        over transport: any MessageTransport, _ active: ActiveConfiguration, _ counters: ReplicationCounters,
        activityChanged: @escaping @Sendable (ActivityLevel) -> Void = { _ in }
    ) async -> SessionEnd {
        let (ends, continuation) = AsyncStream.makeStream(of: SessionEnd.self)
        let observer = SessionObserver(
            activityChanged: activityChanged, documents: { [weak self] in self?.tell($0) },
            ended: {
                continuation.yield($0)
                continuation.finish()
            })
        let session = ReplicationSession(
            transport: transport, role: .active(active), observer: observer, counters: counters, environment: environment,
            memory: memory, logger: logger)
        sessions.append(session)
        await session.start()
        if isStopping { await session.stop() }
        // Not through the task's cancellation: the session ends in order, and says so.
        let end = await environment.task { [ends] in
            for await end in ends { return end }
            return SessionEnd(error: nil, wantsLegacy: false)
        }.value
        sessions.removeAll { $0 === session }
        return end
    }
}

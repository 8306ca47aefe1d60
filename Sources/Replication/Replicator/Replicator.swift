import Documents
import Encodings
import Environment
import DocumentStore
import Interfaces
import Logging
import NIOCore
import Synchronization

/// A replicator: keeps a local database and a remote one in sync, over as many connections as it takes.
///
/// Its life cycle is Couchbase Lite's: stopped → connecting → busy ⇄ idle (continuous only), offline between attempts.
public actor Replicator {
    public nonisolated let configuration: ReplicatorConfiguration
    let connector: any TransportConnector
    nonisolated let environment: Environment
    let memory: MemoryBudget
    nonisolated let logger: Logger
    nonisolated let shared: Mutex<Shared>

    /// State that status readers can access without waiting for the actor.
    struct Shared {
        var status = ReplicatorStatus()
        var counters = ReplicationCounters()
        var statusListeners: [Int: AsyncStream<ReplicatorStatus>.Continuation] = [:]
        var eventListeners: [Int: AsyncStream<[DocumentEvent]>.Continuation] = [:]
        var nextListener = 0
        var missing = MissingRevisions()
        /// The offsets at which blob transfers were last resumed.
        var resumedBlobs: [BlobDigest: UInt64] = [:]
        /// Something was replicated on this connection, or there was nothing to replicate.
        var hasMadeProgress = false
        /// Start of this run, in seconds since 1970.
        var startedAt: Int64 = 0
        /// Counts of runs before the current start.
        var past = ReplicationCounts()
        var wentBack: RemoteWentBack?
        var setback = Setback()
        /// See ``Replicator/oweReset()``.
        var owesReset = false
    }

    var runner: Task<Void, Never>?
    var sessions: [ReplicationSession] = []
    /// Fetches what the pull does not bring, over a separate connection.
    var fetcher: Task<Bool, Never>?
    var isStopping = false
    /// An operator wants no connection at the moment; see ``suspend()``.
    var isSuspended = false
    /// It was suspended since the current run began, so the end of the session says nothing about the peer.
    var wasSuspended = false
    /// Ends the wait of a suspended run.
    var resumption: AsyncStream<Void>.Continuation?
    /// Set if it was started while stopping; the value says whether with a reset.
    private var startsAgain: Bool?
    var speaksLegacy = false
    var selectsLocally = false
    /// Number of consecutive sessions that ended in order to request again what the peer could not send.
    var comebacks = 0
    var caution = MemoryCaution.none
    var retry: RetryMachine
    nonisolated let pause = RetryPause()
    /// Documents that wait although there is a connection.
    public nonisolated let waiting = WaitingDocuments(notesPolicies: false)
    /// The start of the run to which the counts in ``status`` belong, in seconds since 1970.
    public nonisolated var startedAt: Int64 { shared.withLock { $0.startedAt } }

    /// The end of the first failed attempt since data last flowed, in seconds since 1970, and the number of failed attempts.
    nonisolated let failingSince = Mutex<(time: Int64, attempts: Int)?>(nil)
    nonisolated let interruptionRecord = Mutex<Interruptions?>(nil)
    private var hasReachedRemote = false

    public init(
        configuration: ReplicatorConfiguration, connector: any TransportConnector, environment: Environment,
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

    /// Starts the replicator, or restarts it once stopped; if it is still stopping, as soon as it has stopped. If it is waiting for its next attempt,
    /// it makes that attempt now. Otherwise there is no effect.
    ///
    /// - Parameter reset: the saved checkpoint is ignored and every document is examined again.
    public func start(reset: Bool = false) {
        guard runner == nil else {
            if isStopping { startsAgain = .some(reset) } else if isSuspended { resume() } else { retryNow("it was started again") }
            return
        }
        (isStopping, isSuspended) = (false, false)
        retry = RetryMachine(settings: configuration.retry, isContinuous: configuration.isContinuous)
        failingSince.withLock { $0 = nil }
        interruptionRecord.withLock { $0 = nil }
        pause.forget()
        let now = environment.time.wallSeconds()
        shared.withLock {
            $0.past = $0.past + $0.counters.snapshot
            $0.counters = ReplicationCounters()
            $0.startedAt = now
            let silence = $0.status.silence
            $0.status = ReplicatorStatus(activity: .connecting, since: now, lastSuccess: $0.status.lastSuccess)
            $0.status.silence = silence
        }
        publish()
        runner = environment.task { await self.run(reset: reset) }
    }

    /// Makes the next attempt now, because something changed that may help. No effect while connected or stopped.
    ///
    /// - Parameter reason: for the log.
    public nonisolated func retryNow(_ reason: String) {
        let status = status
        guard !status.isSuspended else { return }
        switch status.activity {
        case .offline: logger.info("the next attempt is made now: \(reason)")
        case .connecting: break
        case .stopped, .idle, .busy: return
        }
        pause.end()
    }

    /// Stops, and waits until stopped. An earlier error is cleared: a replicator that was stopped on purpose is not unhealthy.
    ///
    /// - Parameter code: the WebSocket close code for the peer.
    public func stop(code: UInt16 = 1000) async {
        let running = runner
        beginStop(code: code)
        await running?.value
    }

    /// Stops without waiting until stopped; a later start takes effect afterwards.
    ///
    /// - Parameter why: for the log: who wants it, and for how long.
    public func beginStop(code: UInt16 = 1000, why: String? = nil) {
        (startsAgain, isSuspended) = (nil, false)
        guard let runner else {
            if status.error != nil { update { $0.error = nil } }
            return
        }
        if !isStopping { logger.info("stopping\(why.map { ": \($0)" } ?? "")") }
        isStopping = true
        runner.cancel()
        let sessions = sessions
        environment.task { for session in sessions { await session.stop(code: code) } }
    }

    /// Waits until the replicator has stopped on its own, and returns its last status.
    public func waitUntilStopped() async -> ReplicatorStatus {
        await runner?.value
        return status
    }

    // MARK: - Status

    /// The current status.
    public nonisolated var status: ReplicatorStatus {
        shared.withLock { $0.current }
    }

    /// Nil if the current connection has completed its work, or no connection has broken before.
    public nonisolated var interruptions: Interruptions? { interruptionRecord.withLock { $0 } }

    /// The counts of this run exactly as the sessions made them, to check that they add up.
    package nonisolated var rawCounts: ReplicationCounts { shared.withLock { $0.counters.snapshot } }

    /// The counters of this run's sessions.
    package nonisolated var counters: ReplicationCounters { shared.withLock { $0.counters } }

    /// The counts of all runs, including those before a restart.
    public nonisolated var lifetime: ReplicationCounts { shared.withLock { $0.past + $0.counters.snapshot } }

    /// Continues from the counts before a restart.
    public nonisolated func restore(_ counts: ReplicationCounts, lastSuccess: Int64?, wentBack: RemoteWentBack? = nil) {
        shared.withLock { ($0.past, $0.status.lastSuccess, $0.wentBack) = (counts, lastSuccess, wentBack) }
    }

    private nonisolated func publish() {
        let (status, listeners) = shared.withLock { ($0.statusListeners.isEmpty ? $0.status : $0.current, Array($0.statusListeners.values)) }
        for listener in listeners { listener.yield(status) }
    }

    nonisolated func update(_ change: (inout ReplicatorStatus) -> Void) {
        let now = environment.time.wallSeconds()
        shared.withLock { shared in
            let before = shared.status.activity
            change(&shared.status)
            guard shared.status.activity != before else { return }
            shared.status.since = now
            if shared.status.activity == .idle { shared.counters.rest() }
        }
        publish()
    }

    nonisolated func tell(_ events: [DocumentEvent], _ correlation: String?) {
        let now = environment.time.wallSeconds()
        let events = events.map { event in
            var event = event
            (event.time, event.correlationID) = (now, correlation)
            return event
        }
        log(events)
        waiting.note(events, at: now)
        let (listeners, isAnyMissing) = shared.withLock { shared in
            if configuration.type.pulls { shared.missing.note(events) }
            return (Array(shared.eventListeners.values), !shared.missing.isEmpty)
        }
        for listener in listeners { listener.yield(events) }
        if events.contains(where: { $0.error == nil }) { noteProgress() }
        // The counts have advanced.
        publish()
        if isAnyMissing { environment.task { await self.hasFetchedMissing() } }
    }

    // MARK: - Runs

    private func run(reset: Bool) async {
        var resets = reset || owesReset
        if resets { await forgetCheckpoints() }
        while !isStopping {
            if isSuspended {
                await waitUntilResumed()
                continue
            }
            update {
                $0.activity = .connecting
                ($0.retryInSeconds, $0.correlationID) = (nil, nil)
            }
            wasSuspended = false
            await noteTooLarge()
            let end = await runOnce(resets: resets)
            (comebacks, caution) = (end.needsReconnect ? comebacks + 1 : 0, end.wasEvicted ? caution.next : end.ending == .reconnects ? .none : caution)
            if end.ending == .wantsLegacy, !speaksLegacy {
                logger.info("the peer does not accept collections in messages; trying again without")
                // The peer may have refused the collection rather than the selection of documents.
                (speaksLegacy, selectsLocally) = (true, false)
                continue
            }
            if end.ending == .selectsLocally, !selectsLocally {
                logger.notice("the peer does not pick documents in a continuous pull; trying again: it lists all, and this side picks")
                selectsLocally = true
                continue
            }
            guard !isStopping else { break }
            if wasSuspended { continue }
            guard let error = end.error else {
                noteInSync()
                update {
                    $0.error = nil
                    if $0.refusals.behind == nil { $0.lastSuccess = environment.time.wallSeconds() }
                }
                // Documents fetched in the meantime may have been decided into something to push.
                guard await hasFetchedMissing() else { break }
                resets = false
                continue
            }
            // What a connection achieves after a reset is kept.
            if hasReachedRemote { resets = false }
            let (now, chance) = (environment.time.wallSeconds(), environment.random.next())
            // The machine's retries start over when something changed that may help; these continue until data flows.
            let attempt = failingSince.withLock { failing in
                let attempts = (failing?.attempts ?? 0) + 1
                failing = (failing?.time ?? now, attempts)
                return attempts
            }
            interruptionRecord.withLock { $0 = Interruptions(since: $0?.since ?? now, count: ($0?.count ?? 0) + 1) }
            switch retry.failed(error, chance: chance, setbacks: shared.withLock { $0.setback.count }) {
            case .stop:
                runLogger.error("stopped: \(error.sentence)")
                update { $0.error = error }
                await finish()
                return
            case .retry(let milliseconds):
                let seconds = (milliseconds + 999) / 1_000
                if end.ending == .reconnects { runLogger.notice("next connection in \(seconds) s") } else { runLogger.warning("offline, next attempt in \(seconds) s: \(error.sentence)") }
                update {
                    ($0.activity, $0.refusals.space) = (.offline, nil)
                    ($0.error, $0.attempt, $0.retryInSeconds) = (error, attempt, seconds)
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
            logger.info("stopped", metadata: ["pushed": .stringConvertible(counts.pushed), "pulled": .stringConvertible(counts.pulled), "failed": .stringConvertible(counts.failed)])
        }
        runner = nil
        update {
            if isStopping { ($0.error, $0.attempt) = (nil, 0) }
            ($0.activity, $0.isSuspended, $0.refusals.space) = (.stopped, false, nil)
            $0.retryInSeconds = nil
        }
        guard let reset = startsAgain else { return }
        startsAgain = nil
        start(reset: reset)
    }

    private func runOnce(resets: Bool) async -> SessionEnd {
        let reached: ReachedRemote
        hasReachedRemote = false
        shared.withLock { $0.setback.count = 0 }
        do { reached = try await connector.reach(nil) } catch {
            return SessionEnd(error: error as? ReplicationError ?? ReplicationError(network: .notConnected, message: "\(error)"))
        }
        let transport = reached.transport
        guard !isStopping, !isSuspended else {
            transport.drop()
            return SessionEnd(error: nil)
        }
        choose(reached.remote)
        hasReachedRemote = true
        pause.forget()
        waiting.connected()
        let (correlation, peerProtocol) = (transport.correlationID, transport.protocolName)
        shared.withLock { ($0.hasMadeProgress, $0.status.correlationID, $0.status.peerProtocol) = (false, correlation, peerProtocol) }
        // A peer that accepts and drops connections should not be logged each time.
        runLogger.log(
            level: retry.retries == 0 ? .info : .debug, "connected",
            metadata: ["peer": "\(transport.peerDescription)", "protocol": "\(peerProtocol)"])
        update { ($0.error, $0.refusals, $0.activity) = (nil, PeerRefusals(), .busy) }
        let configuration = configuration.at(reached.remote)
        var active = ActiveConfiguration(replicator: configuration, resets: resets, startsLegacy: speaksLegacy, selectsLocally: selectsLocally)
        (active.comebacks, active.caution) = (comebacks, caution)
        let end = await replicate(
            over: transport, active, shared.withLock { $0.counters }, correlation: correlation, watchesForSilence: true
        ) { [weak self, environment] level in
            guard level != .stopped else { return }
            if level == .idle {
                self?.noteProgress()
                self?.noteInSync()
                self?.fetchMissing()
            }
            self?.update {
                $0.activity = level
                let now = environment.time.wallSeconds()
                if level == .idle, $0.refusals.behind == nil { $0.lastSuccess = now }
                $0.behindSince.note($0.refusals, isInStep: level == .idle, now: now)
            }
        } refused: { [weak self, environment] refusals in
            self?.update {
                $0.refusals = refusals
                $0.behindSince.note(refusals, isInStep: $0.activity == .idle, now: environment.time.wallSeconds())
            }
        }
        // Data that flowed without a checkpoint will flow again each time: that is no progress.
        if !end.savedNoCheckpoint, shared.withLock({ $0.hasMadeProgress }) { retry.flowed() }
        return end
    }

    /// Runs one session from start to end.
    func replicate(
        over transport: any MessageTransport, _ active: ActiveConfiguration, _ counters: ReplicationCounters, correlation: String?,
        watchesForSilence: Bool = false,
        activityChanged: @escaping @Sendable (ActivityLevel) -> Void = { _ in }, refused: @escaping @Sendable (PeerRefusals) -> Void = { _ in },
        offered: (@Sendable (CollectionName, [DocumentID]) -> Void)? = nil, filtered: (@Sendable (CollectionName) -> Void)? = nil,
        told: @escaping @Sendable ([DocumentEvent]) -> Void = { _ in }
    ) async -> SessionEnd {
        let (ends, continuation) = AsyncStream.makeStream(of: SessionEnd.self)
        var observer = SessionObserver(
            activityChanged: activityChanged, documents: { [weak self] in told($0); self?.tell($0, correlation) }, refusals: refused,
            ended: {
                continuation.yield($0)
                continuation.finish()
            })
        (observer.offered, observer.filters) = (offered, filtered)
        observer.blobResumed = { [weak self] in self?.noteResumed($0, $1) }
        observer.remoteWentBack = { [weak self] in self?.noteWentBack($0, $1) }
        observer.checkpointSaved = { [weak self] in self?.noteSaved($0) }
        let session = ReplicationSession(
            transport: transport, role: .active(active), observer: observer, counters: counters, environment: environment,
            memory: memory, logger: logger(correlation))
        sessions.append(session)
        let watch = watchesForSilence ? watchForSilence(session) : nil
        defer { watch?.cancel() }
        await session.start()
        if isStopping || isSuspended { await session.stop() }
        // Not by cancelling the task: the session ends in an orderly way, and reports it.
        let end = await environment.task { [ends] in
            for await end in ends { return end }
            return SessionEnd(error: nil)
        }.value
        sessions.removeAll { $0 === session }
        return end
    }
}

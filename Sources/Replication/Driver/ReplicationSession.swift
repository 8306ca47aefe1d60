import DocumentStore
import Environment
import Interfaces
import Logging
import NIOCore

/// One replicating connection, on either side. It runs in its transport's context and is the public face of its ``SessionDriver``: everything that
/// happens to it becomes a turn of the driver.
public actor ReplicationSession: MessageReceiver {
    public nonisolated let context: any SerialContext
    private nonisolated let serialExecutor: any SerialExecutor
    public nonisolated var unownedExecutor: UnownedSerialExecutor { serialExecutor.asUnownedSerialExecutor() }

    public nonisolated let counters: ReplicationCounters
    public nonisolated let role: SessionRole
    let driver: SessionDriver

    public init(
        transport: any MessageTransport, role: SessionRole, observer: SessionObserver = .init(),
        counters: ReplicationCounters = .init(), environment: Environment, memory: MemoryBudget = .unlimited, logger: Logger
    ) {
        context = transport.executionContext
        serialExecutor = transport.executionContext.serialExecutor
        self.role = role
        self.counters = counters
        driver = SessionDriver(transport, role, observer, counters, environment, memory, logger)
    }

    /// Starts the session: the transport delivers from here on, and an active session speaks first.
    public func start() { driver.start(self) }

    /// Ends the session from our side.
    ///
    /// - Parameter code: the WebSocket close code; 4001 asks the peer to come back.
    public func stop(code: UInt16 = 1000, reason: String = "", error: ReplicationError? = nil) {
        driver.finish(error: error, closeCode: code, reason: reason)
    }

    // MARK: - Turns

    /// Schedules a turn as soon as the session's context has time. May be called on any thread.
    nonisolated func later(_ body: @escaping @Sendable (SessionDriver) -> Void) {
        context.execute { self.assumeIsolated { $0.driver.turn(body) } }
    }

    /// Like ``later(_:)``, after the work of other connections in the same context.
    nonisolated func afterOtherConnections(_ body: @escaping @Sendable (SessionDriver) -> Void) {
        context.executeAfterIO { self.assumeIsolated { $0.driver.turn(body) } }
    }

    /// Schedules a turn after a delay, unless the session is gone by then.
    nonisolated func later(milliseconds: Int, _ body: @escaping @Sendable (SessionDriver) -> Void) {
        context.schedule(afterMilliseconds: milliseconds) { [weak self] in
            guard let self else { return }
            self.assumeIsolated { $0.driver.turn(body) }
        }
    }

    // MARK: - The transport

    public nonisolated func received(_ messages: [ByteBuffer]) {
        assumeIsolated { session in session.driver.turn { $0.intake.append(session.counters.received(messages)) } }
    }

    public nonisolated func holds(unfinishedBytes: Int) {
        assumeIsolated { session in session.driver.turn { $0.accounts.unfinishedBytes = unfinishedBytes } }
    }

    public nonisolated func writabilityChanged(_ isWritable: Bool) {
        if isWritable { assumeIsolated { session in session.driver.turn { _ in } } }
    }

    public nonisolated func closed(_ end: ConnectionEnd) {
        assumeIsolated { $0.driver.connectionClosed(end) }
    }

    // MARK: - What others ask

    /// Since when the peer has made no progress with what it owes, in seconds since 1970; nil while it owes nothing.
    var owedSince: Int64? { driver.hasEnded ? nil : driver.owed.since }

    /// The sequence through which each collection's pull is complete.
    var pulledThrough: [RemoteSequence?] { driver.links.map { $0.pull.tracker?.completedThrough } }

    /// Ends the session, so that another connection requests what this one could not get.
    func requestReconnect(_ message: String) { driver.reconnecting.requestReconnect(message) }

    /// Ends a continuous connection after a delay, which grows from one connection to the next if all of them end in this way, so that the next one
    /// requests again what could not be obtained.
    func reconnectLater() { driver.turn { $0.reconnecting.reconnectLater() } }

    /// Where an idle connection says nothing about the peer, has its copies of the checkpoints looked at.
    ///
    /// - Returns: whether it is such a connection.
    func checkPeer() -> Bool {
        guard driver.dialect.traits.isRestartedByConflicts else { return false }
        driver.turn { driver in
            guard driver.life == .running else { return }
            for link in driver.links where link.checkpoint != nil { driver.tell(link, checkpoint: .checkPeer) }
        }
        return true
    }

    /// Offers again what the peer refused.
    func retryRefused() {
        driver.turn { driver in
            for link in driver.links where link.push != nil { driver.tell(link, push: .retryRefused) }
        }
    }

    /// Like ``retryRefused()``, and also retries what the pull filter failed on and pushes that wait for a timer. While the session is being set up,
    /// all of this is reviewed anyway.
    func retryWaiting() {
        driver.turn { driver in
            guard driver.life == .running, case .active(let active) = driver.role else { return }
            for link in driver.links {
                if link.push != nil { driver.tell(link, push: .retryRefused) }
                // Documents kept back before the replicator's type was changed are not reviewed.
                if active.replicator.type.pulls { driver.tell(link, pull: .filterChanged) }
            }
        }
    }
}

import DocumentStore
import Environment
import Interfaces
import Logging
import NIOCore

/// One connection that replicates, on either side. It runs where its transport runs, and is what others see of its ``SessionDriver``: all that
/// happens to it becomes a turn of the driver's.
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

    /// Begins: the transport delivers from now on, and an active session speaks first.
    public func start() { driver.start(self) }

    /// Ends the session from our side.
    ///
    /// - Parameter code: the WebSocket close code; 4001 asks the peer to come back.
    public func stop(code: UInt16 = 1000, reason: String = "", error: ReplicationError? = nil) {
        driver.finish(error: error, closeCode: code, reason: reason)
    }

    // MARK: - Turns

    /// A turn that is due as soon as the session's context has time. Any thread.
    nonisolated func later(_ body: @escaping @Sendable (SessionDriver) -> Void) {
        context.execute { self.assumeIsolated { $0.driver.turn(body) } }
    }

    /// The same, behind what the other connections have to do in the same place.
    nonisolated func afterOthers(_ body: @escaping @Sendable (SessionDriver) -> Void) {
        context.executeAfterIO { self.assumeIsolated { $0.driver.turn(body) } }
    }

    /// A turn at its time, unless the session is gone by then.
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

    /// Since when nothing has come of what the peer owes (seconds since 1970); nil while it owes nothing.
    var owedSince: Int64? {
        if driver.hasEnded { return nil }
        if let couch = driver.couch { return couch.owed.since }
        return driver.owed.since
    }

    /// Up to where each collection's pull is complete.
    var pulledThrough: [RemoteSequence?] { driver.links.map { $0.pull.tracker?.completedThrough } }

    /// Ends, so that another connection asks for what this one could not get.
    func comeBack(_ message: String) { driver.reconnecting.comeBack(message) }

    /// Offers once more what the peer refused.
    func retryRefused() {
        driver.turn { session in
            for link in session.links where link.push != nil { session.tell(link, push: .retryRefused) }
        }
    }

    /// The same, with what the pull filter failed on, and with what waits for its time to be pushed. While it is set up all of this is looked at anyway.
    func retryWaiting() {
        driver.turn { session in
            guard session.life == .running, case .active(let active) = session.role else { return }
            for link in session.links {
                if link.push != nil { session.tell(link, push: .retryRefused) }
                // What it held before its type was changed is not asked about.
                if active.replicator.type.pulls { session.tell(link, pull: .filterChanged) }
            }
        }
    }
}

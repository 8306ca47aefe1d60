import Interfaces
import Logging

/// Phases without a connection that an operator, or the machine's sleep, brings about.
extension Replicator {
    /// Ends the connection, and makes none until ``resume()``; what is known and counted stays. Not kept over a restart of the agent.
    ///
    /// - Returns: false where it is stopped.
    @discardableResult
    public func suspend() async -> Bool {
        guard runner != nil, !isStopping else { return false }
        guard !isSuspended else { return true }
        (isSuspended, wasSuspended) = (true, true)
        logger.info("suspended")
        update {
            $0.isSuspended = true
            ($0.error, $0.retryInSeconds) = (nil, nil)
        }
        pause.end()
        for session in sessions { await session.stop(code: 1001, reason: "suspended") }
        return true
    }

    /// Starts as one that was suspended at once: it makes no connection until ``resume()``. No effect on one that runs.
    public func startSuspended() {
        guard runner == nil else { return }
        start()
        // The run that this began waits for its turn on the actor.
        isSuspended = true
        update { ($0.activity, $0.isSuspended) = (.offline, true) }
    }

    /// Goes on after ``suspend()``, at once and as if nothing had failed before. No effect otherwise.
    ///
    /// - Returns: false where it is stopped.
    @discardableResult
    public func resume() -> Bool {
        guard runner != nil, !isStopping else { return false }
        guard isSuspended else { return true }
        isSuspended = false
        logger.info("resumed")
        retry.conditionsChanged()
        pause.forget()
        update { ($0.isSuspended, $0.attempt) = (false, 0) }
        resumption?.finish()
        return true
    }

    /// Until ``resume()``, or the run is cancelled.
    func waitUntilResumed() async {
        let (resumed, continuation) = AsyncStream.makeStream(of: Void.self)
        resumption = continuation
        update { ($0.activity, $0.error, $0.retryInSeconds, $0.refusals.room) = (.offline, nil, nil, nil) }
        for await _ in resumed {}
        resumption = nil
    }

    /// Makes another connection at once in place of the present one, or of the wait for the next: what is known of it is out of date.
    public func reconnect(_ reason: String) async {
        guard runner != nil, !isStopping, !isSuspended else { return }
        let open = sessions
        guard !open.isEmpty else { return retryNow(reason) }
        runLogger.notice("connecting anew: \(reason)")
        // Kept until the run of this connection has ended.
        pause.end()
        for session in open {
            await session.stop(code: 1001, reason: reason, error: ReplicationError(domain: .websocket, code: 1006, message: reason))
        }
    }

    /// With what the peer calls the connection, too.
    nonisolated func logger(_ correlation: String?) -> Logger {
        guard let correlation else { return logger }
        var logger = logger
        logger[metadataKey: "correlation"] = "\(correlation)"
        return logger
    }

    /// For what happens on the present connection, or because of the last one.
    nonisolated var runLogger: Logger { logger(shared.withLock { $0.status.correlationID }) }
}

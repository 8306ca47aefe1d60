import Interfaces
import Logging

/// Periods without a connection, caused by an operator or by the machine's sleep.
extension Replicator {
    /// Ends the connection, and makes none until ``resume()``; state and counts are kept. Not preserved over a restart of the agent.
    ///
    /// - Returns: false if it is stopped.
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
        for session in sessions { await session.stop(code: CloseCode.goingAway, reason: "suspended") }
        return true
    }

    /// Starts in the suspended state: no connection is made until ``resume()``. No effect if it is running.
    public func startSuspended() {
        guard runner == nil else { return }
        start()
        // The run started by this call has yet to get its turn on the actor.
        isSuspended = true
        update { ($0.activity, $0.isSuspended) = (.offline, true) }
    }

    /// Continues after ``suspend()``, at once and as if nothing had failed before. No effect otherwise.
    ///
    /// - Returns: false if it is stopped.
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

    /// Returns after ``resume()``, or when the run is cancelled.
    func waitUntilResumed() async {
        let (resumed, continuation) = AsyncStream.makeStream(of: Void.self)
        resumption = continuation
        update { ($0.activity, $0.error, $0.retryInSeconds, $0.refusals.space) = (.offline, nil, nil, nil) }
        for await _ in resumed {}
        resumption = nil
    }

    /// Replaces the current connection, or the wait for the next one, with a new connection at once: what is known about it is out of date.
    public func reconnect(_ reason: String) async {
        guard runner != nil, !isStopping, !isSuspended else { return }
        let open = sessions
        guard !open.isEmpty else { return retryNow(reason) }
        runLogger.notice("reconnecting:  \(reason)")
        // Remembered until the run of this connection has ended.
        pause.end()
        for session in open {
            await session.stop(code: CloseCode.goingAway, reason: reason, error: ReplicationError(domain: .websocket, code: 1006, message: reason))
        }
    }

    /// With the peer's id of the connection as well.
    nonisolated func logger(_ correlation: String?) -> Logger {
        guard let correlation else { return logger }
        var logger = logger
        logger[metadataKey: "correlation"] = "\(correlation)"
        return logger
    }

    /// For events on the current connection, or caused by the last one.
    nonisolated var runLogger: Logger { logger(shared.withLock { $0.status.correlationID }) }
}

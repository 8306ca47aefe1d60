import Interfaces

extension Replicator {
    /// How many documents are waiting, whether there is a connection or not.
    public struct Backlog: Sendable, Equatable {
        /// Documents that the peer could not accept or send temporarily.
        public var waiting = 0
        /// There may be more of these, see ``WaitingDocuments/limit``.
        public var isCapped = false
        /// Documents on which a filter failed, or with a blob that cannot be obtained.
        public var held = 0
        /// Documents that the peer refused.
        public var refused = 0

        public init() {}

        public var count: Int { waiting + held + refused }
    }

    /// What ``retryWaiting()`` would retry.
    public nonisolated func backlog() async throws -> Backlog {
        var backlog = Backlog()
        backlog.waiting = waiting.all.count
        backlog.isCapped = backlog.waiting >= WaitingDocuments.limit
        backlog.held = try await heldCount()
        backlog.refused = try await refusedCount()
        return backlog
    }

    /// Retries at once everything that waits for a timer, is held or was refused. What the peer could not send, it offers only on another connection.
    ///
    /// - Returns: false if there is no connection: the next one retries everything anyway.
    @discardableResult
    public func retryWaiting() async -> Bool {
        let open = sessions
        guard runner != nil, !isStopping, !isSuspended, configuration.isContinuous, !open.isEmpty else { return false }
        let needsReconnect = status.refusals.space != nil || waiting.all.contains { $0.direction == .pull }
        // Remembered until the run of this connection has ended.
        if needsReconnect { pause.end() }
        for session in open {
            if needsReconnect {
                await session.requestReconnect("reconnecting, to request documents that could not be fetched or stored: the replicator was started again")
            } else {
                await session.retryWaiting()
            }
        }
        return true
    }
}

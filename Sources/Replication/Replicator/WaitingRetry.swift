import Interfaces

extension Replicator {
    /// How many documents wait, whether it is connected or not.
    public struct Backlog: Sendable, Equatable {
        /// The peer could not take or give them for the moment.
        public var waiting = 0
        /// There may be more of these, see ``WaitingDocuments/limit``.
        public var isCapped = false
        /// A filter failed on them, or a blob of theirs cannot be taken.
        public var held = 0
        /// The peer said no.
        public var refused = 0

        public init() {}

        public var count: Int { waiting + held + refused }
    }

    /// What ``retryWaiting()`` tries again.
    public nonisolated func backlog() async throws -> Backlog {
        var backlog = Backlog()
        backlog.waiting = waiting.all.count
        backlog.isCapped = backlog.waiting >= WaitingDocuments.limit
        backlog.held = try await heldCount()
        backlog.refused = try await refusedCount()
        return backlog
    }

    /// Tries at once what waits for its time, is held or was refused. What the peer could not give it offers on another connection only.
    ///
    /// - Returns: false where there is no connection: the next one does it anyway.
    @discardableResult
    public func retryWaiting() async -> Bool {
        let open = sessions
        guard runner != nil, !isStopping, !isSuspended, configuration.isContinuous, !open.isEmpty else { return false }
        let comesBack = status.refusals.room != nil || waiting.all.contains { $0.direction == .pull }
        // Kept until the run of this connection has ended.
        if comesBack { pause.end() }
        for session in open {
            if comesBack {
                await session.comeBack("connecting anew, to request documents that could not be fetched or stored: it was started again")
            } else {
                await session.retryWaiting()
            }
        }
        return true
    }
}

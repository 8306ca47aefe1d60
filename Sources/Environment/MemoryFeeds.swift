/// Memory for the feeds that we read: each keeps a backlog of rows while the documents that they name are fetched and stored.
extension MemoryBudget {
    /// One feed. All that exist at the same time divide a part of the budget among them.
    public final class Feed: Sendable {
        private let budget: MemoryBudget

        fileprivate init(_ budget: MemoryBudget) {
            self.budget = budget
            budget.state.withLock { $0.feeds += 1 }
        }

        deinit { budget.state.withLock { $0.feeds -= 1 } }

        /// Bytes that this feed may keep.
        public var share: Int {
            let feeds = budget.state.withLock { $0.feeds }
            return max(MemoryBudget.unclaimedBytes, budget.limit / 8 / max(1, feeds))
        }
    }

    /// A part of the memory for a feed that is read from now on.
    public func feed() -> Feed { Feed(self) }
}

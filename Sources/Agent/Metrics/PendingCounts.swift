import Environment
import Replication
import Synchronization

/// How many changes replicators have to push. Counting means reading the changes, up to the limit of each collection, so `/metrics` reuses a
/// count for a while.
final class PendingCounts: Sendable {
    /// `pending_metric`: seconds for which a count is reused.
    private static let seconds: UInt64 = 5

    private struct Count {
        var value: Replicator.Pending
        /// Of the monotonic clock, in nanoseconds.
        var end: UInt64
    }

    private let time: any TimeSource
    private let counts = Mutex<[ObjectIdentifier: Count]>([:])

    init(_ time: any TimeSource) { self.time = time }

    /// Nil if the store cannot be read.
    func count(of replicator: Replicator) async -> Replicator.Pending? {
        let (id, now) = (ObjectIdentifier(replicator), time.monotonicNanoseconds())
        let known = counts.withLock { counts in
            // Also removes the counts of replicators that are gone.
            counts = counts.filter { $0.value.end > now }
            return counts[id]?.value
        }
        if let known { return known }
        guard let value = try? await replicator.pendingEstimate() else { return nil }
        counts.withLock { $0[id] = Count(value: value, end: now + Self.seconds * 1_000_000_000) }
        return value
    }
}

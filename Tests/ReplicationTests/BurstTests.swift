import Testing

@testable import Replication

/// What Couchbase Lite 1.x calls changesCount, which starts from zero again with the first change after a replicator was idle.
@Suite("Bursts")
struct BurstTests {
    private func work(total: UInt64 = 0, completed: UInt64 = 0, bytes: UInt64 = 0) -> ReplicationCounts {
        var counts = ReplicationCounts()
        (counts.total, counts.completed, counts.bytesSent) = (total, completed, bytes)
        return counts
    }

    private func burst(_ counters: ReplicationCounters) -> [UInt64] {
        let burst = Replicator.Shared(counters: counters).current.burst
        return [burst.completed, burst.total]
    }

    @Test("a burst is over when the next change comes, not when a checkpoint is saved")
    func boundaries() {
        let counters = ReplicationCounters()
        counters.add(work(total: 5))
        counters.add(work(completed: 5))
        counters.rest()
        #expect(burst(counters) == [5, 5])
        // Busy for a while without a change, and idle again.
        counters.add(work(bytes: 100))
        counters.rest()
        #expect(burst(counters) == [5, 5])
        // Counted before anybody has said that the replicator is busy.
        counters.add(work(total: 1))
        #expect(burst(counters) == [0, 1])
        counters.add(work(completed: 1))
        counters.rest()
        #expect(burst(counters) == [1, 1])
        // All of it happens within one turn, and the replicator is idle before and after.
        counters.add(work(total: 2, completed: 2))
        #expect(burst(counters) == [2, 2])
    }
}

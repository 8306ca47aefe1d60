extension Replicator.Shared {
    /// The status with current counts.
    var current: ReplicatorStatus {
        var status = status
        let (counts, beforeBurst) = counters.withBurst
        status.counts = counts
        status.wentBack = wentBack
        status.blobs = counters.blobs.underWay
        // For display only: to check the counts, use ``Replicator/rawCounts``.
        status.counts.total = max(status.counts.total, status.counts.completed)
        let completed = status.counts.completed - min(status.counts.completed, beforeBurst.completed)
        status.burst = (completed, max(completed, status.counts.total - min(status.counts.total, beforeBurst.total)))
        return status
    }
}

import DocumentStore
import Replication

extension Agent {
    /// `waiting_mark_interval`: seconds between two checks for documents waiting to be pushed, which make it possible to report how long they
    /// have waited.
    private static let waitingMarkInterval = 10

    /// Records each database's current sequence while documents wait, until the task is cancelled. When everything has been pushed, nothing is
    /// written.
    nonisolated func markWaiting() async {
        while !Task.isCancelled {
            for replicator in replicators {
                let configuration = replicator.configuration
                guard (try? await replicator.mayHavePending()) == true else { continue }
                for collection in configuration.collections.compactMap({ configuration.database.collection($0.collection) }) {
                    // A full disk or a database that is closing is reported elsewhere; here it only costs accuracy.
                    try? await configuration.database.noteWaiting(in: collection, now: environment.time.wallSeconds())
                }
            }
            try? await environment.time.sleep(seconds: Self.waitingMarkInterval)
        }
    }
}

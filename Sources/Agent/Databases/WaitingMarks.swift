import DocumentStore
import Replication

extension Agent {
    /// `waiting_mark_interval`: seconds between two looks whether something waits to be pushed, so that its age can be told.
    private static let waitingMarkInterval = 10

    /// Notes how far the databases are while something of them waits, until the task is cancelled. Where all has been pushed nothing is written.
    nonisolated func markWaiting() async {
        while !Task.isCancelled {
            for replicator in replicators {
                let configuration = replicator.configuration
                guard (try? await replicator.mayHavePending()) == true else { continue }
                for collection in configuration.collections.compactMap({ configuration.database.collection($0.collection) }) {
                    // A disk that is full or a database that closes is told of by others, and costs an age here.
                    try? await configuration.database.noteWaiting(in: collection, now: environment.time.wallSeconds())
                }
            }
            try? await environment.time.sleep(seconds: Self.waitingMarkInterval)
        }
    }
}

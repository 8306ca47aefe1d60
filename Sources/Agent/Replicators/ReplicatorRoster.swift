import Replication
import Synchronization

/// Publishes the agent's present replicators, and again whenever a reload changes them.
final class ReplicatorRoster: Sendable {
    private struct State {
        var replicators: [Replicator] = []
        var followers: [Int: AsyncStream<[Replicator]>.Continuation] = [:]
        var next = 0
    }

    private let state = Mutex(State())

    func changed(_ replicators: [Replicator]) {
        // Yielding runs none of a follower's code, so it may happen inside the lock; every follower gets the lists in the same
        // order.
        state.withLock { state in
            state.replicators = replicators
            for follower in state.followers.values { follower.yield(replicators) }
        }
    }

    var current: [Replicator] { state.withLock { $0.replicators } }

    /// The present list, and the whole list again after each change. A slow follower gets only the newest.
    func stream() -> AsyncStream<[Replicator]> {
        AsyncStream(bufferingPolicy: .bufferingNewest(1)) { continuation in
            let key = state.withLock { state in
                state.next += 1
                state.followers[state.next] = continuation
                continuation.yield(state.replicators)
                return state.next
            }
            continuation.onTermination = { [weak self] _ in
                _ = self?.state.withLock { $0.followers.removeValue(forKey: key) }
            }
        }
    }
}

import Replication
import Synchronization

/// Passes conflict events on to every subscriber.
final class ConflictHub: Sendable {
    /// `max_waiting_events`: kept for a listener that is slow; older ones are dropped.
    static let maximumWaiting = 1_000

    private struct State {
        var listeners: [Int: AsyncStream<ConflictEvent>.Continuation] = [:]
        var next = 0
    }

    private let state = Mutex(State())

    func publish(_ event: ConflictEvent) {
        // Yielding runs no code of a listener, so it may happen inside the lock; every listener gets them in the same order.
        state.withLock { for listener in $0.listeners.values { listener.yield(event) } }
    }

    /// What happens from now on.
    func stream() -> AsyncStream<ConflictEvent> {
        AsyncStream(bufferingPolicy: .bufferingNewest(Self.maximumWaiting)) { continuation in
            let key = state.withLock { state in
                state.next += 1
                state.listeners[state.next] = continuation
                return state.next
            }
            continuation.onTermination = { [weak self] _ in
                _ = self?.state.withLock { $0.listeners.removeValue(forKey: key) }
            }
        }
    }
}

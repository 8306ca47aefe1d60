import Interfaces
import Synchronization

/// Streams for those who observe a replicator.
extension Replicator {
    /// The status after each change, beginning with the current one.
    ///
    /// - Parameter kept: how many of the newest changes a slow reader still gets.
    public nonisolated func statusChanges(kept: Int = 16) -> AsyncStream<ReplicatorStatus> {
        AsyncStream(bufferingPolicy: .bufferingNewest(kept)) { continuation in
            let (key, now) = shared.withLock { shared in
                shared.nextListener += 1
                shared.statusListeners[shared.nextListener] = continuation
                return (shared.nextListener, shared.current)
            }
            continuation.yield(now)
            continuation.onTermination = { [weak self] _ in
                _ = self?.shared.withLock { $0.statusListeners.removeValue(forKey: key) }
            }
        }
    }

    /// Document events, in batches. A slow reader loses the oldest batches.
    public nonisolated func documentEvents() -> AsyncStream<[DocumentEvent]> {
        AsyncStream(bufferingPolicy: .bufferingNewest(1_000)) { continuation in
            let key = shared.withLock { shared in
                shared.nextListener += 1
                shared.eventListeners[shared.nextListener] = continuation
                return shared.nextListener
            }
            continuation.onTermination = { [weak self] _ in
                _ = self?.shared.withLock { $0.eventListeners.removeValue(forKey: key) }
            }
        }
    }
}

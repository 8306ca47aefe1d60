import Synchronization

/// Delivers each value to every listener, in the same order to all of them. A slow listener loses the oldest values.
package final class EventHub<Value: Sendable>: Sendable {
    private struct Listeners {
        var next = 0
        var all: [Int: AsyncStream<Value>.Continuation] = [:]
        var isFinished = false
    }

    private let listeners = Mutex(Listeners())
    private let kept: Int

    /// - Parameter kept: number of values buffered for a busy listener.
    package init(kept: Int) { self.kept = kept }

    /// A stream of the values sent from now on.
    package func stream() -> AsyncStream<Value> {
        let (stream, continuation) = AsyncStream.makeStream(of: Value.self, bufferingPolicy: .bufferingNewest(kept))
        let number = listeners.withLock { listeners -> Int? in
            if listeners.isFinished { return nil }
            listeners.next += 1
            listeners.all[listeners.next] = continuation
            return listeners.next
        }
        guard let number else {
            continuation.finish()
            return stream
        }
        continuation.onTermination = { [weak self] _ in
            _ = self?.listeners.withLock { $0.all.removeValue(forKey: number) }
        }
        return stream
    }

    package func send(_ value: Value) {
        // Yielding runs no listener code, so it is safe under the lock; finishing calls back into this object, and is not.
        listeners.withLock { for continuation in $0.all.values { continuation.yield(value) } }
    }

    /// Ends every stream, including those requested later.
    package func finish() {
        let all = listeners.withLock { listeners in
            listeners.isFinished = true
            defer { listeners.all = [:] }
            return Array(listeners.all.values)
        }
        for continuation in all { continuation.finish() }
    }
}

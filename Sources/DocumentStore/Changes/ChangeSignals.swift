import Documents
import Synchronization

/// Notifies observers of changes in a collection. The rows are the truth; a signal only says that there are newer ones.
final class ChangeSignals: Sendable {
    typealias Handler = @Sendable (SequenceNumber) -> Void

    private struct Observer {
        let number: Int
        let handler: Handler
        /// Called when the database closes.
        let end: @Sendable () -> Void
    }

    private struct State {
        var newest: [Int: SequenceNumber] = [:]
        /// By collection, in order of registration: the simulation needs a deterministic order.
        var observers: [Int: [Observer]] = [:]
        var nextNumber = 0
        var isFinished = false
    }

    private let state = Mutex(State())

    func start(_ collection: Int, _ sequence: SequenceNumber) {
        state.withLock { $0.newest[collection] = sequence }
    }

    func committed(_ news: [(collection: Int, sequence: SequenceNumber)]) {
        // Outside the lock: a handler may need the lock of a waiting task, and that lock is held by the task's cancellation while it ends the
        // observation, which takes ours.
        let due = state.withLock { state in
            var due: [(Handler, SequenceNumber)] = []
            for (collection, sequence) in news {
                state.newest[collection] = sequence
                for observer in state.observers[collection] ?? [] { due.append((observer.handler, sequence)) }
            }
            return due
        }
        for (handler, sequence) in due { handler(sequence) }
    }

    /// Calls the handler with the current sequence at once, then from the writer after each commit.
    func observe(_ collection: Int, _ handler: @escaping Handler, end: @escaping @Sendable () -> Void = {}) -> ChangeObservation {
        let added: (number: Int, newest: SequenceNumber)? = state.withLock { state in
            if state.isFinished { return nil }
            let number = state.nextNumber
            state.nextNumber += 1
            state.observers[collection, default: []].append(Observer(number: number, handler: handler, end: end))
            return (number, state.newest[collection] ?? 0)
        }
        guard let added else {
            end()
            return ChangeObservation {}
        }
        handler(added.newest)
        return ChangeObservation { [weak self] in self?.remove(collection, added.number) }
    }

    private func remove(_ collection: Int, _ number: Int) {
        // What the handler retains is released outside the lock.
        let removed: Observer? = state.withLock { state in
            guard let index = state.observers[collection]?.firstIndex(where: { $0.number == number }) else { return nil }
            return state.observers[collection]?.remove(at: index)
        }
        _ = consume removed
    }

    func stream(_ collection: Int) -> AsyncStream<SequenceNumber> {
        let (stream, continuation) = AsyncStream.makeStream(of: SequenceNumber.self, bufferingPolicy: .bufferingNewest(1))
        let observation = observe(collection, { continuation.yield($0) }, end: { continuation.finish() })
        continuation.onTermination = { _ in observation.cancel() }
        return stream
    }

    func finish() {
        // Outside the lock: ending a stream cancels its observation.
        let all = state.withLock { state in
            state.isFinished = true
            defer { state.observers = [:] }
            return state.observers.sorted { $0.key < $1.key }.flatMap(\.value)
        }
        for observer in all { observer.end() }
    }
}

/// An observation of a collection's changes, active until it is cancelled or the database is closed.
package struct ChangeObservation: Sendable {
    private let end: @Sendable () -> Void

    init(_ end: @escaping @Sendable () -> Void) { self.end = end }

    /// Does not wait for a call in progress.
    package func cancel() { end() }
}

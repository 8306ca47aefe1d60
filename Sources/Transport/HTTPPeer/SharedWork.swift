import Environment
import Interfaces
import Synchronization

/// Work done once for several waiters. A cancelled waiter stops waiting; when none are left, the work is cancelled too.
final class SharedWork<Value: Sendable>: Sendable {
    private struct State {
        var waiting: [Int: CheckedContinuation<Value, any Error>] = [:]
        var last = 0
        var result: Result<Value, ReplicationError>?
        var task: Task<Void, Never>?
        var isGivenUp = false
    }

    private let state = Mutex(State())

    init(_ environment: Environment, _ work: @escaping @Sendable (SharedWork) async -> Result<Value, ReplicationError>) {
        let task = environment.task { [self] in done(await work(self)) }
        state.withLock { $0.task = task }
    }

    /// A new caller needs to start new work.
    var isGivenUp: Bool { state.withLock { $0.isGivenUp } }

    /// For tests: the number of waiters.
    var waitingCount: Int { state.withLock { $0.waiting.count } }

    /// The result of the work.
    ///
    /// - Throws: the error of the work; `CancellationError` as soon as this task is cancelled.
    func value() async throws -> Value {
        let number = state.withLock { state in
            state.last += 1
            return state.last
        }
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let result = state.withLock { state -> Result<Value, any Error>? in
                    if let result = state.result { return result.mapError { $0 as any Error } }
                    if state.isGivenUp || Task.isCancelled { return .failure(CancellationError()) }
                    state.waiting[number] = continuation
                    return nil
                }
                if let result {
                    leave(number)
                    continuation.resume(with: result)
                }
            }
        } onCancel: {
            leave(number)
        }
    }

    /// Cancels the work, and ends all waiting for it.
    func cancel() {
        let (waiting, task) = state.withLock { state in
            state.isGivenUp = true
            defer { (state.waiting, state.task) = ([:], nil) }
            return (state.waiting.values, state.task)
        }
        task?.cancel()
        for each in waiting { each.resume(throwing: CancellationError()) }
    }

    private func leave(_ number: Int) {
        let (continuation, task) = state.withLock { state -> (CheckedContinuation<Value, any Error>?, Task<Void, Never>?) in
            let continuation = state.waiting.removeValue(forKey: number)
            guard state.waiting.isEmpty, state.result == nil else { return (continuation, nil) }
            state.isGivenUp = true
            defer { state.task = nil }
            return (continuation, state.task)
        }
        task?.cancel()
        continuation?.resume(throwing: CancellationError())
    }

    private func done(_ result: Result<Value, ReplicationError>) {
        let waiting = state.withLock { state in
            state.result = result
            defer { (state.waiting, state.task) = ([:], nil) }
            return state.waiting.values
        }
        for each in waiting { each.resume(with: result.mapError { $0 as any Error }) }
    }
}

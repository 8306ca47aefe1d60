import Environment
import Synchronization

/// The pause between two attempts. Can be ended early by anyone with reason to believe that the next attempt succeeds.
package final class RetryPause: Sendable {
    private struct State {
        var sleep: Task<Void, Never>?
        /// It was ended before it began, during an attempt that may not have seen the change.
        var isEndedEarly = false
        var wasEnded = false
    }

    private let state = Mutex(State())

    package init() {}

    /// Returns when the time is up, the task is cancelled or the pause was ended early; true in the last case.
    package func wait(milliseconds: Int, _ environment: Environment) async -> Bool {
        let sleep = state.withLock { state -> Task<Void, Never>? in
            guard !state.isEndedEarly else {
                state.isEndedEarly = false
                return nil
            }
            state.wasEnded = false
            let sleep = environment.task { _ = try? await environment.time.sleep(nanoseconds: UInt64(milliseconds) * 1_000_000) }
            state.sleep = sleep
            return sleep
        }
        guard let sleep else { return true }
        await withTaskCancellationHandler { await sleep.value } onCancel: { sleep.cancel() }
        return state.withLock { state in
            state.sleep = nil
            return state.wasEnded
        }
    }

    package func end() {
        let sleep = state.withLock { state in
            if state.sleep == nil { state.isEndedEarly = true } else { state.wasEnded = true }
            return state.sleep
        }
        sleep?.cancel()
    }

    /// The new connection has seen everything that changed so far.
    func forget() { state.withLock { $0.isEndedEarly = false } }
}

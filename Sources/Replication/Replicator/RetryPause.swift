import Environment
import Synchronization

/// The pause between two attempts. Whoever has reason to believe that the next one succeeds ends it.
package final class RetryPause: Sendable {
    private struct State {
        var sleep: Task<Void, Never>?
        /// It was ended before it began: while an attempt was under way that may not have seen what changed.
        var isEndedEarly = false
        var wasEnded = false
    }

    private let state = Mutex(State())

    package init() {}

    /// Returns when the time is over, the task is cancelled or somebody ended the pause; true in the last case.
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

    /// What changed before now is known to the connection that was made.
    func forget() { state.withLock { $0.isEndedEarly = false } }
}

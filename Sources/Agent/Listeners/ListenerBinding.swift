import Environment
import Interfaces
import Synchronization

/// Whether a listener has its port; and if not, why.
final class ListenerBinding: Sendable {
    enum Condition: Sendable {
        case listening
        /// The port is taken, or the interface is not there: it is tried again.
        case waiting(ReplicationError, since: Int64, nextAttempt: Int64)
        /// An operator stopped it.
        case stopped

        /// For status.
        var word: String {
            switch self {
            case .listening: "listening"
            case .waiting: "waiting"
            case .stopped: "stopped"
            }
        }

        var error: ReplicationError? { if case .waiting(let error, _, _) = self { error } else { nil } }
        var nextAttempt: Int64? { if case .waiting(_, _, let next) = self { next } else { nil } }
    }

    private struct State {
        var condition = Condition.listening
        var attempts: Task<Void, Never>?
        var sleep: Task<Void, Never>?
    }

    private let state = Mutex(State())

    var condition: Condition { state.withLock { $0.condition } }

    func isListening() { state.withLock { $0.condition = .listening } }
    func isStopped() { state.withLock { $0.condition = .stopped } }

    /// It failed once more; what it waits for since when is kept.
    func waits(for error: ReplicationError, now: Int64, next seconds: Int) {
        state.withLock { state in
            var since = now
            if case .waiting(_, let first, _) = state.condition { since = first }
            state.condition = .waiting(error, since: since, nextAttempt: now + Int64(seconds))
        }
    }

    func begin(_ attempts: Task<Void, Never>) { state.withLock { $0.attempts = attempts } }

    /// Returns when the time is over, or somebody has reason to believe that the next attempt succeeds.
    func pause(seconds: Int, _ environment: Environment) async {
        let sleep = environment.task { _ = try? await environment.time.sleep(seconds: seconds) }
        state.withLock { $0.sleep = sleep }
        await withTaskCancellationHandler { await sleep.value } onCancel: { sleep.cancel() }
    }

    func retryNow() { state.withLock { $0.sleep }?.cancel() }

    /// Nobody waits for the port any more.
    func giveUp() { state.withLock { $0.attempts }?.cancel() }
}

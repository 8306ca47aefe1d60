import Environment
import Interfaces
import Replication
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
        /// How many attempts have begun.
        var begun = 0
        /// Those who asked for an attempt, each with how many had begun before.
        var asking: [(begun: Int, continuation: CheckedContinuation<Void, Never>)] = []

        /// Takes out those who have their outcome.
        mutating func answered(_ isAnswer: (Int) -> Bool) -> [CheckedContinuation<Void, Never>] {
            let answered = asking.filter { isAnswer($0.begun) }
            asking.removeAll { isAnswer($0.begun) }
            return answered.map { $0.continuation }
        }
    }

    private let state = Mutex(State())
    private let pause = RetryPause()

    var condition: Condition { state.withLock { $0.condition } }

    func markListening() { settle(.listening) }
    func markStopped() { settle(.stopped) }

    private func settle(_ condition: Condition) {
        let answered = state.withLock { state in
            state.condition = condition
            return state.answered { _ in true }
        }
        for continuation in answered { continuation.resume() }
    }

    /// It failed once more; since when it waits is kept.
    func noteWaiting(for error: ReplicationError, now: Int64, next seconds: Int) {
        let answered = state.withLock { state in
            var since = now
            if case .waiting(_, let first, _) = state.condition { since = first }
            state.condition = .waiting(error, since: since, nextAttempt: now + Int64(seconds))
            let begun = state.begun
            return state.answered { $0 < begun }
        }
        for continuation in answered { continuation.resume() }
    }

    func begin(_ attempts: Task<Void, Never>) { state.withLock { $0.attempts = attempts } }

    /// Returns when the time is over, or somebody has reason to believe that the next attempt succeeds; that begins then.
    func nextAttempt(seconds: Int, _ environment: Environment) async {
        _ = await pause.wait(milliseconds: seconds * 1000, environment)
        state.withLock { $0.begun += 1 }
    }

    /// Has the next attempt made at once, after one that is under way and may not have seen what changed.
    func retryNow() { if case .waiting = condition { pause.end() } }

    /// The same; returns when an attempt that begins from now on has its outcome, or nobody waits for the port any more.
    func retry() async {
        await withCheckedContinuation { continuation in
            let isWaiting = state.withLock { state in
                guard case .waiting = state.condition, state.attempts?.isCancelled == false else { return false }
                state.asking.append((state.begun, continuation))
                return true
            }
            if isWaiting { pause.end() } else { continuation.resume() }
        }
    }

    /// Nobody waits for the port any more. Returns when no attempt is under way: whoever closes what one has bound does that afterwards.
    func giveUp() async {
        let (attempts, asking) = state.withLock { state in
            defer { state.attempts = nil }
            return (state.attempts, state.answered { _ in true })
        }
        attempts?.cancel()
        for continuation in asking { continuation.resume() }
        await attempts?.value
    }
}

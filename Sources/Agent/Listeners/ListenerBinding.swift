import Environment
import Interfaces
import Replication
import Synchronization

/// Whether a listener is bound to its port on each of its addresses; if not, why.
final class ListenerBinding: Sendable {
    enum Condition: Sendable {
        case listening
        /// It listens, but could not bind one of its interface's addresses, which is tried again.
        case partly(ReplicationError, since: Int64, nextAttempt: Int64)
        /// The port is in use, or the interface does not exist: it is tried again.
        case waiting(ReplicationError, since: Int64, nextAttempt: Int64)
        /// An operator stopped it.
        case stopped

        /// For status.
        var word: String {
            switch self {
            case .listening, .partly: "listening"
            case .waiting: "waiting"
            case .stopped: "stopped"
            }
        }

        /// What it is waiting for, since when, and when it will try again.
        var obstacle: (error: ReplicationError, since: Int64, nextAttempt: Int64)? {
            switch self {
            case .partly(let error, let since, let next), .waiting(let error, let since, let next): (error, since, next)
            case .listening, .stopped: nil
            }
        }

        var error: ReplicationError? { obstacle?.error }
        var nextAttempt: Int64? { obstacle?.nextAttempt }
    }

    private struct State {
        var condition = Condition.listening
        var attempts: Task<Void, Never>?
        /// How many attempts have begun.
        var begun = 0
        /// Callers waiting for the outcome of an attempt, each with the number of attempts that had begun before.
        var asking: [(begun: Int, continuation: CheckedContinuation<Void, Never>)] = []

        /// Removes and returns the callers whose outcome is known.
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

    /// An attempt failed again; since when it has been waiting for the same thing is kept.
    ///
    /// - Parameter isListening: whether it listens on another address.
    func noteWaiting(for error: ReplicationError, isListening: Bool = false, now: Int64, next seconds: Int) {
        let answered = state.withLock { state in
            let since = state.condition.obstacle?.since ?? now
            let next = now + Int64(seconds)
            state.condition = isListening ? .partly(error, since: since, nextAttempt: next) : .waiting(error, since: since, nextAttempt: next)
            let begun = state.begun
            return state.answered { $0 < begun }
        }
        for continuation in answered { continuation.resume() }
    }

    func begin(_ attempts: Task<Void, Never>) { state.withLock { $0.attempts = attempts } }

    /// Returns when the time is over, or when somebody has reason to believe that the next attempt will succeed, which then begins.
    func nextAttempt(seconds: Int, _ environment: Environment) async {
        _ = await pause.wait(milliseconds: seconds * 1000, environment)
        state.withLock { $0.begun += 1 }
    }

    /// Makes the next attempt at once, or right after an attempt in progress, which may not have seen the change.
    func retryNow() {
        // Even one that is listening may have to check its interface's addresses.
        if case .stopped = condition { return }
        pause.end()
    }

    /// The same, but returns when an attempt that began after this call has its outcome, or when nobody wants the port any more.
    func retry() async {
        await withCheckedContinuation { continuation in
            let isWaiting = state.withLock { state in
                guard state.condition.obstacle != nil, state.attempts?.isCancelled == false else { return false }
                state.asking.append((state.begun, continuation))
                return true
            }
            if isWaiting { pause.end() } else { continuation.resume() }
        }
    }

    /// Gives up the port. Returns when no attempt is in progress, so that the caller can then close what was bound.
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

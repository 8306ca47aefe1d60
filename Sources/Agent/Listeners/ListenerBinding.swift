import Environment
import Interfaces
import Replication
import Synchronization

/// Whether a listener has its port on each of its addresses; and if not, why.
final class ListenerBinding: Sendable {
    enum Condition: Sendable {
        case listening
        /// It listens, and one of the addresses of its interface it cannot have: it is tried again.
        case partly(ReplicationError, since: Int64, nextAttempt: Int64)
        /// The port is taken, or the interface is not there: it is tried again.
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

        /// What it waits for, since when, and when it is tried again.
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

    /// It failed once more; what it waits for since when is kept.
    ///
    /// - Parameter isListening: on another address.
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

    /// Returns when the time is over, or somebody has reason to believe that the next attempt succeeds; that begins then.
    func nextAttempt(seconds: Int, _ environment: Environment) async {
        _ = await pause.wait(milliseconds: seconds * 1000, environment)
        state.withLock { $0.begun += 1 }
    }

    /// Has the next attempt made at once, after one that is under way and may not have seen what changed.
    func retryNow() {
        // One that listens may have to look at its interface.
        if case .stopped = condition { return }
        pause.end()
    }

    /// The same; returns when an attempt that begins from now on has its outcome, or nobody waits for the port any more.
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

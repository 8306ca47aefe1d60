import Synchronization

/// Admits a limited number at a time, in order of arrival.
final class Turnstile: Sendable {
    private struct State {
        var inside = 0
        var waiters: [CheckedContinuation<Void, Never>] = []
    }

    private let places: Int
    private let state = Mutex(State())

    init(_ places: Int) { self.places = places }

    /// Also returns if the task was cancelled: the caller checks for that, and leaves.
    func enter() async {
        await withCheckedContinuation { continuation in
            let isFree = state.withLock { state in
                guard state.inside >= places else {
                    state.inside += 1
                    return true
                }
                state.waiters.append(continuation)
                return false
            }
            if isFree { continuation.resume() }
        }
    }

    func leave() {
        let next = state.withLock { state -> CheckedContinuation<Void, Never>? in
            if !state.waiters.isEmpty { return state.waiters.removeFirst() }
            state.inside -= 1
            return nil
        }
        next?.resume()
    }
}

import Synchronization

/// Signals once that a listener is stopping, so that endless answers (event streams, change feeds) can end.
package final class DrainSignal: Sendable {
    /// Removes the action when released.
    package struct Registration: Sendable {
        fileprivate let id: Int
    }

    private struct State {
        var isDraining = false
        var next = 0
        var actions: [Int: @Sendable () -> Void] = [:]
    }

    private let state = Mutex(State())

    package init() {}

    package var isDraining: Bool { state.withLock { $0.isDraining } }

    /// Calls the action when the listener is stopping, immediately if it already is. The action must not
    /// block.
    package func onDrain(_ action: @escaping @Sendable () -> Void) -> Registration {
        let id = state.withLock { state -> Int? in
            guard !state.isDraining else { return nil }
            state.next += 1
            state.actions[state.next] = action
            return state.next
        }
        guard let id else {
            action()
            return Registration(id: 0)
        }
        return Registration(id: id)
    }

    package func cancel(_ registration: Registration) {
        state.withLock { _ = $0.actions.removeValue(forKey: registration.id) }
    }

    func drain() {
        let actions = state.withLock { state in
            defer { state.actions = [:] }
            state.isDraining = true
            return Array(state.actions.values)
        }
        for action in actions { action() }
    }
}

import NIOCore
import Synchronization

/// Idle connections to one server, waiting for their next request.
final class KeptConnections: Sendable {
    /// `kept_connections`: how many may be idle. Any more are closed as soon as they have nothing to do.
    static let maximum = 8
    /// `kept_time`: how long one may be idle. Shorter than the timeouts of common servers and load balancers, so that it is mostly us who
    /// close.
    static let time = TimeAmount.seconds(25)

    private struct State {
        /// Last in, first out, so that no more than necessary stay in use.
        var waiting: [(connection: ClientConnection, until: NIODeadline)] = []
        var isClosed = false
        var hasTimer = false
    }

    private let state = Mutex(State())

    deinit { close() }

    func take() -> ClientConnection? {
        let now = NIODeadline.now()
        return state.withLock { state in
            // Removed connections are closed with their last reference.
            state.waiting.removeAll { $0.until <= now || !$0.connection.isOpen }
            return state.waiting.popLast()?.connection
        }
    }

    func give(_ connection: ClientConnection) {
        let wantsTimer = state.withLock { state in
            guard !state.isClosed, state.waiting.count < Self.maximum, connection.isOpen else {
                connection.close()
                return false
            }
            state.waiting.append((connection, .now() + Self.time))
            defer { state.hasTimer = true }
            return !state.hasTimer
        }
        if wantsTimer { checkLater(connection.eventLoop) }
    }

    private func checkLater(_ eventLoop: any EventLoop) {
        eventLoop.scheduleTask(in: Self.time + .seconds(1)) { [weak self] in
            guard let self else { return }
            let now = NIODeadline.now()
            let goesOn = state.withLock { state in
                state.waiting.removeAll { $0.until <= now || !$0.connection.isOpen }
                state.hasTimer = !state.waiting.isEmpty
                return state.hasTimer
            }
            if goesOn { checkLater(eventLoop) }
        }
    }

    /// Closes idle connections, and any that are returned later.
    func close() {
        let waiting = state.withLock { state in
            state.isClosed = true
            defer { state.waiting = [] }
            return state.waiting
        }
        for each in waiting { each.connection.close() }
    }
}

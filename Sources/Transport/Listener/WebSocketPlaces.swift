import Synchronization

/// The `max_connections` places of one listener, and the WebSockets that hold them.
final class WebSocketPlaces: Sendable {
    /// One place: taken while an upgrade is being decided, and as long as its WebSocket is open.
    final class Place: Sendable {
        private let places: WebSocketPlaces

        fileprivate init(_ places: WebSocketPlaces) { self.places = places }

        deinit { relinquish() }

        /// The connection takes over the place. False if the listener is stopping, because the stop would not
        /// see the connection.
        func hold(_ connection: WebSocketConnection) -> Bool {
            places.state.withLock { state in
                guard !state.isStopping else { return false }
                state.taken[ObjectIdentifier(self)] = connection
                return true
            }
        }

        /// Frees the place. May be called more than once.
        func relinquish() {
            places.state.withLock { _ = $0.taken.removeValue(forKey: ObjectIdentifier(self)) }
        }
    }

    private struct State {
        /// The value is nil while the upgrade is in progress.
        var taken: [ObjectIdentifier: WebSocketConnection?] = [:]
        var isStopping = false
    }

    private let state = Mutex(State())
    private let limit: Int

    init(limit: Int) {
        self.limit = limit
    }

    var isStopping: Bool { state.withLock { $0.isStopping } }
    var connections: [WebSocketConnection] { state.withLock { $0.taken.values.compactMap { $0 } } }

    /// Nil if all places are taken.
    func reserve() -> Place? {
        let place = Place(self)
        return state.withLock { state in
            guard state.taken.count < limit else { return nil }
            state.taken.updateValue(nil, forKey: ObjectIdentifier(place))
            return place
        }
    }

    func beginStopping() {
        state.withLock { $0.isStopping = true }
    }
}

import NIOCore
import Synchronization

/// What the connections of one listener share: its counts and its open connections.
final class ListenerState: Sendable {
    /// Why a socket is not taken.
    struct Refusal: Sendable {
        /// Name and value of the limit that is reached; nil when the listener stops.
        var limit: (name: String, value: Int)?
    }

    private struct Socket {
        var channel: any Channel
        /// Whose `max_connections_per_address` it counts for.
        var origin: String
        /// Its first request has not come yet: TCP is open, a TLS handshake or a header is under way.
        var isHandshaking = true
    }

    private struct Counts {
        var sockets: [ObjectIdentifier: Socket] = [:]
        var perOrigin: [String: Int] = [:]
        var handshakes = 0
        var webSockets: [ObjectIdentifier: WebSocketConnection] = [:]
        /// Upgrades under way and upgraded connections.
        var reserved = 0
        var bodyBytes = 0
        var isStopping = false
        var allGone: [CheckedContinuation<Void, Never>] = []

        mutating func endHandshake(_ socket: ObjectIdentifier) {
            guard sockets[socket]?.isHandshaking == true else { return }
            sockets[socket]?.isHandshaking = false
            handshakes -= 1
        }
    }

    private let counts = Mutex(Counts())
    let limits: TransportLimits

    init(limits: TransportLimits) {
        self.limits = limits
    }

    var webSocketCount: Int { counts.withLock { $0.webSockets.count } }
    var socketCount: Int { counts.withLock { $0.sockets.count } }
    var isStopping: Bool { counts.withLock { $0.isStopping } }
    var webSockets: [WebSocketConnection] { counts.withLock { Array($0.webSockets.values) } }
    var sockets: [any Channel] { counts.withLock { $0.sockets.values.map(\.channel) } }

    /// Nil when the socket is taken.
    func add(_ channel: any Channel, from origin: String) -> Refusal? {
        counts.withLock { counts in
            guard !counts.isStopping else { return Refusal() }
            let most = limits.maxConnections + limits.maxHTTPConnections
            guard counts.sockets.count < most else { return Refusal(limit: ("max_connections + max_http_connections", most)) }
            guard counts.handshakes < limits.maxHandshakes else { return Refusal(limit: ("max_handshakes", limits.maxHandshakes)) }
            let sameOrigin = counts.perOrigin[origin, default: 0]
            guard sameOrigin < limits.maxConnectionsPerAddress else {
                return Refusal(limit: ("max_connections_per_address", limits.maxConnectionsPerAddress))
            }
            counts.sockets[ObjectIdentifier(channel)] = Socket(channel: channel, origin: origin)
            counts.perOrigin[origin] = sameOrigin + 1
            counts.handshakes += 1
            return nil
        }
    }

    /// The socket's first request has come.
    func handshakeIsOver(_ channel: any Channel) {
        counts.withLock { $0.endHandshake(ObjectIdentifier(channel)) }
    }

    func remove(_ channel: any Channel) {
        let waiting = counts.withLock { counts -> [CheckedContinuation<Void, Never>] in
            counts.endHandshake(ObjectIdentifier(channel))
            if let socket = counts.sockets.removeValue(forKey: ObjectIdentifier(channel)) {
                let others = counts.perOrigin[socket.origin, default: 1] - 1
                counts.perOrigin[socket.origin] = others > 0 ? others : nil
            }
            guard counts.sockets.isEmpty else { return [] }
            defer { counts.allGone = [] }
            return counts.allGone
        }
        for continuation in waiting { continuation.resume() }
    }

    /// Takes one of the `max_connections` places; false if there is none.
    func reserve() -> Bool {
        counts.withLock { counts in
            guard counts.reserved < limits.maxConnections else { return false }
            counts.reserved += 1
            return true
        }
    }

    func release() {
        counts.withLock { $0.reserved -= 1 }
    }

    /// The place stays taken until ``removed(_:)``.
    func opened(_ connection: WebSocketConnection) {
        counts.withLock { $0.webSockets[ObjectIdentifier(connection)] = connection }
    }

    func removed(_ connection: WebSocketConnection) {
        counts.withLock { counts in
            if counts.webSockets.removeValue(forKey: ObjectIdentifier(connection)) != nil { counts.reserved -= 1 }
        }
    }

    func takeBodyBytes(_ count: Int) -> Bool {
        counts.withLock { counts in
            guard counts.bodyBytes + count <= limits.totalBodyBytes else { return false }
            counts.bodyBytes += count
            return true
        }
    }

    func giveBackBodyBytes(_ count: Int) {
        counts.withLock { $0.bodyBytes -= count }
    }

    /// No connection is added from now on.
    func beginStopping() {
        counts.withLock { $0.isStopping = true }
    }

    /// Returns once every socket is closed.
    func waitUntilAllGone() async {
        await withCheckedContinuation { continuation in
            let isEmpty = counts.withLock { counts in
                if !counts.sockets.isEmpty { counts.allGone.append(continuation) }
                return counts.sockets.isEmpty
            }
            if isEmpty { continuation.resume() }
        }
    }
}

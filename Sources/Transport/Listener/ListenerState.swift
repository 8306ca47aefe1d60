import NIOCore
import Synchronization

/// What the connections of one listener share: its counts and its open connections.
final class ListenerState: Sendable {
    private struct Counts {
        var sockets: [ObjectIdentifier: any Channel] = [:]
        var webSockets: [ObjectIdentifier: WebSocketConnection] = [:]
        /// Upgrades under way and upgraded connections.
        var reserved = 0
        var bodyBytes = 0
        var isStopping = false
        var allGone: [CheckedContinuation<Void, Never>] = []
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
    var sockets: [any Channel] { counts.withLock { Array($0.sockets.values) } }

    /// False if the listener stops or holds as many sockets as it may.
    func add(_ channel: any Channel) -> Bool {
        counts.withLock { counts in
            guard !counts.isStopping, counts.sockets.count < limits.maxConnections + limits.maxHTTPConnections else { return false }
            counts.sockets[ObjectIdentifier(channel)] = channel
            return true
        }
    }

    func remove(_ channel: any Channel) {
        let waiting = counts.withLock { counts -> [CheckedContinuation<Void, Never>] in
            counts.sockets[ObjectIdentifier(channel)] = nil
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

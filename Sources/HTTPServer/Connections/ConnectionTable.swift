import Environment
import NIOCore
import Synchronization

/// State shared by the connections of a listener: which ones exist, which one gives way when all places are taken, and how much of the agent's
/// memory their bodies hold.
final class ConnectionTable: Sendable {
    /// One accepted socket.
    final class Entry: Sendable {
        let channel: any Channel
        /// The origin whose share it counts towards.
        let origin: String
        /// The limit because of which its first request will be refused.
        let refusal: NamedLimit?
        /// Since when it has been waiting for the client, in nanoseconds of the event loop's clock; 0 if it is not waiting. A connection that waits
        /// may lose its place to another.
        private let since: Atomic<UInt64>

        init(_ channel: any Channel, origin: String, refusal: NamedLimit? = nil) {
            self.channel = channel
            self.origin = origin
            self.refusal = refusal
            since = Atomic(max(1, channel.eventLoop.now.uptimeNanoseconds))
        }

        /// The answer to its first request, if that is refused.
        var problem: (status: Int, reason: String)? {
            refusal.map { (503, "\(origin) holds as many connections as \($0.name) (\($0.value)) allows one address") }
        }

        func noteWaiting() { since.store(max(1, channel.eventLoop.now.uptimeNanoseconds), ordering: .relaxed) }
        func noteBusy() { since.store(0, ordering: .relaxed) }

        var waitingSince: UInt64? {
            let value = since.load(ordering: .relaxed)
            return value == 0 ? nil : value
        }
    }

    /// Whether a socket is accepted.
    enum Admission {
        /// Accepted, at least to be sent the reason for its refusal (``Entry/refusal``); `evicted` loses its place to it and must be closed.
        case taken(Entry, evicted: (entry: Entry, limit: NamedLimit)?)
        /// Not accepted because of a limit.
        case refused(NamedLimit)
        /// Not accepted because the listener is stopping.
        case stopping
    }

    private struct Counts {
        var entries: [ObjectIdentifier: Entry] = [:]
        var perOrigin: [String: Int] = [:]
        /// Connections that were only accepted to be sent the reason for their refusal.
        var refusedPerOrigin: [String: Int] = [:]
        /// Connections whose first request has not arrived yet: TCP is open, or a TLS handshake or a header is in progress.
        var handshakes: [ObjectIdentifier: Entry] = [:]
        /// Evicted connections that are not closed yet.
        var leaving: [ObjectIdentifier: Entry] = [:]
        var isStopping = false
        var allGone: [CheckedContinuation<Void, Never>] = []

        mutating func enter(_ entry: Entry) -> Entry {
            entries[ObjectIdentifier(entry.channel)] = entry
            handshakes[ObjectIdentifier(entry.channel)] = entry
            count(1, entry)
            return entry
        }

        mutating func forget(_ key: ObjectIdentifier) {
            handshakes[key] = nil
            guard let entry = entries.removeValue(forKey: key) else { return }
            count(-1, entry)
        }

        mutating func count(_ change: Int, _ entry: Entry) {
            let key = entry.refusal == nil ? \Counts.perOrigin : \Counts.refusedPerOrigin
            let others = self[keyPath: key][entry.origin, default: 0] + change
            self[keyPath: key][entry.origin] = others > 0 ? others : nil
        }
    }

    private let counts = Mutex(Counts())
    private let allBodyBytes = Atomic(0)
    let limits: HTTPLimits
    let memory: MemoryBudget
    var time: any TimeSource { memory.time }

    init(limits: HTTPLimits, memory: MemoryBudget) {
        (self.limits, self.memory) = (limits, memory)
    }

    var socketCount: Int { counts.withLock { $0.entries.count } }
    var isStopping: Bool { counts.withLock { $0.isStopping } }
    var channels: [any Channel] { counts.withLock { ($0.entries.values.map(\.channel)) + $0.leaving.values.map(\.channel) } }
    /// Memory held by collected bodies.
    var bodyBytes: Int { allBodyBytes.load(ordering: .relaxed) }

    // MARK: Places

    func add(_ channel: any Channel, from origin: String) -> Admission {
        counts.withLock { counts in
            guard !counts.isStopping else { return .stopping }
            var victim: (entry: Entry, limit: NamedLimit)?
            let full = { (limit: NamedLimit, candidates: any Sequence<Entry>) -> Bool in
                guard let entry = Self.oldest(of: candidates) else { return false }
                victim = (entry, limit)
                return true
            }
            // The order matters: evicting one from the same origin makes room with respect to the other limits too.
            let own = NamedLimit("max_connections_per_address", limits.maxConnectionsPerAddress)
            if counts.perOrigin[origin, default: 0] >= own.value {
                let isFree = full(own, counts.entries.values.filter { $0.refusal == nil && $0.origin.utf8.elementsEqual(origin.utf8) })
                guard isFree else {
                    // No connection is evicted for one that is refused.
                    guard counts.refusedPerOrigin[origin, default: 0] < limits.maxRefusalsPerAddress, counts.handshakes.count < limits.maxHandshakes,
                        counts.entries.count < limits.maxSockets
                    else { return .refused(own) }
                    return .taken(counts.enter(Entry(channel, origin: origin, refusal: own)), evicted: nil)
                }
            }
            let handshakes = NamedLimit("max_handshakes", limits.maxHandshakes)
            if victim == nil, counts.handshakes.count >= handshakes.value {
                guard full(handshakes, counts.handshakes.values) else { return .refused(handshakes) }
            }
            let all = NamedLimit("max_sockets", limits.maxSockets)
            if victim == nil, counts.entries.count >= all.value {
                guard full(all, counts.entries.values) else { return .refused(all) }
            }
            if let entry = victim?.entry {
                let key = ObjectIdentifier(entry.channel)
                counts.forget(key)
                counts.leaving[key] = entry
            }
            return .taken(counts.enter(Entry(channel, origin: origin)), evicted: victim)
        }
    }

    /// The waiting connection to evict: of the origin with most candidates, the one that has waited longest.
    private static func oldest(of candidates: any Sequence<Entry>) -> Entry? {
        var found: [String: (count: Int, oldest: Entry, since: UInt64)] = [:]
        for entry in candidates {
            guard let since = entry.waitingSince else { continue }
            guard let known = found[entry.origin] else {
                found[entry.origin] = (1, entry, since)
                continue
            }
            found[entry.origin] = since < known.since ? (known.count + 1, entry, since) : (known.count + 1, known.oldest, known.since)
        }
        return found.values.max { ($0.count, $1.since) < ($1.count, $0.since) }?.oldest
    }

    /// The socket's first request has arrived.
    func handshakeIsOver(_ entry: Entry) {
        counts.withLock { _ = $0.handshakes.removeValue(forKey: ObjectIdentifier(entry.channel)) }
    }

    /// The socket is closed.
    func remove(_ entry: Entry) {
        let waiting = counts.withLock { counts -> [CheckedContinuation<Void, Never>] in
            counts.forget(ObjectIdentifier(entry.channel))
            counts.leaving[ObjectIdentifier(entry.channel)] = nil
            guard counts.entries.isEmpty, counts.leaving.isEmpty else { return [] }
            defer { counts.allGone = [] }
            return counts.allGone
        }
        for continuation in waiting { continuation.resume() }
    }

    // MARK: Bodies

    func bodyBytesChange(by change: Int) { _ = allBodyBytes.wrappingAdd(change, ordering: .relaxed) }

    // MARK: The end

    /// From now on no connection is added.
    func beginStopping() {
        counts.withLock { $0.isStopping = true }
    }

    /// Returns once every socket is closed.
    func waitUntilAllGone() async {
        await withCheckedContinuation { continuation in
            let isEmpty = counts.withLock { counts in
                let isEmpty = counts.entries.isEmpty && counts.leaving.isEmpty
                if !isEmpty { counts.allGone.append(continuation) }
                return isEmpty
            }
            if isEmpty { continuation.resume() }
        }
    }
}

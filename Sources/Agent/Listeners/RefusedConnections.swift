import HTTPServer
import Synchronization

/// Connections that a listener has refused because of a limit, until there have been none for a while.
final class RefusedConnections: Sendable {
    struct Key: Hashable, Sendable {
        /// The setting's name.
        var limit: String
        var address: String
    }

    struct Refusals: Sendable {
        /// The setting's value.
        var allowed: Int
        var count = 0
        var since: Int64
        var last: Int64
    }

    /// `refused_addresses`: addresses that are tracked separately; a further one replaces the one refused longest ago.
    private static let addresses = 64
    /// `refused_connections_time`: seconds without a refusal after which the problem counts as over. Longer than a peer's longest pause
    /// between two attempts.
    private static let seconds: Int64 = 600

    private let refusals = Mutex<[Key: Refusals]>([:])

    func note(_ limit: NamedLimit, from address: String, now: Int64) {
        let key = Key(limit: limit.name, address: address)
        refusals.withLock { refusals in
            if refusals[key] == nil, refusals.count >= Self.addresses, let oldest = refusals.min(by: { $0.value.last < $1.value.last }) {
                refusals[oldest.key] = nil
            }
            refusals[key, default: Refusals(allowed: limit.value, since: now, last: now)].count += 1
            refusals[key]?.last = now
        }
    }

    /// The refusals that still matter; the address with the most comes first.
    func current(now: Int64) -> [(key: Key, refusals: Refusals)] {
        let current = refusals.withLock { refusals in
            refusals = refusals.filter { $0.value.last > now - Self.seconds }
            return refusals
        }
        return current.sorted { ($1.value.count, $0.key.address) < ($0.value.count, $1.key.address) }.map { (key: $0.key, refusals: $0.value) }
    }
}

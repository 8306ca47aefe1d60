import Documents
import DocumentStore
import Interfaces
import Replication

/// Requests of CouchDB's API that a listener refused as too large before it had read which documents they have: their clients may give these up, and
/// otherwise only they would know.
struct TooLargeRequests: Sendable {
    /// Only databases and collections that the configuration names.
    struct Key: Hashable, Comparable, Sendable {
        var database: String
        var collection: CollectionName

        static func < (a: Key, b: Key) -> Bool { (a.database, a.collection) < (b.database, b.collection) }
    }

    struct Refusals: Sendable {
        var count = 0
        /// Who sent the last one: the user, or the host if it has no user name.
        var peer: String
        /// Of the one that needs most memory, otherwise of the last one.
        var error: ReplicationError
        /// Seconds since 1970.
        var since: Int64
        var last: Int64
    }

    private var refusals: [Key: Refusals] = [:]

    mutating func note(_ error: ReplicationError, peer: String, database: String, collection: CollectionName, now: Int64) {
        let key = Key(database: database, collection: collection)
        // After a day without any, counting begins anew.
        let known = refusals[key].flatMap { $0.last > now - TooLargePushes.seconds ? $0 : nil }
        let largest = known.map { $0.error.neededMemory ?? 0 > error.neededMemory ?? 0 ? $0.error : error } ?? error
        refusals[key] = Refusals(count: (known?.count ?? 0) + 1, peer: peer, error: largest, since: known?.since ?? now, last: now)
    }

    /// The refusals that still matter, in order.
    func current(now: Int64) -> [(key: Key, refusals: Refusals)] {
        refusals.filter { $0.value.last > now - TooLargePushes.seconds }.sorted { $0.key < $1.key }.map { (key: $0.key, refusals: $0.value) }
    }
}

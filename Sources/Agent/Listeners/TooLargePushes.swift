import Documents
import DocumentStore
import Interfaces
import Replication

/// Documents that a listener's peers pushed and that exceed a limit here, or refer to a blob that does: the peers give them up, and otherwise only
/// they would know.
struct TooLargePushes: Sendable {
    /// `too_large_pushes`: documents that are tracked separately; a further one replaces the one refused longest ago.
    static let limit = 1_000
    /// `too_large_pushes_time`: seconds after which a document that was not pushed again is no longer reported.
    static let seconds: Int64 = 86_400

    struct Key: Hashable, Comparable, Sendable {
        var database: String
        var collection: CollectionName
        var id: DocumentID

        static func < (a: Key, b: Key) -> Bool { (a.database, a.collection, a.id) < (b.database, b.collection, b.id) }
    }

    struct Refusal: Sendable {
        /// The peer's user, or its host if it has no user name.
        var peer: String
        var error: ReplicationError
        /// Seconds since 1970.
        var since: Int64
        var last: Int64
    }

    private var refusals: [Key: Refusal] = [:]

    mutating func note(_ events: [DocumentEvent], peer: String, database: String, now: Int64) {
        for event in events where event.direction == .pull {
            let key = Key(database: database, collection: event.collection, id: event.id)
            guard let error = event.error else {
                // It was accepted after all, because it was made smaller or deleted.
                if !refusals.isEmpty { refusals[key] = nil }
                continue
            }
            guard error.domain == .http, error.code == 413 else { continue }
            if refusals[key] == nil, refusals.count >= Self.limit, let oldest = refusals.min(by: { $0.value.last < $1.value.last }) {
                refusals[oldest.key] = nil
            }
            refusals[key] = Refusal(peer: peer, error: error, since: refusals[key]?.since ?? now, last: now)
        }
    }

    /// The refusals that still matter, in order.
    func current(now: Int64) -> [(key: Key, refusal: Refusal)] {
        refusals.filter { $0.value.last > now - Self.seconds }.sorted { $0.key < $1.key }.map { (key: $0.key, refusal: $0.value) }
    }
}

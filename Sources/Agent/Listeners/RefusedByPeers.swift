import Documents
import Interfaces
import Replication

/// Documents that a listener's peers could not take or did not store, as they reported when pulling. Kept while the agent runs.
struct RefusedByPeers: Sendable {
    /// `refused_by_peers`: documents that are named; any more are only counted. The same number of documents that peers keep on their lists is
    /// remembered.
    static let limit = 1_000
    /// `refused_by_peers_counted`: how many documents beyond the named ones are remembered as counted. The count stops at this number.
    static let countedLimit = 100_000
    /// `refused_by_peers_in_status`: documents that a status names.
    static let shown = 50
    /// `refusal_text`: how many characters of a peer's message are kept.
    static let textLength = 300

    struct Key: Hashable, Comparable, Sendable {
        /// The peer's user, or its host if it has no user name.
        var peer: String
        var database: String
        var collection: CollectionName
        var id: DocumentID

        static func < (a: Key, b: Key) -> Bool {
            (a.peer, a.database, a.collection, a.id) < (b.peer, b.database, b.collection, b.id)
        }
    }

    struct Refusal: Sendable {
        var error: ReplicationError
        /// Seconds since 1970.
        var since: Int64
    }

    struct Kept: Sendable {
        var kept: KeptByPeer
        /// Seconds since 1970.
        var since: Int64
    }

    private(set) var refusals: [Key: Refusal] = [:]
    /// Documents that peers took but keep on their lists, according to their latest reports.
    private(set) var kept: [Key: Kept] = [:]
    /// How many are refused besides the named ones; each is counted once, however often its peer tries again.
    var more: Int { counted.count }
    /// Hashes of their keys, because a key contains text of the peer's choice.
    private var counted: Set<Int> = []

    mutating func note(_ events: [DocumentEvent], peer: String, database: String, now: Int64) {
        // Errors on this side are not refusals by the peer.
        for event in events where event.error?.domain != .plugin && event.error?.isOfOwnBlob != true {
            let key = Key(peer: peer, database: database, collection: event.collection, id: event.id)
            note(event, key, now: now)
            guard event.direction == .push else { continue }
            guard var error = event.error else {
                // The peer took it after all.
                if !refusals.isEmpty { refusals[key] = nil }
                if !counted.isEmpty { counted.remove(key.hashValue) }
                continue
            }
            guard refusals[key] != nil || refusals.count < Self.limit else {
                if counted.count < Self.countedLimit { counted.insert(key.hashValue) }
                continue
            }
            if !counted.isEmpty { counted.remove(key.hashValue) }
            if error.message.utf8.count > Self.textLength { error.message = String(error.message.unicodeScalars.prefix(Self.textLength)) + " ..." }
            refusals[key] = Refusal(error: error, since: refusals[key]?.since ?? now)
        }
    }

    /// A document that the peer pushes to us is also in its database.
    private mutating func note(_ event: DocumentEvent, _ key: Key, now: Int64) {
        guard event.direction == .push, let there = event.kept else {
            if !kept.isEmpty { kept[key] = nil }
            return
        }
        if kept[key] != nil || kept.count < Self.limit { kept[key] = Kept(kept: there, since: now) }
    }
}

extension PeerListener {
    /// Documents that peers do not get because the push filter fails on them; each once, however many peers wait for it.
    var heldDocuments: [Stall] {
        var told: Set<String> = []
        let found = peers.flatMap { peer in peer.stalls.map { (peer.database, $0) } } + reviews.kept.heldDocuments
        return found.compactMap { database, stall in
            told.insert("\(database) \(stall.collection) \(stall.id)").inserted ? stall : nil
        }
    }
}

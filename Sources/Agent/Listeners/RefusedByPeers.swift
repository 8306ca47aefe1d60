import Documents
import Interfaces
import Replication

/// Documents that peers of a listener could not take, or did not store, as they said when they pulled. Kept while the agent runs.
struct RefusedByPeers: Sendable {
    /// `refused_by_peers`: documents that are named; those beyond are counted. As many again are known that peers keep on their lists.
    static let limit = 1_000
    /// `refused_by_peers_counted`: documents beyond those that are named, of which is known that they were counted. Where there are more, these
    /// are the number.
    static let countedLimit = 100_000
    /// `refused_by_peers_in_status`: documents that a status names.
    static let shown = 50
    /// `refusal_text`: characters of what a peer wrote that are kept.
    static let textLength = 300

    struct Key: Hashable, Comparable, Sendable {
        /// The peer's user, or the host that it has no name on.
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
        var kept: KeptThere
        /// Seconds since 1970.
        var since: Int64
    }

    private(set) var refusals: [Key: Refusal] = [:]
    /// What peers took and have on their lists, by what they said last.
    private(set) var kept: [Key: Kept] = [:]
    /// How many are refused beside those that are named, each counted once however often its peer comes for it.
    var more: Int { counted.count }
    /// Hashes of their keys: a key holds texts that a peer chose.
    private var counted: Set<Int> = []

    mutating func note(_ events: [DocumentEvent], peer: String, database: String, now: Int64) {
        // What is wrong here is no refusal of the peer's.
        for event in events where event.error?.domain != .plugin && event.error?.isOfOwnBlob != true {
            let key = Key(peer: peer, database: database, collection: event.collection, id: event.id)
            note(event, key, now: now)
            guard event.direction == .push else { continue }
            guard var error = event.error else {
                // It was taken after all.
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

    /// What the peer gives us itself is in its database too.
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
    var heldDocuments: [Standstill] {
        var told: Set<String> = []
        let found = peers.flatMap { peer in peer.standstills.map { (peer.database, $0) } } + reviews.kept.heldDocuments
        return found.compactMap { database, standstill in
            told.insert("\(database) \(standstill.collection) \(standstill.id)").inserted ? standstill : nil
        }
    }
}

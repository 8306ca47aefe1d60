import Documents
import DocumentStore
import Interfaces
import Logging
import Replication
import Synchronization

/// What a listener's peers could not store, what they pushed that is too large, and which of them were put off for want of memory. Kept while the agent
/// runs.
final class ListenerRefusals: Sendable {
    private struct State {
        var byPeers = RefusedByPeers()
        var tooLarge = TooLargePushes()
        var requests = TooLargeRequests()
        var evictions = Evictions()
    }

    private let state = Mutex(State())

    func note(_ events: [DocumentEvent], peer: String, database: String, now: Int64) {
        state.withLock { state in
            state.byPeers.note(events, peer: peer, database: database, now: now)
            state.tooLarge.note(events, peer: peer, database: database, now: now)
        }
    }

    /// A request was refused as too large, and its documents are not known.
    func note(_ error: ReplicationError, peer: String, database: String, collection: CollectionName, now: Int64) {
        state.withLock { $0.requests.note(error, peer: peer, database: database, collection: collection, now: now) }
    }

    /// A peer's connection has ended.
    func note(_ end: SessionEnd, of address: String, now: Int64) {
        if end.error?.isEviction == true { state.withLock { $0.evictions.note(address, now) } }
    }

    func evictions(now: Int64) -> Evictions.Recent? { state.withLock { $0.evictions.recent(now) } }

    /// How many connections were ended for want of memory since the start.
    var evicted: Int { state.withLock { $0.evictions.total } }

    var byPeers: RefusedByPeers { state.withLock { $0.byPeers } }

    func tooLarge(now: Int64) -> [(key: TooLargePushes.Key, refusal: TooLargePushes.Refusal)] { state.withLock { $0.tooLarge.current(now: now) } }

    func tooLargeRequests(now: Int64) -> [(key: TooLargeRequests.Key, refusals: TooLargeRequests.Refusals)] { state.withLock { $0.requests.current(now: now) } }
}

extension PeerListener {
    /// Documents that peers could not store.
    var refusedByPeers: RefusedByPeers { refusals.byPeers }

    /// An address without its port.
    static func host(of address: String) -> String { String(address[..<(address.lastIndex(of: ":") ?? address.endIndex)]) }

    /// Notes the outcome of documents that a client of the CouchDB API wrote.
    func note(_ events: [DocumentEvent], from peer: PassiveConfiguration, remote: String) {
        var logger = logger
        logger[metadataKey: "peer"] = "\(remote)"
        let now = environment.time.wallSeconds()
        RefusalLog.note(events, user: peer.principal.name, database: peer.database.name, logger)
        waiting.note(events.filter { $0.direction == .pull }, at: now)
        refusals.note(events, peer: peer.principal.name ?? Self.host(of: remote), database: peer.database.name, now: now)
    }

    /// Notes a request of the CouchDB API that was refused as too large, whose documents are not known.
    func note(refused error: ReplicationError, in collection: CollectionName, from peer: PassiveConfiguration, remote: String) {
        let (user, database) = (peer.principal.name, peer.database.name)
        refusals.note(error, peer: user ?? Self.host(of: remote), database: database, collection: collection, now: environment.time.wallSeconds())
        logger.warning(
            "a request with documents for \(collection) refused, and none of them stored: \(error)",
            metadata: ["cause": "request \(error.domain.rawValue)/\(error.code)", "database": "\(database)", "user": "\(user ?? "")", "peer": "\(remote)"])
    }
}

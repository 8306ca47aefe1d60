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
        var evictions = Evictions()
    }

    private let state = Mutex(State())

    func note(_ events: [DocumentEvent], peer: String, database: String, now: Int64) {
        state.withLock { state in
            state.byPeers.note(events, peer: peer, database: database, now: now)
            state.tooLarge.note(events, peer: peer, database: database, now: now)
        }
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
        RefusalLog.note(events, user: peer.principal.name, database: peer.database.name, logger)
        refusals.note(
            events, peer: peer.principal.name ?? Self.host(of: remote), database: peer.database.name, now: environment.time.wallSeconds())
    }
}

import Digests
import Discovery
import Encodings
import Environment
import Synchronization
import Transport

/// The listeners of one group from the point of view of a replicator: the candidates, their order, and the outcome of earlier attempts.
final class GroupPeers: Sendable {
    /// `discovered_peers`: maximum number of candidates in a group at a time. Those that announce a pinned key come first.
    static let most = 64
    /// `discovered_error_bytes`: maximum length of the last error that is kept for a candidate.
    static let errorBytes = 256

    /// A candidate.
    struct Peer: Sendable {
        var service: FoundService
        /// Identifies it in checkpoints and in the store.
        var key: String
        var lastError: String?
        /// Seconds since 1970.
        var lastSuccess: Int64?
    }

    private struct State {
        var last: String?
        var errors: [String: String] = [:]
        var successes: [String: Int64] = [:]
        var sessions: [String: SessionCookies] = [:]
    }

    /// As configured.
    let target: String
    let group: String
    private let usesTLS: Bool
    /// This agent's id; nil if it has none.
    private let own: String?
    private let pins: Set<String>
    private let time: any TimeSource
    private let state = Mutex(State())

    /// - Parameter pins: the pinned public keys, as configured.
    init(target: String, group: String, usesTLS: Bool, own: String?, pins: Set<String>, time: any TimeSource) {
        (self.target, self.group, self.usesTLS, self.own, self.pins, self.time) = (target, group, usesTLS, own, pins, time)
    }

    /// The candidates, in the order in which they are tried.
    func candidates(_ found: [FoundService]) -> [Peer] {
        let peers = found.filter(isCandidate).map { Peer(service: $0, key: key(of: $0)) }
        return state.withLock { state in
            func rank(_ peer: Peer) -> Int {
                let text = peer.service.text
                return peer.key == state.last ? 0 : [text.pin, text.nextPin].contains { $0.map(pins.contains) ?? false } ? 1 : 2
            }
            let ranked = peers.map { (peer: $0, rank: rank($0), weight: weight(of: $0)) }.sorted { left, right in
                if left.rank != right.rank { return left.rank < right.rank }
                return left.weight == right.weight ? left.peer.key < right.peer.key : left.weight > right.weight
            }
            let chosen = ranked.prefix(Self.most).map { ranked in
                var peer = ranked.peer
                (peer.lastError, peer.lastSuccess) = (state.errors[peer.key], state.successes[peer.key])
                return peer
            }
            // Only current candidates are remembered: anyone can announce any number of names.
            let keys = Set(chosen.map(\.key))
            state.errors = state.errors.filter { keys.contains($0.key) }
            state.successes = state.successes.filter { keys.contains($0.key) }
            state.sessions = state.sessions.filter { keys.contains($0.key) }
            return chosen
        }
    }

    private func isCandidate(_ service: FoundService) -> Bool {
        // An announcement must not decide about encryption: the target says whether TLS is required.
        guard service.text.group == group, service.text.usesTLS == usesTLS else { return false }
        guard let own else { return !service.isLocal }
        return service.text.peer != own
    }

    private static func identifier(_ service: FoundService) -> String? {
        service.text.peer.flatMap { $0.utf8.count == PeerIdentifier.digits && Hex.decode($0) != nil ? $0 : nil }
    }

    /// From the name and the agent's id: an agent that takes over the name of another one has different documents.
    private func key(of service: FoundService) -> String { "\(target) \(service.name)\(Self.identifier(service).map { " \($0)" } ?? "")" }

    /// Rendezvous hashing: this agent always prefers the same peer while that exists, and agents are spread evenly over the peers. If a peer
    /// disappears, only the agents that preferred it move to another one.
    private func weight(of peer: Peer) -> String {
        Hex.encode(SHA256.hash(Array("\(own ?? "")\0\(Self.identifier(peer.service) ?? peer.service.name)".utf8)))
    }

    func connected(to peer: Peer) {
        let now = time.wallSeconds()
        state.withLock {
            ($0.last, $0.errors[peer.key], $0.successes[peer.key]) = (peer.key, nil, now)
        }
    }

    func failed(_ peer: Peer, _ message: String) {
        state.withLock { $0.errors[peer.key] = String(decoding: Array(message.utf8).prefix(Self.errorBytes), as: UTF8.self) }
    }

    /// A session is valid only at the server that created it.
    func sessions(of peer: Peer) -> SessionCookies {
        state.withLock { state in
            if let sessions = state.sessions[peer.key] { return sessions }
            let made = SessionCookies(time: time)
            state.sessions[peer.key] = made
            return made
        }
    }
}

import Digests
import Discovery
import Encodings
import Environment
import Synchronization
import Transport

/// The listeners of one group as a replicator knows them: which of them come into question, in which order, and how they fared.
final class GroupPeers: Sendable {
    /// `discovered_peers`: listeners of a group that come into question at a time. Those that announce a pinned key come first.
    static let most = 64
    /// `discovered_error_bytes`: of what is told of the last error.
    static let errorBytes = 256

    /// One that comes into question.
    struct Peer: Sendable {
        var service: FoundService
        /// What checkpoints and the store know it by.
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

    /// As written.
    let target: String
    let group: String
    private let usesTLS: Bool
    /// This agent's id; nil where it has none.
    private let own: String?
    private let pins: Set<String>
    private let time: any TimeSource
    private let state = Mutex(State())

    /// - Parameter pins: of public keys, as the configuration has them.
    init(target: String, group: String, usesTLS: Bool, own: String?, pins: Set<String>, time: any TimeSource) {
        (self.target, self.group, self.usesTLS, self.own, self.pins, self.time) = (target, group, usesTLS, own, pins, time)
    }

    /// Those that come into question, in the order in which they are tried.
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
            // Anybody may announce any number of names.
            let keys = Set(chosen.map(\.key))
            state.errors = state.errors.filter { keys.contains($0.key) }
            state.successes = state.successes.filter { keys.contains($0.key) }
            state.sessions = state.sessions.filter { keys.contains($0.key) }
            return chosen
        }
    }

    private func isCandidate(_ service: FoundService) -> Bool {
        // What is announced decides nothing about secrecy: the target says whether there is to be TLS.
        guard service.text.group == group, service.text.usesTLS == usesTLS else { return false }
        guard let own else { return !service.isLocal }
        return service.text.peer != own
    }

    private static func identifier(_ service: FoundService) -> String? {
        service.text.peer.flatMap { $0.utf8.count == PeerIdentifier.digits && Hex.decode($0) != nil ? $0 : nil }
    }

    /// By name and agent: an agent that takes over the name of another one has other documents.
    private func key(of service: FoundService) -> String { "\(target) \(service.name)\(Self.identifier(service).map { " \($0)" } ?? "")" }

    /// Rendezvous hashing: the same for this agent as long as the peer is there, and spread over all agents. Where one goes, only those that had it
    /// have another.
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

    /// A session is of the server that it was opened at.
    func sessions(of peer: Peer) -> SessionCookies {
        state.withLock { state in
            if let sessions = state.sessions[peer.key] { return sessions }
            let made = SessionCookies(time: time)
            state.sessions[peer.key] = made
            return made
        }
    }
}

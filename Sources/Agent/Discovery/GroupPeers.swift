import Digests
import Discovery
import Documents
import Encodings
import Environment
import Synchronization
import Transport

/// The listeners of one group from the point of view of a replicator: the candidates, their order (``GroupOrder``), and the outcome of earlier attempts.
final class GroupPeers: Sendable {
    /// `discovered_error_bytes`: maximum length of the last error that is kept for a candidate.
    static let errorBytes = 256

    /// A candidate.
    struct Peer: Sendable {
        var service: FoundService
        /// Identifies it in checkpoints and in the store.
        var key: String
        /// The network interface over which it is tried; empty for any.
        var interface: String
        var lastError: String?
        /// Seconds since 1970.
        var lastSuccess: Int64?

        /// The key by its bytes: anybody can announce a name that only looks like that of another one.
        fileprivate var exactKey: ExactName { ExactName(key) }
    }

    private struct State {
        /// By network interface: one who had its turn over one may be reachable only over another one.
        var orders: [String: GroupOrder] = [:]
        /// Of all orders.
        var reached: [ExactName]
        var errors: [ExactName: String] = [:]
        var successes: [ExactName: Int64] = [:]
        var sessions: [ExactName: SessionCookies] = [:]

        func told(of peer: Peer) -> Peer {
            var peer = peer
            (peer.lastError, peer.lastSuccess) = (errors[peer.exactKey], successes[peer.exactKey])
            return peer
        }

        mutating func order<Result>(over interface: String, _ body: (inout GroupOrder) -> Result) -> Result {
            let new = GroupOrder(reached: reached)
            return body(&orders[interface, default: new])
        }

        mutating func noteReached(_ peer: Peer) {
            order(over: peer.interface) { $0.noteReached(peer.exactKey) }
            reached = orders[peer.interface]?.reached ?? reached
            for interface in orders.keys where interface != peer.interface { orders[interface]?.noteReached(peer.exactKey) }
        }
    }

    /// As configured.
    let target: String
    let group: String
    private let usesTLS: Bool
    /// This agent's id; nil if it has none.
    private let own: String?
    private let pins: Set<String>
    let time: any TimeSource
    /// Nil: nothing is kept for the next start.
    private let memory: GroupMemory?
    private let state: Mutex<State>

    /// - Parameter pins: the pinned public keys, as configured.
    init(target: String, group: String, usesTLS: Bool, own: String?, pins: Set<String>, time: any TimeSource, memory: GroupMemory? = nil) {
        (self.target, self.group, self.usesTLS, self.own, self.pins, self.time, self.memory) = (target, group, usesTLS, own, pins, time, memory)
        state = Mutex(State(reached: memory?.reached(by: target).map { ExactName($0) } ?? []))
    }

    /// The candidates, in the order in which they are tried.
    ///
    /// - Parameter interface: the network interface over which they are tried; empty for any.
    func candidates(_ found: [FoundService], over interface: String = "") -> [Peer] {
        let peers = found.filter(isCandidate).map { Peer(service: $0, key: key(of: $0), interface: interface) }
        let offered = peers.map { peer in
            let service = peer.service
            return GroupOrder.Candidate(
                key: peer.exactKey, address: service.addresses.first ?? service.host,
                isPinned: [service.text.pin, service.text.nextPin].contains { $0.map(pins.contains) ?? false }, weight: weight(of: peer))
        }
        let keys = Set(peers.map(\.exactKey))
        return state.withLock { state in
            // Only current candidates are remembered: anyone can announce any number of names.
            state.errors = state.errors.filter { keys.contains($0.key) }
            state.successes = state.successes.filter { keys.contains($0.key) }
            state.sessions = state.sessions.filter { keys.contains($0.key) }
            return state.order(over: interface) { $0.order(offered) }.map { state.told(of: peers[$0]) }
        }
    }

    /// The same candidates in the same order, with what has happened meanwhile.
    func again(_ candidates: [Peer]) -> [Peer] {
        state.withLock { state in candidates.map { state.told(of: $0) } }
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

    /// Whether a listener of that name was reached, whatever the id of its agent.
    func hasReached(_ name: String) -> Bool {
        let bytes = Array("\(target) \(name)".utf8)
        return state.withLock { state in
            state.reached.contains { reached in
                let key = Array(reached.text.utf8)
                guard key.starts(with: bytes) else { return false }
                return key.count == bytes.count || (key.count == bytes.count + 1 + PeerIdentifier.digits && key[bytes.count] == UInt8(ascii: " "))
            }
        }
    }

    /// Rendezvous hashing: this agent always prefers the same peer while that exists, and agents are spread evenly over the peers. If a peer
    /// disappears, only the agents that preferred it move to another one.
    private func weight(of peer: Peer) -> String {
        Hex.encode(SHA256.hash(Array("\(own ?? "")\0\(Self.identifier(peer.service) ?? peer.service.name)".utf8)))
    }

    func connected(to peer: Peer) {
        let now = time.wallSeconds()
        state.withLock {
            $0.noteReached(peer)
            ($0.errors[peer.exactKey], $0.successes[peer.exactKey]) = (nil, now)
        }
        memory?.keep { state.withLock { $0.reached.map(\.text) } }
    }

    func failed(_ peer: Peer, _ message: String) {
        state.withLock {
            $0.order(over: peer.interface) { $0.hadTurn(peer.exactKey) }
            $0.errors[peer.exactKey] = String(decoding: Array(message.utf8).prefix(Self.errorBytes), as: UTF8.self)
        }
    }

    /// The plugin took none of these. If they are only some of those that are announced, it is offered others the next time.
    func passedOver(_ offered: [Peer]) {
        guard offered.count >= GroupOrder.most else { return }
        state.withLock { state in
            for peer in offered { state.order(over: peer.interface) { $0.hadTurn(peer.exactKey) } }
        }
    }

    /// A session is valid only at the server that created it.
    func sessions(of peer: Peer) -> SessionCookies {
        state.withLock { state in
            if let sessions = state.sessions[peer.exactKey] { return sessions }
            let made = SessionCookies(time: time)
            state.sessions[peer.exactKey] = made
            return made
        }
    }
}

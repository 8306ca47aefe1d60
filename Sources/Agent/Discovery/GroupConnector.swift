import Discovery
import Documents
import Encodings
import Interfaces
import Transport

/// Looks up the listeners of a group, again for each connection, and connects to one of them. If one cannot be reached, the next is tried; if one does
/// not answer, the next is tried as well.
struct GroupConnector: TransportConnector {
    /// `discover_wait`: seconds to wait for announcements.
    static let lookSeconds = 2
    /// `discovered_errors`: of the listeners that were not reached, an error tells about this many.
    private static let mostNamed = 8

    let peers: GroupPeers
    let client: DiscoveredClient
    /// Nil: the first one that can be reached.
    let choice: PeerChoice?
    /// Returns the announced services.
    let look: @Sendable () async throws(DiscoveryError) -> [FoundService]

    func connect() async throws -> any MessageTransport { try await reach(nil).transport }

    func reach(_ remote: String?) async throws -> ReachedRemote {
        let found: [FoundService]
        do throws(DiscoveryError) { found = try await look() } catch {
            try Task.checkCancellation()
            throw ReplicationError(network: .unknownHost, message: "\(peers.target): \(error); \(error.remedy)")
        }
        try Task.checkCancellation()
        var candidates = peers.candidates(found, over: client.client.networkInterface ?? "")
        if let remote { candidates.removeAll { ExactName($0.key) != ExactName(remote) } }
        guard !candidates.isEmpty else {
            throw ReplicationError(
                network: .unknownHost,
                message: "\(peers.target): nobody else on the local network announces a listener of the group \(peers.group) "
                    + "\(client.usesTLS ? "with TLS (tls=off takes clear text)" : "in clear text, as tls=off asks for"); nightjar discover shows who is there")
        }
        guard let choice, remote == nil else { return try await reachAny(of: candidates) }
        return try await reach(candidates, by: choice)
    }

    /// Several at a time: one that accepts connections and says nothing must not hold up the others.
    private func reachAny(of candidates: [GroupPeers.Peer]) async throws -> ReachedRemote {
        var failures: [(name: String, error: ReplicationError)] = []
        let attempts = StaggeredAttempts(count: candidates.count, time: peers.time)
        let reached = try await attempts.first { number in
            try await connect(to: candidates[number])
        } failed: { number, error in
            peers.failed(candidates[number], "\(error)")
            failures.append((candidates[number].service.name, error))
        } discard: { late in
            late.transport.drop()
        }
        guard let reached else { throw Self.error(failures) }
        peers.connected(to: candidates[reached.number])
        return reached.success
    }

    /// One after the other, as the plugin chooses. It is offered the same ones each time.
    private func reach(_ first: [GroupPeers.Peer], by choice: PeerChoice) async throws -> ReachedRemote {
        var candidates = first
        var failures: [(name: String, error: ReplicationError)] = []
        while let peer = try await next(candidates, failures.map { ExactName($0.name) }, choice) {
            do {
                let reached = try await connect(to: peer)
                peers.connected(to: peer)
                return reached
            } catch let error as ReplicationError {
                peers.failed(peer, "\(error)")
                try Task.checkCancellation()
                failures.append((peer.service.name, error))
                candidates = peers.again(candidates)
            }
        }
        peers.passedOver(candidates)
        throw Self.error(failures)
    }

    /// - Parameter tried: names of those that were not reached.
    /// - Returns: nil where the one that was chosen was tried.
    private func next(_ candidates: [GroupPeers.Peer], _ tried: [ExactName], _ choice: PeerChoice) async throws -> GroupPeers.Peer? {
        let chosen: String?
        do throws(ReplicationError) { chosen = try await choice.name(among: candidates, of: peers.group) } catch {
            peers.passedOver(candidates)
            throw error
        }
        if chosen == nil, tried.isEmpty {
            peers.passedOver(candidates)
            throw ReplicationError(
                network: .unknownHost,
                message: "\(peers.target): the plugin \(choice.selector.pluginName) chose none of \(Plural.count(candidates.count, "listener")); it is asked again")
        }
        guard let chosen else { return nil }
        return candidates.first { ExactName($0.service.name) == ExactName(chosen) && !tried.contains(ExactName($0.service.name)) }
    }

    private func connect(to peer: GroupPeers.Peer) async throws -> ReachedRemote {
        var client = client
        if client.client.sessions != nil { client.client.sessions = peers.sessions(of: peer) }
        return ReachedRemote(transport: try await client.connect(to: peer.service), remote: peer.key)
    }

    /// A transient error takes precedence, so that the next attempt is made soon: one unknown listener in the group must not delay the replicator.
    private static func error(_ failures: [(name: String, error: ReplicationError)]) -> ReplicationError {
        let errors = failures.map(\.error)
        guard var error = errors.first(where: \.isTransient) ?? errors.first else { return ReplicationError(network: .unknownHost, message: "nobody was tried") }
        if failures.count > 1 {
            error.message = failures.prefix(mostNamed).map { "\($0.name): \($0.error.message)" }.joined(separator: "; ")
            if failures.count > mostNamed { error.message += "; and \(failures.count - mostNamed) more" }
        }
        return error
    }
}

/// The plugin that chooses the listener for one replicator.
package struct PeerChoice: Sendable {
    let selector: any PeerSelector
    let database: String
    let replicator: String
    let target: String

    /// - Throws: if the plugin fails; no listener is chosen then.
    func name(among peers: [GroupPeers.Peer], of group: String) async throws(ReplicationError) -> String? {
        let offered = peers.map { peer in
            OfferedPeer(
                name: peer.service.name, group: group, peerID: peer.service.text.peer, pin: peer.service.text.pin, host: peer.service.host,
                port: peer.service.port, lastError: peer.lastError, lastSuccess: peer.lastSuccess)
        }
        switch await selector.select(offered, database: database, replicator: replicator, remote: target) {
        case .success(let name): return name
        case .failure(let failure):
            var error = ReplicationError(
                domain: .plugin, code: 503, message: "\(target): the plugin \(failure.plugin) chose no peer: \(failure.kind): \(failure.message)")
            error.isTransient = true
            error.specificRemedy = "fix the plugin: nightjar plugin run \(failure.plugin) select_peer shows what it returns"
            throw error
        }
    }
}

import Agent
import AgentConfiguration
import Documents
import Encodings
import Glibc
import Interfaces
import Logging
import NIOCore
import NIOPosix
import Replication
import Synchronization
import Transport

/// What `nightjar doctor` finds out about a replicator's target with a separate connection.
extension Doctor {
    /// - Parameter security: TLS for the connection, which afterwards knows the server's certificate; nil for clear text.
    func peer(_ replicator: ReplicatorSettings, _ security: Result<ReplicatorSecurity?, any Error>) async -> [Finding] {
        let target = replicator.target.value
        let name = "replicator \(replicator.name.value)"
        switch target.scheme {
        case .local: return []
        case .exec: return [program(target, name)]
        case .unix, .serial: return [endpoint(target, name)]
        case .discover where replicator.selectPeer != nil:
            return [Finding("peer", .ok, "\(name): its plugin says which listener of \(target) it is; it was not asked, and nobody was connected to")]
        case .discover: return await connection(replicator, security, name)
        case .ws, .wss, .http, .https: break
        }
        var findings: [Finding] = []
        // A proxy resolves the name itself.
        let proxy = replicator.proxy?.url.value
        let (host, port) = proxy.map { ($0.host, $0.port) } ?? (target.host, target.port)
        let whose = proxy == nil ? name : "\(name), its proxy"
        do {
            let addresses = try await NIOThreadPool.singleton.runIfActive { try HostAddresses.resolve(host, port: port) }
            findings.append(Finding("dns", .ok, "\(whose): \(host) is \(addresses.joined(separator: ", "))"))
        } catch {
            return [Finding("dns", .wrong, "\(whose): \(error)", mend: "check the host's name and /etc/resolv.conf; getent hosts \(host)")]
        }
        findings += await connection(replicator, security, name)
        return findings
    }

    /// Connects and logs in as the replicator would, and disconnects.
    private func connection(_ replicator: ReplicatorSettings, _ security: Result<ReplicatorSecurity?, any Error>, _ name: String) async -> [Finding] {
        let target = replicator.target.value
        let silent = Logger(label: "nightjar.doctor") { _ in SwiftLogNoOpLogHandler() }
        do {
            // A session would remain at the server for a day.
            let connector = try ReplicatorBuilding.networkConnector(
                replicator, try security.get(), group: group, environment, silent, ownPeer: PeerIdentifier.made(data: settings.data.value), choice: nil, mayOpenSessions: false)
            let transport = try await connector.connect()
            transport.close(code: 1000, reason: "nightjar doctor")
            return [Finding("peer", .ok, "\(name): \(target) answers and lets us in")]
        } catch let error as ReplicationError where error.domain == .http && error.code == 401 && replicator.authenticator?.plugin != nil {
            // Only the agent calls plugins.
            return [Finding("peer", .ok, "\(name): \(target) answers; the plugin was not asked for the token or session that it requires")]
        } catch let error as ReplicationError {
            let code = "\(error.domain.rawValue)/\(error.code)"
            let known = ExplanationSearch.find(code).first.map { "\($0.mend) (nightjar explain \(code))" }
            return [Finding("peer", .wrong, "\(name): \(error.cause)", mend: error.remedy ?? known ?? "nightjar explain \(code)")]
        } catch {
            return [Finding("peer", .wrong, "\(name): \(error)", mend: "nightjar check")]
        }
    }

    /// Does not run the command: it may be expensive, and the connection is the agent's.
    private func program(_ target: ReplicatorTarget, _ name: String) -> Finding {
        let program = target.arguments.first ?? ""
        let folders = program.contains("/") ? [""] : (getenv("PATH").map { String(cString: $0) } ?? "").split(separator: ":").map { "\($0)/" }
        if folders.contains(where: { access($0 + program, X_OK) == 0 }) {
            return Finding("peer", .ok, "\(name): the program \(program) is there; it was not run")
        }
        return Finding("peer", .wrong, "\(name): there is no program \(program)", mend: "install it, or write its whole path")
    }

    private func endpoint(_ target: ReplicatorTarget, _ name: String) -> Finding {
        let path = target.path
        guard access(path, F_OK) == 0 else {
            return Finding(
                "peer", .wrong, "\(name): \(path): \(String(cString: strerror(errno)))",
                mend: target.scheme == .serial ? "plug the device in" : "start the peer that listens there")
        }
        guard access(path, R_OK | W_OK) == 0 else {
            return Finding(
                "peer", .wrong, "\(name): \(path): \(String(cString: strerror(errno)))",
                mend: target.scheme == .serial ? "add the agent's user to the device's group, often dialout" : "let the agent's user open it")
        }
        return Finding("peer", .ok, "\(name): \(path) is there and may be opened; it was not")
    }
}

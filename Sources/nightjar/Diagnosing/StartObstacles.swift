import Agent
import AgentConfiguration
import Glibc
import HTTPServer
import NIOCore
import Transport

/// Obstacles to a start outside of the configuration, reported before anybody tries to start.
extension Doctor {
    // MARK: - The data folder

    /// Why the agent could not create its data folder; nil if it could.
    static func obstacle(toMaking data: String) -> Finding? {
        ConfigurationCheck.obstacle(toMaking: data).map { Finding("disk", .wrong, "the data folder \(data) cannot be made: \($0.reason)", mend: $0.mend) }
    }

    /// An agent cannot run without its socket.
    static func obstacle(toSocketIn data: String) -> Finding? {
        AdminServer.obstacle(toSocketIn: data).map { Finding("disk", .wrong, $0.cause, mend: $0.mend) }
    }

    /// The agent's own files in the data folder, without which it cannot run.
    func ownFiles(in data: String) -> [Finding] {
        var findings: [Finding] = []
        let lock = "\(data)/agent.lock"
        if access(lock, F_OK) == 0, access(lock, R_OK | W_OK) != 0 {
            let number = errno
            findings.append(
                Finding(
                    "disk", .wrong, "\(lock): \(String(cString: strerror(number)))",
                    mend: AgentUser.remedy(number, at: lock, data: data, who: "this command") ?? "chown it to the agent's user; another user has run the agent there"))
        }
        if settings.admin?.makesToken == true, let problem = AdminTokenFile.problem(data: data, environment.random) {
            findings.append(Finding("disk", .wrong, "\(problem)", mend: "fix that file, or set admin.token"))
        }
        return findings
    }

    // MARK: - Ports

    /// Whether the ports are free, as far as no agent of this configuration has bound them.
    func ports(looksUpNames: Bool) async -> [Finding] {
        let (own, asksForAdmin): (Set<Int>, Bool)
        switch boundPorts {
        case .none: (own, asksForAdmin) = ([], true)
        case .ofListeners(let ports): (own, asksForAdmin) = (ports, false)
        case .unknown: return []
        }
        var findings: [Finding] = []
        for listener in settings.listeners where listener.endpoint == nil && !own.contains(listener.port.value) {
            findings += await port(listener.port.value, at: listener.interface?.value, "listener \(listener.name.value)", looksUpNames: looksUpNames)
        }
        if asksForAdmin, let admin = settings.admin { findings += await port(admin.port.value, at: admin.address.value, "the admin port", looksUpNames: looksUpNames) }
        return findings
    }

    /// - Parameter interface: where it is bound; nil for all interfaces.
    private func port(_ port: Int, at interface: String?, _ name: String, looksUpNames: Bool) async -> [Finding] {
        // The interface may be given as a host name.
        guard looksUpNames || interface.map(Self.isAddress) ?? true else { return [] }
        let addresses: [HTTPListener.Address]
        do { addresses = try await ListenAddresses.resolve(interface: interface, port: port) } catch {
            return [Finding("listener", .wrong, "\(name): \(error)", mend: ListenerRemedy.text(error))]
        }
        for address in addresses where !address.isOptional {
            guard let code = PortProbe.obstacle(toBinding: address.address) else { continue }
            return [Finding("listener", .wrong, "\(name): port \(port): \(String(cString: strerror(code)))", mend: ListenerRemedy.text(code, port: port))]
        }
        return port == 0 ? [] : [Finding("listener", .ok, "\(name): port \(port) is free")]
    }

    private static func isAddress(_ text: String) -> Bool { (try? SocketAddress(ipAddress: text, port: 0)) != nil || text == "localhost" }
}

import AgentConfiguration
import DocumentStore
import Environment
import Glibc
import HTTPServer
import Logging
import NIOCore
import ServiceLifecycle

/// One side of the admin API (socket or TCP) as a service: bound when it runs, drained when the agent stops.
struct AdminListener: Service {
    let group: any EventLoopGroup
    let logger: Logger
    let memory: MemoryBudget
    let sockets: Int
    let respond: HTTPListener.Responder
    let addresses: @Sendable () async throws -> [HTTPListener.Address]
    /// Called once it accepts.
    let onBound: @Sendable (HTTPListener) async -> Void

    /// `max_sockets` of one side, if there are enough descriptors.
    static let maximumSockets = 128

    /// The limits of one side. A person, a few commands and a metrics scraper use it, and a gateway may have only 256 MB.
    static func limits(sockets: Int) -> HTTPLimits {
        var limits = HTTPLimits()
        limits.maxSockets = sockets
        limits.maxConnectionsPerAddress = sockets
        limits.maxHandshakes = max(2, sockets / 2)
        return limits
    }

    /// How long answers in progress may take when the agent stops. The two sides stop one after the other, and the peers' listeners
    /// need the rest of the five seconds.
    static let stopTime = TimeAmount.seconds(1)

    func run() async throws {
        var configuration = HTTPListener.Configuration()
        configuration.limits = Self.limits(sockets: sockets)
        configuration.memory = memory
        configuration.explainFailure = Self.explain
        let listener = try await HTTPListener.bind(try await addresses(), configuration, group: group, logger: logger, respond: respond)
        await onBound(listener)
        // It throws when the group is cancelled instead of shut down; the listener has to be closed either way.
        try? await gracefulShutdown()
        await listener.drain(within: Self.stopTime)
    }

    /// Maps an error to an HTTP status with the body `{"error": …, "reason": …}`.
    static func explain(_ error: any Error) -> HTTPError {
        switch error {
        case let error as AgentError:
            switch error.kind {
            case .notFound: HTTPError(404, error.message)
            case .conflict: HTTPError(409, error.message)
            case .invalid: HTTPError(400, error.message)
            case .configuration: HTTPError(400, error.message, error: "configuration")
            case .forbidden: HTTPError(403, error.message)
            case .notNow: HTTPError(503, error.message)
            case .tooLarge: HTTPError(413, error.message)
            case .outOfSpace: HTTPError(507, error.message, error: "insufficient_storage")
            case .failed: HTTPError(500, error.message, error: "failed")
            }
        case let error as StoreError: explain(AgentError(error.kind, "\(error)"))
        case let error as ConfigurationProblems: HTTPError(400, error.description, error: "configuration")
        case let error as ConfigurationProblem: HTTPError(400, error.description, error: "configuration")
        default: HTTPError(500, "\(error)", error: "failed")
        }
    }
}

/// The TCP side of the admin API.
struct AdminPort: Service {
    let listener: AdminListener
    let settings: AdminSettings

    func run() async throws {
        do { try await listener.run() } catch {
            throw AgentError(.failed, Self.problem(settings, (error as? IOError).map { Self.reason($0.errnoCode, settings) } ?? "\(error)"))
        }
    }

    /// Why an agent could not listen there if it started now, as far as that can be known without looking up names.
    ///
    /// - Parameter inForce: what the running agent has bound; its own ports are in nobody's way.
    static func obstacle(_ settings: AdminSettings, besides inForce: AgentSettings) -> ConfigurationProblem? {
        let (host, port) = (settings.address.value, settings.port.value)
        guard port != 0, !isHeld(host, port, by: inForce) else { return nil }
        let address = host == "localhost" ? "127.0.0.1" : host.hasPrefix("[") && host.hasSuffix("]") ? String(host.dropFirst().dropLast()) : host
        guard let address = try? SocketAddress(ipAddress: address, port: port), let code = PortProbe.obstacle(toBinding: address) else { return nil }
        return ConfigurationProblem(at: settings.port.position == .none ? settings.position : settings.port.position, problem(settings, reason(code, settings)))
    }

    private static func isHeld(_ host: String, _ port: Int, by inForce: AgentSettings) -> Bool {
        if inForce.listeners.contains(where: { $0.endpoint == nil && $0.port.value == port }) { return true }
        guard let own = inForce.admin, own.port.value == port else { return false }
        let wildcards = ["0.0.0.0", "::", "[::]"]
        return own.address.value == host || wildcards.contains(host) || wildcards.contains(own.address.value)
    }

    private static func reason(_ code: Int32, _ settings: AdminSettings) -> String {
        let holder =
            switch code {
            case EADDRINUSE: "\(PortHolder.advice(port: settings.port.value)); free it, or "
            case EACCES, EPERM: "\(PortHolder.permission(port: settings.port.value)); or "
            default: ""
            }
        return "\(String(cString: strerror(code))); \(holder)choose another `admin: { port }`, or 0 for any"
    }

    private static func problem(_ settings: AdminSettings, _ why: String) -> String {
        "admin port \(settings.address.value):\(settings.port.value): cannot listen: \(why)"
    }
}

import AgentConfiguration
import DocumentStore
import Environment
import Glibc
import HTTPServer
import Logging
import NIOCore
import ServiceLifecycle

/// One side of the admin API as a service: bound when it runs, drained when the agent stops.
struct AdminListener: Service {
    let group: any EventLoopGroup
    let logger: Logger
    let memory: MemoryBudget
    let sockets: Int
    let respond: HTTPListener.Responder
    let addresses: @Sendable () async throws -> [HTTPListener.Address]
    /// Called once it accepts.
    let onBound: @Sendable (HTTPListener) async -> Void

    /// `max_sockets` of one side, where there are descriptors enough.
    static let maximumSockets = 128

    /// What one side holds at most. A person, a few commands and a scraper use it; a gateway has 256 MB.
    static func limits(sockets: Int) -> HTTPLimits {
        var limits = HTTPLimits()
        limits.maxSockets = sockets
        limits.maxConnectionsPerAddress = sockets
        limits.maxHandshakes = max(2, sockets / 2)
        return limits
    }

    /// How long answers that are under way may take when the agent stops. Both sides stop one after the other, and the peers' listeners
    /// need the rest of the five seconds.
    static let stopTime = TimeAmount.seconds(1)

    func run() async throws {
        var configuration = HTTPListener.Configuration()
        configuration.limits = Self.limits(sockets: sockets)
        configuration.memory = memory
        configuration.explainFailure = Self.explain
        let listener = try await HTTPListener.bind(try await addresses(), configuration, group: group, logger: logger, respond: respond)
        await onBound(listener)
        // Thrown when the group is cancelled rather than stopped in order; the listener has to go either way.
        try? await gracefulShutdown()
        await listener.drain(within: Self.stopTime)
    }

    /// `{"error": …, "reason": …}` with the status that fits.
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
            case .noRoom: HTTPError(507, error.message, error: "insufficient_storage")
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
            var why = "\(error)"
            if let error = error as? IOError {
                let holder = error.errnoCode == EADDRINUSE ? "\(PortHolder.advice(port: settings.port.value)); free it, or " : ""
                why = "\(String(cString: strerror(error.errnoCode))); \(holder)choose another `admin: { port }`, or 0 for any"
            }
            throw AgentError(.failed, "admin port \(settings.address.value):\(settings.port.value): cannot listen: \(why)")
        }
    }
}

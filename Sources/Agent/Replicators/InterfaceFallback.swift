import Interfaces
import Logging
import Transport

/// Connects over the first network interface that reaches the other side: for example a wired one, or a modem while that is down.
struct InterfaceFallback: TransportConnector {
    struct Way: Sendable {
        var interface: String
        var connector: any TransportConnector
    }

    /// In the order in which they are tried for each connection.
    let ways: [Way]
    let logger: Logger

    func connect() async throws -> any MessageTransport { try await reach(nil).transport }

    func reach(_ remote: String?) async throws -> ReachedRemote {
        var failures: [ReplicationError] = []
        for way in ways {
            do {
                let reached = try await way.connector.reach(remote)
                if !failures.isEmpty { logger.notice("connected over \(way.interface): the other side cannot be reached over the interfaces listed before it") }
                return reached
            } catch let error as ReplicationError where error.domain == .network {
                // An answer, even a refusal, means that the other side was reached.
                try Task.checkCancellation()
                failures.append(error)
            }
        }
        // Prefers a transient error, which is retried soon, whatever is wrong with the other interfaces.
        guard var error = failures.first(where: \.isTransient) ?? failures.last else { throw ReplicationError(network: .unknownInterface, message: "network_interface names none") }
        error.message = zip(ways, failures).map { "over \($0.interface): \($1.message)" }.joined(separator: "; ")
        throw error
    }
}

import DocumentStore
import Environment
import Interfaces
import Logging
import NIOCore
import NIOPosix
import Replication
import Transport

/// The passive side: a database behind a real WebSocket listener on loopback.
final class Hub: ListenerDelegate {
    let database: Database
    private let memory: MemoryBudget
    private let limits: ReplicationLimits
    private let logger: Logger

    private init(_ database: Database, _ memory: MemoryBudget, _ logger: Logger) {
        self.database = database
        self.memory = memory
        var limits = ReplicationLimits()
        limits.maximumBlobBytes = 1 << 40
        self.limits = limits
        self.logger = logger
    }

    /// - Parameters:
    ///   - secure: the folder of the ``BenchIdentity`` to present; nil for clear text.
    ///   - connections: how many it must accept, all from one address.
    static func open(
        _ database: Database, group: any EventLoopGroup, secure: String? = nil, connections: Int = 100, memory: Int = 64
    ) async throws -> (hub: Hub, listener: WebSocketListener) {
        let logger = quietLogger("hub")
        let hub = Hub(database, MemoryBudget(limit: memory << 20), logger)
        var configuration = WebSocketListener.Configuration(interface: "127.0.0.1", port: 0)
        configuration.secureLayer = try secure.map { try BenchIdentity(folder: $0).server() }
        configuration.limits.maxConnections = max(configuration.limits.maxConnections, connections)
        configuration.limits.http.maxConnectionsPerAddress = max(configuration.limits.http.maxConnectionsPerAddress, connections)
        let listener = try await WebSocketListener.bind(configuration, delegate: hub, group: group, logger: logger)
        return (hub, listener)
    }

    func authorize(_ request: UpgradeRequest) async -> UpgradeDecision { .accept() }

    func accepted(_ transport: any MessageTransport, request: UpgradeRequest, context: (any Sendable)?) {
        let session = ReplicationSession(
            transport: transport, role: .passive(PassiveConfiguration(listener: "bench", database: database, limits: limits)), environment: .system, memory: memory,
            logger: logger)
        Task { await session.start() }
    }
}

/// Logs only problems.
func quietLogger(_ label: String) -> Logger {
    var logger = Logger(label: label) { StreamLogHandler.standardError(label: $0) }
    logger.logLevel = .warning
    return logger
}

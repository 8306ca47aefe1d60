import DocumentStore
import Logging
import NIOCore
import NIOPosix
import Replication
import Transport

/// The passive side: a database behind a real WebSocket listener on loopback.
final class Hub: ListenerDelegate {
    let database: Database
    private let logger: Logger

    private init(_ database: Database, _ logger: Logger) {
        self.database = database
        self.logger = logger
    }

    static func open(_ database: Database, group: any EventLoopGroup) async throws -> (hub: Hub, listener: WebSocketListener) {
        let logger = quietLogger("hub")
        let hub = Hub(database, logger)
        let listener = try await WebSocketListener.bind(
            .init(interface: "127.0.0.1", port: 0), delegate: hub, group: group, logger: logger)
        return (hub, listener)
    }

    func authorize(_ request: UpgradeRequest) async -> UpgradeDecision { .accept() }

    func accepted(_ transport: any MessageTransport, request: UpgradeRequest, context: (any Sendable)?) {
        let session = ReplicationSession(
            transport: transport, role: .passive(PassiveConfiguration(listener: "bench", database: database)), logger: logger)
        Task { await session.start() }
    }
}

/// Says only what is wrong.
func quietLogger(_ label: String) -> Logger {
    var logger = Logger(label: label) { StreamLogHandler.standardError(label: $0) }
    logger.logLevel = .warning
    return logger
}

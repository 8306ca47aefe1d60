import DocumentStore
import Environment
import Interfaces
import Logging
import NIOCore
import Replication
import Transport

/// The databases of this agent, for replicators between them.
struct LocalDatabases: Sendable {
    var find: @Sendable (String) -> Database?
    var conflicts: @Sendable (String) -> ConflictPolicy
    /// Called for each conflict that is decided in them.
    var conflictObserver: ConflictObserver
}

/// Connects to another database of this agent: both sides of the protocol run here, joined in memory.
struct LocalConnector: TransportConnector {
    let from: String
    let to: String
    let databases: LocalDatabases
    let limits: ReplicationLimits
    let memory: MemoryBudget
    let group: any EventLoopGroup
    let environment: Environment
    let logger: Logger

    func connect() async throws -> any MessageTransport {
        // It is being reopened, or the agent is stopping.
        guard let database = databases.find(to) else {
            throw ReplicationError(domain: .http, code: 503, message: "local:\(to): the database is not open")
        }
        let usesVersions = database.hasVersions || databases.find(from)?.hasVersions == true
        let subprotocol = usesVersions ? Subprotocol.generation4 : .generation3
        let (active, passive) = InMemoryTransport.pair(
            group.next(), group.next(), names: ("local:\(from)", "local:\(to)"), subprotocol: subprotocol)
        var configuration = PassiveConfiguration(
            listener: "local", database: database, principal: Principal(name: "local:\(from)"), subprotocol: subprotocol, limits: limits)
        let conflicts = databases.conflicts(to)
        configuration.resolver = conflicts.resolver
        configuration.shadow = conflicts.shadow
        configuration.conflictObserver = databases.conflictObserver
        let session = ReplicationSession(
            transport: passive, role: .passive(configuration), environment: environment, memory: memory, logger: logger)
        await session.start()
        return active
    }
}

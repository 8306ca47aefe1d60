import Agent
import AgentConfiguration
import DocumentStore
import Interfaces
import Replication
import Synchronization

/// The resolver for a database that no agent has open, loaded at the first conflict: commands on a folder decide as the agent would.
actor FolderResolver: ConflictResolver {
    nonisolated let pluginName: String
    private nonisolated let loaded = Mutex("")
    nonisolated var version: String { loaded.withLock { $0 } }
    private let reference: PluginReference
    private let database: Database
    private var resolver: (any ConflictResolver)?
    private let plugins: FolderPlugins

    init(_ reference: PluginReference, settings: AgentSettings, database: Database) {
        pluginName = reference.plugin.value
        self.reference = reference
        self.database = database
        plugins = FolderPlugins(settings, database)
    }

    /// Decides saves to a collection of the database; nil if its configuration names no resolver.
    static func saves(_ settings: AgentSettings, _ database: Database, _ collection: Collection) -> SaveDecider? {
        settings.database(named: database.name)?.conflictResolver.map { saves(by: $0, settings, database, collection) }
    }

    static func saves(by reference: PluginReference, _ settings: AgentSettings, _ database: Database, _ collection: Collection) -> SaveDecider {
        SaveDecider(
            ConflictDecider(
                database: database, collection: collection,
                resolver: FolderResolver(reference, settings: settings, database: database),
                context: .save(database.name, collection.name)))
    }

    func resolve(_ conflict: PolicyConflict, _ context: PolicyContext) async -> ConflictDecision {
        do {
            return await (try await load()).resolve(conflict, context)
        } catch {
            return .failed(PolicyFailure(plugin: pluginName, version: "", kind: "plugin_load", message: "\(error)"))
        }
    }

    private func load() async throws -> any ConflictResolver {
        if let resolver { return resolver }
        let made = try await plugins.source().resolver(reference, usedBy: "database \(database.name) conflict_resolver")
        loaded.withLock { $0 = made.version }
        resolver = made
        return made
    }

    nonisolated func versionChanges() -> AsyncStream<String> { AsyncStream { $0.finish() } }
}

import Agent
import AgentConfiguration
import DocumentStore
import Interfaces

/// The `validate` plugin for a database that no agent has open: commands on a folder refuse what the agent would.
actor FolderValidation: SyncFunction {
    nonisolated let pluginName: String
    nonisolated let version = ""
    private let reference: PluginReference
    private let plugins: FolderPlugins
    private let usedBy: String
    private var function: (any SyncFunction)?

    private init(_ reference: PluginReference, _ settings: AgentSettings, _ database: Database) {
        pluginName = reference.plugin.value
        // A candidate has nothing to report in a command that ends at once.
        self.reference = reference.withoutShadow
        plugins = FolderPlugins(settings, database)
        usedBy = "database \(database.name) validate"
    }

    /// Nil if the database's configuration names none.
    static func of(_ settings: AgentSettings, _ database: Database, _ collection: Collection) -> LocalValidation? {
        guard let reference = settings.database(named: database.name)?.validate else { return nil }
        return LocalValidation(database, collection, FolderValidation(reference, settings, database))
    }

    func assign(_ requests: [SyncRequest], _ context: PolicyContext) async -> [SyncVerdict] {
        do {
            let function: any SyncFunction
            if let loaded = self.function { function = loaded } else { function = try await plugins.source().syncFunction(reference, usedBy: usedBy) }
            self.function = function
            return await function.assign(requests, context)
        } catch {
            let failure = PolicyFailure(plugin: pluginName, version: "", kind: "plugin_load", message: "\(error)")
            return requests.map { _ in .failed(failure) }
        }
    }

    nonisolated func versionChanges() -> AsyncStream<String> { AsyncStream { $0.finish() } }
}

import Agent
import AgentConfiguration
import Documents
import DocumentStore
import Interfaces
import LuaRuntime
import PluginHost

/// The `validate` plugin for a database that no agent has open: commands on a folder refuse what the agent would.
actor FolderValidation: SyncFunction {
    nonisolated let pluginName: String
    nonisolated let version = ""
    private let reference: PluginReference
    private let plugins: FolderPlugins
    private let usedBy: String
    private var function: (any SyncFunction)?

    private init(_ reference: PluginReference, _ plugins: FolderPlugins, database: String) {
        pluginName = reference.plugin.value
        // A candidate has nothing to report in a command that ends at once.
        self.reference = reference.withoutShadow
        self.plugins = plugins
        usedBy = "database \(database) validate"
    }

    /// Nil if the database's configuration names none.
    static func of(_ settings: AgentSettings, _ database: Database, _ collection: Collection) -> LocalValidation? {
        guard let reference = settings.database(named: database.name)?.validate else { return nil }
        return LocalValidation(database, collection, FolderValidation(reference, FolderPlugins(settings, database), database: database.name))
    }

    /// Judges what is to be the first document of something that does not exist yet; nil if the database's configuration names no plugin.
    ///
    /// - Parameters:
    ///   - collection: where documents go that name no other one.
    ///   - database: nil if it does not exist yet.
    static func first(_ settings: AgentSettings, of absent: DocumentAccess.Absent, _ collection: CollectionName, _ database: Database?) -> DocumentAccess.FirstJudge? {
        let name = absent.databaseName
        guard let reference = settings.database(named: name)?.validate else { return nil }
        let plugins = FolderPlugins(settings, services: AbsentServices(absent: absent, database: database))
        let function = FolderValidation(reference, plugins, database: name)
        return { write, other in await LocalValidation.refusal(ofFirst: write, database: name, other ?? collection, by: function) }
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

/// What plugins may read while they judge the first document of a database or collection that does not exist yet: as if it existed, and were empty.
private struct AbsentServices: PluginServices {
    let absent: DocumentAccess.Absent
    /// Nil if it does not exist yet.
    let database: Database?

    private var others: DatabaseServices {
        DatabaseServices { [database] name in
            guard let database, database.name.utf8.elementsEqual(name.utf8) else { return nil }
            return database
        }
    }

    func document(database name: String, collection: CollectionName, id: DocumentID) throws(PluginServiceRefusal) -> PolicyDocument? {
        if absent.databaseName.utf8.elementsEqual(name.utf8) {
            guard case .collection(let own, _) = absent, own != collection else { return nil }
        }
        return try others.document(database: name, collection: collection, id: id)
    }

    func readState(plugin: String, key: String) throws(PluginServiceRefusal) -> LuaValue { try others.readState(plugin: plugin, key: key) }
    func writeState(plugin: String, key: String, value: LuaValue) throws(PluginServiceRefusal) { try others.writeState(plugin: plugin, key: key, value: value) }
}

import Agent
import AgentConfiguration
import DocumentStore
import Logging
import PluginHost

/// The plugins for a database that no agent has open, loaded when they are first needed.
actor FolderPlugins {
    private let settings: AgentSettings
    private let database: Database
    private var host: PluginHost?

    init(_ settings: AgentSettings, _ database: Database) { (self.settings, self.database) = (settings, database) }

    func source() async throws -> PolicySource {
        if host == nil, let folder = settings.plugins?.value {
            let database = database
            let made = try PluginHost(
                folder: folder, configurationFolder: settings.folder, limits: PluginHostLimits(settings.pluginLimits),
                services: DatabaseServices { $0.utf8.elementsEqual(database.name.utf8) ? database : nil },
                seal: { [settings] in settings.pluginSeal }, logger: Logger(label: "plugin") { _ in SwiftLogNoOpLogHandler() }, environment: .system)
            host = made
            await made.start()
        }
        return PolicySource(settings: settings, plugins: host)
    }
}

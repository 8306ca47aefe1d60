import Agent
import AgentConfiguration
import DocumentStore
import Logging
import PluginHost

/// The plugins for a database that no agent has open, loaded when they are first needed.
actor FolderPlugins {
    private let settings: AgentSettings
    private let services: any PluginServices
    private var host: PluginHost?

    init(_ settings: AgentSettings, _ database: Database) {
        self.init(settings, services: DatabaseServices { $0.utf8.elementsEqual(database.name.utf8) ? database : nil })
    }

    init(_ settings: AgentSettings, services: any PluginServices) { (self.settings, self.services) = (settings, services) }

    func source() async throws -> PolicySource {
        if host == nil, let folder = settings.plugins?.value {
            let made = try PluginHost(
                folder: folder, configurationFolder: settings.folder, limits: PluginHostLimits(settings.pluginLimits),
                services: services,
                seal: { [settings] in settings.pluginSeal }, logger: Logger(label: "plugin") { _ in SwiftLogNoOpLogHandler() }, environment: .system)
            host = made
            await made.start()
        }
        return PolicySource(settings: settings, plugins: host)
    }
}

import AgentConfiguration
import Documents
import DocumentStore
import Environment
import Interfaces
import Logging
import PluginHost
import Synchronization

extension Agent {
    func loadPlugins(_ settings: AgentSettings) async throws {
        try openFleetStore(settings)
        try await startPlugins(settings)
    }

    /// Starts plugins, if they have a folder and are not running yet.
    func startPlugins(_ settings: AgentSettings) async throws {
        guard plugins == nil, let (folder, isOperators) = settings.pluginsPlace else { return }
        if !isOperators { try Folders.make(folder) }
        let logger = logs.logger(.plugin)
        let limits = PluginHostLimits(settings.pluginLimits)
        let states = PluginStateFiles(folder: "\(settings.data.value)/plugin-state", time: environment.time) { logger.error("\($0)") }
        pluginStates = states
        let host = try PluginHost(
            folder: folder, configurationFolder: settings.folder, limits: limits,
            services: DatabaseServices(states: states, meters: meters) { [weak self] in self?.database($0) }, proof: ProofByTests(),
            versionsFolder: settings.pluginVersionsFolder, supplied: { [weak self] in self?.fleetStore?.plugins ?? [] },
            seal: { [weak self] in self?.settings.pluginSeal }, logger: logger, environment: environment)
        shared.withLock { $0.plugins = host }
        await host.start(
            using: Set(ConfigurationCheck.uses(settings, []).map(\.0.plugin.value)), barring: fleetStore?.distrustedPlugins ?? [])
        let events = host.events()
        pluginWatch = Task { [weak self] in
            for await event in events {
                guard let self else { return }
                pluginEvents.send(event)
                self.note(event)
                switch event {
                case .reloaded, .restored, .returned, .loaded, .parameterFileChanged, .recovered: await self.retryConflicts()
                default: break
                }
            }
        }
    }
}

import AgentConfiguration
import Documents
import LuaRuntime
import PluginHost

/// `nightjar check`: everything that `run` would stumble over, without starting anything.
public enum ConfigurationCheck {
    /// What was found: problems of the configuration and of the plugins, and the plugins that are fine.
    public struct Report: Sendable {
        public var problems: [String] = []
        public var plugins: [PluginListing] = []
    }

    public static func run(_ settings: AgentSettings) async throws -> Report {
        var report = Report()
        for problem in obstacles(settings) { report.problems.append(problem.description) }
        guard let folder = settings.plugins?.value else {
            for (reference, _, usedBy) in uses(settings) {
                report.problems.append(
                    ConfigurationProblem(
                        at: reference.plugin.position, "\(usedBy): there is no plugins folder that could hold \"\(reference.plugin.value)\""
                    ).description)
            }
            return report
        }
        let check = try await PluginCheck.run(
            folder: folder, configurationFolder: settings.folder, limits: PluginHostLimits(settings.pluginLimits),
            proof: ProofByTests())
        report.plugins = check.plugins
        report.problems += check.problems.map(\.description)
        for (reference, hook, usedBy) in uses(settings) {
            if let error = check.problem(
                plugin: reference.plugin.value, hook: hook, params: LuaValue(reference.params), usedBy: usedBy)
            {
                // A plugin that does not load is named once, with its own file and line.
                if case .refused = error { continue }
                report.problems.append(ConfigurationProblem(at: reference.place(of: error), "\(error)").description)
            }
        }
        return report
    }

    /// Each place that names a plugin, with the hook it needs.
    static func uses(_ settings: AgentSettings) -> [(PluginReference, LuaHook, String)] {
        var uses: [(PluginReference, LuaHook, String)] = []
        for database in settings.databases {
            if let resolver = database.conflictResolver { uses.append((resolver, .resolve, "database \(database.name.value) conflict_resolver")) }
        }
        for listener in settings.listeners {
            let name = "listener \(listener.name.value)"
            if let reference = listener.authenticator { uses.append((reference, .authenticatePassword, "\(name) authenticator")) }
            if let reference = listener.pushFilter { uses.append((reference, .pushFilter, "\(name) push_filter")) }
            if let reference = listener.pullFilter { uses.append((reference, .pullFilter, "\(name) pull_filter")) }
        }
        for replicator in settings.replicators {
            let name = "replicator \(replicator.name.value)"
            for collection in replicator.collections {
                if let reference = collection.pushFilter { uses.append((reference, .pushFilter, "\(name) push_filter")) }
                if let reference = collection.pullFilter { uses.append((reference, .pullFilter, "\(name) pull_filter")) }
                if let reference = collection.conflictResolver { uses.append((reference, .resolve, "\(name) conflict_resolver")) }
            }
        }
        return uses
    }

    /// Settings that are valid and that this version cannot carry out. Saying so beats doing something else.
    static func unavailable(_ settings: AgentSettings) -> [ConfigurationProblem] {
        var problems: [ConfigurationProblem] = []
        for listener in settings.listeners {
            if !listener.disableTLS.value {
                let position = listener.disableTLS.position == .none ? listener.position : listener.disableTLS.position
                problems.append(
                    ConfigurationProblem(
                        at: position,
                        "listener \"\(listener.name.value)\": TLS is not available in this version; write \"disable_tls: true\" to serve in clear text"))
            }
            if let sync = listener.sync {
                problems.append(ConfigurationProblem(at: sync.position, "listener \"\(listener.name.value)\": sync plugins are not available in this version"))
            }
        }
        for replicator in settings.replicators {
            if replicator.target.value.scheme != .ws {
                problems.append(
                    ConfigurationProblem(
                        at: replicator.target.position, ReplicatorBuilding.unsupported(replicator.target.value.scheme)))
            }
            if let identity = replicator.authenticator?.identity {
                problems.append(ConfigurationProblem(at: identity.position, "client certificates need TLS, which this version does not speak yet"))
            }
            for collection in replicator.collections {
                for id in collection.documentIDs {
                    do { _ = try DocumentID(id.value) } catch { problems.append(ConfigurationProblem(at: id.position, "\(error)")) }
                }
            }
        }
        return problems
    }
}

import Agent
import AgentConfiguration
import Documents
import LuaRuntime
import PluginHost

/// The parameters that a configuration gives a plugin, for trying the plugin out.
struct ConfiguredParameters: Sendable {
    var params: LuaValue
    /// For example `replicator hub push_filter`.
    var usedBy: String
    /// Places that give it different parameters.
    var others: [String]

    /// The parameters at the first place that uses the plugin for a hook; nil if there is none.
    ///
    /// - Parameter database: places for this database come first.
    static func of(_ plugin: String, hook: LuaHook, in settings: AgentSettings, database: String? = nil) -> ConfiguredParameters? {
        // Which of these hooks an authenticator or observer has makes no difference to its parameters.
        let same: [LuaHook] = [[.authenticatePassword, .authenticateCertificate], [.token, .getSession], [.onStatus, .onDocuments]].first { $0.contains(hook) } ?? [hook]
        let uses = ConfigurationCheck.uses(settings, []).filter { reference, wanted, _ in
            reference.plugin.value.utf8.elementsEqual(plugin.utf8) && same.contains(wanted)
        }.map { (params: LuaValue($0.params), usedBy: $2) }
        let near = database.flatMap { name in uses.first { isOf(name, $0.usedBy, settings) } }
        guard let found = near ?? uses.first else { return nil }
        let others = uses.filter { $0.params != found.params }.map(\.usedBy)
        return ConfiguredParameters(params: found.params, usedBy: found.usedBy, others: others)
    }

    private static func isOf(_ database: String, _ usedBy: String, _ settings: AgentSettings) -> Bool {
        let words = usedBy.split(separator: " ").map(String.init)
        guard words.count > 1 else { return false }
        switch words[0] {
        case "database": return words[1] == database
        case "replicator": return settings.replicators.contains { $0.name.value == words[1] && $0.database.value == database }
        default: return settings.listeners.contains { $0.name.value == words[1] && $0.databases.contains { $0.value == database } }
        }
    }

    /// A sentence that says which parameters are used.
    var sentence: String {
        let shown = params == .missing ? "none" : params.json.text
        let rest = others.isEmpty ? "" : "; \(others.joined(separator: ", ")) gives it others: --params chooses"
        return "parameters of \(usedBy): \(shown)\(rest)"
    }
}

import LuaRuntime

/// Why a plugin cannot be used at a place.
package enum PluginError: Error, Sendable, Equatable, CustomStringConvertible {
    /// No such file. `nearest` is an existing plugin that was probably meant.
    case unknown(plugin: String, folder: String, nearest: String?)
    /// The name is not valid for a plugin.
    case invalidName(String)
    /// The file exists, but no version of it could be loaded.
    case refused(plugin: String, problem: PluginProblem)
    /// The plugin has no such hook.
    case noHook(plugin: String, file: String, hook: String, has: [String], usedBy: String)
    case parameters(plugin: String, file: String, problems: [ParameterProblem], usedBy: String)
    /// A named limit of the host was exceeded.
    case limit(name: String, limit: Int, plugin: String)
    /// No such version can be put in force again; `kept` lists those that can.
    case noVersion(plugin: String, wanted: String?, kept: [String])
    case hostStopped
    /// The system refused a resource that the host needs.
    case system(String)

    package var description: String {
        switch self {
        case .unknown(let plugin, let folder, let nearest):
            "there is no plugin \"\(plugin)\" in \(folder): expected \(plugin).lua or \(plugin)/init.lua"
                + (nearest.map { "; did you mean \($0)?" } ?? "")
        case .invalidName(let name):
            "\"\(name)\" cannot be the name of a plugin: \(PluginName.rule)"
        case .refused(let plugin, let problem):
            "plugin \"\(plugin)\" could not be loaded: \(problem)"
        case .noHook(let plugin, let file, let hook, let has, let usedBy):
            "\(usedBy): plugin \"\(plugin)\" (\(file)) has no \(Self.wanted(hook, has)); it has \(has.isEmpty ? "no hooks" : has.joined(separator: ", "))"
        case .parameters(let plugin, let file, let problems, let usedBy):
            "\(usedBy): plugin \"\(plugin)\" (\(file)): " + problems.map(\.description).joined(separator: "; ")
        case .limit(let name, let limit, let plugin):
            "plugin \"\(plugin)\": the limit \(name) = \(limit) is reached"
        case .noVersion(let plugin, let wanted, let kept):
            (wanted.map { "no kept version of plugin \"\(plugin)\" begins with \"\($0)\"" }
                ?? "plugin \"\(plugin)\" has no version before the one in force")
                + "; kept are \(kept.isEmpty ? "none" : kept.joined(separator: ", "))"
        case .hostStopped:
            "the plugin host has been stopped"
        case .system(let message):
            message
        }
    }
}

extension PluginError {
    /// What the plugin lacks: if a place accepts one of several hooks, the error names the first.
    private static func wanted(_ hook: String, _ has: [String]) -> String {
        let alternativeHooks: [(LuaHook, LuaHook)] = [(.token, .getSession), (.onStatus, .onDocuments)]
        for (first, second) in alternativeHooks where first.rawValue == hook {
            if !has.contains(second.rawValue) { return "\(hook) and no \(second.rawValue)" }
        }
        return hook
    }

    private static func need(_ hook: String, _ usedBy: String) -> String {
        guard let one = LuaHook(rawValue: hook), LuaHook.observing.contains(one) else { return "\(usedBy) needs \(hook), which this version does not have" }
        let place = usedBy.hasSuffix(" \(hook)") ? String(usedBy.dropLast(hook.count + 1)) : usedBy
        return "\(place) needs on_status or on_documents, and this version has neither"
    }

    /// What a use lacks in a new version, for the version's refusal.
    var reasonForRefusal: String {
        switch self {
        case .noHook(_, _, let hook, let has, let usedBy):
            "\(Self.need(hook, usedBy)); it has \(has.isEmpty ? "no hooks" : has.joined(separator: ", "))"
        case .parameters(_, _, let problems, let usedBy):
            "\(usedBy): " + problems.map(\.description).joined(separator: "; ")
        default: description
        }
    }
}

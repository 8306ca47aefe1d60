/// What happened to a plugin, for logs, status and event streams.
package enum PluginEvent: Sendable, Equatable {
    /// The first version of a plugin is in force.
    case loaded(plugin: String, version: String)
    /// Another version is in force, for all uses at the same moment.
    case reloaded(plugin: String, from: String, to: String)
    /// A version was refused; `serving` is the one that stays in force, if any.
    case refused(plugin: String, version: String, serving: String?, problem: PluginProblem)
    /// A plugin in use has been removed; its last version keeps serving.
    case missing(plugin: String, serving: String)
    /// A missing plugin is back, unchanged.
    case returned(plugin: String, version: String)
    /// A refused file has been changed back to what is in force.
    case restored(plugin: String, version: String)
    /// A plugin that was not in use has been removed.
    case removed(plugin: String)
    /// A file given as a parameter changed, and its new text is in force.
    case parameterFileChanged(plugin: String, usedBy: String, parameter: String)
    /// A file given as a parameter can no longer be read; its last text stays in force.
    case parameterFileRefused(plugin: String, usedBy: String, parameter: String, message: String)
    /// The first failure of its kind in this version; `status()` counts all of them.
    case failed(plugin: String, version: String, kind: String, message: String)
    /// An operator put an older version in force; accompanied by a `reloaded` event.
    case rolledBack(plugin: String, from: String, to: String)
    /// A use has failed so often in a row that it is now only probed occasionally.
    case failing(plugin: String, version: String, usedBy: String, failures: Int, message: String)
    /// A failing use has answered again.
    case recovered(plugin: String, version: String, usedBy: String)
    /// What a rollback would need could not be stored.
    case notKept(plugin: String, version: String, message: String)
    /// A problem in the folder that does not concern a particular plugin.
    case folder(PluginProblem)
}

extension PluginEvent {
    /// The plugin concerned; nil for the folder.
    package var plugin: String? {
        switch self {
        case .loaded(let plugin, _), .reloaded(let plugin, _, _), .refused(let plugin, _, _, _), .missing(let plugin, _),
            .returned(let plugin, _), .restored(let plugin, _), .removed(let plugin), .parameterFileChanged(let plugin, _, _),
            .parameterFileRefused(let plugin, _, _, _), .failed(let plugin, _, _, _), .rolledBack(let plugin, _, _),
            .failing(let plugin, _, _, _, _), .recovered(let plugin, _, _), .notKept(let plugin, _, _):
            plugin
        case .folder(let problem): problem.plugin
        }
    }
}

/// What happened to a plugin, for logs, status and event streams.
package enum PluginEvent: Sendable, Equatable {
    /// First version of a plugin in force.
    case loaded(plugin: String, version: String)
    /// Another version in force, for all uses at one moment.
    case reloaded(plugin: String, from: String, to: String)
    /// A version that is not taken; `serving` is the one that stays in force, if there is one.
    case refused(plugin: String, version: String, serving: String?, problem: PluginProblem)
    /// A plugin in use has been removed; its last version keeps serving.
    case missing(plugin: String, serving: String)
    /// A missing plugin is back, unchanged.
    case returned(plugin: String, version: String)
    /// A refused file is again what is in force.
    case restored(plugin: String, version: String)
    /// A plugin that nothing uses has been removed.
    case removed(plugin: String)
    /// A file given as a parameter changed, and its new text is in force.
    case parameterFileChanged(plugin: String, usedBy: String, parameter: String)
    /// A file given as a parameter cannot be read any more; its last text stays in force.
    case parameterFileRefused(plugin: String, usedBy: String, parameter: String, message: String)
    /// The first failure of its kind of this version; `status()` counts all.
    case failed(plugin: String, version: String, kind: String, message: String)
    /// An older version is in force by the operator's word; a `reloaded` comes with it.
    case rolledBack(plugin: String, from: String, to: String)
    /// A use has failed so often in a row that it is not called any more but once in a while.
    case failing(plugin: String, version: String, usedBy: String, failures: Int, message: String)
    /// A use that was failing has answered.
    case recovered(plugin: String, version: String, usedBy: String)
    /// The disk refuses what a rollback would need.
    case notKept(plugin: String, version: String, message: String)
    /// Something in the folder that is no plugin's.
    case folder(PluginProblem)
}

extension PluginEvent {
    /// The plugin it is about; nil for the folder.
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

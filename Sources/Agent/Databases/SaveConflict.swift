import Documents
import Replication

/// What a save does if the document is no longer at the revision that the save names: `on_conflict`, given with each save.
package enum SaveConflict: Sendable, Equatable {
    /// The database's resolver decides; without one, the save is refused.
    case resolve
    /// The save is refused, even if there is a resolver.
    case fail
    /// The saved body becomes current, whatever is stored.
    case overwrite
    /// This plugin's resolver decides.
    case plugin(String)

    private static let prefix = "plugin:"

    /// - Throws: `AgentError` that lists the choices.
    package init(_ text: String) throws(AgentError) {
        switch text {
        case "resolve": self = .resolve
        case "fail": self = .fail
        case "overwrite": self = .overwrite
        default:
            let name = text.hasPrefix(Self.prefix) ? String(text.dropFirst(Self.prefix.utf8.count)) : ""
            guard !name.isEmpty else {
                throw AgentError(.invalid, "on_conflict must be resolve, fail, overwrite or plugin:NAME, not \"\(text)\"")
            }
            self = .plugin(name)
        }
    }
}

extension DocumentAccess {
    /// What decides about a conflicting save; nil if it is refused.
    func decider(_ conflict: SaveConflict) throws -> SaveDecider? {
        switch conflict {
        case .resolve: return saves
        case .fail, .overwrite: return nil
        case .plugin(let name):
            guard let saveDeciderFor else { throw AgentError(.invalid, "on_conflict: there are no plugins here") }
            return try saveDeciderFor(name)
        }
    }
}

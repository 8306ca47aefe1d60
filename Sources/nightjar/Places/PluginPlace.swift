import Agent
import AgentConfiguration

/// Where a plugin is that somebody names: in the plugins folder, or by its file anywhere.
struct PluginPlace {
    var folder: String
    var name: String
    /// It was named by its file, so that nothing of the plugins folder, such as signatures, counts for it.
    var isElsewhere: Bool

    /// - Parameter text: `NAME`, `a/path/NAME.lua`, `a/path/NAME/init.lua` or `a/path/NAME`.
    /// - Throws: ``AgentError`` for a name if there is no plugins folder.
    init(_ text: String, _ settings: AgentSettings) throws {
        isElsewhere = text.hasSuffix(".lua") || text.utf8.contains(UInt8(ascii: "/"))
        guard isElsewhere else {
            (folder, name) = (try PluginCommand.folder(settings), text)
            return
        }
        var parts = text.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false).map { String(Substring($0)) }
        if parts.count > 1, parts.last?.isEmpty == true { parts.removeLast() }
        if parts.count > 1, parts.last?.utf8.elementsEqual("init.lua".utf8) == true { parts.removeLast() }
        let last = parts.removeLast()
        name = last.hasSuffix(".lua") ? String(last.dropLast(4)) : last
        let path = parts.joined(separator: "/")
        folder = !path.isEmpty ? path : parts.isEmpty ? "." : "/"
    }
}

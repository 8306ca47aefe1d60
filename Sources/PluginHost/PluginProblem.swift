/// A problem with a file in the plugins folder.
package struct PluginProblem: Error, Sendable, Equatable, CustomStringConvertible {
    /// Nil if the problem concerns the folder.
    package var plugin: String?
    /// Relative to the plugins folder, such as "by-owner.lua" or "lib/geo.lua"; empty for the folder itself.
    package var file: String
    package var line: Int?
    package var message: String

    package init(plugin: String? = nil, file: String, line: Int? = nil, message: String) {
        self.plugin = plugin
        self.file = file
        self.line = line
        self.message = message
    }

    /// Whether it is a signature that is missing or wrong.
    package var isOfSignature: Bool { file.utf8.suffix(PluginSeal.suffix.utf8.count).elementsEqual(PluginSeal.suffix.utf8) }

    /// `file:line: message`.
    package var description: String {
        if file.isEmpty { return message }
        return line.map { "\(file):\($0): \(message)" } ?? "\(file): \(message)"
    }

    /// Splits `file:line:` off a Lua message, for display only; no decision depends on it.
    init(plugin: String, luaMessage: String, fallbackFile: String) {
        let own = "\(fallbackFile): "
        let luaMessage = luaMessage.utf8.starts(with: own.utf8) ? String(luaMessage.dropFirst(own.count)) : luaMessage
        let parts = luaMessage.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
        if parts.count == 3, parts[0].utf8.suffix(4).elementsEqual(".lua".utf8), let line = Int(parts[1]) {
            self.init(plugin: plugin, file: String(parts[0]), line: line, message: String(parts[2].drop { $0 == " " }))
        } else {
            self.init(plugin: plugin, file: fallbackFile, message: luaMessage)
        }
    }
}

/// A parameter of one use that does not match the plugin's declaration.
package struct ParameterProblem: Error, Sendable, Equatable, CustomStringConvertible {
    package var parameter: String
    /// A complete sentence without a position; the configuration check prepends file and line.
    package var message: String
    /// The declared parameter or allowed value that was probably meant.
    package var nearest: String?

    package init(parameter: String, message: String, nearest: String? = nil) {
        self.parameter = parameter
        self.message = message
        self.nearest = nearest
    }

    package var description: String { nearest.map { "\(message); did you mean \($0)?" } ?? message }
}

import Agent
import AgentConfiguration
import ArgumentParser

/// Which users file: that of a listener in the configuration, or one that is named.
struct UsersFileOptions: ParsableArguments, Sendable {
    @OptionGroup var location: LocationOptions
    @Option(help: ArgumentHelp("The listener whose users they are, if several have files of their own.", valueName: "name")) var listener: String?
    @Option(help: ArgumentHelp("The users file (default: the one of the listener's password-file).", valueName: "file"), completion: .file()) var file: String?

    func validate() throws {
        if listener != nil, file != nil { throw ValidationError("give --listener or --file, not both") }
    }

    /// The plugin that reads the file.
    private static let plugin = PluginReference.usersPlugin

    func find() throws -> UsersFile {
        let settings = try location.listeners()
        if let file { return UsersFile(file, dataFolder: settings.data.value) }
        let all = settings.listeners.compactMap { listener in listener.usersFile(settings).map { (listener: listener.name.value, file: $0) } }
        if let listener {
            guard settings.listeners.contains(where: { $0.name.value.utf8.elementsEqual(listener.utf8) }) else {
                throw AgentError(.notFound, "there is no listener \"\(listener)\" in the configuration")
            }
            guard let found = all.first(where: { $0.listener.utf8.elementsEqual(listener.utf8) }) else {
                throw AgentError(
                    .notFound, "the listener \"\(listener)\" has no authenticator: { plugin: \(Self.plugin), params: { file: … } }: name the file with --file")
            }
            return UsersFile(found.file, dataFolder: settings.data.value)
        }
        guard let first = all.first else {
            throw AgentError(
                .notFound,
                "no listener has authenticator: { plugin: \(Self.plugin), params: { file: … } }: name the configuration with --config, or the file with --file")
        }
        guard all.allSatisfy({ $0.file.utf8.elementsEqual(first.file.utf8) }) else {
            let list = all.map { "\($0.listener) (\($0.file))" }.joined(separator: ", ")
            throw AgentError(.invalid, "several listeners have users files: choose one with --listener: \(list)")
        }
        return UsersFile(first.file, dataFolder: settings.data.value)
    }
}

extension LocationOptions {
    /// Just enough of the configuration to know its listeners.
    fileprivate func listeners() throws -> AgentSettings {
        guard let config else { return AgentSettings.embeddedDefault(data: data, plugins: nil) }
        return try AgentSettings.listeners(path: config, overrides: .init(data: data, plugins: nil))
    }
}

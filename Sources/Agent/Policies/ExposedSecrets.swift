import AgentConfiguration
import Glibc
import TLS

/// Secrets that other users of the machine can read. An agent uses them anyway and warns; private keys, passphrases of keys and the agent's own token
/// are refused instead, in the same words.
extension ConfigurationCheck {
    /// The files of secrets (`${file:PATH}`), listeners' users files, and the configuration if it holds secrets itself.
    package static func exposedSecrets(_ settings: AgentSettings) -> [TLSFileError] {
        var seen: Set<[UInt8]> = []
        // check and doctor may be run by root; the agent owns its data folder.
        let reader = SecretFile.Reader(owning: settings.data.value)
        let own = settings.holdsSecrets ? [settings.file].compactMap(\.self) : []
        return (own + settings.secretFiles + settings.listeners.compactMap { $0.usersFile(settings) })
            .filter { seen.insert(Array($0.utf8)).inserted }
            .compactMap { SecretFile.exposure($0, reader: reader) }
            .map { error in
                guard own.contains(error.path) else { return error }
                var error = error
                error.reason = error.reason.replacing("this secret", with: "the secrets in it")
                return error
            }
    }
}

extension ListenerSettings {
    /// The file of the users who may log in, if its authenticator reads one: next to the configuration, otherwise in the plugins folder.
    package func usersFile(_ settings: AgentSettings) -> String? {
        guard let authenticator, authenticator.plugin.value == PluginReference.usersPlugin,
            let name = authenticator.params?["file"]?.scalar?.text, !name.isEmpty
        else { return nil }
        if name.hasPrefix("/") { return name }
        let beside = "\(settings.folder)/\(name)"
        if let plugins = settings.plugins?.value, access(beside, F_OK) != 0, access("\(plugins)/\(name)", F_OK) == 0 { return "\(plugins)/\(name)" }
        return beside
    }
}

import Agent
import AgentConfiguration
import ArgumentParser
import NIOCore
import PluginHost
import TLS

struct PluginSignCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "sign", abstract: "Signs plugins of the folder, for agents with fleet: { require_signed: true }.",
        discussion: """
            Writes NAME.lua.sig beside each, or NAME/init.lua.sig: over the plugin's name and all of its files, modules and tests included. It is \
            copied to agents with them. The key is one that nightjar fleet keygen made, and belongs to the machine where plugins are approved, not to agents.
            """)

    @OptionGroup var location: ConfigurationOptions
    @Option(help: ArgumentHelp("File of the signing key.", valueName: "file"), completion: .file()) var key: String
    @Argument(help: "Plugins, by name.") var names: [String]

    func run() async throws {
        try await Failure.reporting {
            let settings = try location.read()
            let folder = try PluginCommand.folder(settings)
            let signer = try PrivateKey.readPEM(try SecretFile.read(key), path: key)
            // All or nothing: an error in the last name must not leave some of them signed.
            let signed = try names.map { name in
                let (message, file) = try PluginSeal.unsigned(name, in: folder, limits: PluginHostLimits(settings.pluginLimits))
                return (file: file, bytes: try PluginSignature.make(of: message, with: signer))
            }
            for (path, bytes) in signed {
                let file = try OutputFile(path)
                do {
                    try file.write(ByteBuffer(bytes: bytes))
                    try file.finish()
                } catch {
                    file.abandon()
                    throw error
                }
                Output.line(path)
            }
            if let own = signer.verifyingKey, let keys = settings.fleet?.keys, !keys.isEmpty, !keys.contains(where: { VerifyingKey($0.value) == own }) {
                Output.errorLine("nightjar: \(own) signs, and is not among fleet.keys of the configuration: agents whose fleet.keys lack it refuse what it signs")
            }
        }
    }
}

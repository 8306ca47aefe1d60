import Agent
import AgentConfiguration
import ArgumentParser
import Documents

struct SupportBundleCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "support-bundle", abstract: "Writes a tar archive for the people who support you: no secrets, no documents.",
        discussion: """
            It contains the version and the machine, the configuration without secrets, parameters of plugins and comments, doctor's findings, and of a running agent \
            status, health, metrics and the recent log; plugins by name and version only; sizes of files in the data folder. Names of databases, users, \
            peers and of documents that failed are in it, so that only you can read the file. Look through it before you send it: tar -xOf FILE | less.
            """)

    @OptionGroup var location: ConfigurationOptions
    @Option(name: .shortAndLong, help: ArgumentHelp("The file (default: nightjar-support-TIME.tar; - for standard output).", valueName: "file"), completion: .file()) var output: String?
    @Flag(help: "Do not contact peers: open no connections.") var offline = false
    @Flag(help: "Print what is in it as JSON.") var json = false

    func run() async throws {
        try await Failure.reporting {
            let bundle = await SupportBundle.make(location, tellsPeers: !offline)
            let path = output ?? "\(bundle.name).tar"
            let file = try OutputFile(path, isPrivate: true)
            do {
                try bundle.tar.withUnsafeBytes { try file.write($0) }
                try file.finish()
            } catch {
                file.abandon()
                throw error
            }
            if bundle.entries.first?.name == "configuration.txt" {
                Output.errorLine("nightjar: the configuration cannot be read, so what the agent and doctor say is left out; \(ConfigurationProblems.wayAround(location.config))")
            }
            let descriptor: Int32 = path == "-" ? 2 : 1
            if json {
                let list = JSONOutput.object(["file": .string(path), "entries": .array(bundle.entries.map { .string($0.name) })])
                return Output.write(descriptor, list.text + "\n")
            }
            Output.write(descriptor, "\(path): \(bundle.entries.map(\.name).joined(separator: ", "))\n")
        }
    }
}

import Agent
import ArgumentParser
import Glibc

struct ManualCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "manual", abstract: "Writes the manual pages of all commands and of the configuration, generated from their own descriptions.",
        discussion: """
            nightjar.1 and one page for each command, and nightjar.yaml.5, for man(1). Shell completions are made by an option that every command has: \
            nightjar --generate-completion-script bash (or zsh, fish).
            """)

    @Argument(help: "The folder to write them to; created if it does not exist.", completion: .directory) var folder: String

    func run() async throws {
        try await Failure.reporting {
            try Folders.makeReadable(folder)
            let pages = ManualPages.all(Nightjar.self, version: AgentVersion.number)
                + [("nightjar.yaml.5", ConfigurationPages.manualPage(version: AgentVersion.number))]
            for (name, text) in pages {
                let file = try OutputFile("\(folder)/\(name)")
                try Array(text.utf8).withUnsafeBytes { try Output.writeAll(file.descriptor, $0) }
                try file.finish()
            }
        }
    }
}

extension Folders {
    /// Readable for all users, unlike data folders.
    fileprivate static func makeReadable(_ path: String) throws {
        if mkdir(path, 0o755) != 0, errno != EEXIST { throw AgentError(.failed, "\(path): \(String(cString: strerror(errno)))") }
    }
}

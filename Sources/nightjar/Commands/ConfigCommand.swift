import AgentConfiguration
import ArgumentParser

struct ConfigCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "config", abstract: "About the configuration file.", subcommands: [Schema.self])

    struct Schema: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "schema", abstract: "Prints the JSON Schema of nightjar.yaml, for editors.")

        // It prints nothing but JSON.
        @Flag(help: .hidden) var json = false

        func run() { Output.line(ConfigurationSchema.json()) }
    }
}

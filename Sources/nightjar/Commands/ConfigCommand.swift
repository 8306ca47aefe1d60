import AgentConfiguration
import ArgumentParser

struct ConfigCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "config", abstract: "About the configuration file.", subcommands: [Schema.self, Reference.self])

    struct Schema: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "schema", abstract: "Prints the JSON Schema of nightjar.yaml, for editors.")

        // The output is always JSON.
        @Flag(help: .hidden) var json = false

        func run() { Output.line(ConfigurationSchema.json()) }
    }
    struct Reference: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "reference", abstract: "Prints every key of nightjar.yaml with its values, default and meaning, as Markdown.")

        func run() { Output.write(1, ConfigurationPages.markdown()) }
    }
}

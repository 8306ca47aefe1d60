import ArgumentParser

struct ResolverCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "resolver", abstract: "Merging two documents on their base with the shipped merge-fields, and how it grows with the fields.")

    @OptionGroup var common: CommonOptions
    @OptionGroup var agent: AgentOptions
    @Option(help: "Calls a round with 12 fields; fewer with more fields.") var calls = 3_000
    @Option var rounds = 7

    func run() async throws {
        let plugins = try agent.pluginsPath()
        try await common.report { _ in try ResolverScenario(calls: calls, rounds: rounds, plugins: plugins).run() }
    }
}

struct ReloadCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "reload", abstract: "Reloads of one of many plugins while documents pass its filter at a steady rate.")

    @OptionGroup var common: CommonOptions
    @Option(help: "Plugins in the folder.") var plugins = 50
    @Option(help: "Documents a second.") var rate = 5_000
    @Option var seconds = 20
    @Option(help: "Milliseconds between two reloads.") var every = 100

    func run() async throws {
        try await common.report { try await ReloadScenario(plugins: plugins, rate: rate, seconds: seconds, millisecondsBetween: every).run($0) }
    }
}

struct ReloadStormCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "reload-storm", abstract: "Reloads of random good and bad versions under load, and what memory is left held.")

    @OptionGroup var common: CommonOptions
    @Option var reloads = 1_000
    @Option(help: "Of the choice of versions.") var seed: UInt64 = 1

    func run() async throws {
        try await common.report { try await ReloadStormScenario(reloads: reloads, seed: seed).run($0) }
    }
}

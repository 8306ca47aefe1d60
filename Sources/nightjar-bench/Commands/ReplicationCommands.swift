import ArgumentParser

struct DeltaCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "delta", abstract: "One changed field of large documents, with deltas and without.")

    @OptionGroup var common: CommonOptions
    @Option var documents = 5_000
    @Option var rounds = 5
    @Option(help: "Of a document.") var bytes = 10_240

    func run() async throws {
        try await common.report { try await DeltaScenario(documents: documents, rounds: rounds, bytes: bytes).run($0) }
    }
}

struct SecondStartCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "second-start", abstract: "The second start of a push whose filter lets nothing pass.")

    @OptionGroup var common: CommonOptions
    @Option var documents = 1_000_000
    @Option var rounds = 1

    func run() async throws {
        try await common.report { try await SecondStartScenario(documents: documents, rounds: rounds).run($0) }
    }
}

struct PullCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pull", abstract: "A one-shot pull between two databases, against inserting the same documents.")

    @OptionGroup var common: CommonOptions
    @Option var documents = 100_000
    @Option var rounds = 5

    func run() async throws {
        try await common.report { try await PullScenario(documents: documents, rounds: rounds).run($0) }
    }
}

struct FleetCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fleet", abstract: "Many idle continuous pulls of one hub: the memory of each, and how long one write takes to reach all.")

    @OptionGroup var common: CommonOptions
    @Option var connections = 1_000
    @Option var writes = 5
    @Option var rounds = 3

    func run() async throws {
        try await common.report { try await FleetScenario(connections: connections, writes: writes, rounds: rounds).run($0) }
    }
}

struct VersionsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "versions", abstract: "Replication by version vectors, against the same by revision ids; and comparing two vectors.")

    @OptionGroup var common: CommonOptions
    @Option var documents = 50_000
    @Option var rounds = 5

    func run() async throws {
        try await common.report { try await VersionsScenario(documents: documents, rounds: rounds).run($0) }
    }
}

import ArgumentParser

struct InsertCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "insert", abstract: "Documents into the store, against raw SQLite writing the same bytes.")

    @OptionGroup var common: CommonOptions
    @Option var documents = 100_000
    @Option var rounds = 5
    @Flag(name: .customLong("random-ids"), help: "Ids in no order.") var randomIDs = false

    func run() async throws {
        try await common.report { try await InsertScenario(documents: documents, rounds: rounds, hasRandomIDs: randomIDs).run($0) }
    }
}

struct WrittenCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "written", abstract: "Bytes that go to the disk for each document that is saved durably.")

    @OptionGroup var common: CommonOptions
    @Option var documents = 20_000
    @Option var rounds = 3

    func run() async throws {
        try await common.report { try await WrittenScenario(documents: documents, rounds: rounds).run($0) }
    }
}

struct PushCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "push", abstract: "A one-shot push between two databases, against inserting the same documents.")

    @OptionGroup var common: CommonOptions
    @Option var documents = 100_000
    @Option var rounds = 5
    @Option(help: "2: a process for each side; 1: both in one.") var processes = 2

    func run() async throws {
        try await common.report { try await PushScenario(documents: documents, rounds: rounds, processes: processes).run($0) }
    }
}

struct PushFilterCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "push-filter", abstract: "The push with a Lua filter, against the push without.")

    @OptionGroup var common: CommonOptions
    @Option var documents = 100_000
    @Option var rounds = 5
    @Option(help: "2: a process for each side; 1: both in one.") var processes = 2

    func run() async throws {
        try await common.report { try await PushFilterScenario(documents: documents, rounds: rounds, processes: processes).run($0) }
    }
}

struct FilterCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "filter", abstract: "One filter call, against a bare lua_pcall of an empty function.")

    @OptionGroup var common: CommonOptions
    @Option var calls = 300_000
    @Option var rounds = 9

    func run() async throws {
        try await common.report { _ in try FilterScenario(calls: calls, rounds: rounds).run() }
    }
}

struct FindCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "find", abstract: "Queries with an index and without, against raw SQLite with json_extract.")

    @OptionGroup var common: CommonOptions
    @Option var documents = 100_000
    @Option var queries = 2_000
    @Option var rounds = 5

    func run() async throws {
        try await common.report { try await FindScenario(documents: documents, queries: queries, rounds: rounds).run($0) }
    }
}

struct MillionCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "million", abstract: "Speed over the last tenth of a million documents, against the first tenth.")

    @OptionGroup var common: CommonOptions
    @Option var documents = 1_000_000
    @Option var rounds = 1
    @Flag(name: .customLong("random-ids"), help: "Ids in no order.") var randomIDs = false

    func run() async throws {
        try await common.report { try await MillionScenario(documents: documents, rounds: rounds, hasRandomIDs: randomIDs).run($0) }
    }
}

struct MemoryCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "memory", abstract: "Resident memory of the agent, idle and during a push.")

    @OptionGroup var common: CommonOptions
    @OptionGroup var agent: AgentOptions
    @Option var documents = 100_000
    @Option var rounds = 3

    func run() async throws {
        let (path, plugins) = (try agent.agentPath(), try agent.pluginsPath())
        try await common.report {
            try await MemoryScenario(documents: documents, rounds: rounds, agent: path, plugins: plugins).run($0)
        }
    }
}

struct LatencyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "latency", abstract: "From a write to its visibility on a continuous peer.")

    @OptionGroup var common: CommonOptions
    @Option var writesPerSecond = 200
    @Option var seconds = 20
    @Option var rounds = 1
    @Option(help: "2: a process for each side; 1: both in one.") var processes = 2

    func run() async throws {
        try await common.report {
            try await LatencyScenario(writesPerSecond: writesPerSecond, seconds: seconds, rounds: rounds, processes: processes).run($0)
        }
    }
}

struct BlobCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "blob", abstract: "A large blob between two processes: what it holds in memory at both ends.")

    @OptionGroup var common: CommonOptions
    @Option var megabytes = 2_048
    @Option var rounds = 3

    func run() async throws {
        try await common.report { try await BlobScenario(megabytes: megabytes, rounds: rounds).run($0) }
    }
}

struct HostileCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "hostile", abstract: "Peers whose messages never end: what all of them together make a listener hold.")

    @OptionGroup var common: CommonOptions
    @Option var connections = 1_000
    @Option var rounds = 3

    func run() async throws {
        try await common.report { try await HostileScenario(connections: connections, rounds: rounds).run($0) }
    }
}

struct CrowdCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "crowd", abstract: "Peers each of which has the agent do a little, and that read nothing: what it grows by.")

    @OptionGroup var common: CommonOptions
    @OptionGroup var agent: AgentOptions
    @Option var connections = 1_000
    @Option var rounds = 3

    func run() async throws {
        let path = try agent.agentPath()
        try await common.report { try await CrowdScenario(connections: connections, rounds: rounds, agent: path).run($0) }
    }
}

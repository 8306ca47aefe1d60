import ArgumentParser

extension CouchScenario.Row: ExpressibleByArgument {}

struct CouchCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "couchdb", abstract: "CouchDB's API of the agent, against a CouchDB that is running.",
        discussion: """
            The peer makes databases for the run and removes them; it keeps its defaults, and its disk should be that of --scratch. \
            Without a peer only the agent's memory is measured.
            """)

    @OptionGroup var common: CommonOptions
    @OptionGroup var agent: AgentOptions
    @Option(help: ArgumentHelp("CouchDB with its administrator: http://NAME:PASSWORD@HOST:PORT", valueName: "url")) var peer: String?
    @Option(help: ArgumentHelp("The peer's process on this machine: what it costs the processor is compared, too.", valueName: "pid")) var peerProcess: Int32?
    @Option(help: ArgumentHelp("A folder in which Node finds pouchdb and pouchdb-adapter-memory.", valueName: "folder"), completion: .directory) var pouchdb: String?
    @Option(help: "The node executable.") var node = "/usr/bin/node"
    @Option(parsing: .upToNextOption, help: "Only these.") var rows = CouchScenario.Row.allCases
    @Option(help: "Of a database that is read.") var documents = 100_000
    @Option(help: "Of a replication.") var replicated = 20_000
    @Option var rounds = 5

    func run() async throws {
        var scenario = CouchScenario(agent: try agent.agentPath())
        scenario.rows = Set(rows)
        scenario.peer = try peer.map { CouchPeer(address: try HTTPAddress($0), process: peerProcess) }
        scenario.pouchDB = pouchdb
        scenario.node = node
        (scenario.documents, scenario.replicated, scenario.rounds) = (documents, replicated, rounds)
        let made = scenario
        try await common.report { try await made.run($0) }
    }
}

import ArgumentParser

struct AllCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "all", abstract: "Every scenario, and one table of what is reached.",
        discussion: "Ends with status 0 whatever the figures are; another status means that a scenario could not be measured.")

    @OptionGroup var common: CommonOptions
    @OptionGroup var agent: AgentOptions
    @Flag(help: "A tenth of the sizes.") var quick = false

    func run() async throws {
        let documents = quick ? 10_000 : 100_000
        let rounds = quick ? 3 : 5
        let scenarios: [(String, (Scratch) async throws -> Report)] = [
            ("insert", { try await InsertScenario(documents: documents, rounds: rounds).run($0) }),
            ("written", { try await WrittenScenario(documents: documents / 5, rounds: quick ? 1 : 3).run($0) }),
            ("push", { try await PushScenario(documents: documents, rounds: rounds).run($0) }),
            ("pull", { try await PullScenario(documents: documents, rounds: rounds).run($0) }),
            ("push-filter", { try await PushFilterScenario(documents: documents, rounds: rounds).run($0) }),
            ("filter", { _ in try FilterScenario(calls: quick ? 30_000 : 300_000).run() }),
            ("find", { try await FindScenario(documents: documents, queries: documents / 50, rounds: rounds).run($0) }),
            ("resolver", { _ in try ResolverScenario(calls: quick ? 300 : 3_000, plugins: try agent.pluginsPath()).run() }),
            ("reload", { try await ReloadScenario(seconds: quick ? 3 : 20).run($0) }),
            ("reload-storm", { try await ReloadStormScenario(reloads: quick ? 100 : 1_000).run($0) }),
            ("push-tls", { try await PushTLSScenario(documents: documents, rounds: rounds).run($0) }),
            ("handshakes", { try await HandshakesScenario(seconds: quick ? 1 : 3, rounds: rounds).run($0) }),
            ("tls-memory", { try await TLSMemoryScenario(connections: quick ? 200 : 1_000, rounds: quick ? 1 : 3).run($0) }),
            ("fleet", { try await FleetScenario(connections: quick ? 200 : 1_000, rounds: quick ? 1 : 3).run($0) }),
            ("million", { try await MillionScenario(documents: documents * 10).run($0) }),
            ("million, random ids", { try await MillionScenario(documents: documents * 10, hasRandomIDs: true).run($0) }),
            ("memory", {
                try await MemoryScenario(
                    documents: documents, rounds: quick ? 1 : 3, idleSeconds: quick ? 10 : 60, agent: agent.agentPath(), plugins: agent.pluginsPath()
                ).run($0)
            }),
            ("delta", { try await DeltaScenario(documents: documents / 20, rounds: rounds).run($0) }),
            ("versions", { try await VersionsScenario(documents: documents / 2, rounds: rounds).run($0) }),
            ("second-start", { try await SecondStartScenario(documents: documents * 10).run($0) }),
            ("blob", { try await BlobScenario(megabytes: quick ? 205 : 2_048, rounds: quick ? 1 : 3).run($0) }),
            ("hostile", { try await HostileScenario(connections: quick ? 100 : 1_000, rounds: quick ? 1 : 3).run($0) }),
            ("crowd", {
                try await CrowdScenario(connections: quick ? 100 : 1_000, rounds: quick ? 1 : 3, agent: agent.agentPath()).run($0)
            }),
            ("couchdb", {
                var scenario = CouchScenario(agent: try agent.agentPath())
                (scenario.rounds, scenario.listeners, scenario.megabytes) = quick ? (1, 200, 205) : (3, 1_000, 2_048)
                return try await scenario.run($0)
            }),
            ("latency", { try await LatencyScenario(seconds: quick ? 2 : 20).run($0) }),
        ]
        var reports: [Report] = []
        var isIncomplete = false
        for (name, run) in scenarios {
            let folder = try Scratch(parent: common.scratch)
            defer { folder.remove() }
            do {
                let report = try await run(folder)
                reports.append(report)
                try common.show(report)
            } catch {
                isIncomplete = true
                try Files.write(Array("\(name): not measured: \(error)\n".utf8), to: 2, "standard error")
            }
        }
        if common.json != "-" { try tell("summary\n" + Report.summary(reports)) }
        let json = "[\(reports.map(\.json).joined(separator: ",\n"))]"
        if common.json == "-" { print(json) } else if let file = common.json { try Files.write(json + "\n", to: file) }
        if isIncomplete { throw ExitCode.failure }
    }
}

import NIOPosix
import Transport

/// The memory usage of the agent itself: idle, and while it pushes.
struct MemoryScenario {
    var documents = 100_000
    var rounds = 3
    /// How long an idle agent is observed.
    var idleSeconds = 10
    /// The agent's executable.
    var agent: String
    /// A folder with at least ten plugins.
    var plugins: String

    func run(_ scratch: Scratch) async throws -> Report {
        var idle: [Double] = []
        var busy: [Double] = []
        var gateways: [Double] = []
        var hubs: [Double] = []
        for round in 0..<rounds {
            let (resident, share) = try await idleAgent("\(scratch.path)/idle-\(round)")
            idle.append(resident)
            busy.append(share)
            let (gateway, hub) = try await pushMemory("\(scratch.path)/memory-\(round)")
            gateways.append(gateway)
            hubs.append(hub)
        }
        var report = Report(scenario: "memory", title: "resident memory of nightjar run (MB of 2^20 bytes)")
        report.goal("idle, one database, ten plugins", "MB", idle, .atMost, 40)
        report.goal("idle, processor", "% of a core", busy, .atMost, 0.2)
        report.goal("peak of the pushing agent, \(documents) documents", "MB", gateways, .atMost, 96)
        report.goal("peak of the receiving agent, \(documents) documents", "MB", hubs, .atMost, 96)
        report.notes.append("idle: VmRSS, three seconds after the start, and processor time of the next \(idleSeconds); peak: VmHWM")
        return report
    }

    private func idleAgent(_ folder: String) async throws -> (resident: Double, share: Double) {
        try Files.makeFolder(folder)
        try Files.makeFolder("\(folder)/plugins")
        let names = try Files.names(in: plugins).filter { $0.hasSuffix(".lua") && !$0.hasSuffix(".test.lua") }.prefix(10)
        guard names.count == 10 else { throw BenchError("\(plugins) holds \(names.count) plugins, ten are needed") }
        for name in names { try Files.copyFile("\(plugins)/\(name)", "\(folder)/plugins/\(name)") }
        try Files.write(
            """
            data: \(folder)/data
            plugins: plugins
            admin: { port: 0, open: true }
            log: { level: warning }
            databases:
              plant: {}
            listeners:
              - { name: peers, databases: [ plant ], interface: 127.0.0.1, port: 0, disable_tls: true }

            """, to: "\(folder)/agent.yaml")
        let child = try Child(agent, ["run", "--config", "\(folder)/agent.yaml"])
        try ready(child)
        try await Task.sleep(for: .seconds(3))
        let resident = try residentMegabytes("VmRSS", process: child.process)
        let before = try processorSeconds(of: child.process)
        try await Task.sleep(for: .seconds(idleSeconds))
        let share = try (processorSeconds(of: child.process) - before) / Double(idleSeconds) * 100
        try end(child)
        Files.remove(folder)
        return (resident, share)
    }

    private func pushMemory(_ folder: String) async throws -> (gateway: Double, hub: Double) {
        try Files.makeFolder(folder)
        try Files.makeFolder("\(folder)/gateway")
        try Files.write(
            """
            data: \(folder)/hub
            admin: { port: 0, open: true }
            log: { level: warning }
            databases:
              plant: {}
            listeners:
              - { name: peers, databases: [ plant ], interface: 127.0.0.1, port: 0, disable_tls: true }

            """, to: "\(folder)/hub.yaml")
        _ = try await Insertion.store(Readings().make(from: 0, count: documents), folder: "\(folder)/gateway/plant.nightjar")
        let hub = try Child(agent, ["run", "--config", "\(folder)/hub.yaml"])
        let line = try ready(hub)
        guard let address = line.split(separator: " ").first(where: { $0.hasPrefix("peers=") })?.dropFirst("peers=".count) else {
            throw BenchError("the hub tells no address: \(line)")
        }
        try Files.write(
            """
            data: \(folder)/gateway
            admin: { port: 0, open: true }
            log: { level: warning }
            databases:
              plant: {}
            replicators:
              - { name: hub, database: plant, target: "ws://\(address)/plant", type: push, continuous: false }

            """, to: "\(folder)/gateway.yaml")
        let gateway = try Child(agent, ["run", "--config", "\(folder)/gateway.yaml"])
        try ready(gateway)
        try await untilPushed("\(folder)/gateway/admin.sock")
        let peaks = (
            gateway: try residentMegabytes("VmHWM", process: gateway.process), hub: try residentMegabytes("VmHWM", process: hub.process)
        )
        try end(gateway)
        try end(hub)
        Files.remove(folder)
        return peaks
    }

    @discardableResult
    private func ready(_ child: Child) throws -> String {
        let line = try child.line()
        guard line.hasPrefix("ready") else { throw BenchError("\(agent) run says \"\(line)\", not \"ready\"") }
        return line
    }

    private func end(_ child: Child) throws {
        child.terminate()
        let status = child.wait()
        guard status == 0 else { throw BenchError("\(agent) run ended with status \(status)") }
    }

    /// Polls rarely, because answering costs the agent memory too.
    private func untilPushed(_ socket: String) async throws {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let client = HTTPClient(.unix(path: socket), group: group)
        for _ in 0..<300 {
            try await Task.sleep(for: .seconds(1))
            let answer = try await client.request("GET", "/api/status")
            let text = String(buffer: answer.body)
            if text.contains("\"pushed\":\(documents)"), text.contains("\"activity\":\"stopped\"") {
                try await group.shutdownGracefully()
                return
            }
        }
        throw BenchError("the agent has not pushed \(documents) documents within five minutes")
    }
}

import Documents
import Glibc
import TestSupport
import Testing

@Suite struct RunTests {
    @Test func oneReadyLineNamesEveryAddress() async throws {
        let agent = try await AgentProcess.start(Configuration.plain)
        #expect(agent.ready.split(separator: " ").first == "ready")
        #expect(agent.addresses.map(\.name).sorted() == ["admin", "admin", "edge"])
        for name in ["edge", "admin"] { #expect(try agent.port(name) > 0) }
        // Each is really bound.
        #expect(try await HTTPProbe.tcp(port: try agent.port("admin")).get("/health").status == 200)
        #expect(try await HTTPProbe.tcp(port: try agent.port("edge")).get("/").status != 500)
        #expect(try await agent.admin.get("/health").json["status"] == "ok")
        let outcome = try await agent.stop()
        #expect(outcome.output == agent.ready + "\n")
    }

    @Test(arguments: [SIGTERM, SIGINT]) func aSignalStopsItWithStatus0(_ signal: Int32) async throws {
        let hub = try await AgentProcess.start(Configuration.plain)
        let edge = try await AgentProcess.start(
            Configuration.plain + "replicators:\n" + Configuration.replicator("hub", to: "ws://127.0.0.1:\(try hub.port("edge"))/main"))
        try await eventually("the replicator is idle") { try await edge.replicator("hub")["activity"] == "idle" }
        // It has a peer too, which stays connected.
        let peer = try await WebSocketProbe.connect(port: try edge.port("edge"), path: "/main/_blipsync")
        edge.process.send(signal)
        // Five seconds are promised; the rest is for a busy machine.
        let outcome = try await edge.process.wait(within: .seconds(20))
        #expect(outcome.status == 0, "\(outcome)")
        #expect(outcome.errors.contains("stopping: \(signal == SIGINT ? "SIGINT" : "SIGTERM")"), "\(outcome)")
        let code = try await peer.closeCode()
        #expect(code == 4001 || code == nil)
        #expect(!edge.folder.exists("data/admin.sock"))
        // Nothing was left locked.
        #expect(try await edge.command("doc", "put", "main", "after", "{}").status == 0)
    }

    @Test func documentsSurviveARestartAndAKill() async throws {
        let first = try await AgentProcess.start(Configuration.plain)
        #expect(try await first.put("main", "a", "{\"n\":1}").status == 201)
        first.process.send(SIGKILL)
        #expect(try await first.process.wait().signal == SIGKILL)
        // The socket file is left, and nobody answers on it.
        let orphaned = try await first.command("status")
        #expect(orphaned.status == 1, "\(orphaned)")
        #expect(try await first.command("doc", "get", "main", "a").status == 0)
        let second = try await AgentProcess.start(Configuration.plain, in: first.folder)
        #expect(try await second.get("main", "a").status == 200)
    }

    @Test func aSecondAgentOnTheSameDataIsRefused() async throws {
        let agent = try await AgentProcess.start(Configuration.plain)
        let second = try await agent.command("run")
        #expect(second.status == 1)
        #expect(second.errors.contains("is in use by process \(agent.process.pid)"), "\(second)")
        #expect(second.output.isEmpty)
        // The first one is unharmed.
        #expect(try await agent.command("status").status == 0)
        #expect(try await agent.stop().status == 0)
    }

    @Test func aPortInUseIsNamed() async throws {
        let taken = try TakenPort()
        let folder = try TemporaryFolder()
        // That of a listener is waited for: see the tests of listeners one by one.
        try folder.write("nightjar.yaml", Configuration.plain.replacing("admin: { port: 0, open: true }", with: "admin: { port: \(taken.port) }"))
        let outcome = try await NightjarExecutable.run("run", "--config", folder.path("nightjar.yaml"))
        #expect(outcome.status == 1, "\(outcome)")
        #expect(outcome.errors.contains("admin") && outcome.errors.contains("ss -ltnp 'sport = :\(taken.port)'"), "\(outcome)")
        #expect(outcome.output.isEmpty)
        // Nothing was left locked or running.
        let agent = try await AgentProcess.start(Configuration.plain, in: folder)
        #expect(try await agent.stop().status == 0)
    }

    @Test func theEmbeddedDefaultTakesFoldersFromOptions() async throws {
        // Its listener has a fixed port. Where another program has it, nothing is tested, and that is no success.
        let folder = try TemporaryFolder()
        let process = try Subprocess(
            try NightjarExecutable.path(), ["run", "--data", folder.path("d")], folder: folder.path)
        let ready = try await process.line(containing: "ready")
        #expect(ready.contains("127.0.0.1:4984"))
        #expect(folder.exists("d/main.nightjar"))
        process.send(SIGTERM)
        #expect(try await process.wait().status == 0)
    }

    @Test func reloadAddsAReplicatorAndLeavesTheOtherRunning() async throws {
        let hub = try await AgentProcess.start(Configuration.plain)
        let target = "ws://127.0.0.1:\(try hub.port("edge"))/main"
        let before = Configuration.plain + "replicators:\n" + Configuration.replicator("one", to: target)
        let edge = try await AgentProcess.start(before)
        try await eventually("one is idle") { try await edge.replicator("one")["activity"] == "idle" }
        #expect(try await edge.put("main", "a", "{}").status == 201)
        try await eventually("one has pushed") { try await edge.replicator("one")["pushed"] == 1 }
        let since = try await hub.status()["listeners"]?.asArray?.first?["peers"]?.asArray?.first?["address"]

        try edge.folder.write("nightjar.yaml", before + Configuration.replicator("two", to: target, more: "type: pull"))
        edge.process.send(SIGHUP)
        try await eventually("two is idle") {
            try await edge.status()["replicators"]?.asArray?.contains { $0["name"] == "two" && $0["activity"] == "idle" } ?? false
        }
        // The first one kept its connection and its counts.
        #expect(try await edge.replicator("one")["pushed"] == 1)
        let peers = try await hub.status()["listeners"]?.asArray?.first?["peers"]?.asArray ?? []
        #expect(peers.count == 2)
        #expect(peers.contains { $0["address"] == since })

        // And without it again, by the command.
        try edge.folder.write("nightjar.yaml", before)
        let reload = try await edge.command("reload", "--json")
        #expect(reload.status == 0, "\(reload)")
        #expect(try await edge.status()["replicators"]?.asArray?.count == 1)
        #expect(try await edge.replicator("one")["pushed"] == 1)
        #expect(try await edge.command("reload").output == "nothing changed\n")
    }

    @Test func aBadConfigurationIsNotTakenAtReload() async throws {
        let agent = try await AgentProcess.start(Configuration.plain)
        try agent.folder.write("nightjar.yaml", Configuration.plain + "bogus: 1\n")
        agent.process.send(SIGHUP)
        _ = try await agent.process.line(containing: "bogus", in: .errors)
        let reload = try await NightjarExecutable.run("reload", "--data", agent.folder.path("data"))
        #expect(reload.status == 78, "\(reload)")
        #expect(reload.errors.contains("bogus"))
        #expect(try await agent.put("main", "still", "{}").status == 201)
        #expect(try await agent.stop().status == 0)
    }
}

extension String {
    /// The text with every occurrence of another replaced.
    func replacing(_ other: String, with text: String) -> String {
        var rest = self[...]
        var result = ""
        while let found = rest.firstRange(of: other) {
            result += rest[..<found.lowerBound] + text
            rest = rest[found.upperBound...]
        }
        return result + rest
    }
}

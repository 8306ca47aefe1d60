import Documents
import Glibc
import TestSupport
import Testing

@Suite struct StatusTests {
    @Test func allPartsAreShown() async throws {
        let folder = try TemporaryFolder()
        try folder.copy(NightjarExecutable.package() + "/plugins/skip-drafts.lua", to: "plugins/skip-drafts.lua")
        try folder.write("plugins/broken.lua", "return {")
        // Nobody listens there, and no test running beside this one can come to.
        let closed = 1
        let agent = try await AgentProcess.start(
            Configuration.plain.replacing("disable_tls: true", with: "disable_tls: true, push_filter: skip-drafts")
                + "replicators:\n" + Configuration.replicator("hub", to: "ws://127.0.0.1:\(closed)/main"), in: folder)
        #expect(try await agent.put("main", "a", "{}").status == 201)
        let peer = try await WebSocketProbe.connect(port: try agent.port("edge"), path: "/main/_blipsync")
        try await eventually("the replicator is offline") { try await agent.replicator("hub")["activity"] == "offline" }

        let text = try await agent.command("status")
        #expect(text.status == 0, "\(text)")
        for word in [
            "plant.readings", "ws://127.0.0.1:\(try agent.port("edge"))/main", "hub", "offline", "network/19", "transient", "skip-drafts",
            "active", "listener edge push_filter", "refused", "broken.lua", "conflicts pending: 0", "retry ", "or now: nightjar replicator hub start",
        ] {
            #expect(text.output.contains(word), "\(word) is missing: \(text)")
        }

        let status = try await agent.command("status", "--json").json
        for key in ["version", "started_at", "uptime_seconds", "resident_bytes", "peak_resident_bytes", "databases", "listeners", "replicators", "plugins"] {
            #expect(status[key] != nil, "\(key)")
        }
        let (now, most) = (status["resident_bytes"]?.asInt64 ?? 0, status["peak_resident_bytes"]?.asInt64 ?? 0)
        #expect(now > 0 && most >= now)
        #expect(status["listeners"]?.asArray?.first?["connections"] == 1)
        #expect(status["replicators"]?.asArray?.first?["error"]?["public_code"] == 5019)
        _ = peer
    }

    @Test("where no agent runs, the error says what was looked at: with --config it does not ask for --config")
    func noAgent() async throws {
        let folder = try TemporaryFolder()
        let file = try folder.write("nightjar.yaml", Configuration.plain)
        let named = try await NightjarExecutable.run("status", "--config", file)
        #expect(named.status == 1 && named.errors.contains("no agent runs here: \(folder.path("data"))/admin.sock: No such file or directory"), "\(named)")
        #expect(named.errors.contains("With --config \(file) the data folder is \(folder.path("data"))"), "\(named)")
        #expect(named.errors.contains("nightjar run --config \(file)") && !named.errors.contains("its configuration with --config"), "\(named)")
        let unnamed = try await NightjarExecutable.run("status", folder: folder.path)
        #expect(unnamed.status == 1 && unnamed.errors.contains("or its configuration with --config"), "\(unnamed)")
    }

    @Test("a replicator that has given up, or is waiting, says what to do and how to start it again")
    func stoppedReplicator() async throws {
        let hub = try await AgentProcess.start(Configuration.plain)
        let agent = try await AgentProcess.start(
            Configuration.plain + "replicators:\n" + Configuration.replicator("up", to: "ws://127.0.0.1:\(try hub.port("edge"))/nothing", more: "max_attempts: 1")
                + Configuration.replicator("waits", to: "ws://127.0.0.1:\(try hub.port("edge"))/nowhere"))
        try await eventually("it has stopped") {
            let (up, waits) = (try await agent.replicator("up"), try await agent.replicator("waits"))
            return up["activity"] == "stopped" && waits["activity"] == "offline"
        }
        let text = try await agent.command("status").output
        let remedy = "(needs action); check the database's name at the end of target, and whether the peer has it"
        #expect(text.contains("\(remedy); once this is fixed: nightjar replicator up start\n"), "\(text)")
        #expect(text.contains("\(remedy), retry 1 at 20") && text.contains("or now: nightjar replicator waits start\n"), "\(text)")
        #expect(text.contains("UNHEALTHY: replicator waits: gets no further"), "\(text)")
    }

    @Test func theAgentIsFoundByAConfigurationThatIsBeingEdited() async throws {
        let agent = try await AgentProcess.start(Configuration.plain)
        #expect(try await agent.put("main", "a", "{}").status == 201)
        try agent.folder.write(
            "edited.yaml", "data: \(agent.folder.path("data"))\ndatabases: { main: { colour: red } }\nplugins: \"${NO_SUCH_VARIABLE}\"\n")
        func run(_ arguments: [String]) async throws -> Subprocess.Outcome {
            try await Subprocess.run(
                try NightjarExecutable.path(), arguments + ["--config", agent.folder.path("edited.yaml")], folder: agent.folder.path)
        }
        for arguments in [["status"], ["doc", "get", "main", "a"], ["replicator", "list"], ["plugin", "list"], ["identity", "list"]] {
            let outcome = try await run(arguments)
            #expect(outcome.status == 0, "\(arguments) \(outcome)")
        }
        #expect(try await run(["check"]).status == 78)
        // Without the agent the whole file counts.
        try await agent.stop()
        let alone = try await run(["doc", "get", "main", "a"])
        #expect(alone.status != 0 && alone.errors.contains("colour") && alone.errors.contains("NO_SUCH_VARIABLE"), "\(alone)")
    }

    @Test func watchGoesOnUntilTheAgentEnds() async throws {
        let agent = try await AgentProcess.start(Configuration.plain)
        let watch = try Subprocess(
            try NightjarExecutable.path(), ["status", "--watch", "--json", "--data", agent.folder.path("data")])
        try await eventually("two statuses") { watch.output.split(separator: "\n").count >= 2 }
        for line in watch.output.split(separator: "\n").prefix(2) {
            #expect(try JSONValue(parsing: String(line))["databases"] != nil)
        }
        try await agent.stop()
        let outcome = try await watch.wait()
        #expect(outcome.status == 1)
        #expect(outcome.errors.contains("no agent") || outcome.errors.contains("the agent on"), "\(outcome)")
    }

    @Test func watchSaysThatTheAgentHasEnded() async throws {
        let agent = try await AgentProcess.start(Configuration.plain)
        let watch = try Subprocess(
            try NightjarExecutable.path(), ["status", "--watch", "--json", "--data", agent.folder.path("data")])
        try await eventually("a status") { watch.output.contains("\n") }
        agent.process.send(SIGKILL)
        let outcome = try await watch.wait()
        #expect(outcome.status == 1 && outcome.errors.contains("data/admin.sock has ended in the meantime"), "\(outcome)")
    }

    @Test func withoutAnAgentTheSocketIsNamed() async throws {
        let folder = try TemporaryFolder()
        for command in [["status"], ["replicator", "list"], ["replicator", "hub", "start"], ["reload"], ["plugin", "reload"]] {
            let outcome = try await Subprocess.run(
                try NightjarExecutable.path(), command + ["--data", folder.path("data")], folder: folder.path)
            #expect(outcome.status == 1, "\(outcome)")
            #expect(outcome.errors.contains(folder.path("data/admin.sock")), "\(outcome)")
            #expect(outcome.errors.contains("--data") && outcome.errors.contains("--config"))
            #expect(outcome.output.isEmpty)
        }
    }

    @Test(.enabled(if: geteuid() == 0, "only root can be somebody else"))
    func anotherUserIsToldWhoseAgentItIs() async throws {
        let folder = try TemporaryFolder()
        #expect(chmod(folder.path, 0o755) == 0)
        let agent = try await AgentProcess.start(Configuration.plain, in: folder)
        let other = try await Subprocess.run(
            "/usr/bin/setpriv", ["--reuid", "64322", "--clear-groups", try NightjarExecutable.path(), "status", "--data", folder.path("data")], folder: folder.path)
        #expect(other.status == 1 && other.errors.contains("run it as the agent's user (root), for example sudo -u root"), "\(other)")
        try await agent.stop()
    }

    @Test func theCurrentFoldersDataIsTheDefault() async throws {
        let folder = try TemporaryFolder()
        let agent = try await AgentProcess.start(Configuration.plain.replacing("data: data", with: "data: nightjar-data"), in: folder)
        let outcome = try await NightjarExecutable.run("status", folder: folder.path)
        #expect(outcome.status == 0, "\(outcome)")
        try await agent.stop()
    }

    @Test func commandsNeedNoAdminPortAndNoToken() async throws {
        let agent = try await AgentProcess.start(Configuration.plain.replacing("admin: { port: 0, open: true }\n", with: ""))
        // The socket is all there is: nothing else of this process listens but the peers' port.
        #expect(agent.addresses.map(\.name).sorted() == ["admin", "edge"])
        #expect(agent.addresses.allSatisfy { $0.name == "edge" || $0.address == "unix:\(agent.folder.path("data/admin.sock"))" })
        #expect(try await agent.command("status").status == 0)
        #expect(try await agent.command("doc", "put", "main", "a", "{}").status == 0)
    }

    @Test func aTokenIsForTheAdminPortAndNotForTheSocket() async throws {
        let agent = try await AgentProcess.start(Configuration.plain.replacing("{ port: 0, open: true }", with: "{ port: 0, token: open-sesame }"))
        #expect(try await NightjarExecutable.run("status", "--data", agent.folder.path("data")).status == 0)
        let port = HTTPProbe.tcp(port: try agent.port("admin"))
        for path in ["/api/status", "/metrics", "/api/databases/main/export", "/nothing"] {
            let refused = try await port.get(path)
            #expect(refused.status == 401 && refused.header("WWW-Authenticate") == "Bearer")
            #expect(refused.text.contains("admin.token"), "\(refused)")
            for wrong in ["Bearer open-sesam", "Bearer open-sesame2", "Bearer", "Basic open-sesame", "open-sesame"] {
                #expect(try await port.request("GET", path, headers: [("Authorization", wrong)]).status == 401)
            }
        }
        for path in ["/api/status", "/metrics"] {
            #expect(try await port.request("GET", path, headers: [("Authorization", "Bearer open-sesame")]).status == 200)
        }
    }

    @Test func withoutTheTokenHealthTellsWhetherAndNotWhy() async throws {
        let folder = try TemporaryFolder()
        let agent = try await AgentProcess.start(
            Configuration.plain.replacing("{ port: 0, open: true }", with: "{ port: 0, token: open-sesame }") + "replicators:\n"
                + Configuration.replicator("gone", to: "ws://127.0.0.1:1/main", continuous: false, more: "max_attempts: 1"), in: folder)
        let port = HTTPProbe.tcp(port: try agent.port("admin"))
        try await eventually("the replicator has given up") { try await port.get("/health").status == 503 }
        #expect(try await port.get("/health").json == ["status": "unhealthy"])
        let known = try await port.request("GET", "/health", headers: [("Authorization", "Bearer open-sesame")])
        #expect(known.status == 503 && known.text.contains("replicator gone"))
        // A supervisor, which can only restart, does not take that for a reason.
        for path in ["/live", "/ready"] { #expect(try await port.get(path).status == 200) }
    }
}

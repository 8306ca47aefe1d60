import Documents
import Glibc
import TestSupport
import Testing

/// One listener of a running agent: stopped and started by hand, and bound as soon as its port is free.
@Suite("Listeners one by one")
struct ListenerSteeringTests {
    @Test("one listener is stopped and started by command, and another goes on")
    func byHand() async throws {
        let port = try freePort()
        let agent = try await AgentProcess.start("""
            data: data
            admin: { port: 0 }
            databases: { main: {} }
            listeners:
              - { name: one, databases: [ main ], interface: 127.0.0.1, port: \(port), disable_tls: true }
              - { name: two, databases: [ main ], interface: 127.0.0.1, port: 0, disable_tls: true }
            """)
        let edge = try await AgentProcess.start(Configuration.edge(to: port))
        try await edge.connects("hub")
        let stopped = try await agent.command("listener", "one", "stop")
        #expect(stopped.status == 0 && stopped.output == "one: stopped\n", "\(stopped)")
        try await edge.waits("offline") { $0["activity"]?.asString == "offline" && $0["error"]?.isNull == false }
        // Its peers are told why, with the code after which they try again by themselves.
        let told = try await edge.process.line(containing: "stopped by an operator", in: .errors)
        #expect(told.contains("4001") && !told.contains("restarting"), "\(told)")
        let listener = try await agent.listener("one")
        #expect(listener["activity"]?.asString == "stopped" && listener["urls"]?.asArray?.isEmpty == true)
        #expect(try await agent.metrics().contains("nightjar_listener_up{listener=\"one\"} 0\n"))
        // Who stopped it knows of it; who comes after may not.
        let health = try await agent.admin.get("/health")
        #expect(health.status == 200 && health.text.contains("listener_stopped") && health.text.contains("nightjar listener one start"), "\(health)")
        #expect(try await HTTPProbe.tcp(port: agent.port("two")).get("/main").status == 200)

        let started = try await agent.command("listener", "one", "start")
        #expect(started.status == 0 && started.output == "one: listening\n", "\(started)")
        #expect(try await agent.admin.get("/health").text.contains("listener_stopped") == false)
        try await edge.post("/api/replicators/hub/start")
        try await edge.connects("hub")
        #expect(try await agent.metrics().contains("nightjar_listener_up{listener=\"one\"} 1\n"))
        // Again is no mistake.
        #expect(try await agent.command("listener", "one", "start").status == 0)
        let unknown = try await agent.command("listener", "three", "stop")
        #expect(unknown.status == 1 && unknown.errors.contains("there is no listener \"three\"; there is one, two"), "\(unknown)")
    }

    @Test("a port that is in use does not end the agent: health says so, and the listener gets it once it is free")
    func takenPort() async throws {
        let holder = try await AgentProcess.start(Configuration.hub())
        let port = try holder.port("edge")
        let agent = try await AgentProcess.start(Configuration.hub(port: port))
        #expect(!agent.ready.contains("edge="))
        let health = try await agent.admin.get("/health")
        let reason = try health.json["attention"]?.asArray?.first
        #expect(health.status == 503 && reason?["kind"]?.asString == "listener_waiting", "\(health)")
        #expect(reason?["text"]?.asString?.contains("in use") == true && reason?["subject"]?.asString == "listener edge")
        #expect(try await agent.listener("edge")["activity"]?.asString == "waiting")
        #expect(try await agent.listener("edge")["next_attempt_at"]?.asString != nil)
        // The code, its explanation and the text agree, and say who can be asked.
        #expect(try await agent.listener("edge")["error"]?["code"] == 25)
        #expect(reason?["text"]?.asString?.contains("ss -ltnp 'sport = :\(port)'") == true, "\(health)")
        // Once, and nothing of an interface, which is there.
        let remedy = reason?["remedy"]?.asString ?? ""
        #expect(remedy.hasPrefix("free the port") && !remedy.contains("ss -ltnp") && !remedy.contains("interface"), "\(remedy)")
        for code in ["network/25", "listener_waiting"] {
            let words = try await NightjarExecutable.run("explain", code).output
            #expect(words.contains("ss -ltnp") && words.contains("nightjar listener NAME start"), "\(words)")
        }
        try await holder.stop()
        try await eventually("it listens") { try await agent.listener("edge")["activity"]?.asString == "listening" }
        #expect(try await agent.admin.get("/health").status == 200)
        let edge = try await AgentProcess.start(Configuration.edge(to: port))
        try await edge.connects("hub")
    }

    @Test("an interface that is not there yet is waited for; a stop ends that, and the agent stops in order")
    func missingInterface() async throws {
        let folder = try TemporaryFolder()
        let agent = try await AgentProcess.start(
            Configuration.hub(listener: "authenticator: none").replacing("interface: 127.0.0.1", with: "interface: nosuch0"), in: folder)
        #expect(try await agent.listener("edge")["error"]?["code"]?.asInt64 == 27)
        let remedy = try await agent.admin.get("/health").json["attention"]?.asArray?.first?["remedy"]?.asString ?? ""
        #expect(remedy.contains("correct the listener's interface") && !remedy.contains("free the port"), "\(remedy)")
        #expect(try await agent.command("listener", "edge", "stop").status == 0)
        #expect(try await agent.admin.get("/health").status == 200)
        let started = try await agent.command("listener", "edge", "start")
        #expect(started.output.hasPrefix("edge: waiting: ") && started.output.contains("nosuch0"), "\(started)")
        // Another configuration takes its place.
        #expect(try await agent.reload(Configuration.hub()).status == 0)
        #expect(try await agent.listener("edge")["activity"]?.asString == "listening")
        #expect(try await agent.stop().status == 0)
    }

    @Test("peers of a listener that is stopped are told to come back")
    func closeCode() async throws {
        let agent = try await AgentProcess.start(Configuration.hub())
        let peer = try await Peer.connect(agent)
        #expect(try await agent.command("listener", "edge", "stop").status == 0)
        #expect(try await peer.closeCode() == 4001)
        #expect(try await agent.stop().status == 0)
    }

    @Test("a listener whose files are broken can be stopped; it starts once they are whole")
    func brokenFiles() async throws {
        let certificates = try await Certificates()
        let folder = try TemporaryFolder()
        for suffix in ["key", "pem"] { try folder.copy(certificates.path("alone.\(suffix)"), to: "hub.\(suffix)") }
        chmod(folder.path("hub.key"), 0o600)
        let agent = try await AgentProcess.start(Configuration.secureHub([("edge", "identity: { certificate: hub.pem, key: hub.key }")]), in: folder)
        let port = try agent.port("edge")
        try folder.write("hub.pem", "nonsense")
        let stopped = try await agent.command("listener", "edge", "stop")
        #expect(stopped.status == 0 && stopped.output == "edge: stopped\n", "\(stopped)")
        await #expect(throws: SupportError.self) { try await HTTPProbe.tcp(port: port).get("/main") }
        let refused = try await agent.command("listener", "edge", "start")
        #expect(refused.status != 0 && refused.errors.contains("hub.pem"), "\(refused)")
        #expect(try await agent.listener("edge")["activity"]?.asString == "stopped")
        try folder.copy(certificates.path("alone.pem"), to: "hub.pem")
        let started = try await agent.command("listener", "edge", "start")
        #expect(started.status == 0 && started.output == "edge: listening\n", "\(started)")
        #expect(try await agent.stop().status == 0)
    }

    @Test("what an operator stopped stays stopped through a reload, until its own settings change")
    func stoppedThroughReloads() async throws {
        let agent = try await AgentProcess.start(Configuration.hub(databases: ["main", "side"]))
        func activity() async throws -> String? { try await agent.listener("edge")["activity"]?.asString }
        #expect(try await agent.command("listener", "edge", "stop").status == 0)
        // It concerns every listener, and the next whoever serves the database.
        let limit = "limits: { max_blob_bytes: 1MiB }\n"
        let reload = try await agent.reload(Configuration.hub(databases: ["main", "side"], more: limit))
        #expect(reload.status == 0 && !reload.output.contains("listener edge started"), "\(reload)")
        #expect(try await activity() == "stopped")
        #expect(try await agent.reload(Configuration.hub(databases: ["main", "side"], database: "{ history: { revisions: 30 } }", more: limit)).status == 0)
        #expect(try await activity() == "stopped")
        let own = try await agent.reload(
            Configuration.hub(databases: ["main", "side"], database: "{ history: { revisions: 30 } }", listener: "max_connections: 7", more: limit))
        #expect(own.status == 0 && own.output.contains("listener edge started"), "\(own)")
        #expect(try await activity() == "listening")
        #expect(try await agent.stop().status == 0)
    }

    @Test("a reload that fails leaves a stopped listener stopped, though it changes its settings")
    func stoppedThroughRefusedReload() async throws {
        let taken = try TakenPort()
        let agent = try await AgentProcess.start(Configuration.hub(port: taken.port))
        #expect(try await agent.command("listener", "edge", "stop").status == 0)
        #expect(try await agent.listener("edge")["activity"]?.asString == "stopped")
        let refused = try await agent.reload(Configuration.hub(listener: "max_connections: 7", port: taken.port))
        #expect(refused.status == 1 && refused.errors.contains("in use"), "\(refused)")
        #expect(try await agent.listener("edge")["activity"]?.asString == "stopped")
        #expect(try await agent.stop().status == 0)
    }

    @Test("a listener that waits for its port goes on waiting through a reload that changes it")
    func waitingThroughReload() async throws {
        var taken: TakenPort? = try TakenPort()
        let port = taken?.port ?? 0
        let agent = try await AgentProcess.start(Configuration.hub(port: port))
        let reload = try await agent.reload(Configuration.hub(listener: "max_connections: 7", port: port))
        #expect(reload.status == 0 && reload.output.contains("listener edge waits for its port"), "\(reload)")
        #expect(try await agent.listener("edge")["activity"]?.asString == "waiting")
        taken = nil
        try await eventually("it listens") { try await agent.listener("edge")["activity"]?.asString == "listening" }
        _ = taken
        #expect(try await agent.stop().status == 0)
    }

    @Test("start reports the result of the attempt")
    func startAnswers() async throws {
        var taken: TakenPort? = try TakenPort()
        let agent = try await AgentProcess.start(Configuration.hub(port: taken?.port ?? 0))
        let blocked = try await agent.command("listener", "edge", "start")
        #expect(blocked.output.hasPrefix("edge: waiting: ") && blocked.output.contains("in use"), "\(blocked)")
        taken = nil
        let started = try await agent.command("listener", "edge", "start")
        #expect(started.status == 0 && started.output == "edge: listening\n", "\(started)")
        _ = taken
        #expect(try await agent.stop().status == 0)
    }
}

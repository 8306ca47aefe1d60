import Documents
import Glibc
import TestSupport
import Testing

/// One list: what `/health`, `nightjar status`, `/api/status` and `/metrics` say needs attention.
@Suite("What needs attention")
struct AttentionTests {
    private static let gate = "return { push_filter = function(doc) return doc.a.b ~= 1 end }\n"

    private func entry(_ kind: String, _ list: JSONValue?) -> JSONValue? { list?.asArray?.first { $0["kind"]?.asString == kind } }

    @Test("held documents and a refused configuration make it unhealthy, a refused plugin does not; each is in all four, with its remedy, and ends when fixed")
    func oneList() async throws {
        let hub = try await AgentProcess.start(Configuration.hub())
        let folder = try TemporaryFolder()
        try folder.write("plugins/gate.lua", Self.gate)
        let configuration = Configuration.edge(to: try hub.port("edge"), collection: "{ push_filter: gate }", plugins: true)
        let edge = try await AgentProcess.start(configuration, in: folder)
        #expect(try await edge.admin.get("/health").json["status"] == "ok")
        #expect(try await edge.command("status").output.hasSuffix("\nnothing needs attention\n"))
        try await edge.save("poor", "{}")
        try await edge.waits("held", is: 1)
        try folder.write("nightjar.yaml", configuration + "bogus: 1\n")
        #expect(try await edge.command("reload").status == 78)
        try folder.write("plugins/gate.lua", "return {\n")
        try await eventually("the plugin is refused") { try await edge.plugin("gate")["refused"]?.isNull == false }

        let (health, status) = (try await edge.admin.get("/health"), try await edge.status())
        #expect(try health.status == 503 && health.json["status"] == "unhealthy")
        let (text, metrics) = (try await edge.command("status").output, try await edge.metrics())
        for (kind, gravity, subject, remedy) in [
            ("documents_held", "unhealthy", "replicator hub", "nightjar replicator hub held"),
            ("configuration_refused", "unhealthy", "configuration", "nightjar reload"),
            ("plugin_refused", "attention", "plugin gate", "fix the file"),
        ] {
            let found = try #require(entry(kind, try health.json["attention"]), "\(kind): \(health)")
            #expect(entry(kind, status["attention"]) == found)
            #expect(found["gravity"]?.asString == gravity && found["subject"]?.asString == subject, "\(found.text)")
            #expect(found["remedy"]?.asString?.contains(remedy) == true && found["since"]?.asString?.hasPrefix("20") == true, "\(found.text)")
            #expect(text.contains("\(gravity == "unhealthy" ? "UNHEALTHY" : "needs attention"): \(subject): "), "\(kind): \(text)")
            #expect(metrics.contains("nightjar_attention{kind=\"\(kind)\",gravity=\"\(gravity)\"} 1\n"), "\(kind)")
        }
        #expect(metrics.contains("nightjar_attention{kind=\"writes_failing\",gravity=\"unhealthy\"} 0\n") && metrics.contains("nightjar_healthy 0\n"))
        let held = try await edge.replicator("hub")
        #expect(held["attention"]?.text.contains("1 document held because a filter failed") == true, "\(held["attention"]?.text ?? "")")
        _ = try await edge.process.line(containing: "needs attention: replicator hub: 1 document held because a filter failed", in: .errors)
        // A supervisor is not told to restart it.
        #expect(try await edge.admin.get("/live").status == 200)
        #expect(try await edge.admin.get("/ready").status == 200)

        try folder.write("plugins/gate.lua", "return { push_filter = function(doc) return true end }\n")
        try folder.write("nightjar.yaml", configuration)
        // Put back right: that is seen at once, with no reload.
        let mended = try await edge.admin.get("/health")
        #expect(try entry("configuration_refused", mended.json["attention"]) == nil, "\(mended)")
        #expect(try await edge.command("reload").status == 0)
        try await eventually("nothing is left") { try await edge.admin.get("/health").json["status"] == "ok" }
        #expect(try await hub.has("poor"))
        _ = try await edge.process.line(containing: "replicator hub: documents_held is over", in: .errors)
    }

    @Test("what a listener holds back or refuses is counted in metrics, and its log names a document and the peer")
    func listener() async throws {
        let folder = try TemporaryFolder()
        try folder.write("plugins/out.lua", Self.gate)
        try folder.write("plugins/take.lua", "return { pull_filter = function(doc) return not doc.bad end }\n")
        try folder.write(
            "plugins/users.lua", "return { authenticate_password = function(name) return { name = name, read_only = name == 'ada' } end }\n")
        let hub = try await AgentProcess.start(
            Configuration.hub(listener: "push_filter: out\n    pull_filter: take\n    authenticator: users", plugins: true), in: folder)
        try await hub.save("poor", "{}")
        let edge = try await AgentProcess.start(
            Configuration.edge(to: try hub.port("edge"), replicator: "authenticator: { username: bob, password: x }"))
        try await edge.save("unwanted", #"{"bad":true}"#)
        try await edge.waits("refused", is: 1)
        try await eventually("held is counted") { try await hub.metrics().contains(#"nightjar_documents_held{listener="edge"} 1"#) }
        let entry = try #require(entry("documents_held", try await hub.status()["attention"]))
        #expect(entry["subject"] == "listener edge" && entry["text"]?.asString?.contains("1 document, and peers do not get it, such as document poor") == true, "\(entry.text)")
        let refusal = try await hub.process.line(containing: "document unwanted of _default._default refused in a push from a peer", in: .errors)
        #expect(refusal.contains("peer=127.0.0.1:") && refusal.contains("user=bob") && refusal.contains("info"), "\(refusal)")
        let failing = try await hub.process.line(containing: "document poor of _default._default not sent to a peer", in: .errors)
        #expect(failing.contains("out.lua:1:") && failing.contains("peer="), "\(failing)")

        // Whose right is missing.
        let reader = try await Peer.connect(hub, login: "YWRhOng=")
        let answer = try await reader.ask(Peer.revision("mine", "1-aa", "{}"))
        #expect(answer.error?.code == 403 && answer.error?.message == "the user \"ada\" may only read here: the authenticator says read_only", "\(answer)")
    }

    @Test("an import that is interrupted by a stop of the agent says what was stored and how to continue")
    func cutImport() async throws {
        let agent = try await AgentProcess.start(Configuration.hub())
        try agent.folder.write("lines.jsonl", (0..<1_000).map { "{\"_id\":\"doc-\($0)\"}\n" }.joined())
        // The writer of the pipe is not done when the agent ends.
        let command = try Subprocess(
            "/bin/sh", ["-c", "{ cat lines.jsonl; until [ -e go ]; do sleep 0.1; done; } | \"$@\"", "sh", try NightjarExecutable.path(), "import", "main", "--config", agent.configuration],
            folder: agent.folder.path)
        try await agent.waits(documents: 1_000)
        agent.process.send(15)
        #expect(try await agent.process.wait().status == 0)
        try agent.folder.write("go", "")
        let outcome = try await command.wait()
        let words = "the agent or its listener is stopping; the import ended after line 1000: 1000 saved, 0 unchanged, 0 conflicts, 0 failed; go on with line 1001"
        #expect(outcome.status == 1 && outcome.errors.contains(words), "\(outcome)")
    }
}

/// `nightjar replicator NAME …`, as operators use it.
@Suite("Steering a replicator")
struct SteeringTests {
    @Test("stop --keep outlives a restart, until a start; pending ID says whether that document waits, and start --reset looks at everything again")
    func keep() async throws {
        let hub = try await AgentProcess.start(Configuration.hub())
        let folder = try TemporaryFolder()
        let configuration = Configuration.edge(to: try hub.port("edge"))
        let first = try await AgentProcess.start(configuration, in: folder)
        try await first.save("early", "{}")
        try await eventually("early arrives") { try await hub.has("early") }
        #expect(try await first.command("replicator", "hub", "stop", "--keep").status == 0)
        try await first.waits("stopped") { $0["activity"]?.asString == "stopped" }
        #expect(try await first.stop().status == 0)

        let again = try await AgentProcess.start(configuration, in: folder)
        try await again.save("late", "{}")
        let status = try await again.replicator("hub")
        #expect(status["activity"] == "stopped" && status["stopped_by_operator"] == true)
        // Who stopped it may have forgotten it; the agent works all the same.
        let health = try await again.admin.get("/health")
        let kept = try #require(try health.json["attention"]?.asArray?.first { $0["kind"]?.asString == "replicator_kept_stopped" }, "\(health)")
        #expect(health.status == 200 && kept["gravity"] == "attention" && kept["subject"] == "replicator hub", "\(kept.text)")
        let since = try #require(kept["since"]?.asString)
        #expect(kept["text"]?.asString?.hasPrefix("stopped by an operator, ") == true, "\(kept.text)")
        #expect(kept["remedy"] == "start with: nightjar replicator hub start", "\(kept.text)")
        let shown = try await again.command("status").output
        #expect(shown.contains("needs attention: replicator hub: stopped by an operator, and stays so") && shown.contains("(since \(since))"), "\(shown)")
        #expect(try await again.command("replicator", "hub", "pending", "late").output == "late: pending\n")
        #expect(try await again.command("replicator", "hub", "pending", "early").output == "early: not pending\n")
        let late = try await again.command("replicator", "hub", "pending", "late", "--json")
        #expect(try JSONValue(parsing: late.output)["pending"] == true)
        #expect(try await !hub.has("late"))
        #expect(try await again.command("replicator", "hub", "start", "--reset").status == 0)
        try await eventually("late arrives") { try await hub.has("late") }
        #expect(try await again.admin.get("/health").json["attention"]?.text.contains("replicator_kept_stopped") == false)
        #expect(try await again.stop().status == 0)
        let third = try await AgentProcess.start(configuration, in: folder)
        try await third.isSettled()
    }

    @Test("a reset of a replicator that is connected outlives the end of the agent at once after the answer", arguments: ["TERM", "KILL"])
    func resetAndEnd(_ signal: String) async throws {
        let hub = try await AgentProcess.start(Configuration.hub())
        for n in 0..<5 { try await hub.save("kept-\(n)", "{}") }
        let folder = try TemporaryFolder()
        let configuration = Configuration.edge(to: try hub.port("edge"))
        var edge = try await AgentProcess.start(configuration, in: folder)
        for _ in 0..<3 {
            try await eventually("all are here") { [edge] in try await edge.has("kept-3") }
            try await edge.isSettled()
            // Only a reset brings it back.
            #expect(try await edge.command("doc", "purge", "main", "kept-3").status == 0)
            #expect(try await edge.command("replicator", "hub", "start", "--reset").status == 0)
            if signal == "KILL" {
                edge.process.send(SIGKILL)
                #expect(try await edge.process.wait().signal == SIGKILL)
            } else {
                #expect(try await edge.stop().status == 0)
            }
            edge = try await AgentProcess.start(configuration, in: folder)
        }
        try await eventually("it is back") { [edge] in try await edge.has("kept-3") }
    }

    @Test("orphaned lists what the remote took away and a filter here kept")
    func orphaned() async throws {
        let hubFolder = try TemporaryFolder()
        try hubFolder.write("plugins/route.lua", "return { sync = function(doc) channel(doc.team) end }\n")
        try hubFolder.write(
            "plugins/users.lua", "return { authenticate_password = function(name) return { name = name, channels = { 'red' } } end }\n")
        let hub = try await AgentProcess.start(Configuration.hub(listener: "authenticator: users\n    sync: route", plugins: true), in: hubFolder)
        let revision = try await hub.save("card", #"{"team":"red"}"#)
        let edge = try await AgentProcess.start(
            Configuration.edge(
                to: try hub.port("edge"), type: "pull",
                replicator: "authenticator: { username: ada, password: x }\n    enable_auto_purge: false"))
        try await edge.waits(documents: 1)
        #expect(try await edge.command("replicator", "hub", "orphaned").output == "nothing is orphaned\n")
        try await hub.save("card", #"{"_rev":"\#(revision)","team":"blue"}"#)
        try await eventually("it is listed") {
            try await JSONValue(parsing: edge.command("replicator", "hub", "orphaned", "--json").output).asArray?.first?["id"] == "card"
        }
        let table = try await edge.command("replicator", "hub", "orphaned").output
        #expect(table.contains("card") && table.contains("enable_auto_purge"), "\(table)")
        #expect(try await edge.has("card"))
    }
}

import Documents
import TestSupport
import Testing

@Suite struct ReplicatorCommandTests {
    @Test func aReplicatorIsStoppedAndStarted() async throws {
        let hub = try await AgentProcess.start(Configuration.plain)
        let edge = try await AgentProcess.start(
            Configuration.plain + "replicators:\n" + Configuration.replicator("hub", to: "ws://127.0.0.1:\(try hub.port("edge"))/main"))
        try await eventually("idle") { try await edge.replicator("hub")["activity"] == "idle" }
        let stop = try await edge.command("replicator", "hub", "stop", "--json")
        #expect(stop.status == 0, "\(stop)")
        #expect(try stop.json["ok"]?.asBool == true)
        try await eventually("stopped") { try await edge.replicator("hub")["activity"] == "stopped" }
        #expect(try await edge.replicator("hub")["error"]?.isNull == true)

        #expect(try await edge.put("main", "a", "{}").status == 201)
        let pending = try await edge.command("replicator", "hub", "pending")
        #expect(pending.status == 0, "\(pending)")
        #expect(pending.lines.count == 2 && pending.output.contains("a"))
        let rows = try #require(try await edge.command("replicator", "hub", "pending", "--json").json.asArray)
        let row = try #require(rows.first)
        #expect(rows.count == 1 && row["id"] == "a" && row["collection"] == "_default._default" && row["direction"] == "push" && row["since"] != nil, "\(row)")
        let help = try await NightjarExecutable.run("replicator", "--help").output.split(whereSeparator: \.isWhitespace).joined(separator: " ")
        #expect(help.contains("could not be pulled at the moment (direction pull)") && !help.contains("what is still to be pulled"), "\(help)")

        #expect(try await edge.command("replicator", "hub", "start").status == 0)
        try await eventually("the document arrives") { try await hub.get("main", "a").status == 200 }
        try await eventually("nothing is pending") {
            try await edge.command("replicator", "hub", "pending").output == "nothing is pending\n"
        }
        #expect(try await edge.command("replicator", "hub", "held").output == "nothing is held\n")
        let list = try await edge.command("replicator", "list")
        #expect(list.output.contains("hub") && list.output.contains("push_and_pull, continuous"), "\(list)")
        #expect(try await edge.command("replicator", "list", "--json").json.asArray?.count == 1)
    }

    @Test func aReplicatorIsSuspendedAndResumed() async throws {
        let hub = try await AgentProcess.start(Configuration.plain)
        let edge = try await AgentProcess.start(
            Configuration.plain + "replicators:\n" + Configuration.replicator("hub", to: "ws://127.0.0.1:\(try hub.port("edge"))/main"))
        try await eventually("idle") { try await edge.replicator("hub")["activity"] == "idle" }
        #expect(try await edge.command("replicator", "hub", "suspend").output == "hub: suspended\n")
        try await eventually("offline") { try await edge.replicator("hub")["activity"] == "offline" }
        #expect(try await edge.replicator("hub")["suspended"]?.asBool == true)
        #expect(try await edge.command("status").output.contains("offline, suspended"))
        #expect(try await edge.admin.get("/health").status == 200)
        try await eventually("nobody is connected") { try await hub.status()["listeners"]?.asArray?.first?["connections"] == 0 }
        #expect(try await edge.put("main", "a", "{}").status == 201)
        #expect(try await edge.command("replicator", "hub", "resume", "--json").json["ok"]?.asBool == true)
        try await eventually("the document arrives") { try await hub.get("main", "a").status == 200 }
        #expect(try await edge.command("replicator", "hub", "stop").status == 0)
        try await eventually("stopped") { try await edge.replicator("hub")["activity"] == "stopped" }
        let refused = try await edge.command("replicator", "hub", "resume")
        #expect(refused.status == 1 && refused.errors.contains("is stopped; start it"), "\(refused)")
    }

    @Test func oneThatIsStoppedByHandIsNotIll() async throws {
        let edge = try await AgentProcess.start(
            Configuration.plain + "replicators:\n" + Configuration.replicator("away", to: "ws://127.0.0.1:1/main")
                + Configuration.replicator("once", to: "ws://127.0.0.1:1/other", continuous: false, more: "max_attempts: 1"))
        try await eventually("both have failed") {
            let (away, once) = (try await edge.replicator("away"), try await edge.replicator("once"))
            return away["activity"] == "offline" && once["activity"] == "stopped" && once["error"]?.isNull == false
        }
        #expect(try await edge.admin.get("/health").text.contains("replicator once: stopped"))
        for name in ["away", "once"] { #expect(try await edge.command("replicator", name, "stop").status == 0) }
        try await eventually("both are stopped and nothing is wrong") {
            for name in ["away", "once"] {
                let status = try await edge.replicator(name)
                guard status["activity"] == "stopped", status["error"]?.isNull == true, status["attempt"] == 0 else { return false }
            }
            return try await edge.admin.get("/health").status == 200
        }
    }

    @Test func listsAreWhole() async throws {
        let folder = try TemporaryFolder()
        try folder.write("plugins/fragile.lua", "return {\n  push_filter = function(doc) return doc.a.b end\n}\n")
        let edge = try await AgentProcess.start(
            Configuration.plain + "replicators:\n" + Configuration.replicator("away", to: "ws://127.0.0.1:1/main"), in: folder)
        let count = 10_050
        let lines = (0..<count).map { "{\"_id\":\"doc-\($0)\"}\n" }.joined()
        #expect(try await edge.command("import", "main", input: .text(lines)).output.hasPrefix("\(count) saved"))
        let status = try await edge.replicator("away")
        #expect(status["pending"] == 10_000 && status["pending_is_capped"] == true)
        #expect(try await edge.command("status").output.contains("10000+"))
        #expect(try await edge.command("replicator", "list").output.contains("10000+"))
        #expect(try await edge.admin.get("/metrics").text.contains("nightjar_replicator_pending_is_capped{replicator=\"away\"} 1\n"))
        #expect(try await edge.command("replicator", "away", "pending").lines.count == count + 1)
        #expect(try await edge.command("replicator", "away", "pending", "--json").json.asArray?.count == count)
        #expect(try await edge.admin.get("/api/replicators/away/pending").json.asArray?.count == count)
        // TLS is in the status of one as in that of all.
        #expect(try await edge.admin.get("/api/replicators/away").json["tls"] == edge.replicator("away")["tls"])
    }

    @Test func aHeldDocumentIsShownWithItsError() async throws {
        let hub = try await AgentProcess.start(Configuration.plain)
        let folder = try TemporaryFolder()
        try folder.write("plugins/fragile.lua", "return {\n  push_filter = function(doc) return doc.a.b end\n}\n")
        let edge = try await AgentProcess.start(
            Configuration.plain + "replicators:\n"
                + Configuration.replicator(
                    "hub", to: "ws://127.0.0.1:\(try hub.port("edge"))/main", more: "collections: { _default: { push_filter: fragile } }"),
            in: folder)
        #expect(try await edge.put("main", "x", "{}").status == 201)
        try await eventually("it is held") { try await edge.replicator("hub")["held"] == 1 }
        let held = try await edge.command("replicator", "hub", "held")
        #expect(held.status == 0)
        #expect(held.output.contains("fragile.lua:2:") && held.output.contains("fragile"), "\(held)")
        #expect(try await edge.command("replicator", "hub", "held", "--json").json.asArray?.first?["id"] == "x")
    }

    @Test func whatThePeerRefusesIsListedAndOfferedAgain() async throws {
        let hubFolder = try TemporaryFolder()
        let strict = "return {\n  pull_filter = function(doc) return not doc.bad end\n}\n"
        try hubFolder.write("plugins/strict.lua", strict)
        let hub = try await AgentProcess.start(
            Configuration.plain.replacing("disable_tls: true", with: "disable_tls: true, pull_filter: strict"), in: hubFolder)
        let configuration =
            Configuration.plain + "replicators:\n" + Configuration.replicator("hub", to: "ws://127.0.0.1:\(try hub.port("edge"))/main")
        let first = try await AgentProcess.start(configuration)
        var edge = first
        #expect(try await edge.put("main", "x", #"{"bad":true}"#).status == 201)
        try await eventually("it is refused") { try await first.replicator("hub")["refused"] == 1 }
        let list = try await edge.command("replicator", "hub", "refused", "--json")
        let row = try #require(try list.json.asArray?.first)
        #expect(row["id"] == "x" && row["status"] == 403 && row["rev"]?.asString?.hasPrefix("1-") == true, "\(list)")
        #expect(row["reason"]?.asString?.isEmpty == false && row["since"]?.asString?.isEmpty == false)
        #expect(try await edge.command("replicator", "hub", "refused").output.contains("403"))
        #expect(try await edge.command("status").output.contains("needs attention: replicator hub: the peer refuses 1 document"))
        // No restart would fix it.
        let health = try await edge.admin.get("/health")
        #expect(try health.status == 200 && health.json["status"] == "attention", "\(health)")
        let entry = try #require(try health.json["attention"]?.asArray?.first)
        #expect(entry["kind"] == "documents_refused" && entry["gravity"] == "attention" && entry["subject"] == "replicator hub")
        #expect(entry["since"] == row["since"] && entry["remedy"]?.asString?.contains("retry-refused") == true, "\(entry.text)")
        let metric = #"nightjar_documents_refused{replicator="hub"} 1"#
        #expect(try await edge.admin.get("/metrics").text.contains(metric))

        // A restart forgets nothing; the peer's rule changes, and the operator asks for another try.
        _ = try await edge.stop()
        edge = try await AgentProcess.start(configuration, in: first.folder)
        #expect(try await edge.command("replicator", "hub", "rejected", "--json").json.asArray?.first?["since"] == row["since"])
        try hubFolder.write("plugins/strict.lua", strict.replacing("not doc.bad", with: "true"))
        let second = edge
        try await eventually("it is taken") {
            _ = try await second.command("replicator", "hub", "retry-refused")
            return try await hub.get("main", "x").status == 200
        }
        try await eventually("nothing is listed") { try await second.command("replicator", "hub", "rejected").output.hasPrefix("the peer refuses nothing;") }
        #expect(try await edge.command("replicator", "hub", "retry-refused").output == "hub: the peer refuses nothing: nothing is offered again\n")

        // One that only pulls offers nothing, and says so.
        try hubFolder.write("plugins/strict.lua", strict)
        // Until the hub has read its plugin again, documents pass.
        try await eventually("another is refused") {
            #expect(try await second.put("main", "y-\(UInt64.random(in: 0 ... .max))", #"{"bad":true}"#).status == 201)
            return try await second.replicator("hub")["refused"]?.asInt64 ?? 0 > 0
        }
        try edge.folder.write("nightjar.yaml", configuration.replacing("    continuous: true", with: "    continuous: true\n    type: pull"))
        #expect(try await edge.command("reload").status == 0)
        #expect(try await edge.command("replicator", "hub", "refused").output.hasPrefix("the peer refuses nothing;"))
        #expect(try await edge.replicator("hub")["refused"] == 0)
        let nothing = try await edge.command("replicator", "hub", "retry-refused")
        #expect(nothing.status == 1 && nothing.errors.contains("only pulls"), "\(nothing)")
        #expect(try await edge.command("status").output.contains("the peer refuses") == false)
    }

    @Test("start retries waiting documents at once, and says how many")
    func startTriesWhatWaits() async throws {
        let hubFolder = try TemporaryFolder()
        let strict = "return {\n  pull_filter = function(doc) return not doc.bad end\n}\n"
        try hubFolder.write("plugins/strict.lua", strict)
        let hub = try await AgentProcess.start(
            Configuration.plain.replacing("disable_tls: true", with: "disable_tls: true, pull_filter: strict"), in: hubFolder)
        let folder = try TemporaryFolder()
        try folder.write(
            "plugins/fragile.lua",
            "return {\n  push_filter = function(doc) return not doc.broken or doc.a.b end,\n  pull_filter = function(doc) return not doc.broken or doc.a.b end\n}\n")
        let edge = try await AgentProcess.start(
            Configuration.plain + "replicators:\n"
                + Configuration.replicator(
                    "hub", to: "ws://127.0.0.1:\(try hub.port("edge"))/main", more: "collections: { _default: { push_filter: fragile, pull_filter: fragile } }"),
            in: folder)
        #expect(try await edge.command("replicator", "hub", "start").output == "hub: started\n")
        #expect(try await edge.put("main", "ours", #"{"broken":true}"#).status == 201)
        #expect(try await edge.put("main", "bad", #"{"bad":true}"#).status == 201)
        #expect(try await hub.put("main", "theirs", #"{"broken":true}"#).status == 201)
        try await eventually("two are held and one is refused") {
            let status = try await edge.replicator("hub")
            return status["held"] == 2 && status["refused"] == 1 && status["activity"] == "idle"
        }
        try hubFolder.write("plugins/strict.lua", strict.replacing("not doc.bad", with: "true"))
        #expect(try await hub.command("plugin", "reload").status == 0)
        let started = try await edge.command("replicator", "hub", "start")
        #expect(started.output == "hub: started, trying again at once: 3 documents (2 held, 1 refused by the peer)\n", "\(started)")
        try await eventually("the refused one is taken, and the held ones were tried once more") {
            let held = try await edge.command("replicator", "hub", "held", "--json").json.asArray ?? []
            guard held.count == 2, held.allSatisfy({ $0["tries"]?.asInt64 ?? 0 > 1 }) else { return false }
            return try await hub.get("main", "bad").status == 200
        }
        let json = try await edge.command("replicator", "hub", "start", "--json").json
        #expect(json["held"] == 2 && json["now"] == true, "\(json.text)")
    }

    @Test func wrongNamesAndWordsAreRefused() async throws {
        let agent = try await AgentProcess.start(Configuration.plain)
        let unknown = try await agent.command("replicator", "bhu", "start")
        #expect(unknown.status == 1)
        #expect(unknown.errors.contains("there is no replicator \"bhu\""), "\(unknown)")
        #expect(try await agent.command("replicator", "hub", "restart").status == 64)
        #expect(try await agent.command("replicator", "hub").status == 64)
        #expect(try await agent.command("replicator", "hub", "stop", "--reset").status == 64)
        #expect(try await agent.command("replicator", "list").output == "no replicators\n")
    }
}

import Documents
import TestSupport
import Testing

/// Keys of the configuration that peers see something of.
@Suite("What settings do")
struct SettingEffectTests {
    @Test("peers see a listener's collections and nothing else")
    func listenerCollections() async throws {
        let collections = "{ collections: [ plant.readings, plant.secrets ] }"
        let hub = try await AgentProcess.start(Configuration.hub(database: collections, listener: "collections: [ plant.readings ]"))
        for name in ["plant.readings", "plant.secrets"] {
            #expect(try await hub.admin.request("PUT", "/api/databases/main.\(name)/documents/there", body: Array("{}".utf8)).status == 201)
        }
        let port = try hub.port("edge")
        func edge(_ wanted: String) async throws -> AgentProcess {
            try await AgentProcess.start("""
                data: data
                admin: { port: 0 }
                databases: { main: \(collections) }
                replicators:
                  - { name: hub, database: main, target: "ws://127.0.0.1:\(port)/main", continuous: true, collections: { \(wanted): {} } }
                """)
        }
        let open = try await edge("plant.readings")
        try await open.connects("hub")
        #expect(try await open.admin.get("/api/databases/main.plant.readings/documents/there").status == 200)
        for hidden in ["plant.secrets", "_default"] {
            let error = try await edge(hidden).refusal("hub")
            #expect(error["code"]?.asInt64 == 404, "\(hidden): \(error.text)")
        }
        let peer = HTTPProbe.tcp(port: port)
        #expect(try await peer.get("/main.plant.readings/there").status == 200)
        #expect(try await peer.get("/main.plant.secrets/there").status == 404)
        #expect(try await peer.get("/main").status == 404)
    }

    @Test("skip_deletions leaves out deletions of what the receiving side never had, both ways, and no others", arguments: [true, false])
    func skipDeletions(_ skips: Bool) async throws {
        let hub = try await AgentProcess.start(Configuration.hub())
        let edge = try await AgentProcess.start(Configuration.edge(to: try hub.port("edge"), collection: "{ skip_deletions: \(skips) }"))
        try await edge.post("/api/replicators/hub/stop")
        try await edge.waits("stopped") { $0["activity"]?.asString == "stopped" }
        for (agent, name) in [(edge, "edge"), (hub, "hub")] {
            try await agent.save("known-to-\(name)", "{}")
            try await agent.save("never-seen-by-others-\(name)", "{}")
            #expect(try await agent.admin.request("DELETE", "/api/databases/main/documents/never-seen-by-others-\(name)").status == 200)
        }
        try await edge.post("/api/replicators/hub/start")
        try await edge.isSettled()
        try await hub.waits(documents: 2)
        try await edge.waits(documents: 2)
        #expect(try await edge.admin.request("DELETE", "/api/databases/main/documents/known-to-edge").status == 200)
        #expect(try await hub.admin.request("DELETE", "/api/databases/main/documents/known-to-hub").status == 200)
        try await hub.waits(documents: 0)
        try await edge.waits(documents: 0)
        for agent in [edge, hub] {
            let deleted = try await agent.database("main")["collections"]?.asArray?.first?["deleted"]?.asInt64
            #expect(deleted == (skips ? 3 : 4))
        }
    }

    @Test("push_transform and pull_transform change what travels and what is stored, and nothing at its origin")
    func transforms() async throws {
        let hub = try await AgentProcess.start(Configuration.hub())
        let folder = try TemporaryFolder()
        folder.makeFolder("plugins")
        for name in ["out", "in"] {
            let plugin = """
                return { transform = function(doc, ctx)
                  local copy = nightjar.copy(doc)
                  copy.secret = nil
                  copy.went = "\(name) " .. ctx.direction
                  return copy
                end }
                """
            try folder.write("plugins/\(name).lua", plugin)
        }
        let edge = try await AgentProcess.start(
            Configuration.edge(to: try hub.port("edge"), collection: "{ push_transform: out, pull_transform: in }", plugins: true), in: folder)
        try await edge.save("mine", "{\"n\":1,\"secret\":\"s\"}")
        try await hub.save("theirs", "{\"n\":2,\"secret\":\"s\"}")
        try await hub.waits(documents: 2)
        try await edge.waits(documents: 2)
        try await edge.isSettled()
        func content(_ agent: AgentProcess, _ id: String) async throws -> String {
            let json = try await agent.get("main", id).json
            return "\(json["n"]?.text ?? "-") \(json["secret"]?.text ?? "-") \(json["went"]?.text ?? "-")"
        }
        #expect(try await content(edge, "mine") == "1 \"s\" -")
        #expect(try await content(hub, "mine") == "1 - \"out push\"")
        #expect(try await content(hub, "theirs") == "2 \"s\" -")
        #expect(try await content(edge, "theirs") == "2 - \"in pull\"")
        // The revisions are the same, so that nothing goes round.
        #expect(try await edge.revisions() == hub.revisions())
    }

    enum Place: CaseIterable { case nowhere, replicator, listener, database }

    @Test("delta_sync: false turns off deltas wherever it is set", arguments: Place.allCases)
    func deltas(_ place: Place) async throws {
        let off = "delta_sync: false"
        let hub = try await AgentProcess.start(
            Configuration.hub(database: place == .database ? "{ \(off) }" : "{}", listener: place == .listener ? off : ""))
        let edge = try await AgentProcess.start(Configuration.edge(to: try hub.port("edge"), replicator: place == .replicator ? off : ""))
        let text = String(repeating: "wind and weather ", count: 600)
        let revision = try await edge.save("doc", "{\"n\":0,\"text\":\"\(text)\"}")
        try await hub.waits(documents: 1)
        try await edge.isSettled()
        try await edge.save("doc", "{\"_rev\":\"\(revision)\",\"n\":1,\"text\":\"\(text)\"}")
        try await eventually("the change is there") { try await hub.revisions() == edge.revisions() }
        try await edge.isSettled()
        #expect(try await hub.field("text", of: "doc")?.asString == text)
        #expect(try await edge.replicator("hub")["delta"]?["sent"]?.asInt64 == (place == .nowhere ? 1 : 0))
    }

    @Test("silence_interval says how often an idle replicator asks whether it misses something; 0 is never")
    func silence() async throws {
        let hub = try await AgentProcess.start(Configuration.hub(databases: ["main", "other"]))
        let port = try hub.port("edge")
        let edge = try await AgentProcess.start("""
            data: data
            admin: { port: 0 }
            databases: { main: {} }
            replicators:
              - { name: asks, database: main, target: "ws://127.0.0.1:\(port)/main", continuous: true, silence_interval: 1 }
              - { name: trusts, database: main, target: "ws://127.0.0.1:\(port)/other", continuous: true, silence_interval: 0 }
            """)
        for name in ["asks", "trusts"] { try await edge.connects(name) }
        try await edge.waits("it has asked", replicator: "asks") { $0["silence"]?["checks"]?.asInt64 ?? 0 >= 2 }
        #expect(try await edge.replicator("trusts")["silence"]?["checks"]?.asInt64 == 0)
        #expect(try await edge.replicator("asks")["silence"]?["reconnects"]?.asInt64 == 0)
        #expect(try await edge.metrics().contains("nightjar_replicator_silence_checks_total{replicator=\"trusts\"} 0\n"))
    }
}

/// How many bytes documents take on the wire.
@Suite("What compression does")
struct CompressionTests {
    private static let documents = 150

    /// Half of each document says nothing new, the other half is digits that only a thorough compression makes fewer bytes of.
    private static var lines: String {
        var state: UInt64 = 42
        return (0..<documents).map { number in
            var digits = ""
            for _ in 0..<40 {
                state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
                digits += String(state >> 4, radix: 16)
            }
            return "{\"_id\":\"d\(number)\",\"digits\":\"\(digits)\",\"words\":\"\(String(repeating: "wind and weather ", count: 35))\"}"
        }.joined(separator: "\n")
    }

    /// What crosses the wire while all documents do.
    private func crossed(_ type: String, listener: String = "", replicator: String = "") async throws -> Int {
        let hub = try await AgentProcess.start(Configuration.hub(listener: listener))
        let relay = try CountingRelay(to: try hub.port("edge"))
        if type == "pull" { try await hub.post("/api/databases/main/import", Self.lines) }
        let edge = try await AgentProcess.start(Configuration.edge(to: relay.port, type: type, replicator: replicator))
        if type == "push" { try await edge.post("/api/databases/main/import", Self.lines) }
        for agent in [hub, edge] { try await agent.waits(documents: Int64(Self.documents)) }
        try await edge.isSettled()
        return relay.bytes
    }

    @Test("compression is each side's effort to send fewer bytes, and off sends everything uncompressed", arguments: ["push", "pull"])
    func levels(_ type: String) async throws {
        let plain = Self.lines.utf8.count
        func with(_ key: String) async throws -> (sender: Int, receiver: Int) {
            let pushes = type == "push"
            return (
                try await crossed(type, listener: pushes ? "" : key, replicator: pushes ? key : ""),
                try await crossed(type, listener: pushes ? key : "", replicator: pushes ? "" : key)
            )
        }
        let usual = try await crossed(type)
        let off = try await with("compression: off")
        let best = try await with("compression: 9")
        #expect(off.sender > plain, "\(off.sender) of \(plain)")
        #expect(usual < off.sender * 3 / 4, "\(usual) against \(off.sender)")
        #expect(best.sender < usual * 9 / 10, "\(best.sender) against \(usual)")
        // The other side decides about the documents.
        for receiver in [off.receiver, best.receiver] { #expect((usual * 9 / 10...usual * 11 / 10).contains(receiver), "\(receiver) against \(usual)") }
    }

    @Test("a reload puts another level in force")
    func reload() async throws {
        let hub = try await AgentProcess.start(Configuration.hub())
        let relay = try CountingRelay(to: try hub.port("edge"))
        let folder = try TemporaryFolder()
        let edge = try await AgentProcess.start(Configuration.edge(to: relay.port, type: "push"), in: folder)
        try await edge.connects("hub")
        try folder.write("nightjar.yaml", Configuration.edge(to: relay.port, type: "push", replicator: "compression: off"))
        #expect(try await edge.command("reload").status == 0)
        try await edge.post("/api/databases/main/import", Self.lines)
        try await hub.waits(documents: Int64(Self.documents))
        #expect(relay.bytes > Self.lines.utf8.count)
    }
}

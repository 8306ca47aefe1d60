import Documents
import TestSupport
import Testing

/// A new version of a filter runs beside the old one, in the real program.
@Suite("Shadows of filters", .serialized, .agent(Configuration.hub(databases: ["main", "source"])))
struct ShadowTests {
    private static func filter(_ hook: String, _ test: String) -> String { "return { \(hook) = function(doc) return \(test) end }\n" }

    private static func shadow(_ edge: AgentProcess, of name: String) async throws -> JSONValue {
        guard let shadow = try await edge.plugin(name)["shadows"]?.asArray?.first else { throw SupportError("\(name) is no shadow") }
        return shadow
    }

    @Test("the serving filter decides; what its shadow would have decided is counted and shown, and the shadow's failures change nothing")
    func push() async throws {
        let hub = try sharedAgent()
        let folder = try TemporaryFolder()
        try folder.write("plugins/gate.lua", Self.filter("push_filter", "doc.n ~= 3"))
        try folder.write("plugins/gate-2.lua", Self.filter("push_filter", "doc.n > 5"))
        let edge = try await AgentProcess.start(
            Configuration.edge(to: try hub.port("edge"), type: "push", collection: "{ push_filter: { plugin: gate, shadow: gate-2 } }", plugins: true),
            in: folder)
        for n in 1...9 { try await edge.save("shadowed-\(n)", "{\"n\":\(n)}") }
        for n in 1...9 where n != 3 { try await eventually("\(n) arrives") { try await hub.has("shadowed-\(n)") } }
        try await edge.waits("rejected", is: 1)
        try await edge.waits("held", is: 0)
        #expect(try await !hub.has("shadowed-3"))
        try await eventually("all are compared") { try await Self.shadow(edge, of: "gate-2")["compared"]?.asInt64 ?? 0 >= 9 }
        let shadow = try await Self.shadow(edge, of: "gate-2")
        #expect(shadow["place"] == "replicator hub push_filter" && shadow["beside"] == "gate", "\(shadow.text)")
        #expect(shadow["different"]?.asInt64 ?? 0 >= 4 && shadow["failed"] == 0 && shadow["skipped"] == 0, "\(shadow.text)")
        let differences = shadow["differences"]?.asArray ?? []
        #expect(Set(differences.compactMap { $0["id"]?.asString }) == ["shadowed-1", "shadowed-2", "shadowed-4", "shadowed-5"], "\(shadow.text)")
        #expect(differences.allSatisfy { $0["serving"] == "passes" && $0["candidate"] == "rejected" && $0["outcome"] == "different" })
        #expect(try await edge.plugin("gate")["shadows"] == [])
        let list = try await edge.command("plugin", "list").output
        #expect(list.contains("gate-2: a shadow of gate in replicator hub push_filter: ") && list.contains("shadowed-1: gate: passes; gate-2: rejected"), "\(list)")
        let metrics = try await edge.admin.get("/metrics").text
        let series = "nightjar_plugin_shadow_total{plugin=\"gate-2\",place=\"replicator hub push_filter\",beside=\"gate\",outcome="
        #expect(metrics.contains("\(series)\"different\"}") && metrics.contains("\(series)\"skipped\"} 0\n"), "\(metrics)")

        // A shadow that only fails decides nothing either, and health asks the operator to fix nothing.
        try await edge.plugin("gate-2", becomes: Self.filter("push_filter", "doc.a.b.c"))
        #expect(try await edge.load("later", 100) == 100)
        for n in [0, 50, 99] { try await eventually("later \(n) arrives") { try await hub.has("later-\(n)") } }
        try await eventually("its failures are counted") { try await Self.shadow(edge, of: "gate-2")["failed"]?.asInt64 ?? 0 >= 99 }
        #expect(try await Self.shadow(edge, of: "gate-2")["different"] == 0)
        let candidate = try await edge.plugin("gate-2")
        #expect(candidate["state"] == "active" && candidate["failing"] == [], "\(candidate.text)")
        try await edge.waits("held", is: 0)
        let health = try await edge.admin.get("/health").text
        #expect(!health.contains("gate-2"), "\(health)")
        #expect(try await edge.stop().status == 0)
    }

    @Test("a pull filter and a validation have shadows, and a configuration that names an unknown shadow is refused")
    func others() async throws {
        let hub = try sharedAgent()
        let folder = try TemporaryFolder()
        for (name, test) in [("intake", "true"), ("intake-2", "false")] { try folder.write("plugins/\(name).lua", Self.filter("pull_filter", test)) }
        try folder.write("plugins/rules.lua", "return { sync = function(doc) end }\n")
        try folder.write("plugins/rules-2.lua", "return { sync = function(doc) if doc.odd then throw({ forbidden = 'odd' }) end end }\n")
        let port = try hub.port("edge")
        func configuration(_ shadow: String) -> String {
            """
            data: data
            plugins: plugins
            admin: { port: 0, open: true }
            databases: { main: { validate: { plugin: rules, shadow: \(shadow) } } }
            replicators:
              - { name: hub, database: main, target: "ws://127.0.0.1:\(port)/source", type: pull, continuous: true, collections: { _default: { pull_filter: { plugin: intake, shadow: intake-2 } } } }
            """
        }
        let edge = try await AgentProcess.start(configuration("rules-2"), in: folder)
        try await hub.save("pulled", "{}", in: "source")
        try await eventually("it arrives") { try await edge.has("pulled") }
        try await edge.save("odd", "{\"odd\":true}")
        try await edge.save("even", "{}")
        let intake = try await eventually("the pull is compared") { () -> JSONValue? in
            let shadow = try await Self.shadow(edge, of: "intake-2")
            return shadow["different"]?.asInt64 ?? 0 > 0 ? shadow : nil
        }
        #expect(intake["place"] == "replicator hub pull_filter" && intake["differences"]?.asArray?.first?["id"] == "pulled", "\(intake.text)")
        let rules = try await eventually("both saves are compared") { () -> JSONValue? in
            let shadow = try await Self.shadow(edge, of: "rules-2")
            return shadow["compared"]?.asInt64 ?? 0 >= 2 ? shadow : nil
        }
        #expect(rules["place"] == "database main validate" && rules["different"]?.asInt64 ?? 0 >= 1 && rules["failed"] == 0, "\(rules.text)")
        #expect(rules["differences"]?.asArray?.first?["candidate"] == "rejected: odd", "\(rules.text)")
        #expect(try await edge.stop().status == 0)
        try folder.write("nightjar.yaml", configuration("rules-3"))
        let check = try await NightjarExecutable.run("check", "--config", folder.path("nightjar.yaml"))
        #expect(check.status == 78 && (check.errors + check.output).contains("rules-3"), "\(check)")
    }
}

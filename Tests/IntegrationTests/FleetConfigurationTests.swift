import Documents
import TestSupport
import Testing

/// Signed fragments of the configuration.
@Suite("A fleet's configuration")
struct FleetConfigurationTests {
    private static let accepting = "accept_config: [ log, plugin_limits, replicators.*.collections.*.push_filter ]"
    /// Passes what has the number of its parameter.
    private static let filter = """
        return {
          params = { n = { type = "number", default = 0 } },
          push_filter = function(doc, ctx) return doc.n == ctx.params.n end,
        }

        """

    private static func filter(_ number: Int) -> String {
        "replicators: [ { name: hub, collections: { _default: { push_filter: { plugin: gate, params: { n: \(number) } } } } } ]\n"
    }

    private func start(_ fleet: TestFleet) async throws -> AgentProcess {
        try await fleet.gateway(running: try fleet.configuration("north", fleet: Self.accepting), file: Self.filter)
    }

    @Test("a fragment sets what the gateway lets it set, over a restart without the hub too, until it is withdrawn")
    func sets() async throws {
        let fleet = try await TestFleet.make()
        let gateway = try await start(fleet)
        try await fleet.sends(gateway, 0, "own")
        #expect(try await fleet.configure(Self.filter(7)).output == "config:site:1 is published\n")
        try await fleet.waits("north", runs: 1, "config")
        try await fleet.sends(gateway, 7, "fragment")
        // A reload of the file keeps it.
        #expect(try await gateway.command("reload").status == 0)
        try await fleet.sends(gateway, 7, "reloaded")
        try await gateway.kill9()
        let port = try fleet.hub.port("edge")
        #expect(try await fleet.hub.stop().status == 0)
        let again = try await AgentProcess.start(try gateway.folder.text("nightjar.yaml"), in: gateway.folder)
        let alone = TestFleet(
            hub: try await AgentProcess.start(TestFleet.hubConfiguration(port: port), in: fleet.hub.folder), desk: fleet.desk, key: fleet.key)
        try await alone.sends(again, 7, "without-the-hub")
        #expect(try await alone.withdraw("site", "--fragment").status == 0)
        try await eventually("it is withdrawn") { try await alone.row("north", "config")?["state"]?.asString == "withdrawn" }
        try await alone.sends(again, 0, "own-again")
    }

    @Test("a fragment is refused as a whole, with the place, if it sets anything else, or the result does not check; what was in force goes on")
    func refusals() async throws {
        let fleet = try await TestFleet.make()
        let gateway = try await start(fleet)
        #expect(try await fleet.configure(Self.filter(1)).status == 0)
        try await fleet.waits("north", runs: 1, "config")
        let ways = [
            ("log: { level: debug }\nlisteners: [ { name: edge, databases: [ main ] } ]\n", "fleet/site.yaml:2:14: listeners.edge: this agent's file has none of that name"),
            (Self.filter(2) + "admin: { port: 4985 }\n", "admin.port: fleet.accept_config of this agent does not name it"),
            ("replicators: [ { name: hub, type: push } ]\n", "fleet/site.yaml:1:35: replicators.hub.type: fleet.accept_config of this agent does not name it"),
            ("log: { level: loud }\n", "fleet/site.yaml:1:15: log.level: expected"),
            ("replicators: [ { name: hub, collections: { _default: { push_filter: nobody } } } ]\n", "fleet/site.yaml:1:69: "),
            ("replicators: [ { name: hub, collections: { _default: { push_filter: { plugin: gate, params: { n: x } } } } } ]\n", "fleet/site.yaml:1:"),
            ("replicators: [ { name: hub, collections: { other: { push_filter: gate } } } ]\n", "this agent's file has none of that name, and a fragment cannot add one"),
        ]
        for (text, reason) in ways {
            #expect(try await fleet.configure(text, "--no-checks").status == 0, "\(text)")
            try await fleet.waits("north", refuses: reason)
        }
        try await fleet.sends(gateway, 1, "still")
        #expect(try await gateway.isWell())
        let health = try await gateway.admin.get("/health")
        #expect(health.text.contains("fleet config:site:8") && !health.text.contains("configuration_refused"), "\(health.text)")
        #expect(try await fleet.configure(Self.filter(3)).status == 0)
        try await fleet.waits("north", runs: 9, "config")
        try await fleet.waitsForNoRefusal("north")
        try await fleet.sends(gateway, 3, "mended")
    }

    @Test("secrets of a machine, aliases, invalid YAML and what every gateway would refuse are not published")
    func publishing() async throws {
        let fleet = try await TestFleet.make()
        for (text, reason) in [
            ("log: { level: \"${file:/etc/shadow}\" }\n", "fleet/site.yaml:1:15: ${…} stands for something on one machine"), ("log: [\n", "fleet/site.yaml:"),
            ("just a text\n", "expected a mapping"), ("log: { level: loud }\n", "fleet/site.yaml:1:15: log.level: expected"),
            ("lgo: { level: info }\n", "fleet/site.yaml:1:1: unknown key \"lgo\""), ("admin: { port: 4985 }\n", "fleet/site.yaml:1:1: \"admin\" belongs to each machine's own"),
        ] {
            let outcome = try await fleet.configure(text)
            #expect(outcome.status != 0 && outcome.errors.contains(reason), "\(outcome)")
        }
        #expect(try await !fleet.hub.has("config:site:1", in: TestFleet.place))
        try fleet.desk.write("shapes.lua", "return { n = 1 }\n")
        for (plugin, reason) in [
            ("return { push_filter = \n", "fleet/gate.lua"), ("local s = require('shapes')\nreturn { push_filter = function(doc) return s.n == doc.n end }\n", "shapes"),
        ] {
            let outcome = try await fleet.publish(plugin, "--no-tests")
            #expect(outcome.status != 0 && outcome.errors.contains(reason) && outcome.errors.contains("--no-checks"), "\(outcome)")
        }
        #expect(try await !fleet.hub.has("plugin:gate:1", in: TestFleet.place))
        #expect(try await fleet.configure("log: { colour: red }\n", "--no-checks").output == "config:site:1 is published\n")
    }

    @Test("of two fragments that set one key the later name counts; a change of the file that does not suit one leaves it out and says so")
    func several() async throws {
        let fleet = try await TestFleet.make()
        let gateway = try await start(fleet)
        #expect(try await fleet.configure(Self.filter(2), named: "b").status == 0)
        #expect(try await fleet.configure(Self.filter(1), named: "a").status == 0)
        try await eventually("both are used") { try await fleet.status("north")?["config"]?.asArray?.filter { $0["version"]?.asInt64 == 1 }.count == 2 }
        try await fleet.sends(gateway, 2, "later-name")
        // The operator takes the replicator's name away from under them.
        let configuration = try fleet.configuration("north", fleet: "accept_config: [ log ]")
        let reload = try await gateway.reload(configuration)
        #expect(reload.status == 0, "\(reload)")
        try await fleet.waits("north", refuses: "it is left out now: fleet/b.yaml:1:69: replicators.hub.collections._default.push_filter: fleet.accept_config")
        try await fleet.sends(gateway, 0, "own")
        #expect(try await gateway.command("check").errors.contains("warning: the fleet's configuration a, version 1, is left out"))
        #expect(try await gateway.reload(try fleet.configuration("north", fleet: Self.accepting)).status == 0)
        try await fleet.waitsForNoRefusal("north")
        try await fleet.sends(gateway, 2, "in-force-again")
    }

    @Test("a plugin and a fragment that names it take effect together; what waits for the next start is reported")
    func together() async throws {
        let fleet = try await TestFleet.make()
        let text = try fleet.configuration("north", fleet: "accept: [ plugins ], \(Self.accepting)", filter: nil, plugins: false)
        let gateway = try await fleet.gateway(running: text)
        #expect(try await fleet.publish(Self.filter).status == 0)
        #expect(try await fleet.configure(Self.filter(4) + "plugin_limits: { gate: { cpu_ms: 40 } }\n").status == 0)
        try await fleet.waits("north", runs: 1, "config")
        try await fleet.sends(gateway, 4, "filtered")
        #expect(try await fleet.hub.command("fleet", "status").output.contains("current; plugin_limits at its next start"))
        #expect(try await gateway.command("status").output.contains("changed, and in force at the next start: plugin_limits\n"))
        #expect(gateway.process.errors.contains("changes of plugin_limits take effect at the next start"))
        // The file names a plugin of the fleet now, by way of the fragment.
        #expect(try await fleet.withdraw("gate").status == 0)
        try await fleet.waits("north", refuses: "it is used by replicator hub push_filter")
        try await gateway.kill9()
        let again = try await fleet.gateway(running: text, in: gateway.folder)
        try await fleet.sends(again, 4, "filtered-again")
        try await eventually("nothing waits") { try await fleet.row("north", "config")?["state"]?.asString == "current" }
        // Nothing uses the plugin without the fragment: what was refused is looked at again then, without a reload.
        #expect(try await fleet.withdraw("site", "--fragment").status == 0)
        try await eventually("both are withdrawn") {
            let config = try await fleet.row("north", "config")?["state"]?.asString
            let plugin = try await fleet.row("north")?["state"]?.asString
            return config?.hasPrefix("withdrawn") == true && plugin == "withdrawn"
        }
        #expect(try await again.status()["plugins"]?.asArray?.isEmpty == true)
    }

    @Test("accept_config names only settings that exist, and none that would hand over the machine", arguments: [
        ("admin", "belongs in this machine's own configuration"), ("fleet.keys", "belongs in this machine's own configuration"), ("listeners", "name a key"),
        ("listeners.*", "name a key"), ("*", "unknown key"), ("log.colour", "unknown key"),
        ("replicators.hub.collections._default.push_filter.params", "is set as a whole"),
    ])
    func patterns(_ pattern: String, _ reason: String) async throws {
        let folder = try TemporaryFolder()
        try folder.write("nightjar.yaml", """
            databases: { main: { collections: [ nightjar.fleet ] } }
            fleet: { database: main, keys: [ "ed25519/\(String(repeating: "A", count: 43))=" ], accept_config: [ "\(pattern)" ] }
            """)
        let check = try await NightjarExecutable.run("check", "--config", folder.path("nightjar.yaml"), folder: folder.path)
        #expect(check.status == 78 && check.errors.contains("nightjar.yaml:2:") && check.errors.contains(reason), "\(check)")
    }
}

import AgentConfiguration
import Testing

/// What comes of a file and the fragments that are laid over it.
@Suite("Fragments of a configuration")
struct FragmentTests {
    private static let file = """
        databases: { main: { collections: [ nightjar.fleet ] } }
        log: { level: info, format: json, domains: { sync: debug } }
        fleet:
          database: main
          keys: [ "ed25519/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=" ]
          accept_config: [ log, plugin_limits, listeners.edge.push_filter, replicators.*.collections.*.push_filter ]
        listeners:
          - { name: edge, databases: [ main ], authenticator: none }
        replicators:
          - name: hub
            database: main
            target: wss://hub/main
            authenticator: { username: north, password: "${SECRET}" }
            collections: { _default: { push_filter: { plugin: gate, params: { minimum: 95, unit: F } } } }

        """

    private func overlaid(_ fragments: String...) throws -> AgentSettings {
        try settings(Self.file, environment: ["SECRET": "hidden"]).overlaid(
            with: fragments.enumerated().map { ConfigurationFragment(name: "f\($0.offset)", version: 1, text: Array($0.element.utf8)) })
    }

    @Test("are merged key by key; a plugin with its params replaces the earlier one; what the file says stays")
    func merging() throws {
        let settings = try overlaid(
            "log: { level: debug, domains: { http: trace } }\nplugin_limits: { gate: { cpu_ms: 7 } }\n",
            "replicators: [ { name: hub, collections: { _default: { push_filter: { plugin: gate, params: { minimum: 80 } } } } } ]\nlisteners: [ { name: edge, push_filter: gate } ]\n")
        #expect(settings.refusedFragments.isEmpty && settings.fragments.map(\.name) == ["f0", "f1"])
        #expect(settings.log.level == .debug && settings.log.format == .json && settings.log.domains.sync == .debug && settings.log.domains.http == .trace)
        #expect(settings.limits(ofPlugin: "gate")?.cpuMilliseconds?.value == 7)
        let hub = try #require(settings.replicator(named: "hub"))
        #expect(hub.collections.first?.pushFilter?.params?["minimum"]?.scalar?.text == "80" && hub.collections.first?.pushFilter?.params?["unit"] == nil)
        #expect(hub.target.value.host == "hub" && settings.listener(named: "edge")?.pushFilter?.plugin.value == "gate")
        guard case .basic(_, let password)? = hub.authenticator else { return #expect(Bool(false), "it logs in no more") }
        #expect(password.revealed == "hidden")
    }

    @Test("of two the later name counts, and an invalid one does not affect the others")
    func order() throws {
        let settings = try overlaid("log: { level: debug }\n", "log: { level: loud }\n", "log: { level: warning }\n")
        #expect(settings.log.level == .warning && settings.fragments.map(\.name) == ["f0", "f2"])
        #expect(settings.refusedFragments.map(\.fragment.name) == ["f1"])
        // The same file without them.
        #expect(settings.overlaid(with: []).log.level == .info)
    }

    @Test("set nothing that the file does not let them set", arguments: [
        ("admin: { port: 1, open: true }\n", "admin.port: fleet.accept_config"), ("admin: {}\n", "admin: fleet.accept_config"), ("{}\n", "it sets nothing"),
        ("log: { level: debug, file: { path: /var/lib/nightjar/main.nightjar/db.sqlite3 } }\n", "log.file.path: fleet.accept_config"),
        ("replicators: [ { name: hub, proxy: {} } ]\n", "replicators.hub.proxy: fleet.accept_config"), ("fleet: { keys: [] }\n", "fleet.keys: fleet.accept_config"),
        ("listeners: [ { name: edge, authenticator: gate } ]\n", "listeners.edge.authenticator: fleet.accept_config"),
        ("listeners: [ { name: edge, disable_tls: true } ]\n", "listeners.edge.disable_tls: fleet.accept_config"),
        ("listeners: [ { name: other, push_filter: gate } ]\n", "listeners.other: this agent's file has none of that name"),
        ("listeners: [ { push_filter: gate } ]\n", "expected a mapping with the \"name\""), ("listeners: ~\n", "listeners: fleet.accept_config"),
        ("replicators: [ { name: hub, target: wss://elsewhere/main } ]\n", "replicators.hub.target: fleet.accept_config"),
        ("replicators: [ { name: hub, collections: ~ } ]\n", "replicators.hub.collections: fleet.accept_config"),
        ("databases: { more: {} }\n", "databases.more: this agent's file has none of that name, and a fragment cannot add one"),
        ("databases: { main: ~ }\n", "databases.main: fleet.accept_config"), ("data: /tmp\n", "data: fleet.accept_config"), ("colour: red\n", "unknown key \"colour\""),
    ])
    func bounds(_ text: String, _ reason: String) throws {
        let settings = try overlaid(text)
        #expect(settings.fragments.isEmpty && settings.refusedFragments.first?.problems.description.contains(reason) == true, "\(settings.refusedFragments)")
        #expect(settings.refusedFragments.first?.problems.problems.first?.file == "fleet/f0.yaml")
    }

    @Test("are refused by every agent for what no configuration has", arguments: [
        ("log: { level: loud }\n", "log.level: expected"), ("log: { colour: red }\n", "log: unknown key \"colour\""), ("data: /tmp\n", "each machine's own"),
        ("replicators: [ { target: wss://hub/main } ]\n", "replicators[0]: the key \"name\" is missing"),
        ("replicators: [ { name: hub, max_attempts: x } ]\n", "replicators[0].max_attempts: expected"), ("{}\n", "it sets nothing"),
    ])
    func refusedEverywhere(_ text: String, _ reason: String) {
        let refusal = ConfigurationFragment(name: "f", version: 1, text: Array(text.utf8)).refusal
        #expect(refusal?.description.contains(reason) == true, "\(String(describing: refusal))")
    }

    @Test("are not refused for what depends on the agent that takes them", arguments: [
        "log: { level: debug }\n", "databases: { main: { quota: 2GiB } }\n", "plugin_limits: { gate: { cpu_ms: 40 } }\n",
        "replicators: [ { name: hub, collections: { other: { push_filter: { plugin: gate, params: { n: 1 } } } } } ]\nlisteners: [ { name: edge, port: 4984 } ]\n",
    ])
    func notRefused(_ text: String) {
        let refusal = ConfigurationFragment(name: "f", version: 1, text: Array(text.utf8)).refusal
        #expect(refusal == nil, "\(String(describing: refusal))")
    }

    @Test("are refused where the file lets them set nothing")
    func closed() throws {
        let closed = try settings("databases: { main: {} }\n").overlaid(with: [ConfigurationFragment(name: "a", version: 1, text: Array("log: { level: debug }".utf8))])
        #expect(closed.log.level == .info && closed.refusedFragments.count == 1)
    }
}

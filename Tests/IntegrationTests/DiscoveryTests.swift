import Documents
import Glibc
@testable import TestSupport
import Testing

/// Listeners that announce themselves, and who finds them: two machines on one cable, each with a real avahi-daemon.
@Suite(
    "Discovery", .serialized,
    .enabled("needs root's right to make network namespaces, and avahi-daemon, dbus-daemon and nsenter") { await LinkedMachine.isPossible() })
struct DiscoveryTests {
    private static func hub(_ advertise: String = "plant-hub", databases: String = "main", more: String = "") -> String {
        """
        data: data
        databases: { main: {}, other: {} }
        listeners: [ { name: door, databases: [ \(databases) ], port: 0, advertise: \(advertise), authenticator: none\(more) } ]
        """
    }

    private static func edge(_ target: String, pin: String?) -> String {
        """
        data: data
        databases: { main: {} }
        listeners: []
        replicators: [ { name: hub, database: main, target: "\(target)", continuous: true, max_attempt_wait_time: 1\(pin.map { ", pinned_server_certificate: \"\($0)\"" } ?? "") } ]
        """
    }

    /// What is announced, as the machine sees it.
    private static func found(_ machine: LinkedMachine) async throws -> [JSONValue] {
        let outcome = try await machine.nightjar("discover", "--json", "--seconds", "1")
        guard outcome.status == 0, let list = try JSONValue(parsing: Array(outcome.output.utf8)).asArray else { throw SupportError("\(outcome)") }
        return list
    }

    private static func waitForOne(_ machine: LinkedMachine) async throws -> JSONValue {
        try await eventually("a listener is announced") { try await Self.found(machine).first }
    }

    @Test("a listener is found with its pin, a replicator reaches it by its name, and its end is noticed at once, even by SIGKILL")
    func finding() async throws {
        let (one, other) = try await LinkedMachine.pair("hub", "edge")
        let avahi = try await (one.startAvahi(), other.startAvahi())
        let hub = try await one.start(Self.hub(more: ", advertise_group: hubs"))
        let service = try await Self.waitForOne(other)
        #expect(service["name"]?.asString == "plant-hub")
        #expect(service["host"]?.asString == "hub.local")
        #expect(service["databases"]?.asArray?.compactMap(\.asString) == ["main"])
        #expect(service["tls"]?.asBool == true)
        #expect(service["local"]?.asBool == false)
        #expect(service["group"]?.asString == "hubs")
        let port = try hub.port("door")
        #expect(service["urls"]?.asArray?.first?.asString == "wss://\(one.address):\(port)/main")
        let listener = try await hub.status()["listeners"]?.asArray?.first
        #expect(service["pin"]?.asString == listener?["tls"]?["pin"]?.asString)
        #expect(listener?["announced_as"]?.asString == "plant-hub")
        // The same agent is told from others by its id, also after a restart.
        let id = try #require(service["peer"]?.asString)
        #expect(id.utf8.count == 32)

        let edge = try await other.start(Self.edge("discover:plant-hub", pin: service["pin"]?.asString))
        try await edge.put("main", "from-edge", "{}")
        try await eventually("the document arrives") { try await hub.get("main", "from-edge").status == 200 }

        // Killed, it says no goodbye itself.
        let pid = try #require(try hub.folder.text("data/agent.lock").split(separator: "\n").first.flatMap { Int32($0) })
        kill(pid, SIGKILL)
        try await eventually("nobody is announced any more") { try await Self.found(other).isEmpty }
        try await eventually("the replicator says that nobody has the name") {
            try await edge.replicator("hub")["error"]?["message"]?.asString?.contains("nobody on the local network is called plant-hub") == true
        }
        // Another agent under the name is no peer: it has another key.
        let impostor = try await one.start(Self.hub())
        _ = try await Self.waitForOne(other)
        try await eventually("the pin decides") { try await edge.replicator("hub")["error"]?["domain"]?.asString == "tls" }
        #expect(try await impostor.stop().status == 0)
        // Stopped in order, it is gone before it has ended.
        #expect(try await Self.found(other).isEmpty)
        #expect(try await edge.stop().status == 0)
        withExtendedLifetime(avahi) {}
    }

    @Test("clear text and one of several databases have to be named, whatever is announced")
    func choosing() async throws {
        let (one, other) = try await LinkedMachine.pair("hub", "edge")
        let avahi = try await (one.startAvahi(), other.startAvahi())
        let hub = try await one.start(Self.hub("\"Plant 7: hall\"", databases: "main, other", more: ", disable_tls: true"))
        let service = try await Self.waitForOne(other)
        #expect(service["pin"]?.isNull == true)
        #expect(service["tls"]?.asBool == false)
        for (target, pin, words) in [
            ("discover:Plant 7: hall?database=main", "sha256/\(String(repeating: "A", count: 43))=", "announces clear text"),
            ("discover:Plant 7: hall?tls=off", nil, "has the databases main, other"),
        ] as [(String, String?, String)] {
            let edge = try await other.start(Self.edge(target, pin: pin))
            try await eventually("\(target): \(words)") {
                try await edge.replicator("hub")["error"]?["message"]?.asString?.contains(words) == true
            }
            #expect(try await edge.stop().status == 0)
        }
        let edge = try await other.start(Self.edge("discover:Plant 7: hall?tls=off&database=other", pin: nil))
        try await edge.put("main", "a", "{}")
        try await eventually("the document arrives in the database that was named") { try await hub.get("other", "a").status == 200 }
        #expect(try await edge.stop().status == 0)
        #expect(try await hub.stop().status == 0)
        withExtendedLifetime(avahi) {}
    }

    @Test("without Avahi the agent works and says what is missing; it is announced once Avahi starts, and again after Avahi was restarted")
    func absence() async throws {
        let (one, other) = try await LinkedMachine.pair("hub", "edge")
        let theirs = try await other.startAvahi()
        let hub = try await one.start(Self.hub())
        let missing = try await eventually("it says what is missing") {
            try await hub.admin.get("/health").json["attention"]?.asArray?.first { $0["kind"]?.asString == "not_advertised" }
        }
        #expect(missing["gravity"]?.asString == "attention")
        #expect(missing["text"]?.asString?.contains("avahi-daemon does not run") == true)
        let first = try await one.startAvahi()
        _ = try await Self.waitForOne(other)
        #expect(try await hub.admin.get("/health").json["attention"]?.asArray?.isEmpty == true)
        first.send(SIGTERM)
        _ = try await first.wait()
        try await eventually("it is gone with Avahi") { try await Self.found(other).isEmpty }
        let second = try await one.startAvahi()
        _ = try await Self.waitForOne(other)
        #expect(try await hub.stop().status == 0)
        withExtendedLifetime((theirs, second)) {}
    }

    @Test("of two listeners with the same name the second reports it, and gets the name once the first is gone; a listener that is stopped is not announced")
    func collisions() async throws {
        let (one, other) = try await LinkedMachine.pair("hub", "edge")
        let avahi = try await (one.startAvahi(), other.startAvahi())
        let hub = try await one.start(Self.hub())
        _ = try await Self.waitForOne(other)
        let second = try await other.start(Self.hub())
        try await eventually("the second one says that the name is taken") {
            try await second.admin.get("/health").json["attention"]?.asArray?.contains {
                $0["kind"]?.asString == "not_advertised" && $0["text"]?.asString?.contains("another service on the local network has this name") == true
            } == true
        }
        #expect(try await second.status()["listeners"]?.asArray?.first?["announced_as"]?.isNull == true)
        #expect(try await second.stop().status == 0)
        #expect(try await hub.command("listener", "door", "stop").status == 0)
        try await eventually("one that is stopped is not announced") { try await Self.found(other).isEmpty }
        #expect(try await hub.command("listener", "door", "start").status == 0)
        _ = try await Self.waitForOne(other)
        #expect(try await hub.stop().status == 0)
        withExtendedLifetime(avahi) {}
    }

    /// Two hubs of a group on one machine, and the pins of both.
    private static func startHubs(_ machine: LinkedMachine, seenBy other: LinkedMachine) async throws -> (hubs: [String: AgentProcess], pins: [String]) {
        var hubs: [String: AgentProcess] = [:]
        for name in ["hub-a", "hub-b"] { hubs[name] = try await machine.start(Self.hub(name, more: ", advertise_group: hubs")) }
        let services = try await eventually("both are announced") {
            let found = try await Self.found(other)
            return found.count == 2 ? found : nil
        }
        return (hubs, services.compactMap { $0["pin"]?.asString })
    }

    private static func edge(ofGroup pins: [String], _ more: String = "") -> String {
        """
        data: data
        databases: { main: {} }
        listeners: []
        replicators:
          - { name: hub, database: main, target: "discover:*?group=hubs", continuous: true, max_attempt_wait_time: 1,
              pinned_server_certificate: [ \(pins.map { "\"\($0)\"" }.joined(separator: ", ")) ]\(more) }
        """
    }

    /// The hub that the replicator is connected to; nil while there is no connection.
    private static func hub(of edge: AgentProcess) async throws -> String? {
        let status = try await edge.replicator("hub")
        guard status["activity"]?.asString == "idle" else { return nil }
        return status["remote"]?.asString?.split(separator: " ").dropFirst().first.map(String.init)
    }

    @Test("a replicator connects to any hub of a group, and when that is killed it changes to the other one and sends it everything")
    func groups() async throws {
        let (one, other) = try await LinkedMachine.pair("hub", "edge")
        let avahi = try await (one.startAvahi(), other.startAvahi())
        let (hubs, pins) = try await Self.startHubs(one, seenBy: other)
        let edge = try await other.start(Self.edge(ofGroup: pins))
        try await edge.put("main", "first", "{}")
        let name = try await eventually("it has one of them") { try await Self.hub(of: edge) }
        let taken = try #require(hubs[name])
        let spare = try #require(hubs[name == "hub-a" ? "hub-b" : "hub-a"])
        try await eventually("the document arrives") { try await taken.get("main", "first").status == 200 }
        #expect(try await spare.get("main", "first").status == 404)

        let pid = try #require(try taken.folder.text("data/agent.lock").split(separator: "\n").first.flatMap { Int32($0) })
        kill(pid, SIGKILL)
        try await edge.put("main", "second", "{}")
        try await eventually("the other one has both documents: it has a checkpoint of its own") {
            guard try await spare.get("main", "second").status == 200 else { return false }
            return try await spare.get("main", "first").status == 200
        }
        #expect(try await Self.hub(of: edge) != name)
        // It is known after a restart, too, although no hub is left.
        let remote = try #require(try await edge.replicator("hub")["remote"]?.asString)
        #expect(try await edge.stop().status == 0)
        #expect(try await spare.stop().status == 0)
        let again = try await other.start(Self.edge(ofGroup: pins), in: edge.folder)
        #expect(try await again.replicator("hub")["remote"]?.asString == remote)
        #expect(try await again.stop().status == 0)
        withExtendedLifetime(avahi) {}
    }

    @Test("a conflict that waits for its resolver outlives the hub that it came from: once repaired, the resolver decides it, and the next hub gets the outcome")
    func conflictOverAChange() async throws {
        let (one, other) = try await LinkedMachine.pair("hub", "edge")
        let avahi = try await (one.startAvahi(), other.startAvahi())
        let (hubs, pins) = try await Self.startHubs(one, seenBy: other)
        let edge = try await other.start(
            Self.edge(ofGroup: pins, ", collections: { _default: { conflict_resolver: judge } }"),
            files: ["plugins/judge.lua": "return { resolve = function(c) error('undecided') end }\n"])
        let name = try await eventually("it has one of them") { try await Self.hub(of: edge) }
        let taken = try #require(hubs[name])
        let spare = try #require(hubs[name == "hub-a" ? "hub-b" : "hub-a"])
        let base = try await edge.save("pump", "{\"side\":\"both\"}")
        try await eventually("the base is at the hub") { try await taken.has("pump") }
        try await edge.isSettled()
        try await edge.post("/api/replicators/hub/stop")
        try await edge.waits("stopped") { $0["activity"]?.asString == "stopped" }
        try await edge.save("pump", "{\"_rev\":\"\(base)\",\"side\":\"edge\"}")
        try await taken.save("pump", "{\"_rev\":\"\(base)\",\"side\":\"hub\"}")
        try await edge.post("/api/replicators/hub/start")
        try await eventually("the conflict is pending") { try await edge.database("main")["conflicts_pending"]?.asInt64 == 1 }

        #expect(try await taken.stop().status == 0)
        try await eventually("it has the other hub") {
            let hub = try await Self.hub(of: edge)
            return hub != nil && hub != name
        }
        #expect(try await edge.database("main")["conflicts_pending"]?.asInt64 == 1)
        #expect(try await edge.field("side", of: "pump")?.asString == "edge")
        try await edge.plugin(
            "judge",
            becomes: "return { resolve = function(c)\n  local m = nightjar.copy(c.remote_doc)\n  m.mine = c.local_doc.side\n  return m\nend }\n")
        try await eventually("decided, and at the other hub") {
            try await every(
                edge.field("mine", of: "pump")?.asString == "edge", spare.field("side", of: "pump")?.asString == "hub",
                spare.field("mine", of: "pump")?.asString == "edge")
        }
        #expect(try await edge.database("main")["conflicts_pending"]?.asInt64 == 0)
        #expect(try await edge.stop().status == 0)
        #expect(try await spare.stop().status == 0)
        withExtendedLifetime(avahi) {}
    }

    @Test("a plugin chooses the peer; while it fails there is no connection, and the status says why")
    func pluginChooses() async throws {
        let (one, other) = try await LinkedMachine.pair("hub", "edge")
        let avahi = try await (one.startAvahi(), other.startAvahi())
        let (hubs, pins) = try await Self.startHubs(one, seenBy: other)
        let broken = "return { select_peer = function(peers, ctx) error('no map') end }"
        let edge = try await other.start(Self.edge(ofGroup: pins, ", select_peer: nearest"), files: ["plugins/nearest.lua": broken])
        try await eventually("it says that the plugin fails") {
            try await edge.replicator("hub")["error"]?["message"]?.asString?.contains("no map") == true
        }
        #expect(try await edge.replicator("hub")["remote"]?.isNull == true)
        for name in ["hub-a", "hub-b"] {
            try edge.folder.write(
                "plugins/nearest.lua",
                """
                return { select_peer = function(peers)
                  for _, peer in ipairs(peers) do
                    if peer.name == '\(name)' and peer.group == 'hubs' and peer.pin and peer.peer_id then return peer.name end
                  end
                  return nil
                end }
                """)
            if name == "hub-b" { #expect(try await hubs["hub-a"]?.stop().status == 0) }
            try await eventually("it has the one that was chosen") { try await Self.hub(of: edge) == name }
        }
        #expect(try await edge.stop().status == 0)
        #expect(try await hubs["hub-b"]?.stop().status == 0)
        withExtendedLifetime(avahi) {}
    }
}

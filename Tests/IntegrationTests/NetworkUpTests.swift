import TestSupport
import Testing

/// A network interface with an address, in a namespace that has none.
private enum LateInterface {
    /// Becomes an agent in a namespace of its own.
    static let namespace = ["/usr/bin/unshare", "-n", "sh", "-c", "ip link set lo up && exec \"$@\"", "sh"]
    static let commands = "ip link add test0 type veth peer name test1 && ip addr add 10.99.1.1/24 dev test0 && ip link set test1 up && ip link set test0 up"

    static func isPossible() async -> Bool {
        guard TemporaryFolder.canRun("/usr/bin/nsenter") else { return false }
        return (try? await Subprocess.run("/usr/bin/unshare", ["-n", "sh", "-c", commands]))?.status == 0
    }
}

/// A machine that gets a network while a replicator waits.
@Suite(
    "A network that comes up",
    .enabled("needs root's right to make network namespaces and interfaces, and nsenter") { await LateInterface.isPossible() })
struct NetworkUpTests {
    @Test("a replicator that would wait for two hours tries at once when an interface comes up")
    func interfaceComesUp() async throws {
        let edge = try await AgentProcess.start(
            """
            data: data
            databases: { main: {} }
            listeners: []
            replicators:
              - { name: hub, database: main, target: "ws://10.99.1.2:4984/main", continuous: true, network_interface: test0, blocked_wait_time: 7200, max_blocked_wait_time: 7200 }
            """, through: LateInterface.namespace)
        try await edge.waits("has no such interface") { $0["activity"]?.asString == "offline" && $0["error"]?["code"]?.asInt64 == 27 }
        #expect(!edge.process.errors.contains("the next attempt is made now"))
        try await change(LateInterface.commands, around: edge)
        let line = try await edge.process.line(containing: "the next attempt is made now: the network changed", in: .errors)
        #expect(line.contains("replicator=hub"), "\(line)")
        // Nobody answers there, which is another error than before.
        try await edge.waits("tried over the interface") { ![nil, 27].contains($0["error"]?["code"]?.asInt64) }
        #expect(try await edge.stop().status == 0)
    }

    /// DHCP gives another address, the address goes for a while, and the interface is taken out and put in again.
    @Test("a listener that is bound by an interface's name follows its addresses, and is reported as waiting while there are none")
    func listenerFollows() async throws {
        let hub = try await AgentProcess.start(
            Configuration.hub(listener: "authenticator: none").replacing("interface: 127.0.0.1", with: "interface: test0"),
            through: LateInterface.namespace)
        #expect(try await hub.listener("edge")["activity"]?.asString == "waiting")
        // There is no name server either, and it is not that which is missing.
        #expect(try await hub.listener("edge")["error"]?["code"]?.asInt64 == 27)
        let remedy = try await hub.admin.get("/health").json["attention"]?.asArray?.first?["remedy"]?.asString ?? ""
        #expect(remedy.hasPrefix("plug the interface in") && !remedy.contains("name server"), "\(remedy)")
        try await change(LateInterface.commands + " && ip addr add 10.99.2.1/24 dev test0", around: hub)
        let first = try await listening(hub, on: ["10.99.1.1", "10.99.2.1"])
        let toHub = Configuration.edge(to: first).replacing("127.0.0.1", with: "10.99.1.1")
        let inside = ["/usr/bin/nsenter", "-t", "\(hub.process.pid)", "-n", "--"]
        let edge = try await AgentProcess.start(toHub, through: inside)
        try await edge.connects("hub")
        func peers() async throws -> [String] { try await hub.listener("edge")["peers"]?.asArray?.compactMap { $0["address"]?.asString } ?? [] }
        let connected = try await peers()
        #expect(connected.count == 1)

        // What is connected at an address that stays goes on, and the port stays.
        try await change("ip addr del 10.99.2.1/24 dev test0 && ip addr add 10.99.3.1/24 dev test0", around: hub)
        #expect(try await listening(hub, on: ["10.99.1.1", "10.99.3.1"]) == first)
        #expect(try await peers() == connected)

        try await change("ip addr flush dev test0", around: hub)
        try await waiting(hub, for: "has no address or is down")
        #expect(try await hub.listener("edge")["urls"]?.asArray?.isEmpty == true)
        try await change("ip addr add 10.99.1.1/24 dev test0", around: hub)
        #expect(try await listening(hub, on: ["10.99.1.1"]) == first)
        #expect(try await hub.admin.get("/health").status == 200)

        try await change("ip link del test0", around: hub)
        try await waiting(hub, for: "the network interface test0 is not there")
        try await change(LateInterface.commands, around: hub)
        #expect(try await listening(hub, on: ["10.99.1.1"]) == first)
        #expect(try await edge.stop().status == 0)
        let again = try await AgentProcess.start(toHub, through: inside)
        try await again.connects("hub")

        // An address that cannot be had is told, though the others are.
        let other = try await AgentProcess.start(
            Configuration.hub(listener: "authenticator: none", port: first).replacing("interface: 127.0.0.1", with: "interface: 127.9.9.9"),
            through: inside)
        try await change("ip addr add 127.9.9.9/32 dev test0", around: hub)
        try await waiting(hub, for: "cannot listen on 127.9.9.9:\(first)")
        #expect(try await hub.listener("edge")["activity"]?.asString == "listening")
        #expect(try await other.stop().status == 0)
        #expect(try await hub.command("listener", "edge", "start").output == "edge: listening\n")
        #expect(try await hub.admin.get("/health").status == 200)
        #expect(try await again.stop().status == 0)
        #expect(try await hub.stop().status == 0)
    }

    /// Runs commands in the agent's namespace.
    private func change(_ commands: String, around agent: AgentProcess) async throws {
        let done = try await Subprocess.run("/usr/bin/nsenter", ["-t", "\(agent.process.pid)", "-n", "--", "sh", "-c", commands])
        try #require(done.status == 0, "\(done)")
    }

    /// Waits until it listens on these addresses and no others, and gives its port.
    private func listening(_ agent: AgentProcess, on hosts: [String]) async throws -> Int {
        try await eventually("it listens on \(hosts)") { () async throws -> Int? in
            let listener = try await agent.listener("edge")
            guard listener["activity"]?.asString == "listening", let port = listener["port"]?.asInt64 else { return nil }
            let urls = Set(listener["urls"]?.asArray?.compactMap(\.asString) ?? [])
            return urls == Set(hosts.map { "ws://\($0):\(port)/main" }) ? Int(port) : nil
        }
    }

    /// Waits until health says what the listener waits for.
    private func waiting(_ agent: AgentProcess, for words: String) async throws {
        try await eventually("health says \(words)") { () async throws -> Bool in
            let health = try await agent.admin.get("/health")
            let rows = try health.json["attention"]?.asArray ?? []
            let isTold = rows.contains { $0["kind"]?.asString == "listener_waiting" && $0["text"]?.asString?.contains(words) == true }
            return health.status == 503 && isTold
        }
    }
}

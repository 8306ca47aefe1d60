import TestSupport
import Testing

/// A network interface with an address, in a namespace that has none.
private enum LateInterface {
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
            """, through: ["/usr/bin/unshare", "-n", "sh", "-c", "ip link set lo up && exec \"$@\"", "sh"])
        try await edge.waits("has no such interface") { $0["activity"]?.asString == "offline" && $0["error"]?["code"]?.asInt64 == 27 }
        #expect(!edge.process.errors.contains("the next attempt is made now"))
        let added = try await Subprocess.run("/usr/bin/nsenter", ["-t", "\(edge.process.pid)", "-n", "--", "sh", "-c", LateInterface.commands])
        #expect(added.status == 0, "\(added)")
        let line = try await edge.process.line(containing: "the next attempt is made now: the network changed", in: .errors)
        #expect(line.contains("replicator=hub"), "\(line)")
        // Nobody answers there, which is another error than before.
        try await edge.waits("tried over the interface") { ![nil, 27].contains($0["error"]?["code"]?.asInt64) }
        #expect(try await edge.stop().status == 0)
    }
}

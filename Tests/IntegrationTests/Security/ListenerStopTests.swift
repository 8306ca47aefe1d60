import Documents
import Glibc
import TestSupport
import Testing

/// What peers are told over TLS when a listener goes.
@Suite("Stopping TLS listeners")
struct ListenerStopTests {
    private let selfSigned = "accept_only_self_signed_server_certificate: true"

    @Test("1001 when it is removed, 4001 when it changes or the agent stops, each in time though a peer does not answer")
    func closeCodes() async throws {
        func configuration(_ listeners: (String, String)...) -> String { Configuration.secureHub(listeners.map { (name: $0.0, more: $0.1) }) }
        let hub = try await AgentProcess.start(configuration(("stays", ""), ("changes", ""), ("goes", "")))
        let edge = try await AgentProcess.start(
            Configuration.secureEdge(try ["stays", "changes", "goes"].map { ($0, try hub.target($0), selfSigned) }))
        for name in ["stays", "changes", "goes"] { try await edge.connects(name) }
        let stays = try await SecureWebSocket(hub, "stays")
        let changes = try await SecureWebSocket(hub, "changes")
        let goes = try await SecureWebSocket(hub, "goes")
        let reload = try await hub.reload(configuration(("stays", ""), ("changes", "read_only: true")))
        #expect(reload.status == 0, "\(reload)")
        #expect(try await goes.closeCode() == 1001)
        #expect(try await changes.closeCode() == 4001)
        try await edge.waits("1001 is shown", replicator: "goes") { status in
            // The next attempt finds nobody.
            status["activity"]?.asString != "idle" && status["error"]?["transient"]?.asBool == true
        }
        let log = edge.process.errors.split(separator: "\n")
        #expect(log.contains { $0.contains("goes") && $0.contains("1001") }, "\(edge.process.errors)")
        #expect(log.contains { $0.contains("changes") && $0.contains("4001") }, "\(edge.process.errors)")
        #expect(try await edge.replicator("stays")["activity"]?.asString == "idle")
        hub.process.send(SIGTERM)
        // Five seconds are promised; the rest is for a busy machine.
        let end = try await hub.process.wait(within: .seconds(30))
        #expect(end.status == 0, "\(end)")
        #expect(try await stays.closeCode() == 4001)
        try await edge.waits("it comes back later", replicator: "stays") { $0["activity"]?.asString == "offline" || $0["activity"]?.asString == "connecting" }
        #expect(try await edge.stop().status == 0)
    }

    @Test("a read-only listener refuses each pushed document and serves what is pulled")
    func readOnly() async throws {
        let hub = try await AgentProcess.start(Configuration.secureHub([("edge", "read_only: true")]))
        try await hub.save("there", "{}")
        let edge = try await AgentProcess.start(Configuration.secureEdge([("hub", try hub.target("edge"), selfSigned)]))
        let events = try await EventProbe(edge)
        try await edge.save("pushed", "{}")
        try await events.wait("the push is refused") { $0.contains("pushed") && $0.contains("403") }
        try await hub.save("later", "{}")
        try await eventually("the pull goes on") { try await every(edge.has("later"), edge.has("there")) }
        #expect(try await edge.replicator("hub")["failed"]?.asInt64 == 1)
        #expect(try await !hub.has("pushed"))
        for agent in [edge, hub] { #expect(try await agent.stop().status == 0) }
    }
}

import Documents
import TestSupport
import Testing

/// What the log of one side and the log of the other have in common.
@Suite("Correlation ids")
struct CorrelationTests {
    @Test("both sides' lines of one connection, its status and its events carry the same id, and the next connection has another")
    func bothSides() async throws {
        let hub = try await AgentProcess.start(Configuration.hub())
        let edge = try await AgentProcess.start(Configuration.edge(to: try hub.port("edge"), more: "log: { domains: { network: debug } }"))
        try await edge.isSettled()
        let events = try await EventProbe(edge)
        let id = try #require(try await edge.replicator("hub")["correlation_id"]?.asString)
        #expect(id.utf8.count == 16)
        #expect(try await hub.listener("edge")["peers"]?.asArray?.first?["correlation_id"]?.asString == id)
        try await edge.save("one", "{}")
        try await events.wait("the document's event") { $0.contains("\"id\":\"one\"") }
        #expect(events.text.contains("\"correlation_id\":\"\(id)\""))
        #expect(events.text.split(separator: "\n").contains { $0.contains("\"id\":\"one\"") && $0.contains("\"time\":\"20") })
        // Connected, and what crosses the wire.
        let lines = edge.process.errors.split(separator: "\n").filter { $0.contains(id) }
        #expect(lines.contains { $0.contains("connected") } && lines.contains { $0.contains("sent ") }, "\(lines)")
        _ = try await edge.command("replicator", "hub", "stop")
        try await eventually("the hub tells of the end") {
            hub.process.errors.split(separator: "\n").contains { $0.contains("peer gone") && $0.contains(id) }
        }
        #expect(hub.process.errors.split(separator: "\n").contains { $0.contains("peer connected") && $0.contains(id) })
        _ = try await edge.command("replicator", "hub", "start")
        try await edge.waits("another id") { $0["activity"]?.asString == "idle" && ![nil, id].contains($0["correlation_id"]?.asString) }
    }

    @Test("at debug the domain replicator says what checkpoint a connection begins with, and what is saved")
    func checkpoints() async throws {
        let hub = try await AgentProcess.start(Configuration.hub())
        let edge = try await AgentProcess.start(Configuration.edge(to: try hub.port("edge"), more: "log: { domains: { replicator: debug } }"))
        let read = try await edge.process.line(containing: "checkpoint of _default._default read: pushed through 0, pulled through nothing", in: .errors)
        #expect(read.contains("replicator=hub") && read.contains("here=none") && read.contains("peer=none"), "\(read)")
        try await edge.save("one", "{}")
        _ = try await edge.process.line(containing: "checkpoint of _default._default saved: pushed through 1, ", in: .errors)
        try await edge.isSettled()
        #expect(try await edge.stop().status == 0)
        let again = try await AgentProcess.start(try edge.folder.text("nightjar.yaml"), in: edge.folder)
        _ = try await again.process.line(containing: "checkpoint of _default._default read: pushed through 1, ", in: .errors)
        for agent in [again, hub] { #expect(try await agent.stop().status == 0) }
    }

    @Test("a peer's id is adopted if it is suitable for a log, and otherwise not repeated")
    func strangers() async throws {
        let hub = try await AgentProcess.start(Configuration.hub())
        let port = try hub.port("edge")
        func answered(_ id: String) async throws -> String {
            let socket = try await WebSocketProbe.connect(port: port, path: "/main/_blipsync", headers: [("X-Correlation-Id", id)])
            return socket.answer.header("x-correlation-id") ?? ""
        }
        #expect(try await answered("Plant-7_run.3") == "Plant-7_run.3")
        for hostile in [String(repeating: "x", count: 65), "a b", "a=\"b\"", "level=error"] {
            let own = try await answered(hostile)
            #expect(own != hostile && own.utf8.count == 16, "\(hostile)")
            #expect(!hub.process.errors.contains(hostile))
        }
    }
}

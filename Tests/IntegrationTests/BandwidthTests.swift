import Documents
import TestSupport
import Testing

/// How long documents take on a line of which only a part may be used.
@Suite("What bandwidth limits do")
struct BandwidthTests {
    private static let documents = 150
    private static var lines: String {
        (0..<documents).map { "{\"_id\":\"d\($0)\",\"text\":\"\(String(repeating: "wind and weather", count: 128))\"}" }.joined(separator: "\n")
    }

    /// One side, one way.
    struct Case: Sendable, CustomTestStringConvertible {
        var type: String
        var listener = ""
        var replicator = ""

        var testDescription: String { "\(type), \(listener.isEmpty ? "replicator" : "listener"): \(listener)\(replicator)" }
    }

    @Test("documents come no faster than the cap of either side lets them, and status says what it is", arguments: [
        Case(type: "push", replicator: "bandwidth: { send: 4KiB }"), Case(type: "pull", replicator: "bandwidth: { receive: 4KiB }"),
        Case(type: "push", listener: "bandwidth: { receive: 4KiB }"), Case(type: "pull", listener: "connection_bandwidth: { send: 4KiB }"),
    ])
    func caps(_ wanted: Case) async throws {
        let off = "compression: off"
        let hub = try await AgentProcess.start(Configuration.hub(listener: [off, wanted.listener].filter { !$0.isEmpty }.joined(separator: "\n    ")))
        let edge = try await AgentProcess.start(
            Configuration.edge(
                to: try hub.port("edge"), type: wanted.type, replicator: [off, wanted.replicator].filter { !$0.isEmpty }.joined(separator: "\n    ")))
        try await edge.connects("hub")
        let (from, to) = wanted.type == "push" ? (edge, hub) : (hub, edge)
        try await from.post("/api/databases/main/import", Self.lines)
        // A minute's work at this pace.
        try await eventually("some are there") { try await to.documents("main") > 0 }
        #expect(try await to.documents("main") < Self.documents)

        let (listener, replicator) = (try await hub.listener("edge"), try await edge.replicator("hub"))
        let shown = wanted.listener.isEmpty ? replicator["bandwidth"] : wanted.type == "push" ? listener["bandwidth"] : listener["connection_bandwidth"]
        let (way, other) = shown?["send"]?.isNull == true ? ("receive", "send") : ("send", "receive")
        #expect(shown?[way]?.asInt64 == 4 << 10 && shown?[other]?.isNull == true, "\(shown?.text ?? "none")")
        let agent = wanted.listener.isEmpty ? edge : hub
        let text = try await agent.command("status").output
        #expect(text.contains("at most 4 KiB \(way == "send" ? "sent" : "received") a second (\(wanted.type == "pull" && !wanted.listener.isEmpty ? "connection_bandwidth" : "bandwidth"))"), "\(text)")
    }

    @Test("a document of a collection that goes first does not wait for those already being sent")
    func priority() async throws {
        let collections = "{ collections: [ plant.alarms, plant.readings ] }"
        let hub = try await AgentProcess.start(Configuration.hub(database: collections))
        let edge = try await AgentProcess.start(
            """
            data: data
            admin: { port: 0, open: true }
            databases: { main: \(collections) }
            replicators:
              - name: hub
                database: main
                target: ws://127.0.0.1:\(try hub.port("edge"))/main
                type: push
                continuous: true
                compression: off
                bandwidth: { send: 32KiB }
                collections: { plant.readings: {}, plant.alarms: { priority: 9 } }
            """)
        try await edge.connects("hub")
        // Forty seconds on this line.
        let readings = (0..<600).map { "{\"_id\":\"r\($0)\",\"text\":\"\(String(repeating: "wind and weather", count: 128))\"}" }
        try await edge.post("/api/databases/main.plant.readings/import", readings.joined(separator: "\n"))
        try await eventually("readings come") { try await hub.documents("main", collection: "plant.readings") > 0 }
        #expect(try await edge.put("main.plant.alarms", "fire", "{\"at\":1}").status == 201)
        try await eventually("the alarm is there") { try await hub.documents("main", collection: "plant.alarms") == 1 }
        #expect(try await hub.documents("main", collection: "plant.readings") < 500)
    }

    @Test("a reload changes the cap, and removes it")
    func reload() async throws {
        let hub = try await AgentProcess.start(Configuration.hub())
        let folder = try TemporaryFolder()
        func configuration(_ lines: String) throws -> String {
            Configuration.edge(to: try hub.port("edge"), type: "push", replicator: lines)
        }
        let edge = try await AgentProcess.start(try configuration("bandwidth: { send: 4KiB, receive: 1MiB }\n    compression: off"), in: folder)
        try await edge.connects("hub")
        try await edge.post("/api/databases/main/import", Self.lines)
        // A minute's work at this pace.
        try await eventually("some are there") { try await hub.documents("main") > 0 }
        #expect(try await hub.documents("main") < Self.documents)
        try folder.write("nightjar.yaml", try configuration("bandwidth: { receive: 1MiB }\n    compression: off"))
        #expect(try await edge.command("reload").status == 0)
        try await hub.waits(documents: Int64(Self.documents))
        let cap = try await edge.replicator("hub")["bandwidth"]
        #expect(cap?["send"]?.isNull == true && cap?["receive"]?.asInt64 == 1 << 20, "\(cap?.text ?? "none")")
    }
}

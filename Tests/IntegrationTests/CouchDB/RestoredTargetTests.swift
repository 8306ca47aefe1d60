import Documents
import Glibc
import TestSupport
import Testing

/// A server that is set back to an earlier copy of its database lacks what it had acknowledged since. Whoever replicates with it by http has no
/// connection that ends with it, and must notice all the same.
@Suite("Targets of http replicators that go back to a backup", .serialized)
struct RestoredTargetTests {
    private static let data = "data"

    private func copy(_ from: String, _ to: String, in folder: TemporaryFolder) async throws {
        folder.remove(to)
        let outcome = try await Subprocess.run("/bin/cp", ["-a", folder.path(from), folder.path(to)], folder: folder.path)
        #expect(outcome.status == 0, "\(outcome)")
    }

    /// A replicator that runs once has saved its checkpoint on both sides when it ends.
    private func run(_ edge: AgentProcess, pushes count: Int64) async throws {
        try await edge.post("/api/replicators/hub/start")
        try await edge.waits("stopped after \(count) documents") { $0["activity"]?.asString == "stopped" && $0["pushed"]?.asInt64 == count }
        #expect(try await edge.replicator("hub")["error"]?.isNull == true)
    }

    @Test("what the target lost is pushed again, and what others gave it since is pulled")
    func restored() async throws {
        let port = try freePort()
        let configuration = Configuration.hub(listener: "couchdb: true", port: port)
        var hub = try await AgentProcess.start(configuration)
        let folder = hub.folder
        let edge = try await AgentProcess.start(Configuration.edge(to: port, continuous: false, scheme: "http"))
        try await edge.waits("stopped") { $0["activity"]?.asString == "stopped" }
        try await edge.load("early", 20)
        try await run(edge, pushes: 20)
        #expect(try await hub.documents("main") == 20)
        #expect(try await hub.stop().status == 0)
        try await copy(Self.data, "before", in: folder)
        hub = try await AgentProcess.start(configuration, in: folder)
        try await edge.load("late", 21)
        try await run(edge, pushes: 21)
        #expect(try await hub.documents("main") == 41)
        #expect(try await hub.stop().status == 0)
        try await copy("before", Self.data, in: folder)
        hub = try await AgentProcess.start(configuration, in: folder)
        try await hub.load("there", 5)
        try await edge.load("new", 5)
        #expect(try await edge.replicator("hub")["remote_went_back"]?.isNull == true)
        let events = try await EventProbe(edge)
        try await run(edge, pushes: 26)
        let noticed = try #require(try await edge.replicator("hub")["remote_went_back"])
        #expect(noticed["at"]?.asString != nil && noticed["comparing"] == false && noticed["message"]?.asString?.contains("backup") == true, "\(noticed.text)")
        try await events.wait("the event") { $0.contains("event: remote_went_back\ndata: {\"replicator\":\"hub\"") }
        _ = try await edge.process.line(containing: "the remote's checkpoint of _default._default went back", in: .errors)
        let shown = try await edge.command("status")
        #expect(shown.output.contains("the remote's checkpoint of _default._default went back"), "\(shown)")
        #expect(try await hub.documents("main") == 51)
        #expect(try await hub.revisions() == edge.revisions())
        for agent in [edge, hub] { #expect(try await agent.stop().status == 0) }
    }
}

@Suite("Targets of http replicators that go away", .serialized)
struct LostTargetTests {
    @Test("it is reported in one line, which is a warning")
    func told() async throws {
        let port = try freePort()
        let hub = try await AgentProcess.start(Configuration.hub(listener: "couchdb: true", port: port))
        let edge = try await AgentProcess.start(Configuration.edge(to: port, scheme: "http"))
        try await edge.waits("in step") { $0["activity"] == "idle" }
        #expect(try await hub.stop().status == 0)
        let line = try await edge.process.line(containing: "offline, next attempt in ", in: .errors)
        #expect(line.contains(" warning "), "\(line)")
        #expect(!edge.process.errors.contains(" error "), "\(edge.process.errors)")
        #expect(try await edge.stop().status == 0)
    }
}

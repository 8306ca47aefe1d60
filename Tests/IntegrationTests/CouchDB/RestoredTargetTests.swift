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

    @Test("what the target lost is pushed again, whether the replicator sees it go away or not", arguments: [true, false])
    func restored(edgeGoesOn: Bool) async throws {
        let port = try freePort()
        let configuration = Configuration.hub(listener: "couchdb: true", port: port)
        var hub = try await AgentProcess.start(configuration)
        let folder = hub.folder
        var edge = try await AgentProcess.start(Configuration.edge(to: port, scheme: "http"))
        try await edge.load("early", 20)
        try await eventually("the hub has the first ones") { [hub] in try await hub.documents("main") == 20 }
        // A stop saves the checkpoint on both sides.
        #expect(try await edge.stop().status == 0)
        #expect(try await hub.stop().status == 0)
        try await copy(Self.data, "before", in: folder)
        hub = try await AgentProcess.start(configuration, in: folder)
        edge = try await AgentProcess.start(Configuration.edge(to: port, scheme: "http"), in: edge.folder)
        try await edge.load("late", 20)
        try await eventually("the hub has all") { [hub] in try await hub.documents("main") == 40 }
        if !edgeGoesOn { #expect(try await edge.stop().status == 0) }
        #expect(try await hub.stop().status == 0)
        try await copy("before", Self.data, in: folder)
        hub = try await AgentProcess.start(configuration, in: folder)
        #expect(try await hub.documents("main") == 20)
        try await hub.load("there", 5)
        if !edgeGoesOn { edge = try await AgentProcess.start(Configuration.edge(to: port, scheme: "http"), in: edge.folder) }
        try await edge.load("new", 5)
        try await eventually("both have what either had") { [hub, edge] in
            try await every(hub.documents("main") == 50, edge.documents("main") == 50)
        }
        #expect(try await hub.revisions() == edge.revisions())
        for agent in [edge, hub] { #expect(try await agent.stop().status == 0) }
    }
}

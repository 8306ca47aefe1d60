import Documents
import TestSupport
import Testing

/// A replicator's push filter that is changed while the hub is away: what it rejected before is owed, and is said to be.
@Suite("A push filter that is changed without a connection", .serialized)
struct ChangedFilterOfflineTests {
    private func configuration(to port: Int, minimum: Int) -> String {
        Configuration.edge(to: port, collection: "{ push_filter: { plugin: gate, params: { minimum: \(minimum) } } }", plugins: true)
    }

    @Test("what it rejected is pending until the hub is back, and is then sent")
    func owed() async throws {
        let port = try freePort()
        let hub = try await AgentProcess.start(Configuration.hub(port: port))
        let folder = try TemporaryFolder()
        try folder.write(
            "plugins/gate.lua",
            "return { params = { minimum = { type = 'number', default = 0 } }, push_filter = function(doc, ctx) return doc.level >= ctx.params.minimum end }\n")
        let edge = try await AgentProcess.start(configuration(to: port, minimum: 500), in: folder)
        try await edge.save("low", "{\"level\":100}")
        try await edge.save("high", "{\"level\":900}")
        try await eventually("what passes arrives") { try await hub.has("high") }
        try await edge.waits("rejected", is: 1)
        try await edge.waits("pending", is: 0)
        #expect(try await edge.command("doc", "why", "main", "low").output.contains("push: rejected: push filter gate"))
        #expect(try await hub.stop().status == 0)
        try await edge.waits("it is offline") { $0["activity"] == "offline" }

        let reloaded = try await edge.reload(configuration(to: port, minimum: 95))
        #expect(reloaded.status == 0, "\(reloaded)")
        try await edge.waits("pending", is: 1)
        let listed = try await edge.command("replicator", "hub", "pending")
        #expect(listed.output.contains("low") && !listed.output.contains("high"), "\(listed)")
        let why = try await edge.command("doc", "why", "main", "low").output
        #expect(why.contains("push: pending: push filter gate rejected it in version") && why.contains("it is checked again"), "\(why)")

        // What the filter would reject now is counted and listed alike, with the reason, until a connection has asked it.
        try await edge.save("lower", "{\"level\":1}")
        try await edge.waits("pending", is: 2)
        let both = try await edge.command("replicator", "hub", "pending")
        #expect(both.output.split(separator: "\n").count == 3 && both.output.contains("push filter gate would reject it now"), "\(both)")
        let one = try await edge.command("replicator", "hub", "pending", "lower")
        #expect(one.output.hasPrefix("lower: pending: push filter gate would reject it now"), "\(one)")

        let again = try await AgentProcess.start(try hub.folder.text("nightjar.yaml"), in: hub.folder)
        try await eventually("it arrives") { try await again.has("low") }
        try await edge.waits("pending", is: 0)
        #expect(try await edge.stop().status == 0)
        #expect(try await again.stop().status == 0)
    }
}

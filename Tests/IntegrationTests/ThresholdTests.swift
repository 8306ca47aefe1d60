import TestSupport
import Testing

/// The idea of the quickstart: only hot readings leave, and where "hot" begins is changed while the agents run.
@Suite("A filter with a threshold", .serialized, .agent(Configuration.hub()))
struct ThresholdTests {
    private static func filter(_ minimum: Int) -> String {
        """
        return {
          params = { minimum = { type = "number", default = \(minimum) } },
          push_filter = function(doc, ctx)
            if doc.type ~= "reading" then return true end
            return doc.n >= ctx.params.minimum
          end,
        }

        """
    }

    @Test("lets pass what it should; edited, it offers again what it held back")
    func threshold() async throws {
        let hub = try sharedAgent()
        let folder = try TemporaryFolder()
        try folder.write("plugins/above.lua", Self.filter(900))
        let edge = try await AgentProcess.start(
            Configuration.edge(to: try hub.port("edge"), collection: "{ push_filter: above }", plugins: true), in: folder)
        #expect(try await edge.load("reading", 1000, extra: ",\"type\":\"reading\"") == 1000)
        try await edge.save("setpoints", "{\"limit\":1}")
        try await hub.waits(documents: 101)
        try await edge.isSettled()
        var status = try await edge.replicator("hub")
        #expect(status["rejected"]?.asInt64 == 900)
        #expect(status["pushed"]?.asInt64 == 101)
        // Lower: more leaves, nothing twice.
        try await edge.plugin("above", becomes: Self.filter(400))
        try await hub.waits(documents: 601)
        try await edge.isSettled()
        status = try await edge.replicator("hub")
        #expect(status["pushed"]?.asInt64 == 601)
        // Higher: what has left stays, what is new is judged by the new one.
        try await edge.plugin("above", becomes: Self.filter(2000))
        try await edge.save("late", "{\"type\":\"reading\",\"n\":1500}")
        try await edge.save("hot", "{\"type\":\"reading\",\"n\":2500}")
        try await eventually("the hot one arrives") { try await hub.has("hot") }
        #expect(try await !hub.has("late"))
        #expect(try await hub.documents("main") == 602)
        // A restart forgets nothing of what was kept back.
        #expect(try await edge.stop().status == 0)
        try folder.write("plugins/above.lua", Self.filter(0))
        let again = try await AgentProcess.start(try folder.text("nightjar.yaml"), in: folder)
        try await hub.waits(documents: 1003)
        try await again.isSettled()
        #expect(try await again.revisions() == hub.revisions())
        #expect(try await again.stop().status == 0)
    }
}

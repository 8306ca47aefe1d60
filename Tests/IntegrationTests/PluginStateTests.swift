import TestSupport
import Testing

/// What a plugin puts into `nightjar.state` is there after a restart.
@Suite("A plugin's state", .serialized, .agent(Configuration.hub()))
struct PluginStateTests {
    /// Passes the first document it was ever asked about, and those that name it.
    private static let filter = """
        return { push_filter = function(doc)
          local first = nightjar.state.first
          if not first then
            nightjar.state.first = { id = doc._id }
            return true
          end
          return doc._id == first.id or doc.echo == first.id
        end }

        """

    @Test("outlives the agent, and a broken file is named")
    func restart() async throws {
        let hub = try sharedAgent()
        let folder = try TemporaryFolder()
        try folder.write("plugins/first.lua", Self.filter)
        let edge = try await AgentProcess.start(
            Configuration.edge(to: try hub.port("edge"), collection: "{ push_filter: first }", plugins: true), in: folder)
        try await edge.save("a", "{}")
        try await eventually("the first one arrives") { try await hub.has("a") }
        #expect(try await edge.stop().status == 0)
        #expect(try folder.text("data/plugin-state/first.json") == "{\"first\":{\"id\":\"a\"}}")

        let again = try await AgentProcess.start(try folder.text("nightjar.yaml"), in: folder)
        try await again.save("stranger", "{\"echo\":\"b\"}")
        try await again.save("friend", "{\"echo\":\"a\"}")
        try await eventually("the friend arrives") { try await hub.has("friend") }
        #expect(try await !hub.has("stranger"))
        #expect(try await again.stop().status == 0)

        try folder.write("data/plugin-state/first.json", "{\"first\":")
        let third = try await AgentProcess.start(try folder.text("nightjar.yaml"), in: folder)
        try await third.save("held", "{}")
        try await eventually("the failure is shown") {
            let failure = try await third.plugin("first")["last_failure"]?.asString ?? ""
            return failure.contains("plugin-state/first.json") && failure.contains("repair or remove it")
        }
        #expect(try await !hub.has("held"))
        #expect(try await third.stop().status == 0)
    }
}

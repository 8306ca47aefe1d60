import TestSupport
import Testing

/// What both sides had, for resolvers that merge: readings are small, and a field that is lost is lost silently.
@Suite("Resolvers and what both sides had")
struct ConflictBaseTests {
    /// Takes each of two fields from the side that changed it.
    private static let merging = """
        return { resolve = function(c)
          local base, here, there = c.base_doc, c.local_doc, c.remote_doc
          if not base then return { base = "gone" } end
          local function pick(name)
            if here[name] == base[name] then return there[name] end
            return here[name]
          end
          return { a = pick("a"), b = pick("b") }
        end }
        """

    private func agent(_ configuration: String) async throws -> AgentProcess {
        let folder = try TemporaryFolder()
        folder.makeFolder("plugins")
        try folder.write("plugins/merging.lua", Self.merging)
        return try await AgentProcess.start(configuration, in: folder)
    }

    private func expectMerged(_ id: String, at agent: AgentProcess) async throws {
        let document = try await agent.get("main", id).json
        #expect(document["a"]?.asInt64 == 1 && document["b"]?.asInt64 == 2, "\(id): \(document.text)")
    }

    @Test("a document of a few bytes that was changed here and at a peer that only pushes is merged field by field")
    func pushedConflict() async throws {
        let hub = try await agent(Configuration.hub(database: "{ conflict_resolver: merging }", plugins: true))
        let port = try hub.port("edge")
        let first = try await hub.save("small", "{\"a\":0,\"b\":0}")
        let edge = try await AgentProcess.start(Configuration.edge(to: port, type: "pull", continuous: true))
        try await edge.waits(documents: 1)
        #expect(try await edge.command("replicator", "hub", "stop").status == 0)
        try await hub.save("small", "{\"_rev\":\"\(first)\",\"a\":1,\"b\":0}")
        try await edge.save("small", "{\"_rev\":\"\(first)\",\"a\":0,\"b\":2}")
        #expect(try await edge.reload(Configuration.edge(to: port, type: "push")).status == 0)
        try await eventually("the edge's revision has met the hub's") { try await hub.get("main", "small").json["_rev"]?.asString?.hasPrefix("3-") == true }
        try await expectMerged("small", at: hub)
        #expect(try await edge.stop().status == 0)
        #expect(try await hub.stop().status == 0)
    }

    @Test("a save over an old revision has its base too, from when a reload named a resolver")
    func savesAfterAReload() async throws {
        let agent = try await agent(Configuration.hub(plugins: true))
        let resolved = try await agent.reload(Configuration.hub(database: "{ conflict_resolver: merging }", plugins: true))
        #expect(resolved.status == 0, "\(resolved)")
        let first = try await agent.save("saved", "{\"a\":0,\"b\":0}")
        try await agent.save("saved", "{\"_rev\":\"\(first)\",\"a\":1,\"b\":0}")
        try await agent.save("saved", "{\"_rev\":\"\(first)\",\"a\":0,\"b\":2}")
        try await expectMerged("saved", at: agent)
        #expect(try await agent.stop().status == 0)
    }
}

import Documents
import TestSupport
import Testing

/// What both sides call a document once a resolver has decided about it.
@Suite("Names of decided documents")
struct DecisionVersionTests {
    private static let taking = """
        return { resolve = function(c)
          if c.local_doc.take == "local" then return c.local_doc end
          if c.local_doc.take == "remote" then return c.remote_doc end
          return { at = "both" }
        end }
        """

    @Test("both sides have the same ones, and no versions where neither of them had any", arguments: [false, true])
    func names(_ hasVersions: Bool) async throws {
        let folder = try TemporaryFolder()
        folder.makeFolder("plugins")
        try folder.write("plugins/taking.lua", Self.taking)
        let hub = try await AgentProcess.start(Configuration.hub(database: "{ version_vectors: \(hasVersions) }"))
        let configuration = Configuration.edge(to: try hub.port("edge"), plugins: true)
        let edge = try await AgentProcess.start(
            configuration.replacing("main: {}", with: "main: { conflict_resolver: taking, version_vectors: \(hasVersions) }"), in: folder)
        try await edge.isSettled()
        #expect(try await edge.command("replicator", "hub", "stop").status == 0)
        let decisions = [("local", "edge"), ("remote", "hub"), ("both", "both")]
        for (id, _) in decisions {
            try await hub.save(id, "{\"take\":\"\(id)\",\"at\":\"hub\"}")
            // By generations the edge's is the newer one.
            let first = try await edge.save(id, "{\"take\":\"\(id)\",\"at\":\"edge\"}")
            try await edge.save(id, "{\"_rev\":\"\(first)\",\"take\":\"\(id)\",\"at\":\"edge\",\"n\":1}")
        }
        #expect(try await edge.command("replicator", "hub", "start").status == 0)
        for (id, winner) in decisions {
            try await eventually("\(id) is decided, and the hub has it") {
                let (here, there) = try await (edge.get("main", id).json, hub.get("main", id).json)
                return here["at"]?.asString == winner && here["_rev"] == there["_rev"]
            }
        }
        try await edge.isSettled()
        #expect(try await edge.replicator("hub")["protocol"]?.asString == (hasVersions ? "BLIP_3+CBMobile_4" : "BLIP_3+CBMobile_3"))
        for agent in [edge, hub] { #expect(try await agent.database("main")["has_versions"]?.asBool == hasVersions) }
        for (id, _) in decisions {
            let here = try await JSONValue(parsing: edge.command("doc", "get", "main", id, "--cv", "--json").outputBytes)
            let there = try await JSONValue(parsing: hub.command("doc", "get", "main", id, "--cv", "--json").outputBytes)
            #expect((here["_cv"] != nil) == hasVersions && here["_cv"] == there["_cv"], "\(here.text)\n\(there.text)")
            // What stands as the other side has it is not sent back: here alone it is known what it won against.
            #expect((here["_vv"] == there["_vv"]) == (id != "remote" || !hasVersions), "\(here.text)\n\(there.text)")
        }
        #expect(try await edge.stop().status == 0)
        #expect(try await hub.stop().status == 0)
    }
}

import Documents
import TestSupport
import Testing

/// What a peer says is shown where its words have to be true as well.
@Suite("Words of a peer")
struct PeersWordsTests {
    @Test("a document about which a plugin of the hub fails is not called held at the agent that pushes it, and it is said whose plugin fails")
    func undecided() async throws {
        let folder = try TemporaryFolder()
        try folder.write("plugins/gate.lua", "return { pull_filter = function(doc) error('no') end, push_filter = function(doc) error('no') end }\n")
        let hub = try await AgentProcess.start(Configuration.hub(listener: "couchdb: true\n    pull_filter: gate\n    push_filter: gate", plugins: true), in: folder)
        let agent = try await AgentProcess.start(Configuration.edge(to: try hub.port("edge"), type: "push"))
        try await agent.save("film", "{}")
        let row = try await eventually("it waits with the reason") {
            try await agent.admin.get("/api/replicators/hub/pending").json.asArray?.first { $0["reason"]?.isNull == false }
        }
        let reason = try #require(row["reason"]?.asString)
        #expect(reason.contains("the agent that receives the document") && reason.contains("plugin") && !reason.contains("held"), "\(reason)")
        try await hub.save("song", "{}")
        let answer = try await CouchHTTP(hub).send("GET", "/main/song")
        #expect(answer.status == 503 && answer.text.contains("its plugin gate") && !answer.text.contains("is held"), "\(answer)")
        for each in [agent, hub] { #expect(try await each.stop().status == 0) }
    }
}

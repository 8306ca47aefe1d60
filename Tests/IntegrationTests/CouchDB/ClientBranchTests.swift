import Documents
import TestSupport
import Testing

/// A client that keeps every branch, as CouchDB and PouchDB do, at a listener of an agent that decides conflicts.
@Suite("Branches of CouchDB's clients")
struct ClientBranchTests {
    private static let merging = """
        return { resolve = function(conflict)
          local here, there = conflict.local_doc, conflict.remote_doc
          if not here or not there then return nightjar.delete end
          return { n = here.n + there.n }
        end }
        """

    /// Brings a revision that was made elsewhere; one digit stands for a digest.
    private func bring(_ couch: CouchHTTP, _ id: String, _ digits: [String], _ n: Int) async throws {
        let ids = digits.map { "\"\(String(repeating: $0, count: 32))\"" }.joined(separator: ",")
        let leaf = "\(digits.count)-\(String(repeating: digits[0], count: 32))"
        let document = "{\"_id\":\"\(id)\",\"_rev\":\"\(leaf)\",\"n\":\(n),\"_revisions\":{\"start\":\(digits.count),\"ids\":[\(ids)]}}"
        #expect(try await couch.ok("POST", "/main/_bulk_docs", "{\"docs\":[\(document)],\"new_edits\":false}", status: 201).asArray?.isEmpty == true)
    }

    /// All leaves as a client reads them: what lives, and the parents of what ended.
    private func leaves(_ couch: CouchHTTP, _ id: String) async throws -> (live: [JSONValue], ended: Set<String>) {
        let all = try await couch.ok("GET", "/main/\(id)?open_revs=all&revs=true").asArray?.compactMap { $0["ok"] } ?? []
        let ended = all.filter { $0["_deleted"]?.asBool == true }
        return (all.filter { $0["_deleted"]?.asBool != true }, Set(ended.compactMap { $0["_revisions"]?["ids"]?.asArray?.dropFirst().first?.asString }))
    }

    @Test("a losing branch ends at the client, which cannot bring it back")
    func ended() async throws {
        let folder = try TemporaryFolder()
        try folder.write("plugins/merging.lua", Self.merging)
        let agent = try await AgentProcess.start(Configuration.hub(database: "{ conflict_resolver: merging }", plugins: true), in: folder)
        let couch = try CouchHTTP(agent)
        try await bring(couch, "x", ["b", "0"], 1)
        try await bring(couch, "x", ["a", "0"], 10)
        let (live, ended) = try await leaves(couch, "x")
        #expect(live.count == 1 && live[0]["n"]?.asInt64 == 11)
        #expect(ended == [String(repeating: "a", count: 32)])
        // Its feed has the tombstone, which can be fetched by its id.
        let row = try #require(try await couch.ok("GET", "/main/_changes?style=all_docs")["results"]?.asArray?.first { $0["id"]?.asString == "x" })
        let revisions = (row["changes"]?.asArray ?? []).compactMap { $0["rev"]?.asString }
        #expect(revisions.count == 2)
        for revision in revisions {
            #expect(try await couch.ok("GET", "/main/x?open_revs=%5B%22\(revision)%22%5D").asArray?.first?["ok"] != nil, "\(revision)")
        }
        // It has what ended, and offers it once more.
        let question = "{\"x\":[\"2-\(String(repeating: "a", count: 32))\",\"2-\(String(repeating: "b", count: 32))\"]}"
        #expect(try await couch.ok("POST", "/main/_revs_diff", question).asObject?.members.isEmpty == true)
        // CouchDB's replicator names a document twice that changed twice while it gathered a batch.
        let twice = try await couch.ok("POST", "/main/_revs_diff", "{\"new\":[\"1-aa\"],\"new\":[\"2-bb\"]}")
        #expect(twice.asObject?.members.count == 1 && twice["new"]?["missing"]?.asArray == ["2-bb"])
        try await bring(couch, "x", ["a", "0"], 10)
        #expect(try await leaves(couch, "x").live == live)
        // Also behind a restart, with a client that comes first.
        #expect(try await agent.stop().status == 0)
        let again = try await AgentProcess.start(Configuration.hub(database: "{ conflict_resolver: merging }", plugins: true), in: folder)
        let second = try CouchHTTP(again)
        try await bring(second, "x", ["c", "a", "0"], 100)
        let merged = try await leaves(second, "x")
        #expect(merged.live.count == 1 && merged.live[0]["n"]?.asInt64 == 111)
        #expect(merged.ended.count == 2)
        #expect(try await again.status()["health"]?.asString == "ok")
        #expect(try await again.stop().status == 0)
    }

    @Test("a deletion stays known beside another client's, a greater or a lesser one")
    func deletions() async throws {
        let agent = try await AgentProcess.start(Configuration.hub())
        let couch = try CouchHTTP(agent)
        for (id, other) in [("x", "1-00"), ("y", "9-00")] {
            let first = try #require(try await couch.ok("PUT", "/main/\(id)", "{\"v\":1}", status: 201)["rev"]?.asString)
            let deletion = try #require(try await couch.ok("DELETE", "/main/\(id)?rev=\(first)")["rev"]?.asString)
            func bring(_ members: String) async throws {
                let request = "{\"docs\":[{\"_id\":\"\(id)\",\(members)}],\"new_edits\":false}"
                #expect(try await couch.ok("POST", "/main/_bulk_docs", request, status: 201).asArray?.isEmpty == true)
            }
            try await bring("\"_rev\":\"\(other)\",\"_deleted\":true")
            let all = try await couch.ok("GET", "/main/\(id)?open_revs=all").asArray?.compactMap { $0["ok"]?["_rev"]?.asString } ?? []
            #expect(Set(all) == [deletion, other])
            let row = try await couch.ok("GET", "/main/_changes?style=all_docs")["results"]?.asArray?.first { $0["id"]?.asString == id }
            #expect(row?["changes"]?.asArray?.first?["rev"]?.asString == (id == "x" ? deletion : other))
            #expect(try await couch.ok("POST", "/main/_revs_diff", "{\"\(id)\":[\"\(first)\",\"\(deletion)\"]}").asObject?.isEmpty == true)
            try await bring("\"_rev\":\"\(first)\",\"v\":1")
            #expect(try await couch.problem("GET", "/main/\(id)") == "404 not_found")
        }
        #expect(try await agent.stop().status == 0)
    }

    /// Of the hub's branch and the client's, the hub's continues, whichever is the greater one: it accepts nothing else.
    @Test("without a resolver the rule of the replicator decides, and its hub gets the result", arguments: ["1", "f"], [2, 4])
    func decidedForTheHub(_ digit: String, _ generation: Int) async throws {
        let hub = try await AgentProcess.start(Configuration.hub())
        let agent = try await AgentProcess.start(
            Configuration.edge(
                to: try hub.port("edge"),
                more: "listeners:\n  - { name: edge, databases: [ main ], interface: 127.0.0.1, port: 0, disable_tls: true }"))
        let couch = try CouchHTTP(agent)
        try await bring(couch, "x", ["0"], 0)
        try await agent.isSettled()
        let first = "1-\(String(repeating: "0", count: 32))"
        let saved = try await hub.put("main", "x", "{\"n\":1,\"_rev\":\"\(first)\"}")
        try #require(saved.status == 201, "\(saved)")
        try await eventually("the hub's edit") { try await agent.get("main", "x").json["n"]?.asInt64 == 1 }
        try await bring(couch, "x", (0..<generation - 1).map { _ in digit } + ["0"], 2)
        try await eventually("one leaf that the hub has, too") {
            let here = try await agent.get("main", "x").json["_rev"]?.asString
            let there = try await hub.get("main", "x").json["_rev"]?.asString
            let live = try await leaves(couch, "x").live.compactMap { $0["_rev"]?.asString }
            let pending = try await agent.status()["databases"]?.asArray?.first?["conflicts_pending"]?.asInt64
            return here == there && live == [here] && pending == 0
        }
        let status = try await agent.replicator("hub")
        #expect(status["refused"]?.asInt64 == 0 && status["failed"]?.asInt64 == 0, "\(status)")
        #expect(try await agent.status()["health"]?.asString == "ok")
        for agent in [agent, hub] { #expect(try await agent.stop().status == 0) }
    }

    /// The agent has not edited it, so that its copy of what was deleted has no say, although it is the greater revision.
    @Test(
        "what was deleted at the hub while an agent was away does not come back, even if a client brought a lesser branch",
        arguments: [("pull", "ws"), ("push_and_pull", "ws"), ("pull", "http"), ("push_and_pull", "http")], [false, true])
    func deletedBesideALesserBranch(_ link: (type: String, scheme: String), _ hasVersions: Bool) async throws {
        let hub = try await AgentProcess.start(Configuration.hub(database: "{ version_vectors: \(hasVersions) }"))
        let couch = try CouchHTTP(hub)
        // Deleted before the other one comes, and after.
        let ids = ["before", "after"]
        var old: [String: String] = [:]
        for id in ids { old[id] = try await couch.ok("PUT", "/main/\(id)", #"{"n":1}"#, status: 201)["rev"]?.asString }
        let configuration = Configuration.edge(to: try hub.port("edge"), type: link.type, scheme: link.scheme)
        let agent = try await AgentProcess.start(configuration)
        for id in ids { try await eventually("the first revision") { try await agent.get("main", id).json["n"]?.asInt64 == 1 } }
        try await agent.isSettled()
        #expect(try await agent.stop().status == 0)

        try await couch.ok("DELETE", "/main/before?rev=\(old["before"] ?? "")")
        for id in ids { try await bring(couch, id, ["0"], 2) }
        try await couch.ok("DELETE", "/main/after?rev=\(old["after"] ?? "")")
        let again = try await AgentProcess.start(configuration, in: agent.folder)
        for id in ids {
            try await eventually("the other branch of \(id)") { try await again.get("main", id).json["n"]?.asInt64 == 2 }
        }
        try await again.isSettled()
        for id in ids {
            let (here, there) = (try await again.get("main", id).json, try await hub.get("main", id).json)
            #expect(here == there && there["n"]?.asInt64 == 2, "\(here.text) \(there.text)")
        }
        #expect(try await again.status()["databases"]?.asArray?.first?["conflicts_pending"]?.asInt64 == 0)
        for agent in [again, hub] { #expect(try await agent.stop().status == 0) }
    }
}

import Documents
import Glibc
import TestSupport
import Testing

/// Two agents with a hub of their own kind, reached by http: as a database of CouchDB. Branches that clients of the hub made become one, and
/// none of the agents' tombstones deletes a document.
@Suite("Branches between agents that speak CouchDB's protocol", .serialized)
struct CouchBranchTests {
    private static let merging = """
        return { resolve = function(conflict)
          local here, there = conflict.local_doc, conflict.remote_doc
          if not here or not there then return nightjar.delete end
          return { n = math.max(here.n, there.n) }
        end }
        """

    private func branches(_ couch: CouchHTTP, _ id: String, _ digests: [String]) async throws {
        let documents = digests.enumerated().map { n, digest in
            let leaf = String(repeating: digest, count: 32)
            return "{\"_id\":\"\(id)\",\"_rev\":\"2-\(leaf)\",\"n\":\(n),\"_revisions\":{\"start\":2,\"ids\":[\"\(leaf)\",\"\(String(repeating: "0", count: 32))\"]}}"
        }
        try await couch.ok("POST", "/main/_bulk_docs", "{\"docs\":[\(documents.joined(separator: ","))],\"new_edits\":false}", status: 201)
    }

    /// Leaves that are not deleted.
    private func live(_ couch: CouchHTTP, _ id: String) async throws -> [JSONValue] {
        try await couch.ok("GET", "/main/\(id)?open_revs=all").asArray?.compactMap { $0["ok"] }.filter { $0["_deleted"]?.asBool != true } ?? []
    }

    @Test("without a resolver branches stay as CouchDB keeps them, even over a restart, and nobody is asked to decide")
    func kept() async throws {
        let configuration = Configuration.hub(listener: "couchdb: true")
        let before = try await AgentProcess.start(configuration)
        try await branches(CouchHTTP(before), "x", ["a", "b", "c"])
        try await before.kill9()
        let agent = try await AgentProcess.start(configuration, in: before.folder)
        // The keepers have looked at everything by the time that the agent has stopped.
        #expect(try await agent.stop().status == 0)
        let after = try await AgentProcess.start(configuration, in: before.folder)
        #expect(try await live(CouchHTTP(after), "x").count == 3)
        #expect(try await after.status()["health"]?.asString == "ok")
        #expect(try await after.stop().status == 0)
    }

    @Test("branches become one live leaf on the hub and on both agents, even after a crash", arguments: [true, false])
    func threeAgents(merges: Bool) async throws {
        let hub = try await AgentProcess.start(Configuration.hub(listener: "couchdb: true"))
        let couch = try CouchHTTP(hub)
        for n in 0..<4 { try await branches(couch, "x\(n)", ["a", "c", "b", "d"].dropLast(n % 2).map { $0 }) }
        let folders = try [TemporaryFolder(), TemporaryFolder()]
        for folder in folders { try folder.write("plugins/merging.lua", Self.merging) }
        let configuration = Configuration.edge(
            to: try hub.port("edge"), collection: merges ? "{ conflict_resolver: merging }" : "{}", plugins: true, scheme: "http")
        var agents: [AgentProcess] = []
        for folder in folders { agents.append(try await AgentProcess.start(configuration, in: folder)) }
        @Sendable func settled(_ count: Int, _ agents: [AgentProcess]) async throws -> Bool {
            for n in 0..<count {
                let leaves = try await live(couch, "x\(n)")
                guard leaves.count == 1, let revision = leaves[0]["_rev"]?.asString else { return false }
                for agent in agents {
                    let answer = try await agent.get("main", "x\(n)")
                    guard answer.status == 200, try answer.json["_rev"]?.asString == revision else { return false }
                }
            }
            return true
        }
        try await eventually("one leaf of each document everywhere") { [agents] in try await settled(4, agents) }
        // One agent ends hard while more come, and goes on.
        agents[1].process.send(SIGKILL)
        _ = try await agents[1].process.wait()
        for n in 4..<8 { try await branches(couch, "x\(n)", ["c", "a", "b"]) }
        agents[1] = try await AgentProcess.start(configuration, in: folders[1])
        for n in 0..<8 {
            let revision = try await couch.ok("GET", "/main/x\(n)")["_rev"]?.asString ?? ""
            _ = try await couch.send("PUT", "/main/x\(n)?rev=\(revision)", "{\"n\":100}")
        }
        try await eventually("one leaf of each document everywhere after more edits") { [agents] in try await settled(8, agents) }
        #expect(try await couch.ok("GET", "/main")["doc_count"]?.asInt64 == 8)
        for agent in agents + [hub] { #expect(try await agent.stop().status == 0) }
    }
}

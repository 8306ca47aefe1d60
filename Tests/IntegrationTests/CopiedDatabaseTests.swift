import Documents
import TestSupport
import Testing

/// Two databases that make versions under one name: of a machine that was cloned.
@Suite("A copy of a database")
struct CopiedDatabaseTests {
    private func version(of id: String, _ agent: AgentProcess) async throws -> VectorVersion {
        let outcome = try await agent.command("doc", "get", "main", id, "--cv")
        return try VectorVersion(try #require(try JSONValue(parsing: outcome.outputBytes)["_cv"]?.asString, "\(outcome)"))
    }

    @Test("is reported by health with the peer that brought its version, and the database here continues under a new author id")
    func isTold() async throws {
        let agent = try await AgentProcess.start(Configuration.hub(database: "{ version_vectors: true }"))
        try await agent.save("mine", "{}")
        let mine = try await version(of: "mine", agent)
        func entry() async throws -> JSONValue? {
            try await agent.admin.get("/health").json["attention"]?.asArray?.first { $0["kind"] == "database_copied" }
        }
        #expect(try await entry() == nil)
        let socket = try await WebSocketProbe.connect(port: try agent.port("edge"), path: "/main/_blipsync", protocols: "BLIP_3+CBMobile_4")
        let peer = Peer(socket)
        // What was made here comes back: that is no copy.
        try await peer.push("again", "\(mine)")
        #expect(try await entry() == nil)
        try await peer.push("theirs", "\(VectorVersion(time: mine.time + 10_000_000_000, source: mine.source))")
        let found = try #require(try await entry())
        #expect(found["subject"] == "database main" && found["gravity"] == "attention", "\(found.text)")
        #expect(found["text"]?.asString?.contains(" by listener edge but was not made here") == true, "\(found.text)")
        try await agent.save("next", "{}")
        #expect(try await version(of: "next", agent).source != mine.source)
        #expect(try await NightjarExecutable.run("explain", "database_copied").output.contains("restore --replace"))
        try await peer.close()
        #expect(try await agent.stop().status == 0)
    }
}

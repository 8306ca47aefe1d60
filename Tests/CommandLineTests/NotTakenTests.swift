import Documents
import TestSupport
import Testing

@Suite("Documents of a CouchDB that cannot be stored here")
struct NotTakenTests {
    private static let long = String(repeating: "L", count: 241)

    private static func server() throws -> TestServer {
        let rows = [("fine", "1-aa"), ("odd", "1-xyz"), (long, "1-bb"), ("_own", "1-cc"), ("bell\\u0007", "1-dd")].enumerated().map { index, row in
            "{\"seq\":\"\(index + 1)-x\",\"id\":\"\(row.0)\",\"changes\":[{\"rev\":\"\(row.1)\"}]}"
        }
        return try TestServer { request in
            let path = String(request.target.prefix { $0 != "?" })
            if request.method == "PUT", path.hasPrefix("/db/_local/") { return .json(201, "{\"ok\":true,\"rev\":\"0-1\"}") }
            switch "\(request.method) \(path)" {
            case "GET /db", "GET /db/": return .json(200, "{\"db_name\":\"db\",\"update_seq\":\"5-x\"}")
            case "GET /db/_changes": return .json(200, "{\"results\":[\(rows.joined(separator: ","))],\"last_seq\":\"5-x\",\"pending\":0}")
            case "POST /db/_bulk_get":
                let found = "{\"_id\":\"fine\",\"_rev\":\"1-aa\",\"_revisions\":{\"start\":1,\"ids\":[\"aa\"]},\"n\":1}"
                return .json(200, "{\"results\":[{\"id\":\"fine\",\"docs\":[{\"ok\":\(found)}]}]}")
            case "POST /db/_ensure_full_commit": return .json(201, "{\"ok\":true}")
            default: return .json(404, "{\"error\":\"not_found\",\"reason\":\"missing\"}")
            }
        }
    }

    private func attention(_ agent: AgentProcess) async throws -> JSONValue? {
        try await agent.admin.get("/health").json["attention"]?.asArray?.first { $0["kind"]?.asString == "documents_not_taken" }
    }

    /// What the agent says about them by every way that an operator looks.
    private func areListed(by agent: AgentProcess) async throws {
        let told = try #require(try await attention(agent))
        #expect(told["subject"] == "replicator hub, refused" && told["gravity"] == "attention", "\(told.text)")
        #expect(told["text"]?.asString?.contains("4 documents of the remote cannot be stored here, such as document ") == true, "\(told.text)")
        #expect(told["remedy"]?.asString?.contains("nightjar replicator hub refused") == true, "\(told.text)")
        #expect(try await agent.replicator("hub")["not_taken"]?.asInt64 == 4)
        let metrics = try await agent.admin.get("/metrics").text
        #expect(metrics.contains(#"nightjar_documents_not_taken{replicator="hub"} 4"#), "\(metrics)")
        let list = try #require(try await agent.command("replicator", "hub", "refused", "--json").json.asArray)
        #expect(Set(list.compactMap { $0["id"]?.asString }) == ["odd", Self.long, "_own", "bell\\u0007"], "\(list)")
        #expect(list.allSatisfy { $0["direction"] == "pull" && $0["reason"]?.asString?.isEmpty == false && $0["since"]?.asString != nil }, "\(list)")
        for (id, word) in [("odd", "1-xyz"), (Self.long, "241 bytes"), ("_own", "reserved"), ("bell\u{7}", "control character")] {
            let why = try await agent.command("doc", "why", "main", id)
            #expect(why.status == 0 && why.output.contains("refused_here: ") && why.output.contains(word), "\(why)")
        }
        // An id that nobody has heard of is still none.
        #expect(try await agent.command("doc", "why", "main", "_other").errors.contains("reserved"))
    }

    @Test("documents that cannot be stored are named with their reasons, in health, on a list and by doc why, even after a restart and while the remote is away")
    func named() async throws {
        let folder = try TemporaryFolder()
        var server: TestServer? = try Self.server()
        let configuration = Configuration.plain + "replicators:\n"
            + Configuration.replicator("hub", to: "http://127.0.0.1:\(try #require(server).port)/db", more: "type: pull")
        let first = try await AgentProcess.start(configuration, in: folder)
        try await eventually("what can be stored is here") { try await first.get("main", "fine").status == 200 }
        try await eventually("the others are listed") { try await first.replicator("hub")["not_taken"]?.asInt64 == 4 }
        try await areListed(by: first)
        #expect(try await first.stop().status == 0)
        server = nil
        let second = try await AgentProcess.start(configuration, in: folder)
        try await areListed(by: second)
        #expect(try await second.stop().status == 0)
    }
}

import Documents
import TestSupport
import Testing

/// What a save says of conflicts for itself, whatever the database's resolver would do.
@Suite struct SaveConflictTests {
    private static let merge = "return { resolve = function(c)\n  local doc = nightjar.copy(c.local_doc)\n  doc.price = c.remote_doc.price\n  return doc\nend }\n"
    private static let theirs = "return { resolve = function(c) return c.remote_doc end }\n"

    @Test(arguments: Place.allCases)
    func everySaveMaySayWhatHappens(_ place: Place) async throws {
        let folder = try TemporaryFolder()
        try folder.write("plugins/merge.lua", Self.merge)
        try folder.write("plugins/theirs.lua", Self.theirs)
        let configuration = "plugins: plugins\n" + Configuration.plain.replacing("main: { ", with: "main: { conflict_resolver: merge, ")
        let agent = place == .agent ? try await AgentProcess.start(configuration, in: folder) : nil
        try folder.write("nightjar.yaml", configuration)
        func run(_ arguments: String...) async throws -> Subprocess.Outcome {
            try await Subprocess.run(
                try NightjarExecutable.path(), arguments + ["--config", folder.path("nightjar.yaml")], folder: folder.path)
        }
        func document() async throws -> JSONValue { try await run("doc", "get", "main", "x").json }
        let first = try await run("doc", "put", "main", "x", #"{"price":1}"#, "--json").json["rev"]?.asString ?? ""
        #expect(try await run("doc", "put", "main", "x", "{\"_rev\":\"\(first)\",\"price\":2,\"here\":true}").status == 0)
        func save(_ price: Int, _ what: String) async throws -> Subprocess.Outcome {
            try await run("doc", "put", "main", "x", "{\"_rev\":\"\(first)\",\"price\":\(price)}", "--on-conflict", what)
        }
        let refused = try await save(3, "fail")
        #expect(refused.status == 1 && refused.errors.contains("is at revision"), "\(refused)")
        #expect(try await document()["price"] == 2)
        #expect(try await save(4, "resolve").status == 0)
        var now = try await document()
        #expect(now["price"] == 4 && now["here"] == true)
        #expect(try await save(5, "plugin:theirs").status == 0)
        now = try await document()
        #expect(now["price"] == 5 && now["here"] == nil)
        #expect(try await run("conflicts", "list", "--json").json.asArray?.compactMap { $0["plugin"]?.asString }.sorted() == ["merge", "theirs"])
        #expect(try await save(6, "overwrite").status == 0)
        #expect(try await document()["price"] == 6)
        // Also by a client that has seen no revision, and if it was deleted in the meantime.
        #expect(try await run("doc", "put", "main", "x", #"{"price":7}"#, "--on-conflict", "overwrite").status == 0)
        #expect(try await run("doc", "rm", "main", "x").status == 0)
        #expect(try await save(8, "overwrite").status == 0)
        #expect(try await document()["price"] == 8)
        #expect(try await run("doc", "put", "main", "new", #"{"price":9}"#, "--on-conflict", "overwrite").status == 0)
        let unknown = try await save(9, "plugin:nobody")
        #expect(unknown.status == 1 && unknown.errors.contains("nobody"), "\(unknown)")
        let nonsense = try await save(9, "merge")
        #expect(nonsense.status == 64 && nonsense.errors.contains("resolve, fail, overwrite or plugin:NAME"), "\(nonsense)")
        #expect(try await document()["price"] == 8)
        if let agent { #expect(try await agent.stop().status == 0) }
    }

    @Test func ifMatchWantsNothingElse() async throws {
        let folder = try TemporaryFolder()
        try folder.write("plugins/merge.lua", Self.merge)
        let agent = try await AgentProcess.start(
            "plugins: plugins\n" + Configuration.plain.replacing("main: { ", with: "main: { conflict_resolver: merge, "), in: folder)
        func request(_ method: String, _ query: String = "", match: String, _ body: String? = nil) async throws -> HTTPProbe.Answer {
            try await agent.admin.request(
                method, "/api/databases/main/documents/x\(query)", headers: [("If-Match", match)], body: body.map { Array($0.utf8) })
        }
        let first = try await agent.put("main", "x", #"{"n":1,"price":1}"#).json["rev"]?.asString ?? ""
        let saved = try await request("PUT", match: "\"\(first)\"", #"{"n":2,"price":1}"#)
        #expect(saved.status == 201)
        let second = try saved.json["rev"]?.asString ?? ""
        #expect(try await request("PUT", match: "\"\(first)\"", #"{"n":3}"#).status == 409)
        #expect(try await request("PUT", "?rev=\(second)", match: first, #"{"n":3}"#).status == 400)
        #expect(try await request("DELETE", match: first).status == 409)
        #expect(try await agent.get("main", "x").json["n"] == 2)
        // A resolver is asked where the request wants that.
        #expect(try await request("PUT", "?on_conflict=resolve", match: first, #"{"n":3,"price":4}"#).status == 201)
        var now = try await agent.get("main", "x").json
        #expect(now["n"] == 2 && now["price"] == 4)
        #expect(try await request("PUT", "?on_conflict=perhaps", match: first, "{}").status == 400)
        now = try await agent.get("main", "x").json
        #expect(try await request("DELETE", match: now["_rev"]?.asString ?? "").status == 200)
        #expect(try await agent.stop().status == 0)
    }

    @Test func aResolverThatFailsMayYieldToTheRule() async throws {
        let fragile = ["fragile": "return { resolve = function(c) return c.local_doc.a.b end }\n"]
        let (hub, edge) = try await ConflictsCommandTests.pair(fragile, resolver: "{ plugin: fragile, on_failure: default_rule }")
        try await ConflictsCommandTests.diverge(hub, edge, "x")
        try await eventually("it is decided everywhere") {
            let (here, there) = (try await edge.get("main", "x").json, try await hub.get("main", "x").json)
            let decided = try await edge.command("conflicts", "list", "--json").json.asArray ?? []
            return here["_rev"] == there["_rev"] && decided.count == 1
        }
        // By nobody, as without a resolver; and the plugin's failure is no secret.
        let row = try #require(try await edge.command("conflicts", "list", "--json").json.asArray?.first)
        #expect(row["plugin"]?.asString?.isEmpty != false && row["place"]?["kind"] == "replicator", "\(row.text)")
        #expect(try await edge.command("conflicts", "list", "--pending").output == "no conflicts\n")
        let plugin = try await edge.status()["plugins"]?.asArray?.first
        #expect((plugin?["errors"]?.asInt64 ?? 0) >= 1 && plugin?["last_failure"]?.asString?.contains("fragile.lua:1:") == true)
        #expect(try await edge.stop().status == 0)
        #expect(try await hub.stop().status == 0)
    }
}

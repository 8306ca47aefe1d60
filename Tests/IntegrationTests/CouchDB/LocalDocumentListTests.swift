import Documents
import TestSupport
import Testing

/// `_local_docs`: documents that are not replicated, listed for the user they belong to.
@Suite("Lists of _local documents")
struct LocalDocumentListTests {
    private static let users = "return { authenticate_password = function(name, password) return password == \"secret\" and {} end }\n"
    private let anna = "YW5uYTpzZWNyZXQ=", ben = "YmVuOnNlY3JldA=="

    private func hub() async throws -> AgentProcess {
        let folder = try TemporaryFolder()
        try folder.write("plugins/users.lua", Self.users)
        let configuration = Configuration.hub(
            database: "{ collections: [ plant.readings ] }", listener: "couchdb: true\n    authenticator: users", plugins: true)
        return try await AgentProcess.start(configuration, in: folder)
    }

    private func put(_ couch: CouchHTTP, _ ids: [String], in database: String = "main") async throws {
        let documents = ids.map { "{\"_id\":\"_local/\($0)\",\"name\":\"\($0)\"}" }.joined(separator: ",")
        let answers = try await couch.ok("POST", "/\(database)/_bulk_docs", "{\"docs\":[\(documents)]}", status: 201).asArray ?? []
        try #require(answers.count == ids.count && answers.allSatisfy { $0["ok"] == true }, "\(answers)")
    }

    /// Ids without their prefix, and errors.
    private func rows(_ answer: JSONValue?) -> [String] {
        (answer?["rows"]?.asArray ?? []).map { $0["error"]?.asString ?? String(($0["id"]?.asString ?? "").dropFirst(7)) }
    }

    private func rows(_ couch: CouchHTTP, _ query: String = "", in database: String = "main") async throws -> [String] {
        rows(try await couch.ok("GET", "/\(database)/_local_docs?\(query)"))
    }

    @Test("they are listed in the order of their ids, in ranges, in pages and by key, as _all_docs lists documents")
    func lists() async throws {
        let hub = try await hub()
        let anna = try CouchHTTP(hub, login: anna)
        #expect(try await rows(anna).isEmpty)
        try await put(anna, ["d", "a", "gone", "c", "b/1"])
        try await anna.ok("DELETE", "/main/_local/gone")
        try await anna.ok("PUT", "/main/all", "{}", status: 201)
        #expect(try await rows(anna) == ["a", "b/1", "c", "d"])
        for (query, ids) in [
            ("descending=true", ["d", "c", "b/1", "a"]), ("limit=2&skip=1", ["b/1", "c"]), ("limit=0", []), ("skip=4", []), ("key=%22_local/c%22", ["c"]),
            ("startkey=%22_local/b%22&endkey=%22_local/c%22", ["b/1", "c"]), ("startkey=%22_local/b%22&endkey=%22_local/c%22&inclusive_end=false", ["b/1"]),
            ("descending=true&startkey=%22_local/c%22&endkey=%22_local/b%22", ["c", "b/1"]), ("descending=true&limit=1&skip=1", ["c"]), ("key=7", []),
            ("keys=[%22_local/d%22,%22_local/gone%22,%22_local/none%22,%22all%22,7,%22_local/a%22]", ["d", "not_found", "not_found", "a"]),
            // limit also counts keys that name no _local document: these are dropped afterwards.
            ("keys=[%22all%22,%22_local/d%22,%22_local/a%22]&limit=2", ["d"]), ("keys=[%22_local/d%22,%22_local/a%22]&descending=true&limit=1", ["a"]),
        ] { #expect(try await rows(anna, query) == ids, "\(query)") }
        let answer = try await anna.ok("GET", "/main/_local_docs?update_seq=true&include_docs=true&limit=1")
        #expect(answer["total_rows"]?.isNull == true && answer["offset"]?.isNull == true && answer["update_seq"]?.isNull == true, "\(answer.text)")
        let document = try await anna.ok("GET", "/main/_local/a")
        let row = answer["rows"]?.asArray?.first
        #expect(row?["doc"] == document && row?["value"]?["rev"] == document["_rev"] && row?["key"] == "_local/a" && document["name"] == "a", "\(answer.text)")
        #expect(try await anna.ok("GET", "/main/_local_docs?limit=1")["rows"]?.asArray?.first?["doc"] == nil)
        // Queries by POST, and several queries at once.
        #expect(try await rows(anna.ok("POST", "/main/_local_docs", "{\"keys\":[\"_local/d\"],\"include_docs\":true}")) == ["d"])
        #expect(try await rows(anna.ok("POST", "/main/_local_docs", "{\"startkey\":\"_local/c\"}")) == ["c", "d"])
        let several = "{\"queries\":[{\"startkey\":\"_local/d\"},{\"keys\":[\"_local/a\",\"_local/none\"]},{\"descending\":true,\"limit\":1},{\"limit\":0}]}"
        let results = try await anna.ok("POST", "/main/_local_docs/queries", several)["results"]?.asArray ?? []
        #expect(results.map { rows($0) } == [["d"], ["a", "not_found"], ["d"], []], "\(results)")
        for (method, path, body, expected) in [
            ("POST", "_local_docs", "{\"keys\":7}", "400 bad_request"), ("POST", "_local_docs", "{\"keys\":[],\"key\":\"_local/a\"}", "400 query_parse_error"),
            ("GET", "_local_docs?limit=x", "", "400 query_parse_error"), ("POST", "_local_docs/queries", "{}", "400 bad_request"),
            ("PUT", "_local_docs", "{}", "405 method_not_allowed"), ("GET", "_local_docs/queries", "", "405 method_not_allowed"),
        ] { #expect(try await anna.problem(method, "/main/\(path)", body.isEmpty ? nil : body) == expected, "\(method) \(path) \(body)") }
        #expect(try await hub.stop().status == 0)
    }

    @Test("a list has the user's own documents in that collection, and none of other users")
    func owners() async throws {
        let hub = try await hub()
        let (anna, ben) = (try CouchHTTP(hub, login: anna), try CouchHTTP(hub, login: ben))
        try await put(anna, ["mark", "plant.none/x"])
        try await put(anna, ["reading", "b/1"], in: "main.plant.readings")
        try await put(ben, ["other", "mark"])
        #expect(try await rows(anna) == ["mark", "plant.none/x"])
        #expect(try await rows(anna, in: "main.plant.readings") == ["b/1", "reading"])
        #expect(try await rows(ben) == ["mark", "other"])
        #expect(try await rows(ben, in: "main.plant.readings").isEmpty)
        #expect(try await rows(ben, "keys=[%22_local/plant.none/x%22,%22_local/other%22]") == ["not_found", "other"])
        let document = try await anna.ok("GET", "/main.plant.readings/_local_docs?include_docs=true&key=%22_local/b/1%22")["rows"]?.asArray?.first?["doc"]
        #expect(document?["name"] == "b/1" && document?["_id"] == "_local/b/1", "\(document?.text ?? "")")
        // A replicator's checkpoints belong to the user that it logs in as.
        try await ben.ok("PUT", "/main/tea", "{}", status: 201)
        let edge = try await AgentProcess.start(
            Configuration.edge(
                to: try hub.port("edge"), type: "pull", continuous: false, replicator: "authenticator: { username: ben, password: secret }", scheme: "http"))
        try await edge.waits(documents: 1)
        try await eventually("its checkpoint is listed") { try await rows(ben).count == 3 }
        #expect(try await rows(anna).count == 2)
        #expect(try await CouchHTTP(hub).problem("GET", "/main/_local_docs") == "401 unauthorized")
        for agent in [edge, hub] { #expect(try await agent.stop().status == 0) }
    }

    @Test("a client without a name gets a list only if nothing restricts it: it has what all clients without a name keep", arguments: [false, true])
    func nameless(isBound: Bool) async throws {
        let hub = try await AgentProcess.start(Configuration.hub(listener: isBound ? "couchdb: true\n    read_only: true" : "couchdb: true"))
        let couch = try CouchHTTP(hub)
        try await couch.ok("PUT", "/main/_local/mark", "{\"n\":1}", status: 201)
        #expect(try await rows(couch) == (isBound ? [] : ["mark"]))
        #expect(try await rows(couch, "descending=true&include_docs=true") == (isBound ? [] : ["mark"]))
        // It can be read by its id as well.
        #expect(try await rows(couch, "keys=[%22_local/mark%22]") == ["mark"])
        #expect(try await hub.stop().status == 0)
    }

    @Test("a long list is read in pages, in both directions")
    func pages() async throws {
        let hub = try await hub()
        let anna = try CouchHTTP(hub, login: anna)
        let ids = (1_000..<1_600).map { "p\($0)" }
        try await put(anna, ids)
        #expect(try await rows(anna) == ids)
        #expect(try await rows(anna, "descending=true") == Array(ids.reversed()))
        #expect(try await rows(anna, "skip=590&include_docs=true") == Array(ids.suffix(10)))
        #expect(try await rows(anna, "limit=3&descending=true&skip=298") == ["p1301", "p1300", "p1299"])
        #expect(try await rows(anna, "startkey=%22_local/p1499%22&limit=2") == ["p1499", "p1500"])
        let keys = ids.map { "\"_local/\($0)\"" }.joined(separator: ",")
        #expect(try await rows(anna.ok("POST", "/main/_local_docs", "{\"keys\":[\(keys)]}")) == ids)
        #expect(try await hub.stop().status == 0)
    }
}

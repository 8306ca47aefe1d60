import Documents
import TestSupport
import Testing

/// What `_dbs_info` says of several databases, and to which users.
@Suite("Databases by CouchDB's API")
struct DatabasesTests {
    /// Anna may read everything, ben some channels, and cara one collection of each database.
    private static let users = """
        local users = { anna = {}, ben = { channels = { "blue" } }, cara = { collections = { "plant.readings" } } }
        return { authenticate_password = function(name, password) return password == "secret" and users[name] end }
        """
    private let anna = "YW5uYTpzZWNyZXQ=", ben = "YmVuOnNlY3JldA==", cara = "Y2FyYTpzZWNyZXQ="

    private func hub() async throws -> AgentProcess {
        let folder = try TemporaryFolder()
        try folder.write("plugins/users.lua", Self.users)
        let configuration = Configuration.hub(
            databases: ["main", "other"], database: "{ collections: [ plant.readings ] }", listener: "couchdb: true\n    authenticator: users", plugins: true)
        return try await AgentProcess.start(configuration, in: folder)
    }

    @Test("_dbs_info says about each database what GET of the database says, to users who may see it")
    func information() async throws {
        let hub = try await hub()
        let (anna, ben, cara) = (try CouchHTTP(hub, login: anna), try CouchHTTP(hub, login: ben), try CouchHTTP(hub, login: cara))
        try await anna.ok("PUT", "/main/tea", "{}", status: 201)
        let all = try await anna.ok("GET", "/_dbs_info").asArray ?? []
        #expect(all.map { $0["key"]?.asString } == ["main", "other"], "\(all)")
        for (name, row) in zip(["main", "other"], all) {
            let facts = try await anna.ok("GET", "/\(name)")
            #expect(facts.asObject?.members.map(\.key) == row["info"]?.asObject?.members.map(\.key), "\(name)")
            for key in ["db_name", "doc_count", "update_seq"] { #expect(facts[key] == row["info"]?[key], "\(name): \(key)") }
        }
        for (query, names) in [
            ("descending=true", ["other", "main"]), ("limit=1", ["main"]), ("skip=1", ["other"]), ("startkey=%22n%22", ["other"]),
            ("endkey=%22main%22&inclusive_end=false", []),
        ] {
            let rows = try await anna.ok("GET", "/_dbs_info?\(query)").asArray ?? []
            #expect(rows.compactMap { $0["key"]?.asString } == names, "\(query)")
        }
        let asked = "{\"keys\":[\"other\",\"none\",7,\"main.plant.readings\",\"main\",\"main.plant.none\"]}"
        let named = try await anna.ok("POST", "/_dbs_info", asked).asArray ?? []
        #expect(named.map { $0["key"]?.text ?? "" }.joined(separator: ",") == asked.dropFirst(9).dropLast(2), "\(named)")
        #expect(named.map { $0["error"]?.asString ?? "-" } == ["-", "not_found", "not_found", "-", "-", "not_found"], "\(named)")
        #expect(named.map { $0["info"]?["db_name"]?.asString ?? "-" } == ["other", "-", "-", "main.plant.readings", "main", "-"], "\(named)")
        // A user with channels does not see how much others have.
        let bound = try await ben.ok("POST", "/_dbs_info", "{\"keys\":[\"main\"]}").asArray?.first?["info"]
        #expect(bound?["doc_count"] == 0 && bound?["sizes"]?["file"] == 0, "\(bound?.text ?? "")")
        // A user does not see that there is a collection that they may not use.
        #expect(try await cara.ok("GET", "/_dbs_info").asArray?.isEmpty == true)
        let hidden = try await cara.ok("POST", "/_dbs_info", "{\"keys\":[\"main\",\"main.plant.readings\",\"none\"]}").asArray ?? []
        #expect(hidden.map { $0["error"]?.asString ?? "-" } == ["not_found", "-", "not_found"], "\(hidden)")
        let nobody = try CouchHTTP(hub)
        #expect(try await nobody.problem("GET", "/_dbs_info") == "401 unauthorized")
        #expect(try await nobody.problem("POST", "/_dbs_info", "{\"keys\":[\"main\"]}") == "401 unauthorized")
        #expect(try await hub.stop().status == 0)
    }

    @Test("_dbs_info accepts 100 names, and refuses what CouchDB refuses")
    func wrong() async throws {
        let hub = try await hub()
        let anna = try CouchHTTP(hub, login: anna)
        func names(_ count: Int) -> String { "{\"keys\":[\(Array(repeating: "\"main\"", count: count).joined(separator: ","))]}" }
        #expect(try await anna.ok("POST", "/_dbs_info", names(100)).asArray?.count == 100)
        #expect(try await anna.ok("POST", "/_dbs_info", "{\"keys\":[]}").asArray?.isEmpty == true)
        for (body, reason) in [
            (names(101), "couchdb_databases (100)"), (names(101), "too_many_keys"), ("{\"missingkeys\":[]}", "`keys` member must exist."),
            ("{\"keys\":{}}", "`keys` member must be an array."), ("[\"main\"]", "must be a JSON object"), ("{\"keys\":", "invalid UTF-8 JSON"),
        ] {
            let answer = try await anna.send("POST", "/_dbs_info", body)
            #expect(answer.status == 400 && answer.text.contains("bad_request") && answer.text.contains(reason), "\(answer)")
        }
        #expect(try await anna.problem("POST", "/_dbs_info", "{\"keys\":[]}", [("Content-Type", "text/plain")]) == "415 bad_content_type")
        let large = try await anna.send("POST", "/_dbs_info", "{\"keys\":[\"\(String(repeating: "x", count: 300_000))\"]}")
        #expect(large.status == 413 && large.text.contains("couchdb_find_bytes"), "\(large)")
        #expect(try await anna.problem("PUT", "/_dbs_info", "{}") == "405 method_not_allowed")
        #expect(try await hub.stop().status == 0)
    }
}

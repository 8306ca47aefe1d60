import Documents
import TestSupport
import Testing

/// A query finds among what its user may see, as it may see it, whether an index is used or not.
@Suite("Users' queries of CouchDB's API", .serialized)
struct FindAccessTests {
    private static let plugins = [
        "plugins/route.lua": "return { sync = function(doc, old, ctx) if not doc._deleted then channel(doc.team) end end }",
        "plugins/users.lua": """
            local channels = { anna = { "red" }, ben = { "blue" }, boss = { "*" } }
            return { authenticate_password = function(name, password)
              return password == "secret" and channels[name] and { channels = channels[name] }
            end }
            """,
        "plugins/quiet.lua": """
            return { push_filter = function(doc, ctx)
              if doc.secret == "all" then return false end
              return true
            end }
            """,
    ]
    private let anna = "YW5uYTpzZWNyZXQ=", ben = "YmVuOnNlY3JldA==", boss = "Ym9zczpzZWNyZXQ="

    private func hub(_ listener: String) async throws -> AgentProcess {
        let folder = try TemporaryFolder()
        for (name, text) in Self.plugins { try folder.write(name, text) }
        return try await AgentProcess.start(Configuration.hub(listener: "couchdb: true\n    \(listener)", plugins: true), in: folder)
    }

    /// The same database, once with a filter and once without.
    private func twoDoors() async throws -> (hub: AgentProcess, bound: CouchHTTP, free: CouchHTTP) {
        let folder = try TemporaryFolder()
        for (name, text) in Self.plugins { try folder.write(name, text) }
        let open = """
              - name: open
                databases: [ main ]
                interface: 127.0.0.1
                port: 0
                disable_tls: true
                couchdb: true
            """
        let hub = try await AgentProcess.start(
            Configuration.hub(listener: "couchdb: true\n    push_filter: quiet", plugins: true, more: open), in: folder)
        return (hub, try CouchHTTP(hub), try CouchHTTP(hub, port: "open"))
    }

    private func find(_ couch: CouchHTTP, _ selector: String, _ more: String = "") async throws -> (ids: [String], answer: JSONValue) {
        let answer = try await couch.ok("POST", "/main/_find", "{\"selector\":\(selector),\"execution_stats\":true\(more)}")
        return ((answer["docs"]?.asArray ?? []).compactMap { $0["_id"]?.asString }, answer)
    }

    @Test("channels limit queries; only a user who may read everything can make indexes")
    func channels() async throws {
        let hub = try await hub("authenticator: users\n    sync: route")
        let (anna, ben, boss) = (try CouchHTTP(hub, login: anna), try CouchHTTP(hub, login: ben), try CouchHTTP(hub, login: boss))
        for number in 0..<20 {
            let team = number % 2 == 0 ? "red" : "blue"
            try await (number % 2 == 0 ? anna : ben).ok("PUT", "/main/d\(number + 10)", "{\"team\":\"\(team)\",\"n\":\(number)}", status: 201)
        }
        func expectBounds(_ comment: Comment) async throws {
            let all = try await find(anna, "{\"n\":{\"$gte\":0}}", ",\"limit\":100")
            #expect(all.ids.count == 10 && all.ids.allSatisfy { ["d10", "d12", "d14", "d16", "d18", "d20", "d22", "d24", "d26", "d28"].contains($0) }, comment)
            // Nor do the figures tell of the others.
            #expect(all.answer["execution_stats"]?["total_docs_examined"]?.asInt64 == 10, comment)
            #expect((all.answer["execution_stats"]?["total_keys_examined"]?.asInt64 ?? 99) <= 10, comment)
            #expect(try await find(ben, "{\"team\":\"red\"}").ids.isEmpty, comment)
            for selector in ["{\"n\":4}", "{\"_id\":\"d14\"}"] {
                #expect(try await find(ben, selector).ids.isEmpty, comment)
                #expect(try await find(anna, selector).ids == ["d14"], comment)
            }
            #expect(try await find(ben, "{\"n\":{\"$gt\":3}}", ",\"sort\":[\"n\"],\"limit\":2").ids == ["d15", "d17"], comment)
        }
        try await expectBounds("without an index")
        let index = "{\"index\":{\"fields\":[\"n\"]},\"ddoc\":\"n\",\"name\":\"n\"}"
        #expect(try await anna.problem("POST", "/main/_index", index) == "403 forbidden")
        #expect(try await CouchHTTP(hub).problem("POST", "/main/_find", "{\"selector\":{}}") == "401 unauthorized")
        try await boss.ok("POST", "/main/_index", index)
        try await expectBounds("with an index")
        #expect(try await find(boss, "{\"n\":{\"$gte\":0}}", ",\"limit\":100").ids.count == 20)
        #expect(try await anna.problem("DELETE", "/main/_index/n/json/n") == "403 forbidden")
        #expect(try await hub.stop().status == 0)
    }

    @Test("what a query costs tells nothing of documents that the push filter hides")
    func costs() async throws {
        let (hub, couch, all) = try await twoDoors()
        let many = Array(repeating: "0", count: 400_000).joined(separator: ",")
        try await all.ok("PUT", "/main/hidden", "{\"secret\":\"all\",\"pin\":\"4711\",\"w\":[\(many)]}", status: 201)
        try await all.ok("PUT", "/main/seen", "{\"pin\":\"0\"}", status: 201)
        // A right guess at the hidden document would go on to its large field, which is too much for a query.
        for guess in ["4", "5"] {
            let selector = "{\"$and\":[{\"pin\":{\"$regex\":\"^\(guess)\"}},{\"w\":{\"$regex\":\"x\"}}]}"
            let found = try await find(couch, selector)
            #expect(found.ids.isEmpty && found.answer["warning"]?.asString?.contains("left out") != true, "\(guess): \(found.answer.text)")
        }
        #expect(try await find(all, "{\"w\":{\"$regex\":\"x\"}}").answer["warning"]?.asString?.contains("left out") == true)
        #expect(try await hub.stop().status == 0)
    }

    @Test("a push filter bounds queries, with an index and without")
    func filters() async throws {
        let (hub, bound, free) = try await twoDoors()
        for number in 0..<20 {
            try await free.ok("PUT", "/main/d\(number + 10)", "{\"n\":\(number),\"secret\":\"\(number % 2 == 0 ? "all" : "none")\"}", status: 201)
        }
        for comment: Comment in ["without an index", "with an index"] {
            let all = try await find(bound, "{\"n\":{\"$gte\":0}}", ",\"limit\":100")
            #expect(all.ids.count == 10 && !all.ids.contains("d10"), comment)
            #expect(all.answer["execution_stats"]?["total_keys_examined"]?.asInt64 ?? 99 <= 20, comment)
            #expect(try await find(bound, "{\"secret\":\"all\"}").ids.isEmpty, comment)
            #expect(try await find(bound, "{\"n\":{\"$gte\":0}}", ",\"limit\":3,\"skip\":2").ids == ["d15", "d17", "d19"], comment)
            #expect(try await find(free, "{\"n\":{\"$gte\":0}}", ",\"limit\":100").ids.count == 20, comment)
            #expect(try await bound.problem("POST", "/main/_index", "{\"index\":{\"fields\":[\"n\"]}}") == "403 forbidden", comment)
            try await free.ok("POST", "/main/_index", "{\"index\":{\"fields\":[\"n\"]}}")
        }
        #expect(try await hub.stop().status == 0)
    }
}

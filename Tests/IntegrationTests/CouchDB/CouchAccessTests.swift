import Documents
import TestSupport
import Testing

/// What a user may not see does not exist for it, whichever way it asks; and what it writes is judged like what Couchbase Lite pushes.
@Suite("Users of CouchDB's API", .serialized)
struct CouchAccessTests {
    private static let route = """
        return {
          sync = function(doc, old_doc, ctx)
            if old_doc then require_user(old_doc.owner) end
            if doc._deleted then return end
            if not doc.team then throw("a document needs a team") end
            channel(doc.team)
          end,
        }
        """
    private static let users = """
        local channels = { anna = { "red" }, ben = { "blue" }, cara = { "red" }, boss = { "*" } }
        return { authenticate_password = function(name, password)
          return password == "secret" and channels[name] and { channels = channels[name], read_only = name == "boss" }
        end }
        """

    private func hub() async throws -> AgentProcess {
        let folder = try TemporaryFolder()
        try folder.write("plugins/route.lua", Self.route)
        try folder.write("plugins/users.lua", Self.users)
        return try await AgentProcess.start(Configuration.hub(listener: "couchdb: true\n    authenticator: users\n    sync: route", plugins: true), in: folder)
    }

    private let anna = "YW5uYTpzZWNyZXQ=", ben = "YmVuOnNlY3JldA==", cara = "Y2FyYTpzZWNyZXQ=", boss = "Ym9zczpzZWNyZXQ="

    @Test("channels bound every way to a document")
    func channels() async throws {
        let hub = try await hub()
        let cara = try CouchHTTP(hub, login: cara)
        let (anna, ben, boss) = (try CouchHTTP(hub, login: anna), try CouchHTTP(hub, login: ben), try CouchHTTP(hub, login: boss))
        let attachment = "\"_attachments\":{\"f\":{\"content_type\":\"text/plain\",\"data\":\"aGVsbG8=\"}}"
        let revision = try await anna.ok("PUT", "/main/tea", "{\"team\":\"red\",\"owner\":\"anna\",\(attachment)}", status: 201)["rev"]?.asString ?? ""
        try await ben.ok("PUT", "/main/cake", "{\"team\":\"blue\",\"owner\":\"ben\"}", status: 201)
        #expect(try await anna.changes().ids == ["tea"])
        #expect(try await ben.changes().ids == ["cake"])
        #expect(try await boss.changes().ids.sorted() == ["cake", "tea"])
        #expect(try await ben.ok("GET", "/main/_all_docs")["rows"]?.asArray?.count == 1)
        #expect(try await ben.ok("POST", "/main/_all_docs", "{\"keys\":[\"tea\"]}")["rows"]?.asArray?.first?["error"]?.asString == "not_found")
        for target in ["/main/tea", "/main/tea?rev=\(revision)", "/main/tea?open_revs=all", "/main/tea/f", "/main/tea/f?rev=\(revision)"] {
            #expect(try await ben.problem("GET", target) == "404 not_found", "\(target)")
            #expect(try await anna.send("GET", target).status == 200, "\(target)")
        }
        let asked = "{\"docs\":[{\"id\":\"tea\",\"rev\":\"\(revision)\"}]}"
        #expect(try await ben.ok("POST", "/main/_bulk_get", asked)["results"]?.asArray?.first?["docs"]?.asArray?.first?["ok"] == nil)
        // Not even that it is here.
        #expect(try await ben.ok("POST", "/main/_revs_diff", "{\"tea\":[\"\(revision)\"]}")["tea"]?["missing"]?.asArray?.count == 1)
        #expect(try await ben.ok("GET", "/main")["doc_count"]?.asInt64 == 0)
        // Nor are its bytes to be had by their digest.
        let digest = "sha1-qvTGHdzF6KLavt4PO0gs2a6pQ00="
        #expect(try await ben.problem("PUT", "/main/mine", "{\"team\":\"blue\",\"p\":{\"@type\":\"blob\",\"digest\":\"\(digest)\"}}") == "412 missing_stub")
        // The sync function decides about writes.
        #expect(try await ben.problem("PUT", "/main/none", "{\"owner\":\"ben\"}") == "403 forbidden")
        #expect(try await cara.problem("PUT", "/main/tea?rev=\(revision)", "{\"team\":\"blue\"}") == "403 forbidden")
        let bulk = try await ben.ok("POST", "/main/_bulk_docs", "{\"docs\":[{\"_id\":\"x\"},{\"_id\":\"y\",\"team\":\"blue\"}]}", status: 201)
        #expect(bulk.asArray?.first?["reason"]?.asString == "a document needs a team" && bulk.asArray?.last?["ok"]?.asBool == true)
        #expect(try await boss.problem("PUT", "/main/z", "{\"team\":\"red\"}") == "403 forbidden")
        try await boss.ok("PUT", "/main/_local/mark", "{\"n\":1}", status: 201)
        #expect(try await anna.problem("GET", "/main/_local/mark") == "404 not_found")
        #expect(try await hub.stop().status == 0)
    }

    @Test("who may not see a document is answered as if it were not here, whatever it writes")
    func hiddenDocuments() async throws {
        let hub = try await hub()
        let (anna, ben) = (try CouchHTTP(hub, login: anna), try CouchHTTP(hub, login: ben))
        let text = "{\"team\":\"red\",\"owner\":\"anna\"}"
        let revision = try await anna.ok("PUT", "/main/tea", text, status: 201)["rev"]?.asString ?? ""
        // What is refused, in whatever way, says the same of `tea`, which is there, as of `nothing`, which is not.
        for (method, path, body) in [
            ("PUT", "", "{}"), ("PUT", "", "{\"_deleted\":true,\"_rev\":\"\(revision)\"}"), ("PUT", "?rev=\(revision)", "{\"team\":\"blue\"}"),
            ("PUT", "?rev=\(revision)", "{}"), ("PUT", "?rev=1-00", "{\"team\":\"blue\"}"), ("DELETE", "", ""), ("DELETE", "?rev=\(revision)", ""), ("DELETE", "?rev=1-00", ""),
            ("PUT", "/f", "bytes"), ("PUT", "/f?rev=\(revision)", "bytes"), ("DELETE", "/f?rev=\(revision)", ""), ("GET", "", ""), ("GET", "?rev=\(revision)", ""), ("GET", "?open_revs=all", ""),
            ("PUT", "", "{\"_attachments\":{\"f\":{\"stub\":true}}}"),
        ] {
            var answers: [String] = []
            for id in ["tea", "nothing"] {
                let answer = try await ben.send(method, "/main/\(id)\(path)", body.isEmpty ? String?.none : body)
                #expect(answer.status >= 400 || method == "GET", "\(method) \(id)\(path) \(body): \(answer)")
                answers.append("\(answer)")
            }
            #expect(answers[0] == answers[1], "\(method) \(path) \(body)")
        }
        let sent = ["tea", "nothing"].map { "{\"_id\":\"\($0)\"},{\"_id\":\"\($0)\",\"_rev\":\"\(revision)\"}" }.joined(separator: ",")
        let bulk = try await ben.ok("POST", "/main/_bulk_docs", "{\"docs\":[\(sent)]}", status: 201).asArray ?? []
        #expect(bulk.map { "\($0["error"]?.asString ?? "") \($0["reason"]?.asString ?? "")" } == [
            "forbidden a document needs a team", "conflict Document update conflict.", "forbidden a document needs a team", "conflict Document update conflict.",
        ])
        // An id that ben may take, but cannot: it is taken.
        #expect(try await ben.problem("PUT", "/main/tea", "{\"team\":\"blue\"}") == "409 conflict")
        // Who sees the document is told of the conflict first, as by CouchDB.
        #expect(try await anna.problem("PUT", "/main/tea", "{}") == "409 conflict")
        #expect(try await anna.ok("GET", "/main/tea")["_rev"]?.asString == revision)
        #expect(try await hub.stop().status == 0)
    }

    @Test("a deletion that the feed tells can be fetched, by whom the document was taken from and by nobody else")
    func deletions() async throws {
        let hub = try await hub()
        let (anna, ben) = (try CouchHTTP(hub, login: anna), try CouchHTTP(hub, login: ben))
        let live = try await anna.ok("PUT", "/main/tea", "{\"team\":\"red\",\"owner\":\"anna\"}", status: 201)["rev"]?.asString ?? ""
        let gone = try await anna.ok("DELETE", "/main/tea?rev=\(live)")["rev"]?.asString ?? ""
        #expect(try await anna.changes().ids == ["tea"])
        let asked = "{\"docs\":[{\"id\":\"tea\",\"rev\":\"\(gone)\"}]}"
        func fetched(_ couch: CouchHTTP) async throws -> JSONValue? {
            try await couch.ok("POST", "/main/_bulk_get?revs=true&latest=true", asked)["results"]?.asArray?.first?["docs"]?.asArray?.first?["ok"]
        }
        let tombstone = try await fetched(anna)
        #expect(tombstone?["_deleted"]?.asBool == true && tombstone?["_revisions"]?["ids"]?.asArray?.count == 2)
        #expect(try await anna.ok("POST", "/main/_revs_diff", "{\"tea\":[\"\(gone)\"]}").asObject?.isEmpty == true)
        #expect(try await ben.changes().ids.isEmpty)
        #expect(try await fetched(ben) == nil)
        #expect(try await ben.ok("POST", "/main/_revs_diff", "{\"tea\":[\"\(gone)\"]}")["tea"] != nil)
        #expect(try await hub.stop().status == 0)
    }

    @Test("a conflicting revision that wins is in its channels when its write is answered, and so is the one that is left when it is deleted")
    func branches() async throws {
        let hub = try await hub()
        let anna = try CouchHTTP(hub, login: anna)
        for index in 0..<20 {
            func document(_ digest: String) -> String {
                "{\"_id\":\"t\(index)\",\"_rev\":\"1-\(digest)\",\"_revisions\":{\"start\":1,\"ids\":[\"\(digest)\"]},\"team\":\"red\",\"owner\":\"anna\"}"
            }
            try await anna.ok("POST", "/main/_bulk_docs", "{\"docs\":[\(document("aa")),\(document("bb"))],\"new_edits\":false}", status: 201)
            #expect(try await anna.ok("GET", "/main/t\(index)?conflicts=true")["_rev"]?.asString == "1-bb")
            try await anna.ok("DELETE", "/main/t\(index)?rev=1-bb")
            #expect(try await anna.ok("GET", "/main/t\(index)")["_rev"]?.asString == "1-aa")
        }
        #expect(try await hub.stop().status == 0)
    }

    @Test("who is not let in gets nothing; a cookie stands for a login until it is given back")
    func sessions() async throws {
        let hub = try await hub()
        let nobody = try CouchHTTP(hub)
        for target in ["/main", "/main/_changes", "/main/_all_docs", "/_all_dbs", "/other"] {
            #expect(try await nobody.problem("GET", target) == "401 unauthorized", "\(target)")
        }
        #expect(try await nobody.send("GET", "/").status == 200)
        let form = [("Content-Type", "application/x-www-form-urlencoded")]
        #expect(try await nobody.problem("POST", "/_session", "name=anna&password=wrong", form) == "401 unauthorized")
        let answer = try await nobody.send("POST", "/_session", "name=anna&password=secret", form)
        let cookie = String(answer.header("Set-Cookie")?.prefix { $0 != ";" } ?? "")
        #expect(answer.status == 200 && cookie.hasPrefix("AuthSession="), "\(answer)")
        try await nobody.ok("PUT", "/main/tea", "{\"team\":\"red\"}", status: 201, [("Cookie", cookie)])
        #expect(try await nobody.ok("GET", "/_session", nil, [("Cookie", cookie)])["userCtx"]?["name"]?.asString == "anna")
        // The page of another site has nothing of it.
        #expect(try await nobody.send("GET", "/main/tea", nil, [("Cookie", cookie), ("Origin", "https://elsewhere.example")]).status == 403)
        try await nobody.ok("DELETE", "/_session", nil, [("Cookie", cookie)])
        #expect(try await nobody.problem("GET", "/main/tea", nil, [("Cookie", cookie)]) == "401 unauthorized")
        #expect(try await hub.stop().status == 0)
    }
}

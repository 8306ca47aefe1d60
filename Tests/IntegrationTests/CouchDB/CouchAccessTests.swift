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

    func hub() async throws -> AgentProcess {
        let folder = try TemporaryFolder()
        try folder.write("plugins/route.lua", Self.route)
        try folder.write("plugins/users.lua", Self.users)
        return try await AgentProcess.start(Configuration.hub(listener: "couchdb: true\n    authenticator: users\n    sync: route", plugins: true), in: folder)
    }

    let anna = "YW5uYTpzZWNyZXQ=", ben = "YmVuOnNlY3JldA==", cara = "Y2FyYTpzZWNyZXQ=", boss = "Ym9zczpzZWNyZXQ="

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
        let facts = try await ben.ok("GET", "/main")
        #expect(facts["doc_count"]?.asInt64 == 0 && facts["sizes"]?["file"]?.asInt64 == 0, "\(facts.text)")
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

    @Test("a feed may be of some of the channels that a user has, as Couchbase Lite 1.x and our replicator ask for them")
    func chosenChannels() async throws {
        let hub = try await hub()
        let (anna, ben, boss) = (try CouchHTTP(hub, login: anna), try CouchHTTP(hub, login: ben), try CouchHTTP(hub, login: boss))
        let tea = try await anna.ok("PUT", "/main/tea", "{\"team\":\"red\",\"owner\":\"anna\"}", status: 201)["rev"]?.asString ?? ""
        try await ben.ok("PUT", "/main/cake", "{\"team\":\"blue\",\"owner\":\"ben\"}", status: 201)
        let filter = "filter=sync_gateway%2Fbychannel"
        #expect(try await boss.changes("\(filter)&channels=red").ids == ["tea"])
        #expect(try await boss.changes("\(filter)&channels=blue,%20green").ids == ["cake"])
        #expect(try await boss.changes("\(filter)&channels=blue,red").ids.sorted() == ["cake", "tea"])
        let posted = try await boss.ok("POST", "/main/_changes?\(filter)", "{\"channels\":\"red\"}")
        #expect(posted["results"]?.asArray?.compactMap { $0["id"]?.asString } == ["tea"])
        // Nobody gets others by naming them.
        #expect(try await anna.changes("\(filter)&channels=blue,red").ids == ["tea"])
        #expect(try await anna.changes("\(filter)&channels=blue").ids.isEmpty)
        for query in [filter, "\(filter)&channels=", "\(filter)&channels=,%20"] {
            #expect(try await boss.problem("GET", "/main/_changes?\(query)") == "400 bad_request", "\(query)")
        }
        let edge = try await AgentProcess.start(
            Configuration.edge(
                to: try hub.port("edge"), type: "pull", collection: "{ channels: [ red ] }",
                replicator: "authenticator: { username: boss, password: secret }", scheme: "http"))
        try await edge.connects("hub")
        try await edge.waits(documents: 1)
        #expect(try await edge.admin.get("/api/databases/main/documents/tea").status == 200)
        #expect(try await edge.stop().status == 0)
        // That a document left the channels that are asked for is no deletion.
        try await anna.ok("PUT", "/main/tea?rev=\(tea)", "{\"team\":\"blue\",\"owner\":\"anna\"}", status: 201)
        let left = try await boss.ok("GET", "/main/_changes?\(filter)&channels=red")
        #expect(left["results"]?.asArray?.contains { $0["deleted"]?.asBool == true } == false, "\(left.text)")
        #expect(try await hub.stop().status == 0)
    }

    @Test("a user who may not see a document is answered as if it did not exist, whatever the user writes")
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
                answers.append("\(answer)".replacing(" \(id) ", with: " ID "))
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

    @Test("what a push filter hides is not revealed, whatever the request, and is not a side of a conflict")
    func filtered() async throws {
        let folder = try TemporaryFolder()
        try folder.write("plugins/own.lua", "return { push_filter = function(doc, ctx) return doc.owner == ctx.user end }")
        try folder.write("plugins/both.lua", "return { resolve = function(c) return { owner = c.remote_doc.owner, pin = c.local_doc.pin } end }")
        let users = "return { authenticate_password = function(name, password) return password == 'secret' and { name = name } end }"
        try folder.write("plugins/users.lua", users)
        let listener = "couchdb: true\n    authenticator: users\n    push_filter: own"
        let hub = try await AgentProcess.start(Configuration.hub(database: "{ conflict_resolver: both }", listener: listener, plugins: true), in: folder)
        let (anna, ben) = (try CouchHTTP(hub, login: anna), try CouchHTTP(hub, login: ben))
        let text = "{\"owner\":\"anna\",\"pin\":4711}"
        try await anna.ok("PUT", "/main/tea", text, status: 201)
        try await ben.ok("PUT", "/main/cake", "{\"owner\":\"ben\"}", status: 201)
        for (method, path, body) in [
            ("POST", "/main/_bulk_get", "{\"docs\":[{\"id\":\"ID\"}]}"), ("POST", "/main/_bulk_get?latest=true", "{\"docs\":[{\"id\":\"ID\",\"rev\":\"1-aa\"}]}"),
            ("GET", "/main/ID?open_revs=all", ""), ("GET", "/main/ID?conflicts=true", ""), ("GET", "/main/ID?rev=1-aa&latest=true", ""),
            ("POST", "/main/_revs_diff", "{\"ID\":[\"7-aa\"]}"),
        ] {
            var answers: [String] = []
            for id in ["tea", "nothing"] {
                let answer = try await ben.send(method, path.replacing("ID", with: id), body.isEmpty ? String?.none : body.replacing("ID", with: id))
                answers.append("\(answer)".replacing(id, with: "ID"))
            }
            #expect(answers[0] == answers[1], "\(method) \(path) \(body)")
        }
        let statistics = try await ben.ok("POST", "/main/_find", "{\"selector\":{\"_id\":\"tea\"},\"execution_stats\":true}")["execution_stats"]
        #expect(statistics?["total_docs_examined"]?.asInt64 == 0)
        // Made elsewhere, so that nobody says what it replaces; and as one that deletes it.
        for deleted in ["", ",\"_deleted\":true"] {
            let made = "{\"new_edits\":false,\"docs\":[{\"_id\":\"tea\",\"_rev\":\"9-ffffffffffffffffffffffffffffffff\",\"owner\":\"ben\"\(deleted)}]}"
            #expect(try await ben.ok("POST", "/main/_bulk_docs", made, status: 201).asArray?.first?["error"]?.asString == "forbidden")
        }
        #expect(try await anna.ok("GET", "/main/tea")["pin"]?.asInt64 == 4711)
        #expect(try await hub.stop().status == 0)
    }

    @Test("a deletion in the feed can be fetched by the user who lost the document, and by nobody else")
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
        // What stands in a tombstone that is in none of her channels is not for her.
        let pot = try await anna.ok("PUT", "/main/pot", "{\"team\":\"red\",\"owner\":\"anna\"}", status: 201)["rev"]?.asString ?? ""
        let ended = try await end("pot", pot, anna)
        let read = try await anna.ok("GET", "/main/pot?rev=\(ended)")
        #expect(read["_deleted"]?.asBool == true && read["why"] == nil, "\(read.text)")
        let told = try await anna.ok("GET", "/main/_changes?include_docs=true")["results"]?.asArray?.first { $0["id"] == "pot" }
        #expect(told?["doc"]?["_deleted"]?.asBool == true && told?["doc"]?["why"] == nil, "\(told?.text ?? "")")
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

    /// What a client that keeps revision trees would hold after reading the feed: the ids of its leaves that are not deleted.
    func pulled(_ couch: CouchHTTP, _ id: String, into tree: inout [String: (history: [String], isDeleted: Bool)], since: inout String) async throws -> [String] {
        let feed = try await couch.ok("GET", "/main/_changes?style=all_docs&since=\(since)")
        since = String(feed["last_seq"]?.asString ?? feed["last_seq"]?.text ?? "0").replacing(":", with: "%3A")
        let revisions = (feed["results"]?.asArray ?? []).filter { $0["id"]?.asString == id }
            .flatMap { ($0["changes"]?.asArray ?? []).compactMap { $0["rev"]?.asString } }
        for revision in revisions where tree[revision] == nil {
            let asked = "{\"docs\":[{\"id\":\"\(id)\",\"rev\":\"\(revision)\"}]}"
            let answer = try await couch.ok("POST", "/main/_bulk_get?revs=true&latest=true", asked)
            for found in answer["results"]?.asArray?.first?["docs"]?.asArray ?? [] {
                let document = try #require(found["ok"], "\(revision): \(answer.text)")
                let start = document["_revisions"]?["start"]?.asInt64 ?? 0
                let ids = (document["_revisions"]?["ids"]?.asArray ?? []).compactMap(\.asString)
                let history = ids.enumerated().map { "\(Int(start) - $0)-\($1)" }
                let isDeleted = document["_deleted"]?.asBool == true
                // It learns that what it may not see has ended, but not its content.
                if isDeleted { #expect((document.asObject?.members ?? []).allSatisfy { $0.key.hasPrefix("_") }, "\(document.text)") }
                tree[history[0]] = (history, isDeleted)
            }
        }
        let inner = Set(tree.values.flatMap { $0.history.dropFirst() })
        return tree.filter { !inner.contains($0.key) && !$0.value.isDeleted }.keys.sorted()
    }

    /// Puts a revision of its own, or below another.
    func put(_ couch: CouchHTTP, _ id: String, _ digest: String, _ team: String, below parent: String? = nil) async throws {
        let (generation, ids) = (parent == nil ? 1 : 2, [digest, parent].compactMap(\.self).map { "\"\($0)\"" }.joined(separator: ","))
        let document = "{\"_id\":\"\(id)\",\"_rev\":\"\(generation)-\(digest)\",\"_revisions\":{\"start\":\(generation),\"ids\":[\(ids)]},\"team\":\"\(team)\",\"owner\":[\"anna\",\"ben\"]}"
        let answer = try await couch.ok("POST", "/main/_bulk_docs", "{\"docs\":[\(document)],\"new_edits\":false}", status: 201)
        #expect(answer.asArray?.isEmpty == true, "\(answer.text)")
    }

    /// Ends a branch with a tombstone that says something that only who wrote it is to read.
    @discardableResult
    func end(_ id: String, _ revision: String, _ couch: CouchHTTP) async throws -> String {
        try await couch.ok("PUT", "/main/\(id)?rev=\(revision)", "{\"_deleted\":true,\"why\":\"hidden\"}", status: 201)["rev"]?.asString ?? ""
    }

    /// As a replication does for a client that has the branch.
    func endLoser(_ id: String, _ digest: String, _ couch: CouchHTTP) async throws {
        let document = "{\"_id\":\"\(id)\",\"_rev\":\"2-ee\",\"_revisions\":{\"start\":2,\"ids\":[\"ee\",\"\(digest)\"]},\"_deleted\":true,\"why\":\"hidden\"}"
        let answer = try await couch.ok("POST", "/main/_bulk_docs", "{\"docs\":[\(document)],\"new_edits\":false}", status: 201)
        #expect(answer.asArray?.isEmpty == true, "\(answer.text)")
    }

    @Test("a client that is limited to channels learns when others end a branch that it has, and nothing of that revision's content")
    func endedBranches() async throws {
        let hub = try await hub()
        let (anna, ben, cara) = (try CouchHTTP(hub, login: anna), try CouchHTTP(hub, login: ben), try CouchHTTP(hub, login: cara))
        var tree: [String: (history: [String], isDeleted: Bool)] = [:]
        var since = "0"
        // The winner ends, and what is left is in cara's channel as well.
        try await put(anna, "tea", "ff", "red")
        #expect(try await pulled(cara, "tea", into: &tree, since: &since) == ["1-ff"])
        try await put(anna, "tea", "aa", "red")
        try await end("tea", "1-ff", anna)
        #expect(try await pulled(cara, "tea", into: &tree, since: &since) == ["1-aa"])
        // A client that comes later finds the same.
        var (fresh, start): ([String: (history: [String], isDeleted: Bool)], String) = ([:], "0")
        #expect(try await pulled(cara, "tea", into: &fresh, since: &start) == ["1-aa"])
        // A loser ends.
        try await put(anna, "tea", "01", "red")
        try await endLoser("tea", "01", anna)
        fresh["1-01"] = (["1-01"], false)
        #expect(try await pulled(cara, "tea", into: &fresh, since: &start) == ["1-aa"])
        // What is left is in a channel that is not cara's: for her the document is deleted, and the rest does not exist.
        (tree, since) = ([:], "0")
        try await put(anna, "jam", "ff", "red")
        #expect(try await pulled(cara, "jam", into: &tree, since: &since) == ["1-ff"])
        try await put(anna, "jam", "aa", "blue")
        try await end("jam", "1-ff", anna)
        #expect(try await pulled(cara, "jam", into: &tree, since: &since).isEmpty)
        #expect(try await cara.problem("GET", "/main/jam") == "404 not_found")
        let hidden = try await cara.ok("POST", "/main/_bulk_get", "{\"docs\":[{\"id\":\"jam\",\"rev\":\"1-aa\"}]}")
        #expect(hidden["results"]?.asArray?.first?["docs"]?.asArray?.first?["ok"] == nil, "\(hidden.text)")
        #expect(try await ben.ok("GET", "/main/jam")["_rev"]?.asString == "1-aa")
        // Who never had it is told nothing, in the feed or by name.
        #expect(try await !ben.changes("style=all_docs").ids.contains("tea"))
        let asked = try await ben.ok("POST", "/main/_bulk_get?latest=true", "{\"docs\":[{\"id\":\"tea\",\"rev\":\"1-ff\"}]}")
        #expect(asked["results"]?.asArray?.first?["docs"]?.asArray?.first?["ok"] == nil, "\(asked.text)")
        // A document that goes on in another channel is not said to be deleted.
        (tree, since) = ([:], "0")
        try await put(anna, "oat", "aa", "red")
        try await put(anna, "oat", "01", "red")
        try await endLoser("oat", "01", anna)
        #expect(try await pulled(cara, "oat", into: &tree, since: &since) == ["1-aa"])
        try await anna.ok("PUT", "/main/oat?rev=1-aa", "{\"team\":\"blue\",\"owner\":\"anna\"}", status: 201)
        #expect(try await !cara.changes("style=all_docs&since=\(since)").ids.contains("oat"))
        #expect(try await hub.stop().status == 0)
    }

    @Test("a user who is not admitted gets nothing; a cookie counts as a login until it is given back")
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

    @Test("attachments of refused documents are removed, unless another document has them")
    func refusedAttachments() async throws {
        let hub = try await hub()
        let ben = try CouchHTTP(hub, login: ben)
        func isHere(_ text: String) -> Bool { hub.folder.exists("data/main.nightjar/blobs/\(BlobDigest.of(Array(text.utf8)).hex)") }
        func document(_ data: String, _ more: String = "") -> String { "{\(more)\"_attachments\":{\"f\":{\"data\":\"\(data)\"}}}" }
        try await ben.ok("PUT", "/main/cake", document("aGVsbG8=", "\"team\":\"blue\",\"owner\":\"ben\","), status: 201)
        #expect(isHere("hello"))
        #expect(try await ben.problem("PUT", "/main/none", document("aGVsbG8=")) == "403 forbidden")
        #expect(isHere("hello"))
        #expect(try await ben.send("GET", "/main/cake/f").text == "hello")
        #expect(try await ben.problem("PUT", "/main/none", document("aW5zaWRl")) == "403 forbidden")
        #expect(!isHere("inside"))
        #expect(try await ben.problem("PUT", "/main/none/f", "alone", [("Content-Type", "text/plain")]) == "403 forbidden")
        #expect(!isHere("alone"))
        let related = "--b\r\nContent-Type: application/json\r\n\r\n{\"_attachments\":{\"f\":{\"follows\":true,\"length\":6}}}\r\n--b\r\n\r\nbehind\r\n--b--"
        #expect(try await ben.problem("PUT", "/main/none", related, [("Content-Type", "multipart/related; boundary=\"b\"")]) == "403 forbidden")
        #expect(!isHere("behind"))
        let some = "{\"docs\":[\(document("aW5zaWRl", "\"_id\":\"x\",")),\(document("ZmluZQ==", "\"_id\":\"y\",\"team\":\"blue\","))]}"
        let answers = try await ben.ok("POST", "/main/_bulk_docs", some, status: 201).asArray ?? []
        #expect(answers.map { $0["error"]?.asString ?? "ok" } == ["forbidden", "ok"])
        #expect(!isHere("inside") && isHere("fine"))
        // In conflict with what is here.
        #expect(try await ben.problem("PUT", "/main/cake", document("aW5zaWRl", "\"team\":\"blue\",")) == "409 conflict")
        #expect(!isHere("inside"))
        #expect(try await hub.stop().status == 0)
    }
}

import Documents
import TestSupport
import Testing

/// A document whose winner a user may see has another branch that is somebody else's: for that user there is none.
@Suite("Branches that a user of CouchDB's API may not see", .serialized)
struct HiddenBranchTests {
    enum Bound: String, CaseIterable { case channels, filter }

    private let anna = "YW5uYTpzZWNyZXQ=", ben = "YmVuOnNlY3JldA=="
    private let root = String(repeating: "c", count: 32)
    private let hidden = "2-\(String(repeating: "a", count: 32))", guess = "2-\(String(repeating: "e", count: 32))"

    private func hub(_ bound: Bound) async throws -> AgentProcess {
        let folder = try TemporaryFolder()
        let channels = bound == .channels ? ", channels = { name }" : ""
        try folder.write(
            "plugins/users.lua",
            "return { authenticate_password = function(name, password) return password == 'secret' and { name = name\(channels) } end }")
        try folder.write("plugins/route.lua", "return { sync = function(doc, old, ctx) if doc.owner then channel(doc.owner) end end }")
        try folder.write("plugins/own.lua", "return { push_filter = function(doc, ctx) return doc.owner == ctx.user end }")
        let policy = bound == .channels ? "sync: route" : "push_filter: own"
        return try await AgentProcess.start(
            Configuration.hub(listener: "couchdb: true\n    authenticator: users\n    \(policy)", plugins: true), in: folder)
    }

    /// Brings a revision that was made elsewhere; one digit stands for a digest.
    private func bring(_ couch: CouchHTTP, _ digits: [String], _ members: String) async throws -> [JSONValue] {
        let ids = digits.map { String(repeating: $0, count: 32) }
        let list = ids.map { "\"\($0)\"" }.joined(separator: ",")
        let document = "{\"_id\":\"tea\",\"_rev\":\"\(digits.count)-\(ids[0])\",\"_revisions\":{\"start\":\(digits.count),\"ids\":[\(list)]},\(members)}"
        return try await couch.ok("POST", "/main/_bulk_docs", "{\"new_edits\":false,\"docs\":[\(document)]}", status: 201).asArray ?? []
    }

    /// Anna has two branches, and gives the winner to Ben.
    private func share(_ hub: AgentProcess) async throws -> (anna: CouchHTTP, ben: CouchHTTP, winner: String) {
        let (anna, ben) = (try CouchHTTP(hub, login: anna), try CouchHTTP(hub, login: ben))
        #expect(try await bring(anna, ["b", "c"], "\"owner\":\"anna\"").isEmpty)
        #expect(try await bring(anna, ["a", "c"], "\"owner\":\"anna\",\"pin\":4711").isEmpty)
        let given = try await anna.ok("PUT", "/main/tea?rev=2-\(String(repeating: "b", count: 32))", "{\"owner\":\"ben\"}", status: 201)
        return (anna, ben, given["rev"]?.asString ?? "")
    }

    private func missing(_ couch: CouchHTTP, _ revisions: [String]) async throws -> [String] {
        let list = revisions.map { "\"\($0)\"" }.joined(separator: ",")
        let answer = try await couch.ok("POST", "/main/_revs_diff", "{\"tea\":[\(list)]}")["tea"]
        let other = try await couch.ok("POST", "/main/_missing_revs", "{\"tea\":[\(list)]}")["missing_revs"]?["tea"]
        #expect(answer?["missing"] == other)
        return answer?["missing"]?.asArray?.compactMap(\.asString) ?? []
    }

    @Test("a peer that brought a losing branch can continue it, even if there is a filter as well as channels")
    func ownBranches() async throws {
        let folder = try TemporaryFolder()
        try folder.write(
            "plugins/users.lua",
            "return { authenticate_password = function(name, password) return password == 'secret' and { name = name, channels = { name } } end }")
        try folder.write("plugins/route.lua", "return { sync = function(doc, old, ctx) channel(doc.owner) end }")
        try folder.write("plugins/open.lua", "return { push_filter = function(doc, ctx) return doc.secret == nil end }")
        let hub = try await AgentProcess.start(
            Configuration.hub(listener: "couchdb: true\n    authenticator: users\n    sync: route\n    push_filter: open", plugins: true), in: folder)
        let couch = try CouchHTTP(hub, login: anna)
        for digits in [["b", "c"], ["a", "c"], ["d", "a", "c"]] { #expect(try await bring(couch, digits, "\"owner\":\"anna\"").isEmpty) }
        #expect(try await couch.ok("GET", "/main/tea")["_rev"]?.asString == "3-" + String(repeating: "d", count: 32))
        #expect(try await hub.stop().status == 0)
    }

    @Test("their ids are revealed nowhere", arguments: Bound.allCases)
    func ids(_ bound: Bound) async throws {
        let hub = try await hub(bound)
        let (_, ben, winner) = try await share(hub)
        let all = "conflicts=true&deleted_conflicts=true&meta=true&revs_info=true&include_docs=true"
        for (method, path, body) in [
            ("GET", "tea?\(all)", String?.none), ("GET", "tea?open_revs=all&\(all)", nil), ("GET", "_all_docs?\(all)", nil),
            ("POST", "_all_docs?\(all)", "{\"keys\":[\"tea\"]}"), ("GET", "_changes?\(all)", nil), ("GET", "_changes?style=all_docs&\(all)", nil),
            ("GET", "_changes?descending=true&\(all)", nil), ("POST", "_changes?filter=_selector&\(all)", "{\"selector\":{\"owner\":\"ben\"}}"),
            ("POST", "_find", "{\"selector\":{\"_id\":\"tea\"},\"conflicts\":true}"), ("POST", "_bulk_get?\(all)", "{\"docs\":[{\"id\":\"tea\"}]}"),
            ("POST", "_revs_diff", "{\"tea\":[\"9-00\"]}"),
        ] {
            let answer = "\(try await ben.ok(method, "/main/\(path)", body).text)"
            #expect(answer.contains(winner), "\(path): \(answer)")
            #expect(!answer.contains(hidden), "\(path): \(answer)")
        }
        #expect(try await hub.stop().status == 0)
    }

    @Test("guesses are not confirmed, and what the user has is not asked for again", arguments: Bound.allCases)
    func guesses(_ bound: Bound) async throws {
        let hub = try await hub(bound)
        let (anna, ben, winner) = try await share(hub)
        #expect(try await missing(ben, [winner, "2-\(String(repeating: "b", count: 32))", "1-\(root)", hidden, guess]) == [hidden, guess])
        // What came before all the same changes nothing.
        #expect(try await bring(ben, ["a", "c"], "\"owner\":\"anna\",\"pin\":4711").isEmpty)
        // A branch of his own that the filter shows to him.
        if bound == .filter {
            #expect(try await bring(ben, ["d", "c"], "\"owner\":\"ben\"").isEmpty)
            #expect(try await missing(ben, ["2-\(String(repeating: "d", count: 32))", hidden]) == [hidden])
            #expect(try await missing(anna, [hidden, "1-\(root)", winner]) == [winner])
        }
        #expect(try await hub.stop().status == 0)
    }

    @Test("a user who may not see them cannot end or edit them, and is answered as if they did not exist", arguments: Bound.allCases)
    func power(_ bound: Bound) async throws {
        let hub = try await hub(bound)
        let (anna, ben, winner) = try await share(hub)
        for (method, path, body) in [
            ("DELETE", "tea?rev=REV", String?.none), ("PUT", "tea?rev=REV", "{\"owner\":\"ben\"}"), ("PUT", "tea?rev=REV", "{\"_deleted\":true}"),
            ("PUT", "tea?rev=REV", "{\"_attachments\":{\"f\":{\"stub\":true}}}"), ("PUT", "tea/f?rev=REV", "bytes"),
            ("POST", "_bulk_docs", "{\"docs\":[{\"_id\":\"tea\",\"_rev\":\"REV\",\"_deleted\":true}]}"),
        ] {
            var answers: [String] = []
            for revision in [hidden, guess] {
                let answer = try await ben.send(method, "/main/\(path.replacing("REV", with: revision))", body?.replacing("REV", with: revision))
                answers.append("\(answer)".replacing(revision, with: "REV"))
            }
            #expect(answers[0] == answers[1], "\(method) \(path)")
        }
        #expect(try await ben.problem("DELETE", "/main/tea?rev=\(hidden)") == "409 conflict")
        if bound == .filter {
            let ending = try await bring(ben, ["f", "a", "c"], "\"_deleted\":true")
            #expect(ending.first?["error"]?.asString == "forbidden", "\(ending)")
            let left = try await anna.ok("GET", "/main/tea?open_revs=all").asArray?.compactMap { $0["ok"]?["_rev"]?.asString }
            #expect(left == [hidden])
            // Who sees a branch may end it.
            #expect(try await bring(ben, ["d", "c"], "\"owner\":\"ben\"").isEmpty)
            try await ben.ok("DELETE", "/main/tea?rev=2-\(String(repeating: "d", count: 32))")
        }
        try await ben.ok("PUT", "/main/tea?rev=\(winner)", "{\"owner\":\"ben\",\"n\":2}", status: 201)
        #expect(try await hub.stop().status == 0)
    }

    @Test("a login that guesses at a hidden document is named, and then a right guess is answered like a wrong one", arguments: Bound.allCases)
    func guessing(_ bound: Bound) async throws {
        let hub = try await hub(bound)
        let (anna, ben) = (try CouchHTTP(hub, login: anna), try CouchHTTP(hub, login: ben))
        let right = try #require(try await anna.ok("PUT", "/main/tea", "{\"owner\":\"anna\",\"pin\":4711}", status: 201)["rev"]?.asString)
        #expect(try await hub.admin.get("/health").json["status"] == "ok")
        let guesses = (100..<250).map { "{\"_id\":\"tea\",\"_rev\":\"1-\(String(repeating: "0", count: 29))\($0)\",\"owner\":\"ben\"}" }
        try await ben.ok("POST", "/main/_bulk_docs", "{\"new_edits\":false,\"docs\":[\(guesses.joined(separator: ","))]}", status: 201)
        for revision in [right, guess] {
            #expect(try await ben.problem("PUT", "/main/tea?rev=\(revision)", "{\"owner\":\"ben\"}") == "409 conflict")
        }
        let told = try await hub.admin.get("/health").json["attention"]?.asArray?.first { $0["kind"] == "hidden_conflicts" }
        #expect(told?["text"]?.asString?.contains("user ben") == true && told?["subject"]?.asString?.contains("edge") == true, "\(told?.text ?? "")")
        // Who sees it is not concerned.
        try await anna.ok("PUT", "/main/tea?rev=\(right)", "{\"owner\":\"anna\"}", status: 201)
        #expect(try await hub.stop().status == 0)
    }

    @Test("what no policy is asked about is not written past a pull filter")
    func designDocuments() async throws {
        let folder = try TemporaryFolder()
        try folder.write("plugins/none.lua", "return { pull_filter = function(doc, ctx) return false end }")
        let hub = try await AgentProcess.start(Configuration.hub(listener: "couchdb: true\n    pull_filter: none", plugins: true), in: folder)
        let couch = try CouchHTTP(hub)
        for (method, path, body) in [
            ("PUT", "x", "{\"a\":1}"), ("PUT", "_design/x", "{\"a\":1}"), ("PUT", "_design/x", "{\"_deleted\":true}"), ("POST", "", "{\"_id\":\"_design/x\"}"),
            ("PUT", "_design/x?new_edits=false", "{\"_rev\":\"1-aa\"}"), ("POST", "_index", "{\"index\":{\"fields\":[\"a\"]}}"),
            ("POST", "_index/_bulk_delete", "{\"docids\":[\"x\"]}"), ("POST", "_purge", "{\"x\":[\"1-aa\"]}"),
        ] {
            #expect(try await couch.problem(method, "/main/\(path)", body) == "403 forbidden", "\(method) \(path)")
        }
        let bulk = try await couch.ok("POST", "/main/_bulk_docs", "{\"docs\":[{\"_id\":\"_design/y\",\"a\":1}]}", status: 201)
        #expect(bulk.asArray?.first?["error"]?.asString == "forbidden", "\(bulk.text)")
        #expect(try await couch.problem("GET", "/main/_design/y") == "404 not_found")
        #expect(try await hub.stop().status == 0)
    }
}

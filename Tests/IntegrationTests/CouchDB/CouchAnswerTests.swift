import Documents
import TestSupport
import Testing

/// Answers that client libraries for CouchDB rely on.
@Suite("Answers as CouchDB gives them", .agent(Configuration.hub(database: "{}", listener: "couchdb: true")))
struct CouchAnswerTests {
    private static func escaped(_ text: String) -> String { text.replacing("\"", with: "%22") }

    @Test("a revision with a text that no revision here has is missing where it is read, and a conflict where it is edited")
    func foreignRevisions() async throws {
        let couch = try CouchHTTP(sharedAgent())
        let revision = try await couch.ok("PUT", "/main/foreign", "{}", status: 201)["rev"]?.asString ?? ""
        #expect(try await couch.problem("GET", "/main/foreign?rev=1-x") == "404 not_found")
        #expect(try await couch.problem("PUT", "/main/foreign", "{\"_rev\":\"1-x\"}") == "409 conflict")
        #expect(try await couch.problem("PUT", "/main/foreign?rev=3-totally_fake", "{}") == "409 conflict")
        #expect(try await couch.problem("DELETE", "/main/foreign?rev=1-x") == "409 conflict")
        let open = try await couch.ok("GET", Self.escaped("/main/foreign?open_revs=[\"1-x\",\"\(revision)\"]"))
        #expect(open.asArray?.map { $0["missing"]?.asString ?? $0["ok"]?["_rev"]?.asString } == [revision, "1-x"])
        let difference = try await couch.ok("POST", "/main/_revs_diff", "{\"foreign\":[\"\(revision)\",\"2-y\"],\"none\":[\"1-z\"]}")
        #expect(difference["foreign"]?["missing"]?.asArray == ["2-y"] && difference["foreign"]?["possible_ancestors"]?.asArray == [.string(revision)] && difference["none"]?["missing"]?.asArray == ["1-z"])
        let got = try await couch.ok("POST", "/main/_bulk_get", "{\"docs\":[{\"id\":\"foreign\",\"rev\":\"1-x\"}]}")
        #expect(got["results"]?.asArray?.first?["docs"]?.asArray?.first?["error"]?["error"] == "not_found")
        let bulk = try await couch.ok(
            "POST", "/main/_bulk_docs", "{\"docs\":[{\"_id\":\"foreign\",\"_rev\":\"9-fake\"},{\"_id\":\"beside\"}]}", status: 201)
        #expect(bulk.asArray?.map { $0["error"]?.asString ?? "ok" } == ["conflict", "ok"])
        // It cannot be stored, and is told so.
        #expect(try await couch.problem("PUT", "/main/foreign?new_edits=false", "{\"_rev\":\"1-x\"}") == "403 forbidden")
        for wrong in ["x", "0-a", "-a", "1"] { #expect(try await couch.problem("GET", "/main/foreign?rev=\(wrong)") == "400 bad_request", "\(wrong)") }
    }

    @Test("a replaced revision can be had as long as its body is kept, with its attachments, and _revs_info says so")
    func replacedRevisions() async throws {
        let couch = try CouchHTTP(sharedAgent())
        let long = String(repeating: "as it was ", count: 40)
        let first = try await couch.ok(
            "PUT", "/main/replaced", "{\"text\":\"\(long)\",\"_attachments\":{\"a\":{\"data\":\"aGVsbG8=\",\"content_type\":\"text/plain\"}}}", status: 201)["rev"]?
            .asString ?? ""
        let second = try await couch.ok("PUT", "/main/replaced?rev=\(first)", "{\"text\":\"short\"}", status: 201)["rev"]?.asString ?? ""
        try await couch.ok("PUT", "/main/replaced?rev=\(second)", "{\"text\":\"now\"}", status: 201)
        let old = try await couch.ok("GET", "/main/replaced?rev=\(first)&attachments=true")
        #expect(old["text"]?.asString == long && old["_attachments"]?["a"]?["data"] == "aGVsbG8=")
        #expect(try await couch.send("GET", "/main/replaced/a?rev=\(first)").text == "hello")
        #expect(try await couch.ok("GET", "/main/replaced?rev=\(second)")["text"] == "short")
        let known = try await couch.ok("GET", "/main/replaced?revs_info=true")["_revs_info"]?.asArray ?? []
        #expect(known.map { $0["status"]?.asString } == ["available", "available", "available"])
        #expect(try await couch.problem("GET", "/main/replaced?rev=2-00") == "404 not_found")
        #expect(try await couch.ok("GET", "/main/replaced")["text"] == "now")
    }

    @Test("writes say where the document is; tags hold whether they are weak or not; open_revs comes in parts unless JSON is asked for")
    func headers() async throws {
        let couch = try CouchHTTP(sharedAgent())
        let made = try await couch.send("PUT", "/main/with%20space%2F", "{}")
        #expect(made.status == 201 && made.header("Location")?.hasPrefix("http://") == true, "\(made)")
        #expect(made.header("Location")?.hasSuffix("/main/with%20space%2F") == true, "\(made)")
        let copied = try await couch.send("COPY", "/main/with%20space%2F", nil, [("Destination", "copied")])
        #expect(copied.status == 201 && copied.header("Location")?.hasSuffix("/main/copied") == true, "\(copied)")
        let attached = try await couch.send("PUT", "/main/pictured/of%20it", "x", [("Content-Type", "text/plain")])
        #expect(attached.status == 201 && attached.header("Location")?.hasSuffix("/main/pictured/of%20it") == true, "\(attached)")
        let tag = try #require(copied.header("ETag"))
        for known in [tag, "W/\(tag)", "\"x\", \(tag)"] {
            #expect(try await couch.send("GET", "/main/copied", nil, [("If-None-Match", known)]).status == 304, "\(known)")
        }
        #expect(try await couch.send("GET", "/main/copied", nil, [("If-None-Match", "\"x\"")]).status == 200)
        for (accepted, isJSON) in [("application/json", true), ("*/*", false), ("multipart/mixed", false)] {
            var client = couch
            client.headers = [("Accept", accepted)]
            let answer = try await client.send("GET", "/main/copied?open_revs=all")
            #expect((answer.header("Content-Type") == "application/json") == isJSON, "\(accepted): \(answer)")
        }
    }

    @Test("what can change without a new revision has no tag: a browser that holds a document with its conflicts learns of their end")
    func conflictsInCaches() async throws {
        let couch = try CouchHTTP(sharedAgent())
        try await couch.ok("PUT", "/main/twofold", "{}", status: 201)
        let other = "{\"_rev\":\"1-\(String(repeating: "f", count: 32))\",\"n\":1}"
        try await couch.ok("PUT", "/main/twofold?new_edits=false", other, status: 201)
        let held = try await couch.send("GET", "/main/twofold?conflicts=true")
        let loser = try #require(try held.json["_conflicts"]?.asArray?.first?.asString)
        #expect(held.header("ETag") == nil)
        let tag = try #require(try await couch.send("GET", "/main/twofold").header("ETag"))
        #expect(try await couch.send("GET", "/main/twofold?revs=true", nil, [("If-None-Match", tag)]).status == 304)
        try await couch.ok("DELETE", "/main/twofold?rev=\(loser)")
        for query in ["conflicts=true", "deleted_conflicts=true", "meta=true", "revs_info=true", "local_seq=true"] {
            let answer = try await couch.send("GET", "/main/twofold?\(query)", nil, [("If-None-Match", tag)])
            #expect(answer.status == 200 && answer.header("ETag") == nil, "\(query): \(answer)")
            #expect(try answer.json["_conflicts"] == nil, "\(query)")
        }
    }

    @Test("_bulk_docs refuses as a whole what CouchDB refuses as a whole, and stores nothing of it")
    func bulk() async throws {
        let couch = try CouchHTTP(sharedAgent())
        for (document, expected) in [
            ("{\"_id\":\"_bad\"}", "400 illegal_docid"), ("{\"_id\":5}", "400 illegal_docid"), ("{\"_id\":\"\"}", "400 illegal_docid"),
            ("{\"_zing\":4}", "400 doc_validation"), ("{\"_deleted\":1}", "400 doc_validation"), ("{\"_attachments\":[]}", "400 doc_validation"), ("{\"_rev\":\"bad\"}", "400 bad_request"), ("5", "400 bad_request"),
        ] {
            let found = try await couch.problem("POST", "/main/_bulk_docs", "{\"docs\":[{\"_id\":\"whole\"},\(document)]}")
            #expect(found == expected, "\(document)")
        }
        #expect(try await couch.problem("POST", "/main/_bulk_docs", "{\"new_edits\":false,\"docs\":[{\"_id\":\"whole\"}]}") == "400 bad_request")
        #expect(try await couch.problem("GET", "/main/whole") == "404 not_found")
        // What only this server cannot store fails alone, or a replication would stand still.
        let long = String(repeating: "x", count: 300)
        let answers = try await couch.ok(
            "POST", "/main/_bulk_docs", "{\"docs\":[{\"_id\":\"\(long)\"},{\"_id\":\"whole\"},{\"_id\":\"_local/bulk\",\"n\":1}]}", status: 201)
        #expect(answers.asArray?.map { $0["error"]?.asString ?? "ok" } == ["illegal_docid", "ok", "ok"])
        #expect(try await couch.ok("GET", "/main/_local/bulk")["n"] == 1)
        let posted = try await couch.ok("POST", "/main", "{\"_id\":\"_local/posted\",\"n\":2}", status: 201)
        #expect(posted["id"] == "_local/posted")
        let local = try await couch.ok("GET", "/main/_local/posted")
        #expect(local["n"] == 2)
        let deletion = "{\"_rev\":\(local["_rev"]?.text ?? ""),\"_deleted\":true}"
        #expect(try await couch.ok("PUT", "/main/_local/posted", deletion, status: 201)["rev"] == "0-0")
        #expect(try await couch.problem("GET", "/main/_local/posted") == "404 not_found")
    }

    @Test("attachments: reserved names are refused, bytes in the document come without a length, _local has none")
    func attachments() async throws {
        let couch = try CouchHTTP(sharedAgent())
        func document(_ name: String) -> String { "{\"_id\":\"elsewhere\",\"_attachments\":{\"\(name)\":{\"data\":\"aGVsbG8=\",\"content_type\":\"text/plain\"}}}" }
        #expect(try await couch.problem("PUT", "/main/named", document("_a")) == "400 bad_request")
        // The id is the one of the URL.
        #expect(try await couch.ok("PUT", "/main/named", document("a"), status: 201)["id"] == "named")
        let whole = try await couch.ok("GET", "/main/named?attachments=true")["_attachments"]?["a"]
        #expect(whole?["data"] == "aGVsbG8=" && whole?["length"] == nil && whole?["stub"] == nil)
        let read = try await couch.ok("GET", "/main/named")
        let stub = read["_attachments"]?["a"]
        #expect(stub?["length"] == 5 && stub?["stub"] == true)
        // Bytes that come again are of the revision that they come with, although the client sends back what it read.
        let again = "{\"_rev\":\(read["_rev"]?.text ?? ""),\"_attachments\":{\"a\":{\"revpos\":1,\"data\":\"bmV3\",\"content_type\":\"text/plain\"}}}"
        try await couch.ok("PUT", "/main/named", again, status: 201)
        #expect(try await couch.ok("GET", "/main/named")["_attachments"]?["a"]?["revpos"] == 2)
        for method in ["GET", "PUT"] {
            let answer = try await couch.send(method, "/main/_local/a/b", method == "PUT" ? "x" : nil)
            #expect(answer.status == 400 && answer.text.contains("_local documents do not accept attachments."), "\(answer)")
        }
        #expect(try await couch.problem("PUT", "/main/stubbed", "{\"_attachments\":{\"s\":{\"stub\":true}}}") == "412 missing_stub")
        // Deleted is deleted, whatever revision is named.
        let revision = try await couch.ok("PUT", "/main/gone", "{}", status: 201)["rev"]?.asString ?? ""
        let tombstone = try await couch.ok("DELETE", "/main/gone?rev=\(revision)")["rev"]?.asString ?? ""
        for named in [revision, tombstone] { #expect(try await couch.problem("DELETE", "/main/gone?rev=\(named)") == "404 not_found", "\(named)") }
    }

    @Test("design documents are listed; what they hold is missing where it is missing, and not run where it is there")
    func designs() async throws {
        let couch = try CouchHTTP(sharedAgent())
        let design = "{\"views\":{\"v\":{\"map\":\"function (d) {}\"}},\"filters\":{\"f\":\"function (d) {}\"}}"
        try await couch.ok("PUT", "/main/_design/listed", design, status: 201)
        let rows = try await couch.ok("GET", "/main/_design_docs?include_docs=true")["rows"]?.asArray ?? []
        #expect(rows.map { $0["id"] } == ["_design/listed"] && rows.first?["doc"]?["views"]?["v"] != nil)
        // What POST asks, several at once, and what is not there.
        let asked = "{\"keys\":[\"_design/none\",\"_design/listed\"],\"include_docs\":true}"
        let named = try await couch.ok("POST", "/main/_design_docs", asked)["rows"]?.asArray ?? []
        #expect(named.map { $0["error"]?.asString ?? "-" } == ["not_found", "-"] && named.last?["doc"]?["views"]?["v"] != nil)
        let several = "{\"queries\":[{\"startkey\":\"_design/m\"},{\"key\":\"_design/listed\",\"skip\":0},{\"limit\":0}]}"
        let results = try await couch.ok("POST", "/main/_design_docs/queries", several)["results"]?.asArray ?? []
        #expect(results.map { $0["rows"]?.asArray?.count } == [0, 1, 0])
        // What no design document can be called has no row, and _all_docs has them where only they can be meant.
        let mixed = try await couch.ok("POST", "/main/_design_docs", "{\"keys\":[\"listed\",7,\"_design/listed\"]}")["rows"]?.asArray ?? []
        #expect(mixed.map { $0["id"] } == ["_design/listed"])
        for query in ["startkey=%22_design/%22&endkey=%22_design0%22", "key=%22_design/listed%22", "keys=[%22_design/listed%22]", "descending=true&startkey=%22_design0%22&endkey=%22_design%22"] {
            let all = try await couch.ok("GET", "/main/_all_docs?include_docs=true&\(query)")["rows"]?.asArray ?? []
            #expect(all.map { $0["id"] } == ["_design/listed"] && all.first?["doc"]?["views"]?["v"] != nil, "\(query)")
        }
        let ranges = "{\"queries\":[{\"startkey\":\"_design/\",\"endkey\":\"_design0\"},{\"startkey\":\"_design/\"}]}"
        let ranged = try await couch.ok("POST", "/main/_all_docs/queries", ranges)["results"]?.asArray ?? []
        #expect(ranged.map { $0["rows"]?.asArray?.contains { $0["id"] == "_design/listed" } } == [true, false])
        for (method, target, body) in [
            ("POST", "_design/listed/_view/v", "{\"keys\":[]}"), ("GET", "_partition/p/_all_docs", nil), ("POST", "_partition/p/_find", "{\"selector\":{}}"),
        ] {
            let problem = try await couch.problem(method, "/main/\(target)", body)
            #expect(problem == (target.hasPrefix("_partition") ? "400 bad_request" : "501 not_implemented"), "\(method) \(target)")
        }
        #expect(try await couch.ok("POST", "/main/_view_cleanup", "", status: 202)["ok"] == true)
        #expect(try await couch.ok("POST", "/main/_compact/listed", "", status: 202)["ok"] == true)
        #expect(try await couch.problem("POST", "/main/_compact/none", "") == "404 not_found")
        #expect(try await couch.problem("POST", "/main/_temp_view", "{\"map\":\"function (d) {}\"}") == "410 gone")
        for (target, expected) in [
            ("_design/listed/_view/v", "501 not_implemented"), ("_design/listed/_view/w", "404 not_found"), ("_design/none/_view/v", "404 not_found"),
            ("_changes?filter=_view", "400 bad_request"), ("_changes?filter=_view&view=listed/w", "404 not_found"),
            ("_changes?filter=_view&view=listed/v", "501 not_implemented"), ("_changes?filter=listed/f", "501 not_implemented"),
            ("_changes?filter=listed/g", "404 not_found"), ("_nothing", "404 not_found"),
        ] { #expect(try await couch.problem("GET", "/main/\(target)") == expected, "\(target)") }
    }

    @Test("feeds go on from the id of an event; lists of keys accept no range; databases are listed in ranges")
    func lists() async throws {
        let couch = try CouchHTTP(sharedAgent())
        try await couch.ok("PUT", "/main/before", "{}", status: 201)
        let last = try await couch.changes().last
        try await couch.ok("PUT", "/main/after", "{}", status: 201)
        #expect(try await couch.changes("last-event-id=\(last)").ids.contains("before") == false)
        #expect(try await couch.changes("last-event-id=\(last)").ids.contains("after"))
        #expect(try await couch.problem("POST", "/main/_changes?filter=_selector", "{\"selector\":\"all\"}") == "400 bad_request")
        #expect(try await couch.problem("POST", "/main/_all_docs", "{\"keys\":[\"a\"],\"key\":\"a\"}") == "400 query_parse_error")
        let keys = try await couch.ok("POST", "/main/_all_docs", "{\"keys\":[\"after\"]}")
        #expect(keys["offset"]?.isNull == true && keys["rows"]?.asArray?.count == 1)
        #expect(try await couch.ok("GET", "/_all_dbs?startkey=%22m%22&limit=1") == ["main"])
        #expect(try await couch.ok("GET", "/_all_dbs?endkey=%22a%22") == [])
        #expect(try await couch.ok("GET", "/_all_dbs?skip=1") == [])
    }
}

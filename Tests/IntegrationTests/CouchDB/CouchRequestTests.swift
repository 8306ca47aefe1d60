import Documents
import TestSupport
import Testing

/// Single requests: what they may ask, and what they get when they ask for what cannot be.
@Suite(
    "Requests to CouchDB's API",
    .agent(
        Configuration.hub(listener: "couchdb: true\n    cors: { origins: [ \"https://app.example\" ] }", plugins: true),
        files: ["plugins/above.lua": """
            return {
              params = { minimum = { type = "number" } },
              push_filter = function(doc, ctx) return type(doc.value) == "number" and doc.value >= ctx.params.minimum end,
            }
            """]))
struct CouchRequestTests {
    @Test("a filter named by the client narrows a feed; longpoll waits for what comes")
    func feeds() async throws {
        let couch = try CouchHTTP(sharedAgent())
        let before = try await couch.changes().last
        try await couch.ok(
            "POST", "/main/_bulk_docs", "{\"docs\":[{\"_id\":\"feed-1\",\"value\":1},{\"_id\":\"feed-9\",\"value\":9}]}", status: 201)
        #expect(try await couch.changes("filter=gauges/above&minimum=5&since=0").ids == ["feed-9"])
        #expect(try await couch.problem("GET", "/main/_changes?filter=gauges/nothing") == "404 not_found")
        #expect(try await couch.problem("GET", "/main/_changes?filter=gauges/above&minimum=x") == "400 bad_request")
        #expect(try await couch.ok("POST", "/main/_changes?filter=_doc_ids", "{\"doc_ids\":[\"feed-1\"]}")["results"]?.asArray?.count == 1)
        async let waiting = couch.ok("GET", "/main/_changes?feed=longpoll&heartbeat=100&filter=_doc_ids&doc_ids=%5B%22feed-late%22%5D&since=\(before)")
        try await couch.ok("PUT", "/main/feed-late", "{}", status: 201)
        #expect(try await waiting["results"]?.asArray?.first?["id"]?.asString == "feed-late")
        let events = try await couch.send("GET", "/main/_changes?feed=eventsource&timeout=100&since=\(before)")
        #expect(events.header("Content-Type") == "text/event-stream" && events.text.contains("data: {\"seq\":") && events.text.contains("\nid: "))
        // A sequence of another database passes nothing over.
        #expect(try await couch.changes("since=99999999").ids.contains("feed-1"))
    }

    @Test("each document of a bulk has an outcome, also a _local or design document that cannot be stored")
    func bulkOutcomes() async throws {
        let couch = try CouchHTTP(sharedAgent())
        try await couch.ok("PUT", "/main/_local/outcome", "{\"v\":1}", status: 201)
        let large = String(repeating: "x", count: 1_100_000)
        let documents = [
            "{\"_id\":\"_design/outcome\"}", "{\"_id\":\"outcome-1\"}", "{\"_id\":\"_local/outcome\",\"v\":2}",
            "{\"_id\":\"_local/outcome-large\",\"v\":\"\(large)\"}", "{\"_id\":\"_design/outcome-large\",\"v\":\"\(large)\"}",
            "{\"_id\":\"_local/\(String(repeating: "n", count: 1_100))\"}", "{\"_id\":\"outcome-2\"}",
        ]
        let answer = try await couch.ok("POST", "/main/_bulk_docs", "{\"docs\":[\(documents.joined(separator: ","))]}", status: 201)
        let outcomes = (answer.asArray ?? []).map { $0["ok"]?.asBool == true ? "ok" : $0["error"]?.asString ?? "" }
        #expect(outcomes == ["ok", "ok", "conflict", "document_too_large", "document_too_large", "bad_request", "ok"])
        for id in ["_design/outcome", "outcome-1", "outcome-2"] { try await couch.ok("GET", "/main/\(id)") }
    }

    @Test("members that begin with _ need the right type in a _local document too, or nothing of it is stored")
    func localMembers() async throws {
        let couch = try CouchHTTP(sharedAgent())
        for (member, expected) in [
            ("\"_deleted\":\"true\"", "400 doc_validation"), ("\"_deleted\":null", "400 doc_validation"), ("\"_id\":7", "400 illegal_docid"),
            ("\"_owner\":\"ann\"", "400 doc_validation"), ("\"_attachments\":[]", "400 doc_validation"), ("\"_rev\":7", "400 bad_request"),
        ] {
            #expect(try await couch.problem("PUT", "/main/_local/members", "{\"v\":1,\(member)}") == expected, "\(member)")
        }
        #expect(try await couch.problem("GET", "/main/_local/members") == "404 not_found")
        let named = "{\"_id\":\"_local/members\",\"_rev\":null,\"_deleted\":false,\"v\":1}"
        try await couch.ok("PUT", "/main/_local/members", named, status: 201)
        #expect(try await couch.ok("GET", "/main/_local/members")["v"] == 1)
    }

    @Test("of a design document's branches the winner is kept, and what was acknowledged as stored is known")
    func designBranches() async throws {
        let couch = try CouchHTTP(sharedAgent())
        let path = "/main/_design/branches"
        let first = try #require(try await couch.ok("PUT", path, "{\"v\":1}", status: 201)["rev"]?.asString)
        let greater = "1-\(String(repeating: "f", count: 40))"
        func bring(_ revision: String, _ members: String) async throws {
            let document = "{\"_id\":\"_design/branches\",\"_rev\":\"\(revision)\",\(members)}"
            #expect(try await couch.ok("POST", "/main/_bulk_docs", "{\"docs\":[\(document)],\"new_edits\":false}", status: 201).asArray?.isEmpty == true)
        }
        func current() async throws -> String? { try await couch.ok("GET", path)["_rev"]?.asString }
        try await bring(greater, "\"v\":2")
        #expect(try await current() == greater)
        try await bring("1-00", "\"v\":3")
        // A deletion of another branch ends that one only.
        try await bring("5-aa", "\"_deleted\":true")
        #expect(try await current() == greater)
        let question = "{\"_design/branches\":[\"\(first)\",\"\(greater)\",\"1-00\",\"5-aa\",\"1-11\"]}"
        let missing = try await couch.ok("POST", "/main/_revs_diff", question)
        #expect(missing["_design/branches"]?["missing"]?.asArray?.compactMap(\.asString) == ["1-11"])
        // What replaces it knows of them still; clients see nothing of that.
        let next = try await couch.ok("PUT", path, "{\"_rev\":\"\(greater)\",\"v\":4}", status: 201)["rev"]?.asString
        #expect(try await couch.ok("POST", "/main/_revs_diff", question)["_design/branches"]?["missing"]?.asArray?.count == 1)
        #expect(try await couch.ok("GET", path).asObject?.members.map(\.key) == ["_id", "_rev", "v"])
        // Its own branch's deletion ends it, and what lives elsewhere comes to its place.
        try await couch.ok("DELETE", "\(path)?rev=\(next ?? "")")
        try await bring("1-22", "\"v\":5")
        #expect(try await current() == "1-22")
    }

    @Test("_all_docs gives documents in the order of their ids, in ranges and pages")
    func allDocuments() async throws {
        let couch = try CouchHTTP(sharedAgent())
        let documents = ["all-d", "all-a", "all-c", "all-b"].map { "{\"_id\":\"\($0)\",\"n\":1}" }.joined(separator: ",")
        try await couch.ok("POST", "/main/_bulk_docs", "{\"docs\":[\(documents)]}", status: 201)
        func ids(_ query: String) async throws -> [String] {
            let rows = try await couch.ok("GET", "/main/_all_docs?startkey=%22all-%22&endkey=%22all-z%22&\(query)")["rows"]?.asArray ?? []
            return rows.compactMap { $0["id"]?.asString }
        }
        #expect(try await ids("") == ["all-a", "all-b", "all-c", "all-d"])
        #expect(try await ids("limit=2&skip=1") == ["all-b", "all-c"])
        let behind = try await couch.ok("GET", "/main/_all_docs?skip=1000")
        #expect(behind["offset"] == behind["total_rows"] && behind["rows"]?.asArray?.isEmpty == true)
        let down = try await couch.ok("GET", "/main/_all_docs?descending=true&startkey=%22all-c%22&endkey=%22all-a%22&inclusive_end=false&include_docs=true")
        #expect(down["rows"]?.asArray?.compactMap { $0["doc"]?["_id"]?.asString } == ["all-c", "all-b"])
        let keys = try await couch.ok("POST", "/main/_all_docs", "{\"keys\":[\"all-b\",7,\"none\",\"all-a\"]}")["rows"]?.asArray ?? []
        #expect(keys.map { $0["id"]?.asString ?? $0["error"]?.asString ?? "" } == ["all-b", "not_found", "not_found", "all-a"])
        // Behind others, so that what stands before the range is added to it.
        let all = "startkey=%22all-b%22&endkey=%22all-z%22&limit=9223372036854775807&skip=9223372036854775807"
        for query in [all, all + "&descending=true", all + "&include_docs=true"] {
            #expect(try await couch.ok("GET", "/main/_all_docs?\(query)")["rows"]?.asArray?.isEmpty == true, "\(query)")
        }
        let several = "{\"queries\":[{\"startkey\":\"all-b\",\"skip\":9223372036854775807,\"limit\":9223372036854775807}]}"
        #expect(try await couch.ok("POST", "/main/_all_docs/queries", several)["results"]?.asArray?.first?["rows"]?.asArray?.isEmpty == true)
        #expect(try await couch.ok("GET", "/main/_changes?limit=9223372036854775807&descending=true")["results"]?.asArray?.isEmpty == false)
        let queries = try await couch.ok("POST", "/main/_all_docs/queries", "{\"queries\":[{\"key\":\"all-a\"},{\"startkey\":\"all-d\",\"limit\":1}]}")
        #expect(queries["results"]?.asArray?.map { $0["rows"]?.asArray?.first?["id"]?.asString } == ["all-a", "all-d"])
        let packed = try await couch.send("GET", "/main/_all_docs", nil, [("Accept-Encoding", "gzip,deflate")])
        #expect(packed.header("Content-Encoding") == "gzip" && packed.body.starts(with: [0x1F, 0x8B]))
    }

    @Test("what a peer claims about an attachment besides its digest is shown only if it can be true")
    func claims() async throws {
        let couch = try CouchHTTP(sharedAgent())
        let peer = try await Peer.connect(sharedAgent())
        let digest = "sha1-qvTGHdzF6KLavt4PO0gs2a6pQ00="
        for (index, (claim, shown)) in [
            (#""length":5,"md5":"md5-\"x""#, digest), (#""md5":"md5-AAAA""#, digest), (#""length":"-5","md5":7"#, digest),
            (#""length":5,"md5":"md5-XUFAKrxLKna5cZ2REBfFkg==""#, "md5-XUFAKrxLKna5cZ2REBfFkg=="),
        ].enumerated() {
            let id = "claim\(index)"
            try await peer.push(id, blob: "hello", more: #""_attachments":{"a":{"digest":"\#(digest)","stub":true,"revpos":1,\#(claim)}},"#)
            let entry = try await couch.ok("GET", "/main/\(id)")["_attachments"]?["a"]
            #expect(entry?["digest"]?.asString == shown && entry?["length"]?.asInt64 == 5, "\(claim): \(entry?.text ?? "")")
            let bytes = try await couch.send("GET", "/main/\(id)/a")
            #expect(bytes.text == "hello" && bytes.header("ETag") == "\"\(shown.drop { $0 != "-" }.dropFirst())\"", "\(claim): \(bytes)")
            #expect(bytes.header("Content-MD5") == (shown == digest ? nil : "XUFAKrxLKna5cZ2REBfFkg=="), "\(claim): \(bytes)")
            let parts = try await couch.probe.get("/main/\(id)?attachments=true", headers: [("Accept", "multipart/related")])
            #expect(parts.text.contains("Content-Length: 5\r\n\r\nhello") && !parts.text.contains("Content-Length: 0"), "\(claim): \(parts)")
        }
        // A false length is refused: policies have decided by it.
        for length in ["-5", "1e300", "4"] {
            await #expect(throws: (any Error).self, "\(length)") {
                try await peer.push("false", blob: "hello", more: #""_attachments":{"a":{"digest":"\#(digest)","stub":true,"revpos":1,"length":\#(length)}},"#)
            }
        }
        #expect(try await couch.problem("GET", "/main/false") == "404 not_found")
        try await peer.close()
    }

    @Test("attachments: ranges, tags, names with every character, and what is cut short")
    func attachments() async throws {
        let couch = try CouchHTTP(sharedAgent())
        let text = [("Content-Type", "text/plain")]
        let target = "/main/file%2Fwith%20%3F%23%25/a%2Fb%20%C3%A9.txt"
        let first = try await couch.ok("PUT", target, "0123456789", status: 201, text)["rev"]?.asString ?? ""
        let part = try await couch.send("GET", target, nil, [("Range", "bytes=2-4")])
        #expect(part.status == 206 && part.text == "234" && part.header("Content-Range") == "bytes 2-4/10")
        #expect(try await couch.send("GET", target, nil, [("Range", "bytes=-3")]).text == "789")
        let outside = try await couch.send("GET", target, nil, [("Range", "bytes=10-")])
        #expect(outside.status == 416 && outside.header("Content-Range") == "bytes */10")
        let tag = try #require(part.header("ETag"))
        for known in [tag, "\"other\", W/\(tag)", "*"] { #expect(try await couch.send("GET", target, nil, [("If-None-Match", known)]).status == 304) }
        #expect(try await couch.send("GET", target, nil, [("If-None-Match", "\"other\"")]).status == 200)
        #expect(try await couch.send("GET", target, nil, [("Range", "bytes=2-4"), ("If-Range", tag)]).text == "234")
        let other = try await couch.send("GET", target, nil, [("Range", "bytes=2-4"), ("If-Range", "\"other\"")])
        #expect(other.status == 200 && other.text == "0123456789")
        let whole = try await couch.send("GET", target)
        #expect(whole.header("Accept-Ranges") == "bytes" && whole.header("Content-Length") == "10" && whole.header("ETag") == tag)
        #expect(try await couch.problem("PUT", target, "x", text) == "409 conflict")
        #expect(try await couch.problem("PUT", target + "?rev=\(first)", "x", text + [("Content-MD5", "AAAA")]) == "400 content_md5_mismatch")
        // The document's next revision keeps it by its stub.
        let next = "{\"_rev\":\"\(first)\",\"n\":1,\"_attachments\":{\"a/b \u{E9}.txt\":{\"stub\":true}}}"
        let second = try await couch.ok("PUT", "/main/file%2Fwith%20%3F%23%25", next, status: 201)["rev"]?.asString ?? ""
        #expect(try await couch.send("GET", target).text == "0123456789")
        try await couch.ok("DELETE", target + "?rev=\(second)")
        #expect(try await couch.problem("GET", target) == "404 not_found")
        // A body that stops half-way, and parts that lie.
        let half = "PUT /main/half/a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel"
        _ = try await couch.probe.begin(Array(half.utf8))
        #expect(try await couch.problem("GET", "/main/half") == "404 not_found")
        let document = "{\"_attachments\":{\"a\":{\"follows\":true,\"length\":99,\"content_type\":\"text/plain\"}}}"
        for body in ["--b\r\n\r\n\(document)\r\n--b\r\n\r\nshort\r\n--b--", "--b\r\n\r\n\(document)\r\n--b--", "--b\r\n\r\n\(document)", "nothing", ""] {
            let answer = try await couch.send("PUT", "/main/lies", body, [("Content-Type", "multipart/related; boundary=b")])
            #expect(answer.status == 400, "\(body): \(answer)")
        }
        for length in ["-5", "-1", "5.5", "\"5\"", "null"] {
            let body = "--b\r\n\r\n\(document.replacing("99", with: length))\r\n--b\r\n\r\nshort\r\n--b--"
            let answer = try await couch.send("PUT", "/main/lies", body, [("Content-Type", "multipart/related; boundary=b")])
            #expect(answer.status == 400 && answer.text.contains("length of the attachment a"), "\(length): \(answer)")
        }
        #expect(try await couch.problem("GET", "/main/lies") == "404 not_found")
    }

    @Test("what cannot be done is answered as CouchDB answers it")
    func badInput() async throws {
        let couch = try CouchHTTP(sharedAgent())
        for (method, target, body, expected) in [
            ("POST", "/main/_bulk_docs", "{\"docs\":[{\"_id\":\"none-or-all\"}],\"all_or_nothing\":true}", "417 not_implemented"), ("GET", "/main/none-or-all", "", "404 not_found"),
            ("POST", "/main/_bulk_docs", "{\"docs\":", "400 bad_request"), ("POST", "/main/_bulk_docs", "{\"docs\":7}", "400 bad_request"),
            ("POST", "/main/_bulk_docs", "[]", "400 bad_request"), ("POST", "/main/_bulk_get", "{}", "400 bad_request"),
            ("POST", "/main/_revs_diff", "{\"a\":[7]}", "400 bad_request"), ("PUT", "/main/a", "[]", "400 bad_request"),
            ("PUT", "/main/a", "{\"_strange\":1}", "400 doc_validation"), ("PUT", "/main/_a", "{}", "400 illegal_docid"),
            ("PUT", "/main/\(String(repeating: "x", count: 300))", "{}", "400 illegal_docid"), ("PUT", "/other", "{}", "403 forbidden"),
            ("PUT", "/main", "{}", "412 file_exists"), ("DELETE", "/main", "", "403 forbidden"), ("GET", "/other", "", "404 not_found"),
            ("GET", "/main/a?rev=zzz", "", "400 bad_request"), ("GET", "/main/a?revs=maybe", "", "400 query_parse_error"),
            ("GET", "/main/_changes?since=zzz", "", "400 bad_request"), ("GET", "/main/_changes?feed=zzz", "", "400 bad_request"),
            ("POST", "/main/_find", "{}", "400 missing_required_key"), ("GET", "/main/_design/a/_view/b", "", "404 not_found"),
            ("PATCH", "/main/a", "", "405 method_not_allowed"), ("GET", "/_uuids?count=100000", "", "403 forbidden"),
        ] {
            let found = try await couch.problem(method, target, body.isEmpty ? String?.none : body)
            #expect(found == expected, "\(method) \(target) \(body)")
        }
        #expect(try await couch.problem("POST", "/main/_bulk_docs", "{}", [("Content-Type", "text/plain")]) == "415 bad_content_type")
        for type in ["APPLICATION/JSON", "application/json; charset=utf-8"] {
            #expect(try await couch.send("POST", "/main/_revs_diff", "{}", [("Content-Type", type)]).status == 200, "\(type)")
        }
        let tooLong = try await couch.probe.raw(
            Array("POST /main/_bulk_docs HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 99999999999\r\n\r\n".utf8))
        #expect(String(decoding: tooLong, as: UTF8.self).contains("couchdb_batch_bytes"))
    }

    @Test("pages of configured origins may read answers, others may not ask")
    func crossOrigin() async throws {
        let couch = try CouchHTTP(sharedAgent())
        let asking = [("Origin", "https://app.example"), ("Access-Control-Request-Method", "POST")]
        let preflight = try await couch.send("OPTIONS", "/main/_bulk_docs", nil, asking)
        #expect(preflight.status == 204 && preflight.header("Access-Control-Allow-Origin") == "https://app.example")
        let error = try await couch.send("GET", "/main/no-such", nil, [("Origin", "https://app.example")])
        #expect(error.status == 404 && error.header("Access-Control-Allow-Origin") == "https://app.example")
        #expect(error.header("Access-Control-Allow-Credentials") == nil)
        let stranger = try await couch.send("GET", "/main", nil, [("Origin", "https://other.example")])
        #expect(stranger.status == 403 && stranger.header("Access-Control-Allow-Origin") == nil)
    }
}

import Documents
import Encodings
import TestSupport
import Testing

/// Bodies of requests: packed ones, and those that are larger than may be.
@Suite("Bodies of requests to CouchDB's API", .serialized, .agent(Configuration.hub(database: "{}", listener: "couchdb: true", more: "limits: { max_blob_bytes: 1000000 }\n")))
struct CouchBodyTests {
    private static let gzip = ("Content-Encoding", "gzip")
    private static let json = ("Content-Type", "application/json")

    private func packed(_ bytes: [UInt8]) async throws -> [UInt8] {
        let folder = try TemporaryFolder()
        let file = try folder.write("body", bytes: bytes)
        let outcome = try await Subprocess.run("/bin/gzip", ["-9", file])
        guard outcome.status == 0 else { throw SupportError("gzip: \(outcome)") }
        return try folder.read("body.gz")
    }

    private func send(_ method: String, _ target: String, _ body: [UInt8], _ headers: [(String, String)]) async throws -> HTTPProbe.Answer {
        try await HTTPProbe.tcp(port: try sharedAgent().port("edge")).request(method, target, headers: headers, body: body)
    }

    @Test("documents may be gzipped; their unpacked size is limited like that of unpacked ones")
    func gzipped() async throws {
        let one = try await packed(Array("{\"packed\":true}".utf8))
        #expect(try await send("PUT", "/main/one", one, [Self.gzip]).status == 201)
        let bulk = try await packed(Array("{\"docs\":[{\"_id\":\"two\",\"n\":2}]}".utf8))
        #expect(try await send("POST", "/main/_bulk_docs", bulk, [Self.gzip, Self.json]).status == 201)
        let keys = try await send("POST", "/main/_all_docs", try await packed(Array("{\"keys\":[\"one\",\"two\"]}".utf8)), [Self.gzip, Self.json])
        #expect(try keys.json["rows"]?.asArray?.map { $0["id"]?.asString } == ["one", "two"])
        let couch = try CouchHTTP(sharedAgent())
        #expect(try await couch.ok("GET", "/main/one")["packed"]?.asBool == true)
        #expect(try await couch.ok("GET", "/main/two")["n"]?.asInt64 == 2)
        // An attachment is kept as what it is.
        let attached = try await packed(Array("hello".utf8))
        #expect(try await send("PUT", "/main/three/f", attached, [Self.gzip]).status == 201)
        #expect(try await couch.send("GET", "/main/three/f").text == "hello")
        // 70 MB of spaces in 70 KB; more than max_blob_bytes.
        let bomb = try await packed([UInt8](repeating: 0x20, count: 70 << 20))
        let refused = try await send("PUT", "/main/bomb", bomb, [Self.gzip])
        #expect(refused.status == 413 && refused.text.contains("couchdb_request_bytes"), "\(refused)")
        #expect(try await send("PUT", "/main/bomb/f", bomb, [Self.gzip]).status == 413)
        for broken in [Array(one.dropLast(9)), one + one, Array("{\"packed\":true}".utf8)] {
            #expect(try await send("PUT", "/main/broken", broken, [Self.gzip]).status == 400)
        }
        #expect(try await couch.problem("GET", "/main/broken") == "404 not_found")
    }

    @Test("a gzipped attachment in a part is refused with its document if it is cut short, or goes on behind its end", arguments: ["document", "part"])
    func gzippedPart(_ saysSo: String) async throws {
        let couch = try CouchHTTP(sharedAgent())
        let (entry, field) = saysSo == "document" ? (",\"encoding\":\"gzip\"", "") : ("", "Content-Encoding: gzip\r\n")
        let head = "--b\r\nContent-Type: application/json\r\n\r\n{\"_attachments\":{\"f\":{\"follows\":true\(entry)}}}\r\n--b\r\n\(field)\r\n"
        func put(_ id: String, _ part: [UInt8]) async throws -> HTTPProbe.Answer {
            let body = Array(head.utf8) + part + Array("\r\n--b--".utf8)
            return try await send("PUT", "/main/\(id)", body, [("Content-Type", "multipart/related; boundary=\"b\"")])
        }
        let whole = try await packed(Array("hello".utf8))
        #expect(try await put("\(saysSo)-whole", whole).status == 201)
        #expect(try await couch.send("GET", "/main/\(saysSo)-whole/f").text == "hello")
        for broken in [Array(whole.dropLast(9)), whole + whole, whole + [0x21], whole + [UInt8](repeating: 0, count: 200_000)] {
            let answer = try await put("\(saysSo)-broken", broken)
            #expect(answer.status == 400 && answer.text.contains("is cut short, or more follows it"), "\(answer)")
        }
        #expect(try await couch.problem("GET", "/main/\(saysSo)-broken") == "404 not_found")
    }

    @Test("queries may be gzipped; their unpacked size is limited")
    func gzippedQueries() async throws {
        let couch = try CouchHTTP(sharedAgent())
        try await couch.ok("PUT", "/main/asked", "{\"asked\":1}", status: 201)
        let headers = [Self.gzip, Self.json]
        let query = try await packed(Array("{\"selector\":{\"asked\":1}}".utf8))
        let found = try await send("POST", "/main/_find", query, headers)
        #expect(try found.status == 200 && found.json["docs"]?.asArray?.first?["_id"]?.asString == "asked", "\(found)")
        #expect(try await send("POST", "/main/_explain", query, headers).status == 200)
        let index = try await packed(Array("{\"index\":{\"fields\":[\"asked\"]},\"name\":\"packed\"}".utf8))
        #expect(try await send("POST", "/main/_index", index, headers).status == 200)
        // 300 KB of spaces in less than 1 KB.
        let bomb = try await packed([UInt8](repeating: 0x20, count: 300 << 10))
        for target in ["_find", "_explain", "_index", "_index/_bulk_delete"] {
            let refused = try await send("POST", "/main/\(target)", bomb, headers)
            #expect(refused.status == 413 && refused.text.contains("couchdb_find_bytes"), "\(target): \(refused)")
        }
    }

    @Test("a body in a form that is not read is 415, and says which are", arguments: ["br", "deflate", "gzip, gzip", "zstd"])
    func otherCodings(_ coding: String) async throws {
        for (method, target) in [("PUT", "/main/coded"), ("POST", "/main/_bulk_docs"), ("PUT", "/main/coded/f"), ("POST", "/_session"), ("POST", "/main/_session")] {
            let answer = try await send(method, target, Array("{}".utf8), [("Content-Encoding", coding), Self.json])
            #expect(answer.status == 415 && answer.text.contains(coding), "\(method) \(target): \(answer)")
            #expect(answer.header("Accept-Encoding") == (target.hasSuffix("_session") ? "identity" : "gzip"))
        }
        let agent = try sharedAgent()
        let admin = try await agent.admin.request("PUT", "/api/databases/main/documents/coded", headers: [("Content-Encoding", "gzip")], body: Array("{}".utf8))
        #expect(admin.status == 415, "\(admin)")
    }

    @Test("a body that is too long by its header gets 413 before any of it is read, on every route")
    func declared() async throws {
        let agent = try sharedAgent()
        let listener = HTTPProbe.tcp(port: try agent.port("edge"))
        let admin = HTTPProbe.tcp(port: try agent.port("admin"))
        for (probe, request, limit) in [
            (listener, "POST /main/_bulk_docs", "couchdb_batch_bytes"), (listener, "POST /main/_bulk_get", "couchdb_list_bytes"),
            (listener, "POST /main/_revs_diff", "couchdb_list_bytes"), (listener, "POST /main/_changes", "couchdb_list_bytes"), (listener, "POST /main", "couchdb_batch_bytes"),
            (listener, "POST /main/_purge", "couchdb_list_bytes"), (listener, "POST /main/_all_docs", "couchdb_list_bytes"), (listener, "POST /main/_find", "couchdb_find_bytes"), (listener, "PUT /main/long", "couchdb_batch_bytes"), (listener, "PUT /main/_local/long", "couchdb_request_bytes"),
            (listener, "PUT /main/_design/long", "couchdb_batch_bytes"), (listener, "PUT /main/long/f", "max_blob_bytes"), (listener, "POST /main/_session", "max_session_request"),
            (listener, "POST /main/_local_docs", "couchdb_list_bytes"), (listener, "POST /_dbs_info", "couchdb_find_bytes"),
            (listener, "POST /_session", "couchdb_login_bytes"), (admin, "PUT /api/databases/main/documents/long", "max_body_bytes"), (admin, "POST /api/databases/main/blobs", "max_blob_bytes"),
            (agent.admin, "POST /api/databases/main/blobs", "max_blob_bytes"), (admin, "POST /api/reload", "body_bytes"),
        ] {
            let head = "\(request) HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99999999999\r\nExpect: 100-continue\r\n\r\n"
            let answer = try HTTPProbe.parse(try await probe.raw(Array(head.utf8)))
            #expect(answer.status == 413 && answer.text.contains(limit), "\(request): \(answer)")
        }
        // In chunks without end, as soon as the limit is passed.
        let chunks = "POST /_session HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5000\r\n\(String(repeating: "x", count: 0x5000))\r\n5000\r\n"
        #expect(try HTTPProbe.parse(try await listener.raw(Array(chunks.utf8))).status == 413)
    }

    @Test("what a request asks for is limited by the memory it takes, and lists that clients send are served")
    func lists() async throws {
        let couch = try CouchHTTP(sharedAgent())
        func list(_ item: String, _ count: Int) -> String { "[" + Array(repeating: item, count: count).joined(separator: ",") + "]" }
        // 400 KB that would be 25 MB or more as values.
        for (target, body) in [
            ("_all_docs", "{\"keys\":\(list("1", 400_000))}"), ("_local_docs", "{\"keys\":\(list("1", 400_000))}"), ("_all_docs/queries", "{\"queries\":\(list("[]", 300_000))}"),
            ("_bulk_get", "{\"docs\":\(list("{}", 300_000))}"), ("_changes?filter=_doc_ids", "{\"doc_ids\":\(list("[[]]", 200_000))}"),
            ("_revs_diff", "{\"a\":\(list("0", 400_000))}"), ("_purge", "{\"a\":\(list("null", 400_000))}"),
        ] {
            let answer = try await couch.send("POST", "/main/\(target)", body)
            #expect(answer.status == 413 && answer.text.contains("limits.memory"), "\(target): \(answer.status) \(answer.text.prefix(300))")
        }
        let keys = (0..<50_000).map { "\"0123456789abcdef0123456789ab\($0)\"" }.joined(separator: ",")
        #expect(try await couch.ok("POST", "/main/_all_docs?skip=49999", "{\"keys\":[\(keys)]}")["rows"]?.asArray?.count == 1)
        let asked = (0..<10_000).map { "\"0123456789abcdef0123456789ab\($0)\":[\"1-0123456789abcdef0123456789abcdef\"]" }.joined(separator: ",")
        #expect(try await couch.ok("POST", "/main/_revs_diff", "{\(asked)}").asObject?.count == 10_000)
    }

    @Test("the number of items in a request is limited")
    func numbers() async throws {
        let couch = try CouchHTTP(sharedAgent())
        // Each fails by itself.
        let unfit = "{\"_id\":\"\(String(repeating: "x", count: 241))\"}"
        func docs(_ count: Int) -> String { "{\"docs\":[" + Array(repeating: unfit, count: count).joined(separator: ",") + "]}" }
        let many = try await couch.send("POST", "/main/_bulk_docs", docs(10_001))
        #expect(many.status == 413 && many.text.contains("couchdb_documents"), "\(many)")
        #expect(try await couch.ok("POST", "/main/_bulk_docs", docs(10_000), status: 201).asArray?.count == 10_000)
        let ids = Array(repeating: "\"a\"", count: 30_000).joined(separator: ",")
        let entries = (0..<5_000).map { "\"\($0)\":{\"stub\":true,\"revpos\":1,\"length\":0,\"digest\":\"\"}" }.joined(separator: ",")
        for member in ["\"_revisions\":{\"start\":30000,\"ids\":[\(ids)]}", "\"_attachments\":{\(entries)}"] {
            let answer = try await couch.send("PUT", "/main/wide", "{\(member)}")
            #expect(answer.status == 413 && answer.text.contains("couchdb_member_values"), "\(answer)")
        }
        // What is no special member is a document's own.
        #expect(try await couch.send("PUT", "/main/wide", "{\"ids\":[\(ids)]}").status == 201)
    }

    @Test("the operator is told of attachments that are too large, until their documents are stored")
    func tooLarge() async throws {
        let agent = try await AgentProcess.start(Configuration.hub(listener: "couchdb: true", more: "limits: { max_blob_bytes: 1000 }\n"))
        let couch = try CouchHTTP(agent)
        let bytes = String(repeating: "x", count: 1_500)
        let inline = "\"_attachments\":{\"f\":{\"content_type\":\"text/plain\",\"data\":\"\(Base64.encode(Array(bytes.utf8)))\"}}"
        #expect(try await couch.send("PUT", "/main/whole/f", bytes, [("Content-Type", "text/plain")]).status == 413)
        #expect(try await couch.send("PUT", "/main/inside", "{\(inline)}").status == 413)
        #expect(try await couch.send("POST", "/main", "{\"_id\":\"posted\",\(inline)}").status == 413)
        let bulk = try await couch.ok("POST", "/main/_bulk_docs", "{\"docs\":[{\"_id\":\"bulk\",\(inline)},{\"_id\":\"beside\"}]}", status: 201)
        #expect(bulk.asArray?.first?["error"] == "document_too_large", "\(bulk.text)")
        func told() async throws -> String? {
            try await agent.admin.get("/health").json["attention"]?.asArray?.first { $0["kind"] == "documents_not_taken" }?["text"]?.asString
        }
        let text = try #require(try await told())
        #expect(text.contains("4 documents refused as too large, such as bulk of main from 127.0.0.1: ") && text.contains("max_blob_bytes"), "\(text)")
        #expect(try await agent.admin.get("/health").status == 200)
        _ = try await agent.process.line(containing: "document whole of _default._default refused in a push from a peer", in: .errors)
        for id in ["whole", "inside", "posted"] { try await couch.ok("PUT", "/main/\(id)", "{}", status: 201) }
        #expect(try await told()?.contains("1 document refused") == true)
        try await couch.ok("POST", "/main/_bulk_docs", "{\"docs\":[{\"_id\":\"bulk\"}]}", status: 201)
        #expect(try await told() == nil)
        #expect(try await agent.stop().status == 0)
    }

    @Test("feeds do not hold the text of their requests")
    func feeds() async throws {
        let probe = HTTPProbe.tcp(port: try sharedAgent().port("edge"))
        let body = "{\"doc_ids\":[\"a\"]}" + String(repeating: " ", count: 4_000_000)
        let head = "POST /main/_changes?feed=continuous&filter=_doc_ids&heartbeat=1000 HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        // 80 MB, of which limits.memory would hold 64 MiB.
        var feeds: [Outflow] = []
        for _ in 0..<20 {
            let feed = try await probe.pour(Array("\(head)Content-Length: \(body.utf8.count)\r\n\r\n\(body)".utf8))
            try await eventually("the feed's request is taken") { feed.isAtRest }
            feeds.append(feed)
        }
        let couch = try CouchHTTP(sharedAgent())
        // What was sent is not yet read: until it is, the bodies themselves may leave no room.
        try await eventually("the text of the feeds' requests is gone") {
            let end = try await couch.send("POST", "/main/_changes?feed=continuous&filter=_doc_ids&timeout=200", body)
            return end.status == 200 && end.text.hasPrefix("{\"last_seq\":")
        }
        #expect(try await couch.send("PUT", "/main/beside-feeds", "{\"text\":\"\(String(repeating: "x", count: 5_000_000))\"}").status == 201)
        withExtendedLifetime(feeds) {}
    }

    @Test("rows of _bulk_docs that failed name the document that they are about")
    func rows() async throws {
        let stub = "\"_attachments\":{\"a\":{\"stub\":true}}"
        let long = String(repeating: "x", count: 241)
        let sent = "{\"docs\":[{\"_id\":\"odd\",\(stub)},{\(stub)},{\"_id\":\"\(long)\"}]}"
        let rows = try await CouchHTTP(sharedAgent()).ok("POST", "/main/_bulk_docs", sent, status: 201).asArray ?? []
        #expect(rows.map { $0["id"]?.asString ?? ($0["id"]?.isNull == true ? "null" : "none") } == ["odd", "null", long], "\(rows)")
    }

    @Test("a batch may have more attachments than a request may be long: PouchDB sends a hundred documents with theirs, again and again")
    func largeBatch() async throws {
        let couch = try CouchHTTP(sharedAgent())
        // 35 MB, each attachment of bytes of its own; one that is none, and one that is too large for the store.
        let sizes = 950_000
        func photo(_ number: Int) -> [UInt8] { [UInt8](repeating: UInt8(65 + number), count: sizes + number) }
        var documents = (0..<28).map { number in
            "{\"_id\":\"photo-\(number)\",\"_rev\":\"1-aa\",\"_attachments\":{\"p\":{\"data\":\"\(Base64.encode(photo(number)))\",\"content_type\":\"image/jpeg\"}}}"
        }
        documents.append("{\"_id\":\"photo-bad\",\"_rev\":\"1-aa\",\"_attachments\":{\"p\":{\"data\":\"%%%%\"}}}")
        let large = Base64.encode([UInt8](repeating: 1, count: 1_000_001))
        documents.append("{\"_id\":\"photo-large\",\"_rev\":\"1-aa\",\"_attachments\":{\"p\":{\"data\":\"\(large)\"}}}")
        documents.append("{\"_id\":\"_design/photos\",\"_rev\":\"1-aa\",\"_attachments\":{\"p\":{\"data\":\"aGVsbG8=\"}}}")
        let rows = try await couch.ok("POST", "/main/_bulk_docs", "{\"docs\":[\(documents.joined(separator: ","))],\"new_edits\":false}", status: 201)
        #expect(rows.asArray?.map { $0["id"]?.asString } == ["photo-bad", "photo-large"], "\(rows.text)")
        for number in [0, 27] {
            let entry = try await couch.ok("GET", "/main/photo-\(number)")["_attachments"]?["p"]
            #expect(entry?["length"]?.asInt64 == Int64(sizes + number) && entry?["content_type"]?.asString == "image/jpeg", "\(entry?.text ?? "")")
            #expect(try await couch.send("GET", "/main/photo-\(number)/p", nil, [("Range", "bytes=0-2")]).text == String(repeating: number == 0 ? "A" : "\\", count: 3))
        }
        #expect(try await couch.ok("GET", "/main/_design/photos").text.contains("aGVsbG8="))
    }

    @Test("a batch that arrives in chunks, or gzipped, may be as long as one with a length")
    func batchOfUnknownLength() async throws {
        let couch = try CouchHTTP(sharedAgent())
        // 35 MB, each attachment of bytes of its own.
        let size = 950_000
        func batch(_ name: String) -> [UInt8] {
            let documents = (0..<28).map { number in
                let data = Base64.encode([UInt8](repeating: UInt8(65 + number), count: size))
                return "{\"_id\":\"\(name)-\(number)\",\"_attachments\":{\"p\":{\"data\":\"\(data)\",\"content_type\":\"image/jpeg\"}}}"
            }
            return Array("{\"docs\":[\(documents.joined(separator: ","))]}".utf8)
        }
        let head = "POST /main/_bulk_docs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
        func chunked(_ body: [UInt8]) async throws -> HTTPProbe.Answer {
            var bytes = Array("\(head)Transfer-Encoding: chunked\r\n\r\n".utf8)
            for start in stride(from: 0, to: body.count, by: 1 << 20) {
                let chunk = body[start..<min(start + 1 << 20, body.count)]
                bytes += Array("\(String(chunk.count, radix: 16))\r\n".utf8)
                bytes += chunk
                bytes += Array("\r\n".utf8)
            }
            return try HTTPProbe.parse(try await couch.probe.raw(bytes + Array("0\r\n\r\n".utf8)))
        }
        let bulk = [Self.gzip, Self.json]
        for (name, answer) in [
            ("chunks", try await chunked(batch("chunks"))), ("packed", try await send("POST", "/main/_bulk_docs", try await packed(batch("packed")), bulk)),
        ] {
            #expect(answer.status == 201, "\(name): \(answer.status) \(answer.text.prefix(300))")
            for number in [0, 27] {
                let entry = try await couch.ok("GET", "/main/\(name)-\(number)")["_attachments"]?["p"]
                #expect(entry?["length"]?.asInt64 == Int64(size) && entry?["content_type"]?.asString == "image/jpeg", "\(entry?.text ?? "")")
                let bytes = try await couch.send("GET", "/main/\(name)-\(number)/p", nil, [("Range", "bytes=0-2")])
                #expect(bytes.text == String(repeating: number == 0 ? "A" : "\\", count: 3))
            }
        }
        // What is short goes the same way.
        let short = try await chunked(Array("{\"docs\":[{\"_id\":\"short\",\"_attachments\":{\"p\":{\"data\":\"aGVsbG8=\"}}},{\"_id\":\"plain\",\"n\":1}]}".utf8))
        #expect(try short.status == 201 && short.json.asArray?.count == 2, "\(short)")
        #expect(try await couch.send("GET", "/main/short/p").text == "hello")
        // 70 MB in 70 KB: an attachment that the store does not take, and text that nobody holds.
        let attachment = Array("{\"docs\":[{\"_id\":\"bomb\",\"_attachments\":{\"p\":{\"data\":\"".utf8) + [UInt8](repeating: 0x41, count: 70 << 20)
        let rows = try await send("POST", "/main/_bulk_docs", try await packed(attachment + Array("\"}}},{\"_id\":\"beside-bomb\"}]}".utf8)), bulk)
        #expect(rows.status == 201, "\(rows.status) \(rows.text.prefix(300))")
        #expect(try rows.json.asArray?.map { $0["error"]?.asString ?? "stored" } == ["document_too_large", "stored"])
        let text = try await packed(Array("{\"docs\":[".utf8) + [UInt8](repeating: 0x20, count: 70 << 20))
        let refused = try await send("POST", "/main/_bulk_docs", text, bulk)
        #expect(refused.status == 413 && refused.text.contains("couchdb_request_bytes"), "\(refused)")
        // What is cut short, or goes on behind its end, stores nothing.
        let one = try await packed(Array("{\"docs\":[{\"_id\":\"cut\"}]}".utf8))
        for broken in [Array(one.dropLast(9)), one + one, one + [UInt8](repeating: 0, count: 200_000)] {
            #expect(try await send("POST", "/main/_bulk_docs", broken, bulk).status == 400)
        }
        #expect(try await couch.problem("GET", "/main/cut") == "404 not_found")
    }

    @Test("a document may have more attachments than a request may be long, too")
    func largeDocument() async throws {
        let couch = try CouchHTTP(sharedAgent())
        let size = 950_000
        // 35 MB.
        let attachments = (0..<28).map { number in
            "\"p\(number)\":{\"data\":\"\(Base64.encode([UInt8](repeating: UInt8(65 + number), count: size)))\",\"content_type\":\"image/jpeg\"}"
        }.joined(separator: ",")
        func document(_ id: String) -> [UInt8] { Array("{\"_id\":\"\(id)\",\"n\":1,\"_attachments\":{\(attachments)}}".utf8) }
        let answers = [
            ("put", try await send("PUT", "/main/put", document("put"), [Self.json])), ("post", try await send("POST", "/main", document("post"), [Self.json])),
            ("packed-put", try await send("PUT", "/main/packed-put", try await packed(document("packed-put")), [Self.gzip, Self.json])),
        ]
        for (id, answer) in answers {
            #expect(answer.status == 201, "\(id): \(answer.status) \(answer.text.prefix(300))")
            let stored = try await couch.ok("GET", "/main/\(id)")
            #expect(stored["n"]?.asInt64 == 1 && stored["_attachments"]?.asObject?.count == 28)
            #expect(stored["_attachments"]?["p27"]?["length"]?.asInt64 == Int64(size))
            #expect(try await couch.send("GET", "/main/\(id)/p27", nil, [("Range", "bytes=0-2")]).text == "\\\\\\")
        }
        // What the store does not take is the document's failure, and what is no attachment stays bounded.
        let large = Array("{\"_attachments\":{\"p\":{\"data\":\"".utf8) + [UInt8](repeating: 0x41, count: 40 << 20) + Array("\"}}}".utf8)
        let refused = try await send("PUT", "/main/too-large", try await packed(large), [Self.gzip, Self.json])
        #expect(refused.status == 413 && refused.text.contains("max_blob_bytes"), "\(refused.status) \(refused.text.prefix(300))")
        #expect(try await couch.problem("GET", "/main/too-large") == "404 not_found")
    }
}

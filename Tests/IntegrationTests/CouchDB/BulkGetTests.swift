import Documents
import Glibc
import TestSupport
import Testing

/// `_bulk_get` for clients that accept its documents as multipart, as Couchbase Lite 1.x does.
@Suite("_bulk_get in parts", .agent(Configuration.hub(database: "{}", listener: "couchdb: true")))
struct BulkGetTests {
    private struct Part {
        var header: String
        var text: String
        var json: JSONValue { get throws { try JSONValue(parsing: text) } }

        func field(_ name: String) -> String? {
            header.split(separator: "\r\n").first { $0.hasPrefix("\(name): ") }.map { String($0.dropFirst(name.count + 2)) }
        }
    }

    private static func boundary(_ type: String) -> String? { type.firstMatch(of: /boundary="([0-9a-f]+)"/).map { String($0.1) } }

    private static func parts(of text: String, _ type: String) throws -> [Part] {
        let mark = try #require(Self.boundary(type), "\(type)")
        var pieces = text.split(separator: "--\(mark)").map { String($0) }
        #expect(pieces.popLast() == "--", "\(text)")
        return try pieces.map { piece in
            let halves = piece.split(separator: "\r\n\r\n", maxSplits: 1).map { String($0) }
            try #require(halves.count == 2 && piece.hasPrefix("\r\n") && piece.hasSuffix("\r\n"), "\(piece)")
            return Part(header: halves[0], text: String(halves[1].dropLast()))
        }
    }

    private func get(_ body: String, _ query: String = "", accepting accepted: String = "multipart/mixed") async throws -> HTTPProbe.Answer {
        var couch = try CouchHTTP(sharedAgent())
        couch.headers = [("Accept", accepted)]
        let answer = try await couch.send("POST", "/main/_bulk_get?\(query)", body)
        try #require(answer.status == 200, "\(answer)")
        return answer
    }

    private func parts(_ body: String, _ query: String = "", accepting accepted: String = "multipart/mixed") async throws -> [Part] {
        let answer = try await get(body, query, accepting: accepted)
        return try Self.parts(of: answer.text, answer.header("Content-Type") ?? "")
    }

    @Test("each document is a part, followed by its attachments in parts of their own, and a document that cannot be read is a part that says so")
    func documents() async throws {
        let couch = try CouchHTTP(sharedAgent())
        let attachments = "{\"a.txt\":{\"content_type\":\"text/plain\",\"data\":\"aGVsbG8=\"},\"b \\\"c\\\"\":{\"content_type\":\"image/png\",\"data\":\"\"}}"
        let revision = try await couch.ok("PUT", "/main/cup", "{\"n\":1,\"_attachments\":\(attachments)}", status: 201)["rev"]?.asString ?? ""
        try await couch.ok("PUT", "/main/plain", "{\"n\":2}", status: 201)
        try await couch.ok("PUT", "/main/_design/parted", "{\"views\":{}}", status: 201)
        let asked = """
            {"docs":[{"id":"cup"},{"id":"plain"},{"id":"plain","rev":"1-00"},{"id":"plain","rev":"1-x"},{"id":"none"},{"id":"_wrong"},{"rev":"1-00"},
             {"id":"_design/parted"},{"id":"_local/mark"}]}
            """
        let parts = try await parts(asked, "revs=true")
        let wrong = "application/json; error=\"true\""
        let types = parts.map { String(($0.field("Content-Type") ?? "").prefix { $0 != "b" }) }
        #expect(types == ["multipart/related; ", "application/json"] + Array(repeating: wrong, count: 5) + ["application/json", wrong], "\(parts)")
        try #require(parts.count == 9)
        #expect(parts[0].field("X-Doc-Id") == "cup" && parts[0].field("X-Rev-Id") == revision, "\(parts[0])")
        let inner = try Self.parts(of: parts[0].text, parts[0].field("Content-Type") ?? "")
        try #require(inner.count == 3, "\(inner)")
        let document = try inner[0].json
        #expect(document["n"] == 1 && document["_revisions"]?["start"] == 1, "\(inner)")
        #expect(document["_attachments"]?["a.txt"]?["follows"] == true && document["_attachments"]?["a.txt"]?["length"] == 5, "\(document.text)")
        #expect(inner[1].text == "hello" && inner[1].field("Content-Length") == "5" && inner[1].field("Content-Type") == "text/plain", "\(inner[1])")
        #expect(inner[2].text.isEmpty && inner[2].field("Content-Disposition") == "attachment; filename=\"b \\\"c\\\"\"", "\(inner[2])")
        #expect(try parts[1].json["n"] == 2 && parts[7].json["_id"] == "_design/parted" && parts[1].field("X-Doc-Id") == nil)
        let errors = try parts[2...6].map { try $0.json }
        #expect(errors.map { $0["id"]?.asString } == ["plain", "plain", "none", "_wrong", ""])
        #expect(errors.map { $0["rev"]?.asString } == ["1-00", "1-x", "undefined", "undefined", "1-00"])
        #expect(errors.map { $0["error"]?.asString } == ["not_found", "not_found", "not_found", "illegal_docid", "bad_request"])
        #expect(errors.allSatisfy { $0["reason"]?.asString?.isEmpty == false })
        #expect(try await self.parts("{\"docs\":[]}").isEmpty)
    }

    @Test("attachments are left out if the client has them or wants none, and all leaves of a document come")
    func without() async throws {
        let couch = try CouchHTTP(sharedAgent())
        let document = "{\"_attachments\":{\"a\":{\"content_type\":\"text/plain\",\"data\":\"aGVsbG8=\"}}}"
        let revision = try await couch.ok("PUT", "/main/held", document, status: 201)["rev"]?.asString ?? ""
        for (query, asked) in [
            ("attachments=false", "{\"docs\":[{\"id\":\"held\"}]}"), ("", "{\"docs\":[{\"id\":\"held\"}],\"attachments\":false}"),
            ("attachments=true", "{\"docs\":[{\"id\":\"held\",\"rev\":\"\(revision)\",\"atts_since\":[\"\(revision)\"]}]}"),
        ] {
            let parts = try await parts(asked, query)
            #expect(parts.count == 1 && parts[0].field("Content-Type") == "application/json", "\(query) \(asked): \(parts)")
            #expect(try parts[0].json["_attachments"]?["a"]?["stub"] == true, "\(query) \(asked)")
        }
        let other = "1-\(String(repeating: "f", count: 32))"
        try await couch.ok("PUT", "/main/held?new_edits=false", "{\"_rev\":\"\(other)\"}", status: 201)
        let leaves = try await parts("{\"docs\":[{\"id\":\"held\"}]}", "attachments=true")
        #expect(Set(leaves.map { $0.field("Content-Type")?.hasPrefix("multipart/related") == true }) == [true, false] && leaves.count == 2, "\(leaves)")
    }

    @Test("an id is in the header of its part unchanged, whatever its characters")
    func letters() async throws {
        let couch = try CouchHTTP(sharedAgent())
        let attachments = "\"_attachments\":{\"a\":{\"content_type\":\"text/plain\",\"data\":\"aGVsbG8=\"}}"
        try await couch.ok("POST", "/main", "{\"_id\":\"caf\u{E9} \\\"1\\\"\",\(attachments)}", status: 201)
        let parts = try await parts("{\"docs\":[{\"id\":\"caf\u{E9} \\\"1\\\"\"}]}")
        #expect(parts.map { $0.field("X-Doc-Id") ?? "-" } == ["caf\u{E9} \"1\""], "\(parts)")
    }

    @Test("the content type is the one that the client asks for, and JSON if it accepts that", arguments: [
        ("multipart/mixed", "multipart/mixed"), ("multipart/related", "multipart/related"), ("multipart/related, multipart/mixed;q=0.5", "multipart/mixed"),
        ("multipart/*", "multipart/mixed"), ("application/json, multipart/mixed", "application/json"), ("multipart/mixed, */*;q=0.1", "application/json"),
        ("*/*", "application/json"), ("text/plain", "application/json"),
    ])
    func types(_ accepted: String, _ type: String) async throws {
        let answer = try await get("{\"docs\":[{\"id\":\"none\"}]}", accepting: accepted)
        #expect((answer.header("Content-Type") ?? "").prefix { $0 != ";" } == type, "\(answer)")
        #expect(answer.text.hasPrefix(type == "application/json" ? "{\"results\":[" : "--"), "\(answer)")
    }

    @Test(
        "attachments go out piece by piece: four of 16 MiB in one answer take little memory",
        .disabled(if: getenv("NIGHTJAR_SANITIZER") != nil, "instrumented code keeps what it has given back"))
    func large() async throws {
        let agent = try sharedAgent()
        let couch = try CouchHTTP(agent)
        let size = 16 << 20
        try await couch.ok("PUT", "/main/film/reel", String(repeating: "frame 01", count: size / 8), status: 201, [("Content-Type", "video/mp4")])
        let meter = try Meter(agent)
        let asked = Array(repeating: "{\"id\":\"film\"}", count: 4).joined(separator: ",")
        let answer = try await get("{\"docs\":[\(asked)]}", "attachments=true")
        #expect(answer.body.count > 4 * size && answer.body.suffix(2) == Array("--".utf8)[...])
        let cost = try meter.cost()
        #expect(cost.growth < 2 * size, "\(cost)")
    }
}

import Digests
import Documents
import Encodings
import TestSupport
import Testing

/// What PouchDB and CouchDB's replicator send, in their order and with their peculiarities.
@Suite("Clients of CouchDB replicate with the listener", .agent(Configuration.hub(listener: "couchdb: true"), files: [:]))
struct CouchReplicationTests {
    private let revision = "1-967a00dff5e02add41819138abb3284d"
    private let second = "2-7051cbe5c8faecd085a3fa619e6e6337"

    @Test("PouchDB pushes and pulls")
    func pouch() async throws {
        let couch = try CouchHTTP(sharedAgent())
        // Push.
        #expect(try await couch.ok("GET", "/main/")["db_name"]?.asString == "main")
        let welcome = try await couch.probe.get("/", headers: [("Authorization", "Basic: bm9ib2R5")])
        #expect(try welcome.status == 200 && welcome.json["couchdb"]?.asString == "Welcome")
        #expect(try await couch.problem("GET", "/main/_local/pouch%3D") == "404 not_found")
        let diff = try await couch.ok("POST", "/main/_revs_diff", "{\"mug\":[\"\(revision)\",\"\(second)\"]}")
        #expect(diff["mug"]?["missing"]?.asArray?.count == 2)
        let document = """
            {"docs":[{"_id":"mug","_rev":"\(second)","colour":"blue","_revisions":{"start":2,"ids":["\(second.dropFirst(2))","\(revision.dropFirst(2))"]},
            "_attachments":{"note.txt":{"content_type":"text/plain","digest":"md5-Xr4ilOzQ4PCOq3aQ0qbuaQ==","revpos":2,"data":"aGVsbG8="}}}],"new_edits":false}
            """
        #expect(try await couch.ok("POST", "/main/_bulk_docs", document, status: 201).asArray?.isEmpty == true)
        #expect(try await couch.ok("POST", "/main/_revs_diff", "{\"mug\":[\"\(revision)\",\"\(second)\"]}").asObject?.isEmpty == true)
        let checkpoint = "{\"session_id\":\"s\",\"_id\":\"_local/pouch=\",\"history\":[],\"replicator\":\"pouchdb\",\"version\":1,\"last_seq\":1"
        let saved = try await couch.ok("PUT", "/main/_local/pouch%3D", checkpoint + "}", status: 201)["rev"]?.asString ?? ""
        let stored = try await couch.ok("GET", "/main/_local/pouch%3D")
        #expect(stored["_rev"]?.asString == saved && stored["last_seq"]?.asInt64 == 1 && stored["_id"]?.asString == "_local/pouch=")
        #expect(try await couch.problem("PUT", "/main/_local/pouch%3D", checkpoint + "}") == "409 conflict")
        try await couch.ok("PUT", "/main/_local/pouch%3D", checkpoint + ",\"_rev\":\"\(saved)\"}", status: 201)
        // Pull, and what is the last page of it.
        let page = try await couch.ok("GET", "/main/_changes?style=all_docs&since=0&limit=100")
        let row = try #require(page["results"]?.asArray?.first { $0["id"]?.asString == "mug" })
        #expect(row["changes"]?.asArray?.first?["rev"]?.asString == second)
        let last = page["last_seq"]?.text ?? ""
        #expect(try await !couch.changes("style=all_docs&since=\(last)&limit=100").ids.contains("mug"))
        let got = try await couch.ok("POST", "/main/_bulk_get?revs=true&latest=true", "{\"docs\":[{\"id\":\"mug\",\"rev\":\"\(second)\"}]}")
        let found = got["results"]?.asArray?.first?["docs"]?.asArray?.first?["ok"]
        #expect(found?["_revisions"]?["ids"]?.asArray?.count == 2 && found?["colour"]?.asString == "blue")
        let stub = found?["_attachments"]?["note.txt"]
        #expect(stub?["stub"]?.asBool == true && stub?["digest"]?.asString == "md5-XUFAKrxLKna5cZ2REBfFkg==" && stub?["length"]?.asInt64 == 5)
        let bytes = try await couch.send("GET", "/main/mug/note.txt?rev=\(second)")
        #expect(bytes.text == "hello" && bytes.header("Content-Type") == "text/plain" && bytes.header("ETag") == "\"XUFAKrxLKna5cZ2REBfFkg==\"")
    }

    @Test("CouchDB's replicator pushes, with attachments in parts, and pulls them back")
    func couchDB() async throws {
        let couch = try CouchHTTP(sharedAgent())
        #expect(try await couch.problem("POST", "/_session", "name=a&password=b", [("Content-Type", "application/x-www-form-urlencoded")]).hasPrefix("404"))
        let related = Self.related("cup", second, [revision], boundary: "b1")
        let put = try await couch.send("PUT", "/main/cup?new_edits=false", related, [("Content-Type", "multipart/related; boundary=\"b1\"")])
        #expect(put.status == 201, "\(put)")
        let design = "{\"_id\":\"_design/v\",\"_rev\":\"\(revision)\",\"_revisions\":{\"start\":1,\"ids\":[\"\(revision.dropFirst(2))\"]},\"views\":{}}"
        try await couch.ok("PUT", "/main/_design/v?new_edits=false", design, status: 201)
        #expect(try await couch.ok("GET", "/main/_design/v")["_rev"]?.asString == revision)
        #expect(try await couch.ok("POST", "/main/_revs_diff", "{\"_design/v\":[\"\(revision)\"]}").asObject?.isEmpty == true)
        #expect(try await couch.ok("POST", "/main/_ensure_full_commit", "", status: 201)["instance_start_time"]?.asString == "0")
        let feed = try await couch.ok("GET", "/main/_changes?feed=normal&style=all_docs&since=0&timeout=10000")
        #expect(feed["results"]?.asArray?.contains { $0["id"]?.asString == "cup" } == true)
        let none = try await couch.ok(
            "POST", "/main/_bulk_get?latest=true&revs=true&attachments=false", "{\"revs\":true,\"latest\":true,\"docs\":[],\"attachments\":false}")
        #expect(none["results"]?.asArray?.isEmpty == true)
        let stubs = try await couch.ok(
            "POST", "/main/_bulk_get?latest=true&revs=true&attachments=false",
            "{\"docs\":[{\"id\":\"cup\",\"rev\":\"\(second)\",\"atts_since\":[]}],\"attachments\":false}")
        #expect(stubs["results"]?.asArray?.first?["docs"]?.asArray?.first?["ok"]?["_attachments"]?["a.txt"]?["stub"]?.asBool == true)
        let target = "/main/cup?revs=true&open_revs=%5B%22\(second)%22%5D&latest=true"
        let mixed = try await couch.probe.get(target, headers: [("Accept", "multipart/mixed")])
        #expect(mixed.header("Content-Type")?.hasPrefix("multipart/mixed; boundary=") == true, "\(mixed)")
        for part in ["multipart/related; boundary=", "\"follows\":true", "first bytes", "\r\n\r\n\r\n--", "filename=\"empty\""] {
            #expect(mixed.text.contains(part), "\(part) is not in \(mixed.text)")
        }
        let array = try await couch.ok("GET", target)
        #expect(array.asArray?.first?["ok"]?["_rev"]?.asString == second)
        // A feed without heartbeat ends when nothing comes.
        let end = try await couch.send("GET", "/main/_changes?feed=continuous&style=all_docs&since=now&timeout=200")
        #expect(end.text.hasSuffix(",\"pending\":0}\n") && end.text.contains("{\"last_seq\":"), "\(end)")
    }

    @Test("an attachment that does not match its digest is refused with its document")
    func corrupted() async throws {
        let couch = try CouchHTTP(sharedAgent())
        // Of the bytes that follow, and of others.
        for (digest, status) in [("md5-7JRX0LQBoSjiiYcnoLwnqQ==", 400), ("md5-\(Base64.encode(MD5.hash(Array("first bytes".utf8))))", 201)] {
            let body = Self.related("jug\(status)", second, [revision], boundary: "b1")
                .replacing("\"length\":11,", with: "\"length\":11,\"digest\":\"\(digest)\",")
            let put = try await couch.send("PUT", "/main/jug\(status)?new_edits=false", body, [("Content-Type", "multipart/related; boundary=\"b1\"")])
            #expect(put.status == status, "\(put)")
        }
        #expect(try await couch.problem("GET", "/main/jug400") == "404 not_found")
    }

    @Test("what arrives by replication and cannot be stored here is answered forbidden, so that the replication skips it: other errors make it start over for ever")
    func impossible() async throws {
        let couch = try CouchHTTP(sharedAgent())
        let long = String(repeating: "n", count: 241)
        // One branch more than a document may have.
        var documents = (0..<33).map { n in "{\"_id\":\"bushy\",\"_rev\":\"1-\(n < 16 ? "0" : "")\(String(n, radix: 16))\"}" }
        documents += [
            "{\"_id\":\"\(long)\",\"_rev\":\"1-aa\"}", "{\"_id\":\"odd\",\"_rev\":\"1-x\"}",
            "{\"_id\":\"triggered\",\"_rev\":\"1-aa\",\"_replication_id\":\"a\"}", "{\"_id\":\"good\",\"_rev\":\"1-aa\"}",
        ]
        let request = "{\"new_edits\":false,\"docs\":[\(documents.joined(separator: ","))]}"
        let rows = try await couch.ok("POST", "/main/_bulk_docs", request, status: 201).asArray ?? []
        #expect(rows.map { $0["id"]?.asString ?? "" } == ["bushy", long, "odd", "triggered"], "\(rows)")
        #expect(rows.allSatisfy { $0["error"]?.asString == "forbidden" && $0["reason"]?.asString?.isEmpty == false }, "\(rows)")
        try await couch.ok("GET", "/main/good")
        // As CouchDB's replicator brings a document with attachments.
        #expect(try await couch.problem("PUT", "/main/odd?new_edits=false", "{\"_rev\":\"1-x\"}") == "403 forbidden")
        // Who edits is told what is wrong.
        #expect(try await couch.problem("PUT", "/main/\(long)", "{}") == "400 illegal_docid")
    }

    private static func related(_ id: String, _ revision: String, _ ancestors: [String], boundary: String) -> String {
        let ids = ([revision] + ancestors).map { "\"\($0.dropFirst(2))\"" }.joined(separator: ",")
        let document = """
            {"_id":"\(id)","_rev":"\(revision)","_revisions":{"start":\(ancestors.count + 1),"ids":[\(ids)]},"_attachments":{\
            "a.txt":{"content_type":"text/plain","revpos":2,"length":11,"follows":true},\
            "empty":{"content_type":"text/plain","revpos":2,"length":0,"follows":true}}}
            """
        return "--\(boundary)\r\nContent-Type: application/json\r\n\r\n\(document)\r\n--\(boundary)\r\n"
            + "Content-Disposition: attachment; filename=\"a.txt\"\r\nContent-Length: 11\r\n\r\nfirst bytes\r\n--\(boundary)\r\n\r\n\r\n--\(boundary)--"
    }

    @Test("edits are refused where they do not follow a leaf; conflicts of replications are kept, and each branch can be ended")
    func conflicts() async throws {
        let couch = try CouchHTTP(sharedAgent())
        let first = try await couch.ok("PUT", "/main/tray", "{\"n\":1}", status: 201)["rev"]?.asString ?? ""
        #expect(first.hasPrefix("1-"))
        #expect(try await couch.problem("PUT", "/main/tray", "{\"n\":2}") == "409 conflict")
        let next = try await couch.ok("PUT", "/main/tray?rev=\(first)", "{\"n\":2}", status: 201)["rev"]?.asString ?? ""
        #expect(try await couch.problem("PUT", "/main/tray", "{\"n\":3,\"_rev\":\"\(first)\"}") == "409 conflict")
        let other = "2-ffffffffffffffffffffffffffffffff"
        let branch = "{\"_id\":\"tray\",\"_rev\":\"\(other)\",\"n\":9,\"_revisions\":{\"start\":2,\"ids\":[\"\(other.dropFirst(2))\",\"\(first.dropFirst(2))\"]}}"
        try await couch.ok("POST", "/main/_bulk_docs", "{\"docs\":[\(branch)],\"new_edits\":false}", status: 201)
        let winner = try await couch.ok("GET", "/main/tray?conflicts=true")
        #expect(winner["_rev"]?.asString == other && winner["_conflicts"]?.asArray?.first?.asString == next)
        #expect(try await couch.ok("GET", "/main/tray?open_revs=all").asArray?.count == 2)
        let leaves = try await couch.ok("GET", "/main/_changes?style=all_docs&filter=_doc_ids&doc_ids=%5B%22tray%22%5D")["results"]?.asArray?.first
        #expect(leaves?["changes"]?.asArray?.count == 2)
        try await couch.ok("DELETE", "/main/tray?rev=\(other)")
        let left = try await couch.ok("GET", "/main/tray?conflicts=true")
        #expect(left["_rev"]?.asString == next && left["_conflicts"] == nil)
        try await couch.ok("DELETE", "/main/tray", nil, [("If-Match", "\"\(next)\"")])
        #expect(try await couch.send("GET", "/main/tray").json["reason"]?.asString == "deleted")
        // A document that was deleted starts afresh on top of its tombstone.
        #expect(try await couch.ok("PUT", "/main/tray", "{\"n\":4}", status: 201)["rev"]?.asString?.hasPrefix("4-") == true)
    }
}

import Documents
import TestSupport
import Testing

/// Queries with selectors, as clients of CouchDB and PouchDB send them.
@Suite("Queries of CouchDB's API", .agent(Configuration.hub(databases: ["main", "other", "third", "fourth", "fifth"], listener: "couchdb: true"), files: [:]))
struct FindTests {
    private func find(_ couch: CouchHTTP, _ body: String, _ database: String = "main") async throws -> JSONValue {
        try await couch.ok("POST", "/\(database)/_find", body)
    }

    private func ids(_ answer: JSONValue) -> [String] { (answer["docs"]?.asArray ?? []).compactMap { $0["_id"]?.asString } }

    private func fill(_ couch: CouchHTTP, _ database: String, _ count: Int, _ body: (Int) -> String) async throws {
        let documents = (0..<count).map { "{\"_id\":\"d\($0 < 10 ? "00" : $0 < 100 ? "0" : "")\($0)\",\(body($0))}" }.joined(separator: ",")
        try await couch.ok("POST", "/\(database)/_bulk_docs", "{\"docs\":[\(documents)]}", status: 201)
    }

    @Test("_find finds without an index, in the order of ids or of a sort, in pages, and says that an index would help")
    func scanning() async throws {
        let couch = try CouchHTTP(sharedAgent())
        try await fill(couch, "main", 60) { "\"n\":\((60 - $0) / 2),\"kind\":\"\($0 % 3 == 0 ? "a" : "b")\",\"at\":{\"x\":\($0)}" }
        let first = try await find(couch, "{\"selector\":{\"kind\":\"b\"}}")
        #expect(ids(first).count == 25 && ids(first) == ids(first).sorted() && ids(first).first == "d001")
        #expect(first["warning"]?.asString?.contains("No matching index found") == true)
        #expect(first["docs"]?.asArray?.first?["_rev"]?.asString?.hasPrefix("1-") == true)
        let bookmark = try #require(first["bookmark"]?.asString)
        let second = try await find(couch, "{\"selector\":{\"kind\":\"b\"},\"bookmark\":\"\(bookmark)\"}")
        #expect(ids(second).count == 15 && Set(ids(first) + ids(second)).count == 40)
        let third = try await find(couch, "{\"selector\":{\"kind\":\"b\"},\"bookmark\":\"\(second["bookmark"]?.asString ?? "")\"}")
        #expect(ids(third).isEmpty && third["bookmark"]?.asString == "nil")
        #expect(try await ids(find(couch, "{\"selector\":{},\"limit\":2,\"skip\":3}")) == ["d003", "d004"])
        #expect(try await ids(find(couch, "{\"selector\":{},\"limit\":0}")).isEmpty)
        // A list of no alternatives alone.
        for nothing in ["$or", "$and"] { #expect(try await ids(find(couch, "{\"selector\":{\"\(nothing)\":[]}}")).isEmpty) }
        // Sorted, either way, in pages; those without the field are not part of it.
        try await couch.ok("PUT", "/main/none", "{\"kind\":\"a\"}", status: 201)
        var sorted: [String] = []
        var mark = "null"
        repeat {
            let page = try await find(couch, "{\"selector\":{\"_id\":{\"$gt\":null}},\"sort\":[{\"n\":\"desc\"}],\"limit\":17,\"bookmark\":\(mark)}")
            sorted += ids(page)
            mark = "\"\(page["bookmark"]?.asString ?? "")\""
        } while mark != "\"nil\""
        #expect(sorted.count == 60 && Array(sorted.prefix(3)) == ["d000", "d002", "d001"])
        let fields = try await find(couch, "{\"selector\":{\"at.x\":7},\"fields\":[\"_id\",\"at.x\",\"gone\"],\"execution_stats\":true}")
        #expect(fields["docs"]?.text == "[{\"_id\":\"d007\",\"at\":{\"x\":7}}]")
        #expect(fields["execution_stats"]?["results_returned"]?.asInt64 == 1 && fields["execution_stats"]?["total_docs_examined"]?.asInt64 == 61)
        // Ids that are named are looked up.
        let named = try await find(couch, "{\"selector\":{\"_id\":{\"$in\":[\"d009\",\"d003\",\"zz\"]}},\"execution_stats\":true}")
        #expect(ids(named) == ["d003", "d009"] && named["execution_stats"]?["total_docs_examined"]?.asInt64 == 2 && named["warning"] == nil)
        try await couch.ok("DELETE", "/main/none?rev=\(try await couch.ok("GET", "/main/none")["_rev"]?.asString ?? "")")
        #expect(try await ids(find(couch, "{\"selector\":{\"_id\":\"none\"}}")).isEmpty)
    }

    @Test("an index is made, used, explained, listed and removed")
    func indexes() async throws {
        let couch = try CouchHTTP(sharedAgent())
        try await fill(couch, "other", 200) { "\"n\":\($0),\"kind\":\"k\($0 % 10)\"" }
        let index = "{\"index\":{\"fields\":[\"kind\",\"n\"]},\"ddoc\":\"by\",\"name\":\"kind\"}"
        #expect(try await couch.ok("POST", "/other/_index", index).text == "{\"result\":\"created\",\"id\":\"_design/by\",\"name\":\"kind\"}")
        #expect(try await couch.ok("POST", "/other/_index", index)["result"]?.asString == "exists")
        let partial = "{\"index\":{\"fields\":[\"n\"],\"partial_filter_selector\":{\"kind\":\"k3\"}},\"ddoc\":\"part\"}"
        #expect(try await couch.ok("POST", "/other/_index", partial)["result"]?.asString == "created")
        // All of them are held in memory, for each write.
        let kinds = (0..<2_000).map { "\"k\($0)\"" }.joined(separator: ",")
        let large = "{\"index\":{\"fields\":[\"n\"],\"partial_filter_selector\":{\"kind\":{\"$in\":[\(kinds)]}}},\"ddoc\":\"large\"}"
        let refused = try await couch.send("POST", "/other/_index", large)
        #expect(refused.status == 413 && refused.text.contains("couchdb_index_bytes"), "\(refused)")
        let listed = try await couch.ok("GET", "/other/_index")
        #expect(listed["total_rows"]?.asInt64 == 3 && listed["indexes"]?.asArray?.first?["name"]?.asString == "_all_docs")
        #expect(listed["indexes"]?.asArray?[1]["def"]?.text == "{\"fields\":[{\"kind\":\"asc\"},{\"n\":\"asc\"}]}")

        let query = "\"selector\":{\"kind\":\"k3\",\"n\":{\"$gte\":100}},\"execution_stats\":true"
        let found = try await find(couch, "{\(query),\"limit\":4}", "other")
        #expect(ids(found) == ["d103", "d113", "d123", "d133"] && found["warning"] == nil)
        #expect(found["execution_stats"]?["total_docs_examined"]?.asInt64 == 4 && found["execution_stats"]?["total_keys_examined"]?.asInt64 == 4)
        let next = try await find(couch, "{\(query),\"limit\":40,\"bookmark\":\"\(found["bookmark"]?.asString ?? "")\"}", "other")
        #expect(ids(next).count == 6 && ids(next).first == "d143" && next["execution_stats"]?["total_keys_examined"]?.asInt64 == 6)
        let down = try await find(couch, "{\"selector\":{\"kind\":\"k3\",\"n\":{\"$gt\":null}},\"sort\":[{\"n\":\"desc\"}],\"limit\":2}", "other")
        #expect(ids(down) == ["d193", "d183"] && down["warning"] == nil)
        // Edits are seen at once.
        let revision = try await couch.ok("GET", "/other/d103")["_rev"]?.asString ?? ""
        try await couch.ok("PUT", "/other/d103?rev=\(revision)", "{\"kind\":\"k4\",\"n\":103}", status: 201)
        #expect(try await ids(find(couch, "{\(query),\"limit\":2}", "other")) == ["d113", "d123"])

        func explained(_ more: String) async throws -> JSONValue { try await couch.ok("POST", "/other/_explain", "{\(query)\(more)}") }
        #expect(try await explained("")["index"]?["name"]?.asString == "kind")
        let candidates = try await explained("")["index_candidates"]?.asArray
        #expect(candidates?.first?["analysis"]?["reasons"]?.asArray?.first?["name"]?.asString == "is_partial")
        // Cloudant's client reads no answer that lacks one of these.
        #expect(candidates?.first?["analysis"]?["ranking"] == 1)
        for (part, names) in [
            ("mrargs", ["include_docs", "view_type", "reduce", "direction", "stable"]),
            ("opts", ["bookmark", "conflicts", "execution_stats", "fields", "limit", "partition", "r", "skip", "sort", "stable", "stale", "update", "use_index"]),
        ] {
            let found = try await explained("")[part]
            for name in names { #expect(found?[name] != nil, "\(part) \(name)") }
        }
        #expect(try await explained("")["selector_hints"]?.asArray?.isEmpty == true)
        #expect(try await explained(",\"use_index\":\"_design/part\"")["index"]?["ddoc"]?.asString == "_design/part")
        let other = try await find(couch, "{\(query),\"use_index\":[\"none\",\"x\"]}", "other")
        #expect(other["warning"]?.asString?.contains("_design/none, x was not used") == true && ids(other).count == 9)
        #expect(try await couch.problem("POST", "/other/_find", "{\(query),\"use_index\":\"none\",\"allow_fallback\":false}") == "400 invalid_index")
        #expect(try await couch.problem("POST", "/other/_find", "{\"selector\":{\"x\":1},\"allow_fallback\":false}") == "400 no_usable_index")

        #expect(try await couch.ok("DELETE", "/other/_index/by/json/kind")["ok"]?.asBool == true)
        #expect(try await couch.problem("DELETE", "/other/_index/_design/by/json/kind") == "404 not_found")
        #expect(try await couch.problem("POST", "/other/_find", "{\(query),\"bookmark\":\"\(found["bookmark"]?.asString ?? "")\"}") == "400 invalid_bookmark")
        #expect(try await find(couch, "{\(query)}", "other")["warning"] != nil)
        let gone = try await couch.ok("POST", "/other/_index/_bulk_delete", "{\"docids\":[\"part\",\"_design/none\"]}")
        #expect(gone["success"]?.asArray?.count == 1 && gone["fail"]?.asArray?.first?["error"]?.asString == "not_found")
        #expect(try await couch.ok("GET", "/other/_index")["total_rows"]?.asInt64 == 1)
    }

    @Test("an index can be read as a design document, and two with different names are two")
    func designs() async throws {
        let couch = try CouchHTTP(sharedAgent())
        let first = "{\"index\":{\"fields\":[\"n\",\"kind\"],\"partial_filter_selector\":{\"kind\":\"k3\"}},\"ddoc\":\"by\",\"name\":\"one\"}"
        try await couch.ok("POST", "/fifth/_index", first)
        try await couch.ok("POST", "/fifth/_index", "{\"index\":{\"fields\":[\"n\"]},\"ddoc\":\"by\",\"name\":\"two\"}")
        let design = try await couch.ok("GET", "/fifth/_design/by")
        #expect(design["language"]?.asString == "query" && design["views"]?.asObject?.members.map(\.key) == ["one", "two"])
        #expect(design["views"]?["one"]?["map"]?.text == "{\"fields\":{\"n\":\"asc\",\"kind\":\"asc\"},\"partial_filter_selector\":{\"kind\":{\"$eq\":\"k3\"}}}")
        #expect(design["views"]?["two"]?["options"]?.text == "{\"def\":{\"fields\":[\"n\"]}}")
        #expect(design["_rev"]?.asString?.hasPrefix("1-") == true && design["_revisions"] == nil)
        let third = "{\"index\":{\"fields\":[\"n\"]},\"name\":\"three\"}", fourth = "{\"index\":{\"fields\":[\"n\"]},\"name\":\"four\"}"
        let id = try await couch.ok("POST", "/fifth/_index", third)["id"]?.asString
        #expect(try await couch.ok("POST", "/fifth/_index", fourth)["id"]?.asString != id)
        #expect(try await couch.ok("POST", "/fifth/_index", third)["result"]?.asString == "exists")
        #expect(try await couch.ok("GET", "/fifth/_design_docs")["rows"]?.asArray?.count == 3)
        // What a client stored is no place for one.
        try await couch.ok("PUT", "/fifth/_design/mine", "{\"views\":{}}", status: 201)
        #expect(try await couch.problem("POST", "/fifth/_index", "{\"index\":{\"fields\":[\"n\"]},\"ddoc\":\"mine\"}") == "400 invalid_ddoc_lang")
        try await couch.ok("POST", "/fifth/_index/_bulk_delete", "{\"docids\":[\"by\"]}")
        #expect(try await couch.problem("GET", "/fifth/_design/by") == "404 not_found")
        #expect(try await couch.ok("GET", "/fifth/_design_docs")["rows"]?.asArray?.count == 3)
    }

    @Test("an index finds what a scan of all documents finds", arguments: [UInt64.random(in: 1...(.max))])
    func agreement(seed: UInt64) async throws {
        let couch = try CouchHTTP(sharedAgent())
        var state = seed
        func random(_ count: Int) -> Int {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return Int(state >> 33) % count
        }
        let values = ["null", "true", "0", "1", "2.5", "\"\"", "\"x\"", "\"xy\"", "[]", "[1]", "{}", "{\"c\":1}"]
        try await fill(couch, "third", 150) { "\"i\":\($0)" + ["a", "b"].filter { _ in random(5) > 0 }.map { ",\"\($0)\":\(values[random(values.count)])" }.joined() }
        let selectors = (0..<60).map { _ -> String in
            func part() -> String {
                let name = ["a", "b", "b.c"][random(3)]
                return "{\"\(name)\":{\"\(["$eq", "$lt", "$lte", "$gt", "$gte", "$ne"][random(6)])\":\(values[random(values.count)])}}"
            }
            return ["{\"$and\":[\(part()),\(part())]}", "{\"$not\":\(part())}", part()][random(3)]
        }
        let sort = "\"sort\":[{\"a\":\"desc\"},{\"b\":\"desc\"}]"
        func answers(_ more: String) async throws -> [[String]] {
            var all: [[String]] = []
            for selector in selectors { all.append(try await ids(find(couch, "{\"selector\":\(selector),\"limit\":1000\(more)}", "third"))) }
            return all
        }
        let (before, sortedBefore) = (try await answers(""), try await answers(",\(sort)"))
        for fields in ["[\"a\"]", "[\"a\",\"b\"]", "[\"b.c\"]"] { try await couch.ok("POST", "/third/_index", "{\"index\":{\"fields\":\(fields)}}") }
        let (after, sortedAfter) = (try await answers(""), try await answers(",\(sort)"))
        for (index, selector) in selectors.enumerated() {
            #expect(before[index] == after[index].sorted(), "seed \(seed): \(selector)")
            #expect(sortedBefore[index] == sortedAfter[index], "seed \(seed), sorted: \(selector)")
        }
    }

    @Test("an invalid query is refused with a message, and nesting and sizes are limited", arguments: [
        ("{}", "400 missing_required_key"), ("[]", "400 bad_request"), ("{\"selector\":1}", "400 invalid_selector_json"),
        ("{\"selector\":{},\"limit\":-1}", "400 invalid_non_neg_integer"), ("{\"selector\":{},\"limit\":\"5\"}", "400 invalid_non_neg_integer"),
        ("{\"selector\":{},\"sort\":\"a\"}", "400 invalid_sort_json"), ("{\"selector\":{},\"sort\":[{\"a\":\"asc\"},{\"b\":\"desc\"}]}", "400 unsupported_mixed_sort"),
        ("{\"selector\":{},\"sort\":[{\"a\":\"up\"}]}", "400 invalid_sort_dir"), ("{\"selector\":{},\"fields\":[1]}", "400 invalid_field"),
        ("{\"selector\":{},\"bookmark\":\"x\"}", "400 invalid_bookmark"), ("{\"selector\":{},\"frob\":1}", "400 invalid_key"),
        ("{\"selector\":{\"a\":{\"$regex\":\"(?=x)\"}}}", "400 bad_arg"), ("{\"selector\":{\"a\":{\"$x\":1}}}", "400 invalid_operator"),
        ("{\"selector\":{},\"use_index\":5}", "400 invalid_index_name"), ("{\"selector\":{},\"conflicts\":1}", "400 invalid_boolean"),
    ])
    func refusals(body: String, problem: String) async throws {
        #expect(try await CouchHTTP(sharedAgent()).problem("POST", "/fourth/_find", body) == problem)
    }

    @Test("hostile selectors and definitions cost little and say why")
    func hostility() async throws {
        let couch = try CouchHTTP(sharedAgent())
        func nested(_ levels: Int) -> String { String(repeating: "{\"$not\":", count: levels) + "{\"a\":1}" + String(repeating: "}", count: levels) }
        let deep = try await couch.send("POST", "/fourth/_find", "{\"selector\":\(nested(60))}")
        #expect(deep.status == 400 && deep.text.contains("selector_depth"))
        let deeper = try await couch.send("POST", "/fourth/_find", "{\"selector\":\(nested(5_000))}")
        #expect(deeper.status == 400 && deeper.text.contains("depth = 100"))
        let long = "{\"selector\":{\"a\":\"\(String(repeating: "x", count: 1 << 18))\"}}"
        #expect(try await couch.send("POST", "/fourth/_find", long).text.contains("couchdb_find_bytes"))
        for index in ["{}", "{\"fields\":[]}", "{\"fields\":[\"a\"],\"partial_filter_selector\":{\"$x\":1}}", "{\"fields\":[\(Array(repeating: "\"a\"", count: 40).joined(separator: ","))]}"] {
            #expect(try await couch.problem("POST", "/fourth/_index", "{\"index\":\(index)}").hasPrefix("400 "), "\(index)")
        }
        #expect(try await couch.problem("POST", "/fourth/_index", "{\"index\":{\"fields\":[\"a\"]},\"type\":\"text\"}") == "400 invalid_index")
        #expect(try await couch.problem("POST", "/fourth/_index", "{\"index\":{\"fields\":[\"a\"]},\"name\":\"\"}") == "400 invalid_empty_string")
        #expect(try await couch.problem("GET", "/fourth/_find").hasPrefix("405"))
    }

    @Test("the cost of a selector on many documents is limited, and reported with a message")
    func budget() async throws {
        let couch = try CouchHTTP(sharedAgent())
        let list = Array(repeating: "1", count: 4_000).joined(separator: ",")
        // Each of them costs less than one document may.
        try await fill(couch, "fourth", 60) { _ in "\"l\":[\(list)]" }
        let question = "{\"selector\":{\"l\":{\"$all\":[\((1...990).map { "\(-$0)" }.joined(separator: ","))]}}}"
        #expect(try await couch.send("POST", "/fourth/_find", question.replacing("{\"l\":", with: "{\"_id\":\"d001\",\"l\":")).status == 200)
        let found = try await couch.send("POST", "/fourth/_find", question)
        #expect(found.status == 400 && found.text.contains("selector_request_steps = 200000000"), "\(found)")
        // A feed has begun by then, and ends.
        let feed = try await couch.ok("POST", "/fourth/_changes?filter=_selector", question)
        #expect(feed["reason"]?.asString?.contains("selector_request_steps") == true && feed["last_seq"] == nil, "\(feed)")
        let lines = try await couch.send("POST", "/fourth/_changes?filter=_selector&feed=continuous", question)
        #expect(lines.text.hasPrefix("{\"error\":") && lines.text.contains("selector_request_steps"), "\(lines)")
        let events = try await couch.send("POST", "/fourth/_changes?filter=_selector&feed=eventsource", question)
        #expect(events.text.hasPrefix("event: error\ndata: {\"error\":"), "\(events)")
        // By an index as well.
        try await couch.ok("POST", "/fourth/_index", "{\"index\":{\"fields\":[\"l\"]},\"ddoc\":\"lists\"}")
        let indexed = try await couch.ok("POST", "/fourth/_find", question.replacing("{\"$all\":", with: "{\"$gt\":null,\"$all\":"))
        #expect(indexed["reason"]?.asString?.contains("selector_request_steps") == true, "\(indexed)")
    }

    @Test("a document that takes too much to be matched is left out, and the query says so")
    func tooMuch() async throws {
        let couch = try CouchHTTP(sharedAgent())
        let many = Array(repeating: "0", count: 400_000).joined(separator: ",")
        try await couch.ok("POST", "/fourth/_bulk_docs", "{\"docs\":[{\"_id\":\"t1\",\"w\":[\(many)]},{\"_id\":\"t2\",\"w\":\"wide\"}]}", status: 201)
        func isOther(_ answer: JSONValue) -> Bool {
            answer["docs"]?.asArray?.compactMap { $0["_id"] } == ["t2"] && answer["warning"]?.asString?.contains("selector_field_bytes") == true
        }
        let question = "{\"selector\":{\"w\":{\"$regex\":\"^wide\"}}}"
        let scanned = try await couch.ok("POST", "/fourth/_find", question)
        #expect(isOther(scanned), "\(scanned.text.prefix(500))")
        let projected = try await couch.ok("POST", "/fourth/_find", "{\"selector\":{\"_id\":{\"$in\":[\"t1\",\"t2\"]}},\"fields\":[\"_id\",\"w\"]}")
        #expect(isOther(projected), "\(projected.text.prefix(500))")
        // In a feed it is one too many rather than one that the client never learns of.
        let feed = try await couch.ok("POST", "/fourth/_changes?filter=_selector", question)
        let passed = feed["results"]?.asArray?.compactMap { $0["id"]?.asString } ?? []
        #expect(passed.contains("t1") && passed.contains("t2"), "\(feed.text.prefix(500))")
        for id in ["t1", "t2"] {
            let rev = try await couch.ok("GET", "/fourth/\(id)")["_rev"]?.asString ?? ""
            try await couch.ok("DELETE", "/fourth/\(id)?rev=\(rev)")
        }
    }

    @Test("filter=_selector narrows a feed")
    func changes() async throws {
        let couch = try CouchHTTP(sharedAgent())
        try await couch.ok("POST", "/fourth/_bulk_docs", "{\"docs\":[{\"_id\":\"s1\",\"v\":1},{\"_id\":\"s2\",\"v\":2}]}", status: 201)
        let feed = try await couch.ok("POST", "/fourth/_changes?filter=_selector&include_docs=true", "{\"selector\":{\"v\":{\"$gt\":1}}}")
        #expect(feed["results"]?.asArray?.compactMap { $0["doc"]?["_id"]?.asString } == ["s2"])
        #expect(try await couch.problem("GET", "/fourth/_changes?filter=_selector") == "400 bad_request")
        #expect(try await couch.problem("POST", "/fourth/_changes?filter=_selector", "{\"selector\":{\"v\":{\"$x\":1}}}") == "400 invalid_operator")
    }
}

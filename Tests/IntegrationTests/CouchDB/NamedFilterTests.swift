import Documents
import TestSupport
import Testing

/// Filters that the other side names: what they do when they fail, and what they can be given.
@Suite("Filters that clients of CouchDB's API name")
struct NamedFilterTests {
    private static let brittle = "return { push_filter = function(doc)\n  if doc.bad then error('innards') end\n  return true\nend }\n"
    private static let mended = "return { push_filter = function(doc) return true end }\n"

    /// A hub with documents of which the filter fails on `b`.
    private func hub(_ ids: [String]) async throws -> AgentProcess {
        let folder = try TemporaryFolder()
        try folder.write("plugins/brittle.lua", Self.brittle)
        try folder.write(
            "plugins/kinds.lua",
            """
            return {
              params = { kinds = { type = "array", default = {} }, name = { type = "string" } },
              push_filter = function(doc, ctx)
                if ctx.params.name then return doc.name == ctx.params.name end
                for _, kind in ipairs(ctx.params.kinds) do
                  if doc.kind == kind then return true end
                end
                return false
              end,
            }
            """)
        let hub = try await AgentProcess.start(Configuration.hub(listener: "couchdb: true", plugins: true), in: folder)
        for id in ids { try await hub.save(id, id == "b" ? "{\"bad\":true}" : "{\"kind\":\"\(id)\",\"name\":\"[1]\"}") }
        return hub
    }

    @Test("a feed whose named filter fails on its first document is an error, and one that gave rows says how many are left")
    func feeds() async throws {
        let hub = try await hub(["a", "b", "c"])
        let couch = try CouchHTTP(hub)
        let page = try await couch.ok("GET", "/main/_changes?filter=brittle")
        #expect(page["results"]?.asArray?.count == 1 && page["pending"]?.asInt64 == 2, "\(page.text)")
        let last = page["last_seq"]?.text ?? ""
        for feed in ["normal", "longpoll", "continuous", "eventsource"] {
            let answer = try await couch.send("GET", "/main/_changes?filter=brittle&feed=\(feed)&since=\(last)&timeout=200")
            #expect(answer.status == 503 && answer.header("Retry-After") != nil, "\(feed): \(answer)")
            #expect(try answer.json["error"]?.asString == "filter_failed" && !answer.text.contains("innards"), "\(answer)")
        }
        #expect(try await couch.problem("GET", "/main/_changes?filter=brittle&descending=true") == "503 filter_failed")
        let lines = try await couch.send("GET", "/main/_changes?filter=brittle&feed=continuous&heartbeat=1000")
        #expect(lines.status == 200 && lines.text.contains("\"id\":\"a\"") && lines.text.hasSuffix("{\"last_seq\":\(last),\"pending\":2}\n"), "\(lines)")
        try await hub.plugin("brittle", becomes: Self.mended)
        #expect(try await couch.changes("filter=brittle&since=\(last)").ids == ["b", "c"])
    }

    @Test("feeds that use a filter are one entry in the list of plugins")
    func places() async throws {
        let hub = try await hub(["a"])
        let couch = try CouchHTTP(hub)
        let last = try await couch.changes("filter=brittle").last
        async let one = couch.send("GET", "/main/_changes?filter=brittle&feed=longpoll&heartbeat=1000&since=\(last)")
        async let two = couch.send("GET", "/main/_changes?filter=brittle&feed=longpoll&heartbeat=1000&since=\(last)")
        try await eventually("both use it") {
            let list = try await hub.command("plugin", "list").output
            return list.contains("listener edge _changes (2 times)") && !list.contains("_changes, listener edge _changes")
        }
        try await hub.save("c", "{}")
        let answers = try await [one, two]
        #expect(answers.allSatisfy { $0.status == 200 }, "\(answers)")
    }

    @Test("a waiting feed ends when the filter fails on a new document, and reports new documents otherwise")
    func waiting() async throws {
        let hub = try await hub(["a"])
        let couch = try CouchHTTP(hub)
        let last = try await couch.changes("filter=brittle").last
        async let news = couch.ok("GET", "/main/_changes?filter=brittle&feed=longpoll&heartbeat=1000&since=\(last)")
        try await hub.save("c", "{}")
        let told = try await news
        #expect(told["results"]?.asArray?.first?["id"]?.asString == "c", "\(told.text)")
        let next = told["last_seq"]?.text ?? ""
        async let end = couch.send("GET", "/main/_changes?filter=brittle&feed=longpoll&heartbeat=1000&since=\(next)")
        try await hub.save("b", "{\"bad\":true}")
        // Either way, as the request was there before the document or not.
        let answer = try await end
        let json = try answer.json
        #expect(answer.status == 503 || answer.status == 200 && json["last_seq"]?.text == next && json["pending"]?.asInt64 == 1, "\(answer)")
    }

    @Test("a replicator whose source_filter fails there is offline with the reason, and continues by itself when the filter is fixed")
    func continuous() async throws {
        let hub = try await hub(["a", "b", "c"])
        let edge = try await AgentProcess.start(
            Configuration.edge(to: try hub.port("edge"), type: "pull", collection: "{ source_filter: brittle }", scheme: "http"))
        try await edge.waits("offline, since the filter fails") {
            $0["activity"]?.asString == "offline" && $0["error"]?["message"]?.asString?.contains("filter_failed") == true
        }
        try await edge.waits(documents: 1)
        try await hub.plugin("brittle", becomes: Self.mended)
        try await edge.waits(documents: 3)
    }

    @Test("one that runs once ends with the error", arguments: [["b"], ["a", "b"]])
    func once(_ ids: [String]) async throws {
        let hub = try await hub(ids)
        let edge = try await AgentProcess.start(
            Configuration.edge(
                to: try hub.port("edge"), type: "pull", continuous: false, collection: "{ source_filter: brittle }", replicator: "max_attempts: 1",
                scheme: "http"))
        try await edge.waits("stopped with the error") { $0["activity"]?.asString == "stopped" && $0["error"]?["code"]?.asInt64 == 503 }
        let desk = try TemporaryFolder()
        desk.makeFolder("d")
        let outcome = try await Subprocess.run(
            try NightjarExecutable.path(),
            ["replicate", "http://127.0.0.1:\(try hub.port("edge"))/main", "d/copy.nightjar", "--source-filter", "brittle", "--max-attempts", "1"],
            folder: desk.path)
        #expect(outcome.status == 1 && outcome.errors.contains("filter_failed"), "\(outcome)")
    }

    @Test("a list is given to a filter as JSON, and a text that looks like one stays a text where the filter wants a text")
    func lists() async throws {
        let hub = try await hub(["a", "c"])
        let couch = try CouchHTTP(hub)
        #expect(try await couch.changes("filter=kinds&kinds=%5B%22c%22%5D").ids == ["c"])
        #expect(try await couch.changes("filter=kinds&kinds=%5B%22c%22,%22a%22%5D").ids == ["a", "c"])
        #expect(try await couch.changes("filter=kinds&name=%5B1%5D").ids == ["a", "c"])
        // A single text is a list of it.
        #expect(try await couch.changes("filter=kinds&kinds=c").ids == ["c"])
        #expect(try await couch.problem("GET", "/main/_changes?filter=kinds&kinds=%7B%22c%22:1%7D") == "400 bad_request")
        let edge = try await AgentProcess.start(
            Configuration.edge(
                to: try hub.port("edge"), type: "pull", collection: "{ source_filter: { filter: kinds, params: { kinds: [ c ] } } }", scheme: "http"))
        try await edge.waits(documents: 1)
        #expect(try await edge.has("c"))
        #expect(try await hub.stop().status == 0)
    }
}

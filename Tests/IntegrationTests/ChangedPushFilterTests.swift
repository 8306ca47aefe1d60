import Documents
import TestSupport
import Testing

/// What a listener's push filter kept from peers is told of when the filter is another one, whatever the peers speak.
@Suite("A changed push filter of a listener", .serialized)
struct ChangedPushFilterTests {
    private func filter(below limit: String) -> String {
        "return { params = { limit = { type = 'number', default = 5 } }, push_filter = function(doc, ctx) return doc.level < \(limit) end }\n"
    }

    private func hub(port: Int = 0, params: String = "", _ source: String) async throws -> AgentProcess {
        let folder = try TemporaryFolder()
        try folder.write("plugins/level.lua", source)
        return try await AgentProcess.start(configuration(port: port, params: params), in: folder)
    }

    private func configuration(port: Int = 0, params: String = "") -> String {
        Configuration.hub(listener: "couchdb: true\n    push_filter: \(params.isEmpty ? "level" : "{ plugin: level, params: \(params) }")", plugins: true, port: port)
    }

    private func fill(_ hub: AgentProcess) async throws {
        for (id, level) in [("low", 1), ("high", 9), ("low2", 2)] { try await hub.save(id, "{\"level\":\(level)}") }
    }

    @Test("reaches a peer that is connected: a saved script, and other parameters")
    func connected() async throws {
        let port = try freePort()
        let hub = try await hub(port: port, filter(below: "5"))
        let edge = try await AgentProcess.start(Configuration.edge(to: port), in: try TemporaryFolder())
        try await fill(hub)
        try await hub.save("highest", "{\"level\":99}")
        try await hub.save("last", "{\"level\":0}")
        try await eventually("what passes arrives") { try await edge.has("last", in: "main") }
        #expect(try await !edge.has("high", in: "main"))
        #expect(try await hub.command("doc", "why", "main", "high").output.contains("rejects it"))
        try await hub.plugin("level", becomes: filter(below: "ctx.params.limit + 5"))
        try await eventually("what the old version kept back arrives") { try await edge.has("high", in: "main") }
        #expect(try await !edge.has("highest", in: "main"))
        let reloaded = try await hub.reload(configuration(port: port, params: "{ limit: 1000 }"))
        #expect(reloaded.status == 0, "\(reloaded)")
        try await eventually("what the old parameters kept back arrives") { try await edge.has("highest", in: "main") }
        #expect(try await edge.stop().status == 0)
        #expect(try await hub.stop().status == 0)
    }

    @Test("reaches a peer that comes later, when the script was changed while the agent was stopped")
    func stopped() async throws {
        let port = try freePort()
        let hub = try await hub(port: port, filter(below: "5"))
        let edge = try await AgentProcess.start(Configuration.edge(to: port), in: try TemporaryFolder())
        try await fill(hub)
        try await eventually("what passes arrives") { try await edge.has("low2", in: "main") }
        try await edge.isSettled()
        #expect(try await hub.stop().status == 0)
        try hub.folder.write("plugins/level.lua", filter(below: "10"))
        let again = try await AgentProcess.start(try hub.folder.text("nightjar.yaml"), in: hub.folder)
        try await eventually("what the old version kept back arrives") { try await edge.has("high", in: "main") }
        #expect(try await edge.stop().status == 0)
        #expect(try await again.stop().status == 0)
    }

    @Test("a document that it fails on is left out of HTTP feeds and lists, is sent after the fix, and wakes waiting feeds")
    func http() async throws {
        let hub = try await hub(filter(below: "5"))
        let couch = try CouchHTTP(hub)
        try await hub.save("first", "{\"level\":1}")
        try await hub.save("broken", "{\"none\":1}")
        try await hub.save("second", "{\"level\":2}")
        try await hub.save("high", "{\"level\":9}")
        let (ids, last) = try await couch.changes()
        #expect(ids == ["first", "second"])
        let stream = try await couch.send("GET", "/main/_changes?feed=continuous&timeout=100")
        #expect(stream.text.contains("\"first\"") && stream.text.contains("\"second\"") && !stream.text.contains("\"broken\""), "\(stream.text)")
        // Lists are whole but for that, and say so.
        let list = try await couch.ok("GET", "/main/_all_docs")
        #expect(list["rows"]?.asArray?.compactMap { $0["id"]?.asString } == ["first", "second"])
        #expect(list["warning"]?.asString?.contains("plugin level") == true, "\(list.text)")
        let keys = try await couch.ok("POST", "/main/_all_docs", "{\"keys\":[\"broken\",\"first\",\"high\"]}")["rows"]?.asArray ?? []
        #expect(keys.map { $0["id"]?.asString ?? $0["error"]?.asString ?? "" } == ["held", "first", "not_found"])
        let found = try await couch.ok("POST", "/main/_find", "{\"selector\":{\"_id\":{\"$gt\":null}}}")
        #expect(found["docs"]?.asArray?.compactMap { $0["_id"]?.asString } == ["first", "second"])
        #expect(found["warning"]?.asString?.contains("plugin level") == true, "\(found.text)")
        // The operator is told.
        #expect(try await hub.admin.get("/health").text.contains("broken"))
        #expect(try await hub.command("doc", "why", "main", "broken").output.contains("fails on it"))
        // A feed that is already past it waits, and is woken by the fix.
        async let waiting = couch.ok("GET", "/main/_changes?feed=longpoll&timeout=30000&since=\(last)")
        async let streaming = couch.send("GET", "/main/_changes?feed=continuous&timeout=30000&limit=1&since=\(last)")
        try await hub.plugin("level", becomes: "return { push_filter = function(doc) return (doc.level or 0) < 5 end }\n")
        #expect(try await waiting["results"]?.asArray?.compactMap { $0["id"]?.asString } == ["broken"])
        #expect(try await streaming.text.contains("\"broken\""))
        // Also another one, which comes back only now.
        #expect(try await couch.changes("since=\(last)").ids == ["broken"])
        try await hub.plugin("level", becomes: "return { push_filter = function(doc) return true end }\n")
        try await eventually("what was rejected is told of too") { try await couch.changes("since=\(last)").ids == ["broken", "high"] }
        #expect(try await couch.ok("GET", "/main/_all_docs")["warning"] == nil)
        #expect(try await hub.isWell())
        #expect(try await hub.stop().status == 0)
    }
}

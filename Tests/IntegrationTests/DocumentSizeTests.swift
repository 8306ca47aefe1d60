import Documents
import TestSupport
import Testing

/// How large a document may be: where somebody is told of it, and where it is not taken.
@Suite("Sizes of documents")
struct DocumentSizeTests {
    private static func body(_ bytes: Int) -> String { "{\"pad\":\"\(String(repeating: "x", count: bytes - 10))\"}" }

    private static func attention(_ agent: AgentProcess, _ kind: String) async throws -> JSONValue? {
        try await agent.admin.get("/health").json["attention"]?.asArray?.first { $0["kind"]?.asString == kind }
    }

    @Test("a document above warn_document_bytes is stored and reported, and another limit is applied without interruption")
    func warning() async throws {
        let port = try freePort()
        let agent = try await AgentProcess.start(Configuration.hub(database: "{ warn_document_bytes: 2KiB }", port: port))
        let peer = try await Peer.connect(agent)
        try await agent.save("small", Self.body(2_000))
        #expect(try await Self.attention(agent, "documents_large") == nil)
        try await agent.save("large", Self.body(3_000))
        let rev = try await agent.save("larger", Self.body(4_000))
        let line = try await agent.process.line(containing: "document larger of _default._default was stored with 4000 bytes", in: .errors)
        #expect(line.contains("warning") && line.contains("more than warn_document_bytes (2048)") && line.contains("database=main"), "\(line)")
        let told = try #require(try await Self.attention(agent, "documents_large"))
        #expect(told["gravity"] == "attention" && told["subject"] == "database main", "\(told.text)")
        let words = "2 documents stored since the start with more than warn_document_bytes (2048), the largest is document larger of _default._default with 4000 bytes"
        #expect(told["text"]?.asString == words, "\(told.text)")
        #expect(try await agent.admin.get("/health").status == 200)
        #expect(try await agent.metrics().contains("nightjar_large_documents_total{database=\"main\"} 2\n"))
        let removed = try await agent.admin.request("DELETE", "/api/databases/main/documents/larger?rev=\(rev)")
        #expect(removed.status == 200, "\(removed)")
        #expect(try await Self.attention(agent, "documents_large")?["text"]?.asString?.contains("1 document stored") == true)
        let raised = try await agent.reload(Configuration.hub(database: "{ warn_document_bytes: 3KiB }", port: port))
        #expect(raised.status == 0 && raised.output.contains("database main: warn_document_bytes applied") && !raised.output.contains("closed"), "\(raised)")
        #expect(try await Self.attention(agent, "documents_large") == nil)
        try await peer.push("goes-on")
        #expect(try await agent.stop().status == 0)
    }

    @Test("a document above max_document_bytes of its database is not saved, by whatever way, and the answer names the limit")
    func saving() async throws {
        let agent = try await AgentProcess.start(
            Configuration.hub(databases: ["main", "roomy"], listener: "couchdb: true").replacing("main: {}", with: "main: { max_document_bytes: 2KiB }"))
        let (couch, large) = (try CouchHTTP(agent), Self.body(3_000))
        func names(_ text: String) -> Bool { text.contains("max_document_bytes is 2048") && text.contains("nightjar reload") }
        let put = try await agent.put("main", "large", large)
        #expect(put.status == 413 && names(put.text), "\(put)")
        let sent = try await couch.send("PUT", "/main/large", large)
        #expect(sent.status == 413 && names(sent.text), "\(sent)")
        let bulk = try await couch.send("POST", "/main/_bulk_docs", "{\"docs\":[{\"_id\":\"large\",\"pad\":\"\(large.dropFirst(8).dropLast(2))\"},{\"_id\":\"small\"}]}")
        #expect(bulk.status == 201 && names(bulk.text), "\(bulk)")
        let imported = try await agent.command("import", "main", input: .text("{\"_id\":\"large\",\"pad\":\"\(large.dropFirst(8).dropLast(2))\"}\n{\"_id\":\"other\"}\n"))
        #expect(imported.status == 1 && imported.output.contains("1 saved") && names(imported.errors), "\(imported)")
        #expect(try await every(!agent.has("large"), agent.has("small"), agent.has("other")))
        #expect(try await agent.put("roomy", "large", large).status == 201)
        #expect(try await agent.stop().status == 0)
    }

    @Test("a larger document that is pulled is held with the reason, and arrives when a reload raises the limit", arguments: ["ws", "http"])
    func pulling(_ scheme: String) async throws {
        let hub = try await AgentProcess.start(Configuration.hub(listener: "couchdb: true"))
        try await hub.save("film", Self.body(3_000))
        try await hub.save("note", "{}")
        let port = try hub.port("edge")
        func edge(_ limit: String) -> String {
            Configuration.edge(to: port, type: "pull", scheme: scheme).replacing("main: {}", with: "main: { max_document_bytes: \(limit) }")
        }
        let agent = try await AgentProcess.start(edge("2KiB"))
        try await agent.waits("held", is: 1)
        try await eventually("the other document is here") { try await agent.has("note") }
        #expect(try await !agent.has("film"))
        let held = try #require(try await agent.admin.get("/api/replicators/hub/held").json.asArray?.first)
        #expect(held["id"] == "film" && held["cause"] == "size" && held["plugin"]?.isNull == true && held["version"]?.isNull == true, "\(held.text)")
        #expect(held["error"]?.asString?.contains("max_document_bytes is 2048") == true, "\(held.text)")
        let told = try #require(try await Self.attention(agent, "documents_held"))
        #expect(told["text"]?.asString?.contains("1 document held because it is larger than database main takes, such as document film of _default._default") == true, "\(told.text)")
        #expect(told["remedy"]?.asString?.contains("raise max_document_bytes") == true && told["text"]?.asString?.contains("blob cannot") == false, "\(told.text)")
        #expect(try await agent.command("status").output.contains("HELD because a filter failed, it is too large, or a blob cannot"))
        let why = try await agent.command("doc", "why", "main", "film")
        #expect(why.output.contains("larger than this database accepts"), "\(why)")
        // Where it is still too large after a restart it stays held.
        try await agent.post("/api/replicators/hub/stop")
        try await agent.post("/api/replicators/hub/start")
        try await agent.waits("held", is: 1)
        let reload = try await agent.reload(edge("4KiB"))
        #expect(reload.status == 0 && reload.output.contains("replicator hub started"), "\(reload)")
        try await eventually("it is taken") { try await agent.has("film") }
        try await agent.waits("held", is: 0)
        for each in [agent, hub] { #expect(try await each.stop().status == 0) }
    }

    @Test("a document too large for limits.memory is in the status, and comes when the agent starts with more memory", arguments: ["ws", "http"])
    func memory(_ scheme: String) async throws {
        let hub = try await AgentProcess.start(Configuration.hub(listener: "couchdb: true"))
        try await hub.save("film", Self.body(6 << 20))
        try await hub.save("note", "{}")
        let port = try hub.port("edge")
        func edge(_ memory: String) -> String { Configuration.edge(to: port, type: "pull", scheme: scheme, more: "limits: { memory: \(memory) }\n") }
        let folder = try TemporaryFolder()
        let small = try await AgentProcess.start(edge("8MiB"), in: folder)
        try await small.waits("too_large", is: 1)
        #expect(try await small.replicator("hub")["too_large_is_capped"]?.asBool == false)
        let status = try await small.command("status")
        #expect(status.output.contains("hub: too large for this agent when the remote gave them: 1 document; asked for again once it starts with limits: { memory: "), "\(status)")
        // Wherever it is named, it is the same value.
        let value = try #require(status.output.firstMatch(of: /once it starts with (limits: \{ memory: [0-9]+MiB \}) or more; nightjar replicator hub held lists them\n/)?.1)
        _ = try await small.process.line(containing: "set \(value) here", in: .errors)
        #expect(try await small.command("doc", "why", "main", "film").output.contains("set \(value) here"))
        #expect(try await Self.attention(small, "documents_not_taken")?["remedy"]?.asString?.hasPrefix("set \(value) here") == true)
        let held = try await small.command("replicator", "hub", "held")
        #expect(held.output.contains("film") && held.output.contains("set \(value) here"), "\(held)")
        let told = try #require(try await Self.attention(small, "documents_not_taken"))
        #expect(told["subject"] == "replicator hub, memory" && told["gravity"] == "attention", "\(told.text)")
        #expect(told["text"]?.asString?.hasPrefix("1 document of the remote not taken: ") == true && told["text"]?.asString?.hasSuffix("such as document film of _default._default") == true, "\(told.text)")
        #expect(told["remedy"]?.asString?.hasPrefix("set limits: { memory: ") == true, "\(told.text)")
        #expect(try await small.stop().status == 0)
        // The next run knows it, too.
        let again = try await AgentProcess.start(edge("8MiB"), in: folder)
        try await again.waits("too_large", is: 1)
        let why = try await again.command("doc", "why", "main", "film")
        #expect(why.status == 0 && why.output.contains("pull: refused_here: ") && why.output.contains("limits: { memory"), "\(why)")
        #expect(try await again.stop().status == 0)
        let large = try await AgentProcess.start(edge("64MiB"), in: folder)
        // From the first moment on, nothing says that the limit is too small.
        #expect(try await large.replicator("hub")["too_large"]?.asInt64 == 0)
        #expect(try await Self.attention(large, "documents_not_taken") == nil)
        try await eventually("it is taken") { try await large.has("film") }
        try await large.waits("asked_again", is: 0)
        for each in [large, hub] { #expect(try await each.stop().status == 0) }
    }

    @Test("a document too large for a listener's limits.memory is refused by name to a peer that pulls, and its operator reads it all the same")
    func listenerMemory() async throws {
        let (port, folder) = (try freePort(), try TemporaryFolder())
        func hub(_ memory: String) async throws -> AgentProcess {
            try await AgentProcess.start(Configuration.hub(more: "limits: { memory: \(memory) }\n", port: port), in: folder)
        }
        let large = try await hub("64MiB")
        try await large.save("film", Self.body(6 << 20))
        try await large.save("note", "{}")
        #expect(try await large.stop().status == 0)
        let small = try await hub("8MiB")
        let edge = try await AgentProcess.start(Configuration.edge(to: port, type: "pull"))
        try await eventually("the other one comes") { try await edge.has("note") }
        let told = try await eventually("the hub tells of it") { try await Self.attention(small, "documents_refused") }
        #expect(told["text"]?.asString?.contains("1 document that peers asked for and did not get, such as film of main") == true, "\(told.text)")
        #expect(told["remedy"]?.asString?.contains("set limits: { memory: ") == true, "\(told.text)")
        let why = try await edge.admin.get("/api/databases/main/why/film").json["replicators"]?.asArray?.first?["pull"]
        #expect(why?["text"]?.asString?.contains("limits.memory (8388608) of the agent that sends it has no room") == true, "\(why?.text ?? "")")
        #expect(try await small.admin.get("/api/databases/main/documents/film").text.utf8.count > 6 << 20)
        #expect(try await small.command("export", "main", "out.jsonl").status == 0)
        #expect(try await small.stop().status == 0)
        let raised = try await hub("64MiB")
        try await eventually("it comes") { try await edge.has("film") }
        for each in [edge, raised] { #expect(try await each.stop().status == 0) }
    }

    @Test("a document above it that is pushed is refused by name: both sides tell of it, and it goes once the limit is raised")
    func pushing() async throws {
        let port = try freePort()
        let hub = try await AgentProcess.start(Configuration.hub(database: "{ max_document_bytes: 2KiB }", port: port))
        let agent = try await AgentProcess.start(Configuration.edge(to: port, type: "push"))
        try await agent.save("film", Self.body(3_000))
        try await agent.save("note", "{}")
        try await agent.waits("refused", is: 1)
        try await eventually("the other document is there") { try await hub.has("note") }
        let refused = try #require(try await agent.admin.get("/api/replicators/hub/refused").json.asArray?.first)
        #expect(refused["id"] == "film" && refused["status"]?.asInt64 == 413, "\(refused.text)")
        #expect(refused["reason"]?.asString?.contains("max_document_bytes is 2048") == true, "\(refused.text)")
        // The reader would look for it in this agent's configuration.
        #expect(refused["reason"]?.asString?.contains("a setting of the peer's") == true, "\(refused.text)")
        let told = try await eventually("the hub tells of it") { try await Self.attention(hub, "documents_not_taken") }
        #expect(told["text"]?.asString?.contains("1 document refused as too large, such as film of main") == true, "\(told.text)")
        let why = try await hub.admin.get("/api/databases/main/why/film").json
        #expect(why["document"]?["state"] == "not_here" && why["listeners"]?.asArray?.first?["not_taken"]?["state"] == "not_accepted", "\(why.text)")
        #expect(try await hub.reload(Configuration.hub(database: "{ max_document_bytes: 4KiB }", port: port)).status == 0)
        try await agent.isSettled()
        try await agent.post("/api/replicators/hub/retry-refused")
        try await eventually("it is taken") { try await hub.has("film") }
        for each in [agent, hub] { #expect(try await each.stop().status == 0) }
    }

    @Test("a hub names the memory that the largest of the refused documents needs, whichever came first")
    func largest() async throws {
        let hub = try await AgentProcess.start(Configuration.hub(more: "limits: { memory: 8MiB }\n"))
        let agent = try await AgentProcess.start(Configuration.edge(to: try hub.port("edge"), type: "push"))
        for (id, size) in [("a", 2 << 20), ("b", 6 << 20), ("c", 3 << 20)] { try await agent.save(id, Self.body(size)) }
        try await agent.waits("refused", is: 3)
        let told = try await eventually("the hub tells of all") {
            try await Self.attention(hub, "documents_not_taken").flatMap { $0["text"]?.asString?.contains("3 documents refused as too large, such as b of main") == true ? $0 : nil }
        }
        #expect(told["text"]?.asString?.contains("limits: { memory: 49MiB }") == true, "\(told.text)")
        #expect(told["remedy"]?.asString?.hasPrefix("set limits: { memory: 49MiB } here, or more, and restart the agent") == true, "\(told.text)")
        for each in [agent, hub] { #expect(try await each.stop().status == 0) }
    }

    @Test("a body for which a hub will never have room is refused for good, with the limit and what to set, also by a hub that has just started")
    func neverFits() async throws {
        let hub = try await AgentProcess.start(Configuration.hub(listener: "couchdb: true", more: "limits: { memory: 8MiB }\n"))
        let answer = try await CouchHTTP(hub).send("PUT", "/main/film", Self.body(6 << 20))
        #expect(answer.status == 413 && answer.text.contains("limits.memory (8388608)") && answer.text.contains("limits: { memory: 49MiB }"), "\(answer)")
        #expect(try await hub.stop().status == 0)
    }
}

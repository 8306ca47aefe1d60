import Documents
import Encodings
import TestSupport
import Testing

/// Attachments that are too large for one who pulls over HTTP.
@Suite("Held attachments")
struct HeldAttachmentTests {
    @Test("a document with an attachment above max_blob_bytes is held over HTTP as over WebSocket, and comes when the limit is raised")
    func limit() async throws {
        let hub = try await AgentProcess.start(Configuration.hub(listener: "couchdb: true"))
        let port = try hub.port("edge")
        let couch = try CouchHTTP(hub)
        let data = Base64.encode(Array("twenty bytes of film".utf8))
        let attachments = "{\"reel\":{\"content_type\":\"text/plain\",\"data\":\"\(data)\"}}"
        try await couch.ok("PUT", "/main/film", "{\"n\":1,\"_attachments\":\(attachments)}", status: 201)
        try await couch.ok("PUT", "/main/note", "{}", status: 201)
        func edge(_ limit: Int) -> String {
            Configuration.edge(to: port, type: "pull", scheme: "http", more: "limits: { max_blob_bytes: \(limit) }\n")
        }
        let agent = try await AgentProcess.start(edge(10))
        try await agent.waits("held", is: 1)
        try await eventually("the other document is here") { try await agent.has("note") }
        #expect(try await !agent.has("film"))
        let held = try #require(try await agent.admin.get("/api/replicators/hub/held").json.asArray?.first)
        #expect(held["cause"] == "blob" && held["plugin"]?.isNull == true, "\(held.text)")
        #expect(held["error"]?.asString?.contains("limits: { max_blob_bytes } is 10") == true, "\(held.text)")
        let told = try #require(try await agent.admin.get("/health").json["attention"]?.asArray?.first { $0["kind"] == "documents_held" })
        #expect(told["text"]?.asString?.contains("such as document film of _default._default") == true, "\(told.text)")
        let reload = try await agent.reload(edge(20))
        #expect(reload.status == 0 && reload.output.contains("limits.max_blob_bytes applied"), "\(reload)")
        try await eventually("it is taken") { try await agent.has("film") }
        try await agent.waits("held", is: 0)
        for each in [agent, hub] { #expect(try await each.stop().status == 0) }
    }

    @Test("a pull filter keeps large attachments off the line, over HTTP as over WebSocket, and another version lets them through", arguments: ["http", "ws"])
    func filtered(_ scheme: String) async throws {
        let hub = try await AgentProcess.start(Configuration.hub(listener: "couchdb: true"))
        let couch = try CouchHTTP(hub)
        for (name, text) in [("film", String(repeating: "reel ", count: 2_000)), ("note", "short")] {
            let attachments = "{\"data\":{\"content_type\":\"text/plain\",\"data\":\"\(Base64.encode(Array(text.utf8)))\"}}"
            try await couch.ok("PUT", "/main/\(name)", "{\"_attachments\":\(attachments)}", status: 201)
        }
        let folder = try TemporaryFolder()
        func plugin(_ most: Int) -> String {
            "return { pull_filter = function(doc) return doc._attachments.data.length <= \(most) end }\n"
        }
        try folder.write("plugins/small.lua", plugin(100))
        let configuration = Configuration.edge(
            to: try hub.port("edge"), type: "pull", collection: "{ pull_filter: small }", plugins: true, scheme: scheme)
        let agent = try await AgentProcess.start(configuration, in: folder)
        try await eventually("the small one is here") { try await agent.has("note") }
        try await agent.waits("the other is rejected") { $0["rejected"]?.asInt64 == 1 && $0["activity"] == "idle" }
        #expect(try await agent.replicator("hub")["blob_bytes_received"]?.asInt64 == 5)
        try await agent.plugin("small", becomes: plugin(100_000))
        try await eventually("it comes") { try await agent.has("film") }
        try await agent.waits("all of it") { $0["blob_bytes_received"]?.asInt64 == 10_005 }
        for each in [agent, hub] { #expect(try await each.stop().status == 0) }
    }
}

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
}

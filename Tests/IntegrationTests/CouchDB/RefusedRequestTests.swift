import Documents
import TestSupport
import Testing

/// What a hub with little memory tells its operator of documents that clients of CouchDB's API send and that it has no room for.
@Suite("Requests of CouchDB's API that are too large")
struct RefusedRequestTests {
    private static func attention(_ agent: AgentProcess) async throws -> [JSONValue] {
        try await agent.admin.get("/health").json["attention"]?.asArray?.filter { $0["kind"] == "documents_not_taken" } ?? []
    }

    /// More than half of the memory, of which less than an eighth is used for what is not counted: what is refused is too large, and not put off.
    private static let pad = String(repeating: "x", count: 26 << 20)

    private static func start() async throws -> AgentProcess {
        try await AgentProcess.start(Configuration.hub(listener: "couchdb: true", more: "limits: { memory: 48MiB }\n"))
    }

    @Test("a document that is too large as a replicated one is told of, although its sender gets 403")
    func replicated() async throws {
        let hub = try await AgentProcess.start(Configuration.hub(database: "{ max_document_bytes: 2KiB }", listener: "couchdb: true"))
        let document = "{\"_rev\":\"1-0123456789abcdef0123456789abcdef\",\"pad\":\"\(String(repeating: "x", count: 3_000))\"}"
        #expect(try await CouchHTTP(hub).send("PUT", "/main/film?new_edits=false", document).status == 403)
        #expect(try await Self.attention(hub).first?["text"]?.asString?.contains("1 document refused as too large, such as film of main") == true)
        #expect(try await hub.stop().status == 0)
    }

    @Test("a document too large for limits.memory is named in health, doc why and the log, until it is stored", arguments: ["bulk", "post", "put", "replicated put"])
    func named(_ way: String) async throws {
        let hub = try await Self.start()
        let couch = try CouchHTTP(hub)
        let document = "{\"_id\":\"film\",\"pad\":\"\(Self.pad)\"}"
        // The connection may end before all is sent, and with it the answer.
        switch way {
        case "bulk": _ = try? await couch.send("POST", "/main/_bulk_docs", "{\"docs\":[\(document)]}")
        case "post": _ = try? await couch.send("POST", "/main", document)
        case "put": _ = try? await couch.send("PUT", "/main/film", document)
        default: _ = try? await couch.send("PUT", "/main/film?new_edits=false", "{\"_rev\":\"1-0123456789abcdef0123456789abcdef\",\"pad\":\"\(Self.pad)\"}")
        }
        let told = try await eventually("health tells of it") { try await Self.attention(hub).first }
        #expect(told["text"]?.asString?.contains("1 document refused as too large, such as film of main from 127.0.0.1: ") == true, "\(told.text)")
        #expect(told["text"]?.asString?.contains("half of limits.memory (50331648)") == true && told["text"]?.asString?.contains("limits: { memory: 70MiB }") == true, "\(told.text)")
        #expect(try await hub.admin.get("/health").status == 200)
        _ = try await hub.process.line(containing: "document film of _default._default refused in a push from a peer", in: .errors)
        let why = try await hub.command("doc", "why", "main", "film")
        #expect(why.output.contains("not_accepted: 127.0.0.1 pushed it, and it was refused as too large"), "\(why)")
        try await couch.ok("POST", "/main/_bulk_docs", "{\"docs\":[{\"_id\":\"film\"}]}", status: 201)
        #expect(try await Self.attention(hub).isEmpty)
        #expect(try await hub.stop().status == 0)
    }

    @Test("a request that does not say in time which documents it has is counted, with who sent it")
    func unnamed() async throws {
        let hub = try await Self.start()
        let couch = try CouchHTTP(hub)
        for _ in 0..<2 { _ = try? await couch.send("POST", "/main/_bulk_docs", "{\"docs\":[{\"pad\":\"\(Self.pad)\",\"_id\":\"film\"}]}") }
        let told = try await eventually("health tells of both") { try await Self.attention(hub).first { $0["text"]?.asString?.hasPrefix("2 requests") == true } }
        #expect(told["text"]?.asString?.contains("a client that tries again counts each time") == true, "\(told.text)")
        #expect(told["subject"] == "listener edge, requests for main _default._default", "\(told.text)")
        #expect(told["text"]?.asString?.contains("refused as too large, most recently from 127.0.0.1") == true, "\(told.text)")
        _ = try await hub.process.line(containing: "a request with documents for _default._default refused, and none of them stored", in: .errors)
        let why = try await hub.command("doc", "why", "main", "film")
        #expect(why.output.contains("requests_refused: 2 requests with documents of this collection refused as too large"), "\(why)")
        #expect(try await hub.stop().status == 0)
    }
}

import Documents
import TestSupport
import Testing

@Suite struct BlobCommandTests {
    private static let missing = "sha1-AAAAAAAAAAAAAAAAAAAAAAAAAAA="

    private func document(_ digest: String, length: Int = 7) -> String {
        "{\"photo\":{\"@type\":\"blob\",\"digest\":\"\(digest)\",\"length\":\(length),\"content_type\":\"text/plain\"}}"
    }

    @Test func bytesGoInAndComeOutAndTravel() async throws {
        let hub = try await AgentProcess.start(Configuration.plain)
        let edge = try await AgentProcess.start(
            Configuration.plain + "replicators:\n" + Configuration.replicator("hub", to: "ws://127.0.0.1:\(try hub.port("edge"))/main"))
        let put = try await edge.command("blob", "put", "main", input: .text("nightly"))
        #expect(put.status == 0, "\(put)")
        let digest = try #require(put.lines.first)
        #expect(try await edge.command("blob", "get", "main", digest).output == "nightly")
        #expect(try await edge.command("blob", "list", "main", "--json").json == [["digest": .string(digest), "length": 7, "referenced": false]])
        #expect(try await edge.put("main", "d", document(digest)).status == 201)
        #expect(try await edge.command("blob", "list", "main").output == "\(digest)\t7\treferenced\n")
        try await eventually("the document arrives with its bytes") { try await hub.get("main", "d").status == 200 }
        #expect(try await hub.command("blob", "get", "main", digest).output == "nightly")

        let refused = try await edge.command("doc", "put", "main", "e", document(Self.missing))
        #expect(refused.status == 1 && refused.errors.contains(Self.missing) && refused.errors.contains("blob put"), "\(refused)")
        #expect(try await edge.get("main", "e").status == 404)
        // Policies decide by the length, and peers refuse a false one.
        let short = try await edge.command("doc", "put", "main", "f", document(digest, length: 3))
        #expect(short.status == 1 && short.errors.contains("has 7 bytes, and its document says 3"), "\(short)")
        let lines = try await edge.command("import", "main", input: .text("{\"_id\":\"g\",\(document(digest, length: 3).dropFirst())\n"))
        #expect(lines.status == 1 && lines.errors.contains("has 7 bytes, and its document says 3"), "\(lines)")
        #expect(try await edge.command("blob", "get", "main", Self.missing).status == 1)
        #expect(try await edge.command("blob", "get", "main", "md5-x").errors.contains("not a blob digest"))
    }

    @Test func anAlteredBlobIsNamedBeforeAByteIsGiven() async throws {
        let agent = try await AgentProcess.start(Configuration.plain)
        let bytes = String(repeating: "the bytes of a photo ", count: 20_000)
        let digest = try #require(try await agent.command("blob", "put", "main", input: .text(bytes)).lines.first)
        #expect(try await agent.put("main", "d", document(digest, length: bytes.utf8.count)).status == 201)
        let name = "data/main.nightjar/blobs/\(try BlobDigest(digest).hex)"
        var altered = try agent.folder.read(name)
        altered[altered.count - 5] ^= 1
        try agent.folder.write(name, bytes: altered)
        let get = try await agent.command("blob", "get", "main", digest)
        #expect(get.status == 1 && get.output == "" && get.errors.contains("the bytes of blob \(digest) were altered on disk"), "\(get.errors)")
        let export = try await agent.command("export", "main", agent.folder.path("all.jsonl"), "--blobs", agent.folder.path("out"))
        #expect(export.status == 1 && export.errors.contains("were altered on disk") && export.errors.contains("nightjar blob put"), "\(export)")
        let exported = try BlobDigest(digest).hex
        #expect(agent.folder.exists("all.jsonl") && !agent.folder.exists("out/\(exported)"))
        #expect(try await agent.command("blob", "put", "main", input: .text(bytes)).status == 0)
        #expect(try await agent.command("blob", "get", "main", digest).output == bytes)
        #expect(try await agent.command("export", "main", agent.folder.path("all.jsonl"), "--blobs", agent.folder.path("out")).status == 0)
        #expect(try await agent.stop().status == 0)
    }

    @Test func withoutAnAgentAndAboveTheLimit() async throws {
        let agent = try await AgentProcess.start(Configuration.plain + "limits: { max_blob_bytes: 1000 }\n")
        let large = try await agent.command("blob", "put", "main", input: .text(String(repeating: "x", count: 2_000)))
        #expect(large.status == 1 && large.errors.contains("1000"), "\(large)")
        #expect(try await agent.command("blob", "list", "main").output == "")
        _ = try await agent.stop()
        let put = try await agent.command("blob", "put", "main", input: .text("here"))
        #expect(put.status == 0, "\(put)")
        #expect(try await agent.command("blob", "get", "main", try #require(put.lines.first)).output == "here")
    }
}

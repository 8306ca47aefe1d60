import BLIP
import Documents
import NIOCore
import TestSupport
import Testing

/// Files that go away, or change, under a running agent: it says so, and puts nothing else in their place.
@Suite("A database that disappears", .serialized)
struct LostDatabaseTests {
    @Test("is an error in answers, health and log, and no empty database takes its place")
    func isNotReplaced() async throws {
        let folder = try TemporaryFolder()
        let configuration = Configuration.hub(databases: ["main", "other"])
        let agent = try await AgentProcess.start(configuration, in: folder)
        try await agent.load("before", 50)
        try folder.rename("data/main.nightjar", to: "away")
        let put = try await agent.put("main", "lost", "{}")
        #expect(put.status == 500 && put.text.contains("has disappeared"), "\(put)")
        let health = try await agent.admin.get("/health")
        #expect(health.status == 503 && health.text.contains("main.nightjar/db.sqlite3 has disappeared"), "\(health)")
        #expect(agent.process.errors.contains("main.nightjar/db.sqlite3 has disappeared"))
        try await agent.save("kept", "{}", in: "other")
        #expect(try await agent.stop().status == 0)

        let refused = try await NightjarExecutable.run("run", "--config", folder.path("nightjar.yaml"), folder: folder.path)
        #expect(refused.status == 1 && refused.errors.contains("there was a database"), "\(refused)")
        #expect(!folder.exists("data/main.nightjar/db.sqlite3"))
        try folder.rename("away", to: "data/main.nightjar")
        let again = try await AgentProcess.start(configuration, in: folder)
        #expect(try await again.documents("main") == 50)
        #expect(try await again.isWell())
        #expect(try await again.stop().status == 0)
    }

    @Test("health names its file at once, and no start makes an empty one", arguments: ["gone", "replaced by an empty one"])
    func file(_ how: String) async throws {
        let folder = try TemporaryFolder()
        let configuration = Configuration.hub()
        let agent = try await AgentProcess.start(configuration, in: folder)
        try await agent.load("before", 10)
        let name = "data/main.nightjar/db.sqlite3"
        for file in [name, name + "-wal", name + "-shm"] { try folder.rename(file, to: "away" + file.suffix(4)) }
        if how != "gone" { try folder.write(name, bytes: []) }
        // Before anybody writes.
        #expect(try await unreadable(agent).contains("main.nightjar/db.sqlite3 has disappeared"))
        let put = try await agent.put("main", "lost", "{}")
        #expect(put.status == 500 && put.text.contains("has disappeared"), "\(put)")
        #expect(try await agent.stop().status == 0)
        let refused = try await NightjarExecutable.run("run", "--config", folder.path("nightjar.yaml"), folder: folder.path)
        #expect(refused.status == 1 && refused.errors.contains("is missing or empty, but there was a database"), "\(refused)")
        for file in [name, name + "-wal", name + "-shm"] where folder.exists("away" + file.suffix(4)) { try folder.rename("away" + file.suffix(4), to: file) }
        let again = try await AgentProcess.start(configuration, in: folder)
        #expect(try await again.documents("main") == 10)
        #expect(try await again.admin.get("/health").status == 200)
        #expect(try await again.stop().status == 0)
    }

    @Test("a blob whose file was altered is given to nobody, and named until a peer has sent it again")
    func alteredBlob() async throws {
        let agent = try await AgentProcess.start(Configuration.hub())
        let photo = String(repeating: "a photo of many bytes ", count: 1_000)
        let peer = try await Peer.connect(agent)
        try await peer.push("photo", blob: photo)
        let digest = BlobDigest.of(Array(photo.utf8))
        let name = "data/main.nightjar/blobs/\(digest.hex)"
        var bytes = try agent.folder.read(name)
        bytes[bytes.count - 1] ^= 1
        try agent.folder.write(name, bytes: bytes)

        func ask(_ peer: Peer) async throws -> IncomingReply {
            try await peer.ask(OutgoingRequest(profile: "getAttachment", properties: ["digest": digest.text, "docID": "photo"]))
        }
        // A reply that has begun cannot be taken back: the connection ends, and the peer comes again.
        let closed = await #expect(throws: PeerClosed.self) { _ = try await ask(peer) }
        #expect(closed?.code == 4001)
        #expect(try await unreadable(agent).contains("the bytes of blob \(digest.text) were altered on disk: remove "))
        let other = try await Peer.connect(agent)
        try await other.push("again", blob: photo)
        #expect(try await agent.admin.get("/health").status == 200)
        #expect(String(buffer: try await ask(other).body) == photo)
        #expect(try await agent.stop().status == 0)
    }

    @Test("nor is a part of it, wherever in the file it is")
    func partOfAlteredBlob() async throws {
        let agent = try await AgentProcess.start(Configuration.hub())
        let couch = try CouchHTTP(agent)
        let photo = String(repeating: "a photo of many bytes ", count: 20_000)
        try await couch.ok("PUT", "/main/photo/file", photo, status: 201, [("Content-Type", "text/plain")])
        func part(_ range: String) async throws -> HTTPProbe.Answer {
            try await couch.send("GET", "/main/photo/file", nil, [("Range", "bytes=\(range)")])
        }
        let right = try await part("220002-220006")
        #expect(right.status == 206 && right.text == "photo", "\(right)")
        let digest = BlobDigest.of(Array(photo.utf8))
        let name = "data/main.nightjar/blobs/\(digest.hex)"
        var bytes = try agent.folder.read(name)
        for index in 220_002..<220_005 { bytes[index] ^= 1 }
        try agent.folder.write(name, bytes: bytes)

        for range in ["220002-220006", "0-9", "-5", "1-"] {
            let answer = try await part(range)
            #expect(answer.status == 500 && answer.text.contains("the attachment cannot be read"), "\(range): \(answer)")
        }
        #expect(try await unreadable(agent).contains("the bytes of blob \(digest.text) were altered on disk: remove "))
        let peer = try await Peer.connect(agent)
        try await peer.push("again", blob: photo)
        #expect(try await part("220002-220006").text == "photo")
        #expect(try await agent.admin.get("/health").status == 200)
        #expect(try await agent.stop().status == 0)
    }

    /// What health says of files.
    private func unreadable(_ agent: AgentProcess) async throws -> String {
        let health = try await agent.admin.get("/health")
        #expect(health.status == 503, "\(health)")
        let entries = try health.json["attention"]?.asArray?.filter { $0["kind"] == "database_unreadable" } ?? []
        return entries.compactMap { $0["text"]?.asString }.joined(separator: "\n")
    }
}

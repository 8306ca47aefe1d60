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

    @Test("health names the folder of the blobs while it is gone")
    func blobFolder() async throws {
        let agent = try await AgentProcess.start(Configuration.hub())
        try await agent.save("before", "{}")
        try agent.folder.rename("data/main.nightjar/blobs", to: "away")
        #expect(try await unreadable(agent).contains("main.nightjar/blobs"))
        try agent.folder.rename("away", to: "data/main.nightjar/blobs")
        #expect(try await agent.admin.get("/health").status == 200)
        #expect(try await agent.stop().status == 0)
    }

    @Test("a blob whose file was altered is sent to nobody, and named until a peer has sent it again")
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
        // No path is for a peer, and the connection goes on.
        let refused = try await ask(peer).error
        #expect(refused?.code == 404 && refused?.message.contains("is damaged at its sender") == true && refused?.message.contains("blobs/") == false, "\(String(describing: refused))")
        try await peer.push("plain")
        try await isNamed(digest, agent, "document photo of _default._default names it")
        let other = try await Peer.connect(agent)
        try await other.push("again", blob: photo)
        #expect(try await agent.admin.get("/health").status == 200)
        #expect(String(buffer: try await ask(other).body) == photo)
        #expect(try await agent.stop().status == 0)
    }

    @Test("a blob whose file is gone is named once a peer wants it, or the doctor has looked, until it is stored again", arguments: ["peer", "doctor"])
    func goneBlob(_ finder: String) async throws {
        let agent = try await AgentProcess.start(Configuration.hub())
        let photo = String(repeating: "a photo of many bytes ", count: 1_000)
        let peer = try await Peer.connect(agent)
        try await peer.push("photo", blob: photo)
        let digest = BlobDigest.of(Array(photo.utf8))
        try agent.folder.rename("data/main.nightjar/blobs/\(digest.hex)", to: "away")
        if finder == "peer" {
            let reply = try await peer.ask(OutgoingRequest(profile: "getAttachment", properties: ["digest": digest.text, "docID": "photo"]))
            #expect(reply.error?.code == 404, "\(String(describing: reply.error))")
        } else {
            let doctor = try await agent.command("doctor", "--offline")
            #expect(doctor.status == 1 && doctor.output.contains("blob \(digest.text) is not stored"), "\(doctor)")
        }
        let health = try await agent.admin.get("/health")
        let entries = try (health.json["attention"]?.asArray ?? []).filter { $0["text"]?.asString?.contains(digest.text) == true }
        let text = entries.first?["text"]?.asString ?? ""
        #expect(health.status == 503 && entries.count == 1 && entries.first?["kind"] == "documents_damaged", "\(health)")
        #expect(text.contains("is gone") && text.contains("document photo of _default._default names it"), "\(text)")
        #expect(entries.first?["remedy"]?.asString?.contains("nightjar blob put main FILE") == true, "\(health)")
        for command in ["status", "doctor"] {
            let outcome = command == "status" ? try await agent.command("status") : try await agent.command("doctor", "--offline", "--quick")
            #expect(outcome.output.contains(digest.text) && outcome.output.contains("is gone"), "\(outcome)")
        }
        #expect(try await agent.command("blob", "put", "main", input: .text(photo)).status == 0)
        #expect(try await agent.admin.get("/health").status == 200)
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
        try await isNamed(digest, agent, "document photo of _default._default names it")
        let peer = try await Peer.connect(agent)
        try await peer.push("again", blob: photo)
        #expect(try await part("220002-220006").text == "photo")
        #expect(try await agent.admin.get("/health").status == 200)
        #expect(try await agent.stop().status == 0)
    }

    @Test("documents pass one whose blob was altered, both ways, and it follows once nightjar blob put has stored the right bytes")
    func othersPass() async throws {
        let (theirs, ours) = (String(repeating: "a photo of the hub ", count: 5_000), String(repeating: "a photo of the edge ", count: 5_000))
        let hub = try await AgentProcess.start(Configuration.hub())
        let edge = try await AgentProcess.start(Configuration.edge(to: try hub.port("edge")))
        let (there, here) = (try await saveDamaged("theirs", theirs, at: hub), try await saveDamaged("ours", ours, at: edge))
        try await hub.load("hub", 30)
        try await edge.load("edge", 30)
        // Each has its own damaged one.
        for agent in [hub, edge] { try await agent.waits(documents: 61) }
        try await isNamed(there, hub, "document theirs of _default._default names it")
        try await isNamed(here, edge, "document ours of _default._default names it")
        try await eventually("the replicator says which document is held, and which blob it lacks") {
            let entries = try await edge.admin.get("/health").json["attention"]?.asArray ?? []
            let held = entries.first { $0["kind"] == "documents_held" }
            return held?["text"]?.asString?.contains("document theirs") == true && held?["text"]?.asString?.contains(there.text) == true
                && held?["remedy"]?.asString?.contains("nightjar blob put") == true
        }
        for (agent, id, digest) in [(hub, "theirs", there), (edge, "ours", here)] {
            let why = try await agent.command("doc", "why", "main", id).output
            #expect(why.contains(digest.text) && why.contains("nightjar blob put main FILE"), "\(why)")
        }
        // No connection ended for it.
        try await edge.waits("it is connected") { $0["activity"] == "idle" }
        for agent in [edge, hub] { #expect(!agent.process.errors.contains("websocket/4001"), "\(agent.process.errors)") }

        for (agent, bytes) in [(hub, theirs), (edge, ours)] {
            let put = try await agent.command("blob", "put", "main", input: .text(bytes))
            #expect(put.status == 0, "\(put)")
        }
        #expect(try await edge.command("replicator", "hub", "start").status == 0)
        for agent in [hub, edge] { try await agent.waits(documents: 62) }
        try await eventually("nothing is the matter") { try await every(hub.admin.get("/health").status == 200, edge.admin.get("/health").status == 200) }
        for agent in [edge, hub] { #expect(try await agent.stop().status == 0) }
    }

    @Test("clients of CouchDB are told before the first byte, and get all other documents")
    func alteredAttachment() async throws {
        let agent = try await AgentProcess.start(Configuration.hub(listener: "couchdb: true"))
        let couch = try CouchHTTP(agent)
        let photo = String(repeating: "a photo of many bytes ", count: 20_000)
        let digest = BlobDigest.of(Array(photo.utf8))
        try await couch.ok("PUT", "/main/photo/file", photo, status: 201, [("Content-Type", "text/plain")])
        try await couch.ok("PUT", "/main/plain", "{}", status: 201)
        let name = "data/main.nightjar/blobs/\(digest.hex)"
        var bytes = try agent.folder.read(name)
        bytes[bytes.count - 1] ^= 1
        try agent.folder.write(name, bytes: bytes)
        for (target, accepted) in [
            ("/main/photo/file", "application/json"), ("/main/photo?attachments=true", "application/json"),
            ("/main/photo?attachments=true", "multipart/related"),
        ] {
            let answer = try await couch.probe.get(target, headers: [("Accept", accepted)])
            #expect(answer.status == 500 && answer.text.contains("attachment") && !answer.text.contains("blobs/"), "\(target): \(answer)")
        }
        let asked = "{\"docs\":[{\"id\":\"photo\"},{\"id\":\"plain\"}]}"
        func bulk() async throws -> [JSONValue] {
            try await couch.ok("POST", "/main/_bulk_get?attachments=true", asked)["results"]?.asArray?.compactMap { $0["docs"]?.asArray?.first } ?? []
        }
        let found = try await bulk()
        #expect(found.count == 2 && found[0]["error"]?["error"] == "internal_server_error" && found[1]["ok"] != nil, "\(found)")
        let rows = try await couch.ok("GET", "/main/_all_docs?include_docs=true&attachments=true")["rows"]?.asArray ?? []
        let row = rows.first { $0["id"] == "photo" }
        #expect(rows.count == 2 && row?["doc"]?["_attachments"]?["file"]?["stub"] == true, "\(rows)")
        let leaves = try await couch.ok("GET", "/main/photo?open_revs=all&attachments=true").asArray ?? []
        #expect(leaves.count == 1 && leaves[0]["missing"] != nil, "\(leaves)")
        let mixed = try await couch.probe.get("/main/photo?open_revs=all", headers: [("Accept", "multipart/mixed")])
        #expect(mixed.status == 200 && mixed.text.contains("\"missing\"") && mixed.text.hasSuffix("--"), "\(mixed)")
        let parts = try await couch.probe.request(
            "POST", "/main/_bulk_get", headers: [("Accept", "multipart/mixed"), ("Content-Type", "application/json")], body: Array(asked.utf8))
        #expect(parts.status == 200 && parts.text.contains("error=\"true\"") && parts.text.contains("\"_id\":\"plain\""), "\(parts)")
        #expect(!parts.text.contains("follows") && parts.text.hasSuffix("--"), "\(parts)")

        // A replicator waits for that one, and brings all others.
        let edge = try await AgentProcess.start(Configuration.edge(to: try agent.port("edge"), type: "pull", scheme: "http"))
        try await edge.waits(documents: 1)
        try await agent.load("more", 20)
        try await edge.waits(documents: 21)
        #expect(try await agent.admin.post("/api/databases/main/blobs", photo).status == 201)
        #expect(try await couch.send("GET", "/main/photo/file").text == photo)
        #expect(try await bulk().allSatisfy { $0["ok"] != nil })
        #expect(try await edge.command("replicator", "hub", "start").status == 0)
        try await edge.waits(documents: 22)
        for agent in [edge, agent] { #expect(try await agent.stop().status == 0) }
    }

    @Test(
        "a replicator keeps the document whose blob was altered here, which does not count as refused by the peer, and brings all others; it follows at once when the blob is right",
        arguments: ["ws", "http"], [5_000, 100_000])
    func alteredPush(_ scheme: String, _ count: Int) async throws {
        let hub = try await AgentProcess.start(Configuration.hub(listener: "couchdb: true"))
        let edge = try await AgentProcess.start(Configuration.edge(to: try hub.port("edge"), type: "push", scheme: scheme))
        // Inside of its JSON, or as a part behind it.
        let photo = String(repeating: "a photo of many bytes ", count: count)
        let digest = try await saveDamaged("photo", photo, at: edge)
        try await edge.load("edge", 20)
        try await hub.waits(documents: 20)
        try await isNamed(digest, edge, "document photo of _default._default names it")
        try await edge.waits("the document is held") { $0["held"]?.asInt64 == 1 && $0["refused"]?.asInt64 == 0 }
        let health = try await edge.admin.get("/health").text
        #expect(!health.contains("documents_refused") && !health.contains("documents_held"), "\(health)")
        let held = try await edge.admin.get("/api/replicators/hub/held").text
        #expect(held.contains("photo") && held.contains("the blob \(digest.text) of the document is damaged here"), "\(held)")
        #expect(try await edge.command("blob", "put", "main", input: .text(photo)).status == 0)
        // Long before what is refused is offered again.
        try await eventually("the document is there", within: .seconds(20)) { try await hub.documents("main") == 21 }
        try await edge.waits("nothing is held") { $0["held"]?.asInt64 == 0 }
        for agent in [edge, hub] { #expect(try await agent.stop().status == 0) }
    }

    /// Stores a blob and a document that names it, and has the disk alter the blob.
    private func saveDamaged(_ id: String, _ bytes: String, at agent: AgentProcess) async throws -> BlobDigest {
        let digest = BlobDigest.of(Array(bytes.utf8))
        #expect(try await agent.admin.post("/api/databases/main/blobs", bytes).status == 201)
        let name = "data/main.nightjar/blobs/\(digest.hex)"
        var file = try agent.folder.read(name)
        for index in 10..<14 { file[index] ^= 1 }
        try agent.folder.write(name, bytes: file)
        try await agent.save(id, "{\"file\":{\"@type\":\"blob\",\"digest\":\"\(digest.text)\",\"length\":\(file.count)}}")
        return digest
    }

    /// Health and status name the blob, the document and the remedy in one entry.
    private func isNamed(_ digest: BlobDigest, _ agent: AgentProcess, _ document: String) async throws {
        let entry = try await eventually("the altered blob is named") { () async throws -> JSONValue? in
            let health = try await agent.admin.get("/health")
            let entries = try (health.json["attention"]?.asArray ?? []).filter { entry in
                ["documents_damaged", "database_unreadable"].contains { entry["kind"]?.asString == $0 } && entry["text"]?.asString?.contains(digest.text) == true
            }
            return health.status == 503 && entries.count == 1 ? entries.first : nil
        }
        let text = entry["text"]?.asString ?? ""
        #expect(entry["kind"] == "documents_damaged" && text.contains("the bytes of blob \(digest.text) were altered on disk") && text.contains(document), "\(text)")
        #expect(entry["remedy"]?.asString?.contains("nightjar blob put main FILE") == true, "\(entry.text)")
        let status = try await agent.command("status", "--json").output
        #expect(status.contains(digest.text) && status.contains("nightjar blob put main FILE"), "\(status)")
    }

    /// What health says of files.
    private func unreadable(_ agent: AgentProcess) async throws -> String {
        let health = try await agent.admin.get("/health")
        #expect(health.status == 503, "\(health)")
        let entries = try health.json["attention"]?.asArray?.filter { $0["kind"] == "database_unreadable" } ?? []
        #expect(entries.allSatisfy { $0["remedy"]?.asString?.isEmpty == false }, "\(health)")
        return entries.compactMap { $0["text"]?.asString }.joined(separator: "\n")
    }
}

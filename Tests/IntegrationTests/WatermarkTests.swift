@testable import TestSupport
import Testing

/// A disk, or a quota, that is nearly used up: less is taken before it is full, and room ends that.
@Suite("Watermarks and quotas", .serialized)
struct WatermarkTests {
    private static let pad = String(repeating: "x", count: 60_000)

    /// Saves until the quota is reached, the last documents small.
    private func fill(_ agent: AgentProcess) async throws -> [(id: String, revision: String)] {
        var saved: [(String, String)] = []
        for pad in [Self.pad, "x"] {
            for number in 0..<1_000 {
                let id = "fill-\(pad.utf8.count)-\(number)-\(UInt64.random(in: 0 ... .max))"
                let answer = try await agent.put("main", id, "{\"pad\":\"\(pad)\"}")
                guard answer.status < 300, let revision = try answer.json["rev"]?.asString else {
                    #expect(answer.status == 507, "\(answer)")
                    break
                }
                saved.append((id, revision))
            }
        }
        return saved
    }

    @Test(
        "from 90 % writes made here are 507, from 95 % peers' too; deletions are accepted; making room ends it at once",
        .enabled("needs the right to mount a tmpfs (unshare -m, mount)") { await SmallDisk.isPossible() })
    func disk() async throws {
        // The next look is far away: what is asked for has the disk looked at.
        let (agent, disk) = try await SmallDisk.start(Configuration.hub(databases: ["main", "roomy"], more: "disk: { interval: 3600 }\n"), database: "main")
        try await agent.save("before", "{}")
        let doomed = try await agent.save("doomed", "{}")
        try disk.fill(percent: 92)
        let told = try await agent.admin.get("/health").json["attention"]?.asArray?.first
        #expect(told?["kind"] == "writes_refused" && told?["remedy"]?.asString?.contains("nightjar compact main") == true, "\(told?.text ?? "")")
        let refused = try await agent.put("main", "after", "{}")
        #expect(refused.status == 507 && refused.text.contains("disk.refuse_writes") && refused.text.contains("insufficient_storage"), "\(refused)")
        #expect(try await agent.admin.post("/api/databases/main/blobs", "bytes").status == 507)
        let cut = try await agent.admin.post("/api/databases/main/import", "{\"_id\":\"imported\"}\n")
        #expect(cut.status == 507, "\(cut)")
        // What peers bring is still taken, and other disks are not concerned.
        let peer = try await Peer.connect(agent)
        #expect(try await peer.ask(Peer.revision("from-peer", "1-aa", "{}")).error == nil)
        try await agent.save("elsewhere", "{}", in: "roomy")

        try disk.fill(percent: 97)
        let health = try await agent.admin.get("/health")
        #expect(health.status == 503 && health.text.contains("database_read_only"), "\(health)")
        let answer = try await peer.ask(Peer.revision("late-peer", "1-aa", "{}"))
        #expect(answer.error?.domain == "HTTP" && answer.error?.code == 503, "\(answer)")
        let gone = try await agent.admin.request("DELETE", "/api/databases/main/documents/doomed?rev=\(doomed)")
        #expect(gone.status == 200, "\(gone)")
        #expect(try await agent.has("before"))

        disk.empty()
        try await agent.save("after", "{}")
        #expect(try await peer.ask(Peer.revision("late-peer", "1-aa", "{}")).error == nil)
        try await eventually("nothing is left") { try await agent.admin.get("/health").json["status"] == "ok" }
        _ = try await agent.process.line(containing: "there is room again", in: .errors)
        try await peer.close()
        #expect(try await agent.stop().status == 0)
    }

    @Test("a blob that no document names any more is removed by itself, and its space is free again")
    func orphans() async throws {
        let folder = try TemporaryFolder()
        let agent = try await AgentProcess.start(Configuration.hub(database: "{ quota: 2MiB }", more: "disk: { interval: 1 }\n"), in: folder)
        let stored = try await agent.admin.post("/api/databases/main/blobs", String(repeating: "x", count: 1_200_000))
        let digest = try #require(try stored.json["digest"]?.asString)
        let revision = try await agent.save("photo", "{\"photo\":{\"@type\":\"blob\",\"digest\":\"\(digest)\",\"length\":1200000}}")
        #expect(try await agent.admin.post("/api/databases/main/blobs", String(repeating: "y", count: 1_200_000)).status == 507)
        _ = try await fill(agent)
        // As if it had come two hours ago.
        let aged = try await Subprocess.run("/bin/sh", ["-c", "touch -d '2 hours ago' \"$0\"/blobs/*", folder.path("data/main.nightjar")])
        #expect(aged.status == 0)
        #expect(try await agent.admin.request("DELETE", "/api/databases/main/documents/photo?rev=\(revision)").status == 200)
        try await eventually("there is room", within: .seconds(150)) {
            try await agent.admin.post("/api/databases/main/blobs", String(repeating: "y", count: 1_000_000)).status == 201
        }
        #expect(try await agent.stop().status == 0)
    }

    @Test("what a database without a quota holds counts blobs that were there before the agent started")
    func heldAtTheStart() async throws {
        let configuration = Configuration.hub()
        @Sendable func held(_ agent: AgentProcess) async throws -> Int64? {
            try await agent.admin.get("/api/status").json["databases"]?.asArray?.first?["held_bytes"]?.asInt64
        }
        let agent = try await AgentProcess.start(configuration)
        for letter in ["x", "y"] {
            #expect(try await agent.admin.post("/api/databases/main/blobs", String(repeating: letter, count: 200_000)).status == 201)
        }
        let before = try #require(try await held(agent))
        #expect(before > 400_000)
        #expect(try await agent.stop().status == 0)
        let again = try await AgentProcess.start(configuration, in: agent.folder)
        let after = try await eventually("the blobs are counted") { try await held(again) }
        #expect((400_000...before + 100_000).contains(after), "\(after), \(before) before")
        let database = try await again.admin.get("/api/status").json["databases"]?.asArray?.first
        #expect(database?["blob_bytes"] == 400_000, "\(database?.text ?? "")")
        let kib = (400_000 + (database?["size_bytes"]?.asInt64 ?? 0) + 1_023) >> 10
        let row = try #require(try await again.command("status").output.split(separator: "\n").first { $0.hasPrefix("main ") })
        #expect(kib < 1_024 && row.hasSuffix(" \(kib) KiB"), "\(row)")
        #expect(try await again.admin.get("/metrics").text.contains("nightjar_database_held_bytes{database=\"main\"} "))
        #expect(try await again.stop().status == 0)
    }

    @Test("a database takes no more than its quota, blobs included; deleting, or a greater quota, ends it")
    func quota() async throws {
        let folder = try TemporaryFolder()
        func configuration(_ quota: String) -> String { Configuration.hub(databases: ["main", "roomy"], listener: "couchdb: true", more: "disk: { interval: 3600 }\n").replacing("main: {}", with: "main: { quota: \(quota) }") }
        let agent = try await AgentProcess.start(configuration("1MiB"), in: folder)
        let blob = try await agent.admin.post("/api/databases/main/blobs", String(repeating: "x", count: 1 << 20))
        #expect(blob.status == 507 && blob.text.contains("do not fit"), "\(blob)")
        // Nobody deletes documents to make room for what has more than all of it.
        #expect(blob.text.contains("will never fit: raise the quota"), "\(blob)")
        // One write that is too large is refused alone: the quota is not reached, and nobody is told so.
        let many = (0..<30).map { "{\"_id\":\"bulk-\($0)\",\"pad\":\"\(Self.pad)\"}" }.joined(separator: ",")
        let bulk = try await CouchHTTP(agent).send("POST", "/main/_bulk_docs", "{\"docs\":[\(many)]}", [("Content-Type", "application/json")])
        #expect(bulk.status == 507 && bulk.text.contains("do not fit"), "\(bulk)")
        #expect(try await agent.admin.get("/health").json["status"] == "ok")
        let held = try await fill(agent)
        let reached = try await agent.admin.get("/health").json["attention"]?.asArray?.first { $0["kind"] == "quota_reached" }
        #expect(reached?["subject"] == "database main" && reached?["text"]?.asString?.hasPrefix("holds ") == true, "\(reached?.text ?? "")")
        #expect(reached?["remedy"]?.asString?.contains("raise its quota") == true, "\(reached?.text ?? "")")
        let databases = try await agent.admin.get("/api/status").json["databases"]?.asArray ?? []
        let full = databases.first { $0["name"] == "main" }
        #expect(full?["quota_bytes"] == 1_048_576 && (900_000...1_200_000).contains(full?["held_bytes"]?.asInt64 ?? 0), "\(full?.text ?? "")")
        #expect(databases.first { $0["name"] == "roomy" }?["quota_bytes"]?.isNull == true)
        #expect(try await agent.admin.get("/metrics").text.contains("nightjar_database_quota_bytes{database=\"main\"} 1048576\n"))
        let table = try await agent.command("status")
        #expect(table.output.contains("OF QUOTA") && table.output.contains(" of 1.0 MiB"), "\(table)")
        let refused = try await agent.put("main", "after", "{}")
        #expect(refused.status == 507 && refused.text.contains("quota of 1 MiB"), "\(refused)")
        // Documents that go make room, whatever the file's size is.
        let couch = try CouchHTTP(agent)
        for (method, target, body) in [
            ("PUT", "/main/couch", "{}"), ("POST", "/main/_bulk_docs", "{\"docs\":[{}]}"), ("PUT", "/main/couch/file", "bytes"),
        ] {
            let answer = try await couch.send(method, target, body, [("Content-Type", "application/json")])
            #expect(answer.status == 507 && answer.text.contains("insufficient_storage"), "\(method) \(target): \(answer)")
        }
        for (id, revision) in held.prefix(5) {
            #expect(try await agent.admin.request("DELETE", "/api/databases/main/documents/\(id)?rev=\(revision)").status == 200)
        }
        try await agent.save("again", "{\"pad\":\"\(String(repeating: "x", count: 60_000))\"}")
        try await couch.ok("PUT", "/main/couch", "{}", status: 201)
        _ = try await fill(agent)
        try await agent.save("elsewhere", "{}", in: "roomy")
        let peer = try await Peer.connect(agent)
        #expect(try await peer.ask(Peer.revision("late-peer", "1-aa", "{}")).error?.code == 503)
        @Sendable func notTaken() async throws -> String? {
            try await agent.admin.get("/health").json["attention"]?.asArray?.first { $0["kind"] == "documents_not_taken" }?["text"]?.asString
        }
        #expect(try await eventually("it is told") { try await notTaken() }.contains("of its quota of 1 MiB"))
        try folder.write("nightjar.yaml", configuration("8MiB"))
        let raised = try await agent.command("reload")
        #expect(raised.status == 0 && raised.output.contains("database main: quota applied") && !raised.output.contains("opened"), "\(raised)")
        // The peer has not come again, and the quota of then is no reason any more.
        let stale = try await notTaken()
        #expect(stale?.contains("such as late-peer") == true && stale?.contains("quota") == false, "\(stale ?? "")")
        #expect(try await peer.ask(Peer.revision("late-peer", "1-aa", "{}")).error == nil)
        try await eventually("nothing waits") { try await notTaken() == nil }
        try await peer.close()
        try await agent.save("after", "{}")
        #expect(try await agent.admin.get("/health").json["status"] == "ok")
        // A smaller one counts at once, too, and none takes everything.
        try folder.write("nightjar.yaml", configuration("1MiB"))
        #expect(try await agent.command("reload").status == 0)
        #expect(try await agent.put("main", "more", "{}").status == 507)
        try folder.write("nightjar.yaml", configuration("1MiB").replacing("{ quota: 1MiB }", with: "{}"))
        #expect(try await agent.command("reload").status == 0)
        try await agent.save("more", "{}")
        #expect(try await agent.stop().status == 0)
    }
}

import Documents
@testable import TestSupport
import Testing

/// A replicator whose own database has no room: its pull waits and says so, its push goes on, and room is all that it needs.
@Suite("A replicator without room", .serialized)
struct SpaceWaitTests {
    private static let pad = String(repeating: "x", count: 50_000)

    private static func edge(_ hub: AgentProcess, _ scheme: String, quota: String = "2MiB") throws -> String {
        Configuration.edge(to: try hub.port("edge"), scheme: scheme, more: "disk: { interval: 1 }\n")
            .replacing("main: {}", with: "main: { quota: \(quota) }")
    }

    @Test("the pull waits, deletions are still pushed, and the space they free is used by itself", arguments: ["ws", "http"])
    func waiting(_ scheme: String) async throws {
        let hub = try await AgentProcess.start(Configuration.hub(listener: "couchdb: true"))
        let agent = try await AgentProcess.start(try Self.edge(hub, scheme))
        for number in 0..<20 { try await agent.save("own-\(number)", "{\"pad\":\"\(Self.pad)\"}") }
        try await agent.isSettled()
        try await hub.load("late", 30, extra: ",\"pad\":\"\(Self.pad)\"")
        try await agent.waits("the pull waits") { $0["pull_waits"]?["code"]?.asInt64 == 507 && $0["activity"] == "idle" }
        let status = try await agent.replicator("hub")
        #expect(status["pull_waits"]?["message"]?.asString?.contains("quota of 2 MiB") == true, "\(status.text)")
        #expect(status["pull_waits"]?["remedy"]?.asString?.contains("make room") == true && status["error"]?.isNull == true, "\(status.text)")
        let health = try await agent.admin.get("/health")
        #expect(health.text.contains("pull_waits_for_room"), "\(health.text)")
        #expect(try await agent.metrics().contains("nightjar_replicator_pull_waits{replicator=\"hub\"} 1\n"))
        // What came and did not fit, and what was not asked for.
        let here = try await agent.revisions()
        let absent = (0..<30).map { "late-\($0)" }.filter { here[$0] == nil }
        try #require(absent.count > 1)
        for id in Set([absent[0], absent[absent.count - 1]]) {
            let why = try await agent.admin.get("/api/databases/main/why/\(id)").json
            let pull = why["replicators"]?.asArray?.first?["pull"] ?? .null
            #expect(pull["state"] == "waiting_for_room" && pull["text"]?.asString?.contains("quota of 2 MiB") == true, "\(pull.text)")
            #expect(pull["remedy"]?.asString?.contains("raise the database's quota") == true && pull["text"]?.asString?.contains("the peer cannot") == false)
            let there = try await hub.admin.get("/api/databases/main/why/\(id)").json
            for peer in there["listeners"]?.asArray?.first?["peers"]?.asArray ?? [] { #expect(peer["state"] != "sent", "\(peer.text)") }
        }
        // What is listed beside what is to be pushed says which way it goes.
        let listed = try await agent.admin.get("/api/replicators/hub/pending").json.asArray ?? []
        #expect(try await agent.replicator("hub")["pending"] == 0 && listed.allSatisfy { $0["direction"] == "pull" }, "\(listed)")
        // Pushed while the pull waits.
        let revisions = try await agent.revisions()
        for number in 0..<20 {
            let revision = try #require(revisions["own-\(number)"])
            #expect(try await agent.admin.request("DELETE", "/api/databases/main/documents/own-\(number)?rev=\(revision)").status == 200)
        }
        try await eventually("the deletions are at the hub") { try await hub.documents("main") == 30 }
        try await agent.waits(documents: 30)
        try await agent.waits("all is well") { $0["pull_waits"]?.isNull == true && $0["activity"] == "idle" && $0["error"]?.isNull == true }
        #expect(try await agent.revisions() == hub.revisions())
        // Reconnecting for what fits again is not an error.
        #expect(!agent.process.errors.contains("http/503: reconnecting"), "\(agent.process.errors)")
        #expect(try await agent.stop().status == 0)
        #expect(try await hub.stop().status == 0)
    }

    @Test("what the hub deletes makes room by itself", arguments: ["ws", "http"])
    func deletions(_ scheme: String) async throws {
        let hub = try await AgentProcess.start(Configuration.hub(listener: "couchdb: true"))
        try await hub.load("many", 60, extra: ",\"pad\":\"\(Self.pad)\"")
        let agent = try await AgentProcess.start(try Self.edge(hub, scheme))
        try await agent.waits("the pull waits") { $0["pull_waits"]?["code"]?.asInt64 == 507 && $0["activity"] == "idle" }
        let here = try await agent.revisions()
        #expect(here.count >= 30)
        for (id, revision) in here.prefix(30) {
            #expect(try await hub.admin.request("DELETE", "/api/databases/main/documents/\(id)?rev=\(revision)").status == 200)
        }
        try await eventually("it has what the hub has") { try await agent.revisions() == hub.revisions() }
        try await agent.waits("all is well") { $0["pull_waits"]?.isNull == true && $0["activity"] == "idle" && $0["error"]?.isNull == true }
        #expect(try await agent.stop().status == 0)
        #expect(try await hub.stop().status == 0)
    }

    @Test("a blob that cannot fit is not downloaded, pushing continues, and the blob arrives when there is room", arguments: ["ws", "http"])
    func blobs(_ scheme: String) async throws {
        let hub = try await AgentProcess.start(Configuration.hub(listener: "couchdb: true"))
        let couch = try CouchHTTP(hub)
        let blob = String((0..<3_000_000).map { _ in "b" })
        let revision = try await couch.ok("PUT", "/main/photo", "{}", status: 201)["rev"]?.asString ?? ""
        try await couch.ok("PUT", "/main/photo/file?rev=\(revision)", blob, status: 201, [("Content-Type", "image/jpeg")])
        let folder = try TemporaryFolder()
        let agent = try await AgentProcess.start(try Self.edge(hub, scheme), in: folder)
        try await agent.waits("the pull waits") { $0["pull_waits"]?["code"]?.asInt64 == 507 && $0["activity"] == "idle" }
        #expect(try await agent.replicator("hub")["blob_bytes_received"]?.asInt64 == 0)
        #expect(try await agent.replicator("hub")["pull_waits"]?["message"]?.asString?.contains("do not fit") == true)
        try await agent.save("own", "{}")
        try await eventually("what is saved here is pushed") { try await hub.has("own") }
        try await hub.save("small", "{}")
        try await eventually("what fits comes") { try await agent.has("small") }
        #expect(try await !agent.has("photo"))
        try folder.write("nightjar.yaml", try Self.edge(hub, scheme, quota: "8MiB"))
        #expect(try await agent.command("reload").status == 0)
        try await eventually("it comes", within: .seconds(60)) { try await agent.has("photo") }
        #expect(try await agent.stop().status == 0)
        #expect(try await hub.stop().status == 0)
    }

    @Test("a peer's blob, or an upload, that is known not to fit is not accepted, and the peer's arrives later")
    func incoming() async throws {
        let folder = try TemporaryFolder()
        let port = try freePort()
        func configuration(_ quota: String) -> String { Configuration.hub(database: "{ quota: \(quota) }", listener: "couchdb: true", port: port) }
        let hub = try await AgentProcess.start(configuration("2MiB"), in: folder)
        let edge = try await AgentProcess.start(Configuration.edge(to: try hub.port("edge"), type: "push"))
        let stored = try await edge.admin.request("POST", "/api/databases/main/blobs", body: [UInt8](repeating: 7, count: 3_000_000))
        let digest = try #require(try stored.json["digest"]?.asString)
        try await edge.save("photo", "{\"photo\":{\"@type\":\"blob\",\"digest\":\"\(digest)\",\"length\":3000000}}")
        try await edge.waits("told that there is no room") { $0["failed"]?.asInt64 ?? 0 > 0 }
        #expect(try await edge.replicator("hub")["blob_bytes_sent"]?.asInt64 == 0)
        let couch = try CouchHTTP(hub)
        let blob = String(repeating: "b", count: 3_000_000)
        let upload = try await couch.send("PUT", "/main/upload/file", blob, [("Content-Type", "text/plain")])
        #expect(upload.status == 507 && upload.text.contains("insufficient_storage"), "\(upload)")
        #expect(try await hub.admin.post("/api/databases/main/blobs", blob).status == 507)
        try await hub.save("small", "{}")
        try folder.write("nightjar.yaml", configuration("8MiB"))
        #expect(try await hub.command("reload").status == 0)
        try await eventually("it comes", within: .seconds(120)) { try await hub.has("photo") }
        #expect(try await edge.stop().status == 0)
        #expect(try await hub.stop().status == 0)
    }
}

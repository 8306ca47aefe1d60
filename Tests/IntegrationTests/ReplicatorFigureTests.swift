import Documents
import Glibc
import TestSupport
import Testing

/// What status and metrics count of a replicator.
@Suite("Figures of a replicator")
struct ReplicatorFigureTests {
    @Test("changes that wait, and bytes of blobs, are in status and metrics")
    func pendingAndBlobs() async throws {
        let hub = try await AgentProcess.start(Configuration.hub())
        let edge = try await AgentProcess.start(Configuration.edge(to: try hub.port("edge")))
        try await edge.connects("hub")
        try await edge.post("/api/replicators/hub/stop")
        try await edge.waits("stopped") { $0["activity"]?.asString == "stopped" }
        let stored = try await edge.admin.request("POST", "/api/databases/main/blobs", body: [UInt8](repeating: 7, count: 300_000))
        let digest = try stored.json["digest"]?.asString ?? ""
        try await edge.save("photo", "{\"photo\":{\"@type\":\"blob\",\"digest\":\"\(digest)\",\"length\":300000}}")
        try await edge.load("n", 4)
        #expect(try await edge.metrics().contains("nightjar_replicator_pending{replicator=\"hub\"} 5\n"))
        // The bodies, and not the blob.
        let bytes = try #require(try await edge.replicator("hub")["pending_bytes"]?.asInt64)
        #expect((50..<1_000).contains(bytes))
        try await edge.waits("their age is known") { $0["oldest_pending_seconds"]?.asInt64 != nil }
        try await eventually("it is in the metrics, and the list") {
            let line = try await edge.metrics().split(separator: "\n").first { $0.hasPrefix("nightjar_replicator_oldest_pending_seconds{replicator=\"hub\"} ") }
            return line?.hasSuffix(" 0") == false
        }
        #expect(try await edge.metrics().contains("nightjar_replicator_pending_bytes{replicator=\"hub\"} \(bytes)\n"))
        try await eventually("and each document has its time") {
            let rows = try await edge.admin.get("/api/replicators/hub/pending").json.asArray ?? []
            return rows.count == 5 && rows.allSatisfy { $0["since"]?.asString?.hasSuffix("Z") == true }
        }
        #expect(try await edge.command("status").output.contains("hub: \(bytes) B to push, the oldest change for "))

        try await edge.post("/api/replicators/hub/start")
        try await eventually("the photo is there") { try await hub.has("photo") }
        try await edge.isSettled()
        // A count is told again for some seconds, since it takes long.
        try await eventually("nothing waits") { try await edge.metrics().contains("nightjar_replicator_pending{replicator=\"hub\"} 0\n") }
        let metrics = try await edge.metrics()
        for line in [
            "nightjar_replicator_sent_blob_bytes_total{replicator=\"hub\"} 300000\n",
            "nightjar_replicator_push_refused{replicator=\"hub\"} 0\n", "nightjar_replicator_checkpoint_refused{replicator=\"hub\"} 0\n",
            "nightjar_replicator_blobs_under_way{replicator=\"hub\",direction=\"push\"} 0\n",
            "nightjar_replicator_blob_bytes_left{replicator=\"hub\",direction=\"push\"} 0\n",
        ] { #expect(metrics.contains(line), "\(line) is not in \(metrics)") }
        let status = try await edge.replicator("hub")
        #expect(status["since"]?.asString != nil && status["activity"]?.asString == "idle")
        // In step with its peer, and counted as Couchbase Lite 1.x counts: from the first change since it was idle.
        try await eventually("the peer is idle") { try await hub.listener("edge")["peers"]?.asArray?.first?["lag_seconds"]?.asInt64 == 0 }
        // On a busy machine it may have been idle in between, or have offered one once more before its acknowledgement was stored.
        let total = try #require(status["progress"]?["total"]?.asInt64)
        let burst = try #require(status["changes_count"]?.asInt64)
        #expect((1...total).contains(burst) && status["completed_changes_count"]?.asInt64 == burst, "\(status.text)")
        try await edge.save("later", "{}")
        try await edge.waits("the next burst counts from zero") {
            $0["changes_count"]?.asInt64 == 1 && $0["completed_changes_count"]?.asInt64 == 1 && $0["progress"]?["total"]?.asInt64 == total + 1
        }
        #expect(status["blob_bytes_sent"]?.asInt64 == 300_000 && status["blobs_under_way"]?.asArray?.isEmpty == true, "\(status.text)")
    }

    @Test("a replicator that is idle is in sync in the metrics, however long nothing has happened")
    func idle() async throws {
        let hub = try await AgentProcess.start(Configuration.hub())
        let edge = try await AgentProcess.start(Configuration.edge(to: try hub.port("edge")))
        try await edge.waits("idle") { $0["activity"]?.asString == "idle" }
        let text = try #require(try await edge.replicator("hub")["last_success_at"]?.asString)
        guard case .at(let last)? = DocumentExpiry(.string(text)) else { throw SupportError("\(text) is not a time") }
        try await eventually("it is another second") { time(nil) > last }
        let line = try await edge.metrics().split(separator: "\n").first { $0.hasPrefix("nightjar_replicator_last_success_seconds{replicator=\"hub\"} ") }
        #expect(line?.split(separator: " ").last.flatMap { Int64($0) }.map { $0 > last } == true, "\(line ?? "")")
    }
}

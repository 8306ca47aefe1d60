@testable import TestSupport
import Testing

/// A disk, or a quota, that is nearly used up: less is taken before it is full, and room ends that.
@Suite("Watermarks and quotas", .serialized)
struct WatermarkTests {
    @Test(
        "from 90 % writes made here are 507, from 95 % peers' too; deleting goes on; room ends it at once",
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

    @Test("a database takes no more than its quota, blobs included; deleting and compacting, or a greater quota, ends it")
    func quota() async throws {
        let folder = try TemporaryFolder()
        func configuration(_ quota: String) -> String { Configuration.hub(databases: ["main", "roomy"], more: "disk: { interval: 3600 }\n").replacing("main: {}", with: "main: { quota: \(quota) }") }
        let agent = try await AgentProcess.start(configuration("1MiB"), in: folder)
        #expect(try await agent.admin.post("/api/databases/main/blobs", String(repeating: "x", count: 1 << 20)).status == 201)
        #expect(try await agent.admin.get("/health").text.contains("quota_reached"))
        let refused = try await agent.put("main", "after", "{}")
        #expect(refused.status == 507 && refused.text.contains("quota of 1 MiB"), "\(refused)")
        try await agent.save("elsewhere", "{}", in: "roomy")
        try folder.write("nightjar.yaml", configuration("8MiB"))
        #expect(try await agent.command("reload").status == 0)
        try await agent.save("after", "{}")
        #expect(try await agent.admin.get("/health").json["status"] == "ok")
        #expect(try await agent.stop().status == 0)
    }
}

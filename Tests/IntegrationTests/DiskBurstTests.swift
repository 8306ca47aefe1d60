import Documents
import Glibc
@testable import TestSupport
import Testing

/// Bursts against a small disk: they end at the marks and not at the end of the disk; and a disk that others have filled leaves room for the way out.
@Suite("Bursts and small disks", .serialized, .enabled("needs the right to mount a tmpfs (unshare -m, mount)") { await SmallDisk.isPossible() })
struct DiskBurstTests {
    private static let pad = String(repeating: "x", count: 100_000)
    /// The next look by time is far away.
    private static let seldom = "disk: { interval: 3600 }\n"

    @Test("documents saved as fast as they go end at 90 %, blobs too, and those that peers push at 95 %")
    func burst() async throws {
        let (agent, disk) = try await SmallDisk.start(Configuration.hub(more: Self.seldom), database: "main", size: "32m")
        let answers = try await withThrowingTaskGroup(of: [Int].self) { group in
            for client in 0..<8 {
                group.addTask {
                    var statuses: [Int] = []
                    for number in 0..<100 where statuses.last != 507 {
                        statuses.append(try await agent.put("main", "burst-\(client)-\(number)", "{\"pad\":\"\(Self.pad)\"}").status)
                    }
                    return statuses
                }
            }
            return try await group.reduce(into: []) { $0 += $1 }
        }
        #expect(Set(answers) == [201, 507] && answers.filter { $0 == 201 }.count > 50, "\(answers)")
        #expect(try disk.percent <= 91)
        for _ in 0..<40 { _ = try await agent.admin.request("POST", "/api/databases/main/blobs", body: [UInt8](repeating: UInt8.random(in: 0...255), count: 300_000)) }
        #expect(try disk.percent <= 91)

        let edge = try await AgentProcess.start(Configuration.edge(to: try agent.port("edge"), type: "push"))
        try await edge.load("pushed", 100, extra: ",\"pad\":\"\(Self.pad)\"")
        try await edge.waits("told that there is no room") { $0["failed"]?.asInt64 ?? 0 > 0 }
        #expect(try disk.percent <= 97)
        #expect(try await agent.isAlive)
        #expect(try await edge.stop().status == 0)
        #expect(try await agent.stop().status == 0)
    }

    @Test("a disk that others have filled: the reserve lets deletions go on, and is made again when there is room")
    func reserve() async throws {
        let (agent, disk) = try await SmallDisk.start(Configuration.hub(more: Self.seldom), database: nil, size: "64m")
        let doomed = try await agent.save("doomed", "{\"pad\":\"\(Self.pad)\"}")
        let file = "\(disk.path)/disk.reserve"
        func isKept() -> Bool { access(file, F_OK) == 0 }
        #expect(isKept())
        try disk.fill()
        // A request for health makes the agent check the disk.
        #expect(try await agent.admin.get("/health").text.contains("database_read_only"))
        #expect(!isKept())
        let refused = try await agent.put("main", "more", "{}")
        #expect(refused.status == 507 && refused.text.contains("make room"), "\(refused)")
        let gone = try await agent.admin.request("DELETE", "/api/databases/main/documents/doomed?rev=\(doomed)")
        #expect(gone.status == 200, "\(gone)")
        disk.empty()
        try await agent.save("more", "{}")
        #expect(isKept())
        #expect(try await agent.stop().status == 0)
    }

    @Test("on a disk without a free byte, the space of deleted documents is freed all the same")
    func compaction() async throws {
        let (agent, disk) = try await SmallDisk.start(Configuration.hub(more: Self.seldom), database: nil, size: "64m")
        var doomed: [(id: String, revision: String)] = []
        for number in 0..<200 { doomed.append(("doomed-\(number)", try await agent.save("doomed-\(number)", "{\"pad\":\"\(Self.pad)\"}"))) }
        // The log is short then, and takes no room that could be used again.
        #expect(try await agent.admin.post("/api/databases/main/compact", "").status == 200)
        try disk.fill()
        #expect(try await agent.admin.get("/health").text.contains("database_read_only"))
        for (id, revision) in doomed {
            let gone = try await agent.admin.request("DELETE", "/api/databases/main/documents/\(id)?rev=\(revision)")
            #expect(gone.status == 200, "\(gone)")
        }
        // What was left of the reserve.
        try disk.fill()
        let compacted = try await agent.admin.post("/api/databases/main/compact", "")
        #expect(compacted.status == 200, "\(compacted)")
        #expect(try disk.percent < 80)
        try await agent.save("more", "{}")
        #expect(try await agent.stop().status == 0)
    }

    @Test("on a disk that others have filled, deletions are not refused at that moment")
    func deletion() async throws {
        let (agent, disk) = try await SmallDisk.start(Configuration.hub(more: Self.seldom), database: nil, size: "64m")
        let doomed = try await agent.save("doomed", "{\"pad\":\"\(Self.pad)\"}")
        #expect(try await agent.admin.post("/api/databases/main/compact", "").status == 200)
        try disk.fill()
        // Nobody has looked at the disk yet.
        #expect(access("\(disk.path)/disk.reserve", F_OK) == 0)
        let gone = try await agent.admin.request("DELETE", "/api/databases/main/documents/doomed?rev=\(doomed)")
        #expect(gone.status == 200, "\(gone)")
        #expect(access("\(disk.path)/disk.reserve", F_OK) != 0)
        #expect(try await agent.stop().status == 0)
    }

    /// With a log longer than the reserve, moving it into the database would take all of the reserve and still not end.
    @Test("on a small disk that others fill right after many writes, one deletion after the other is accepted")
    func log() async throws {
        let (agent, disk) = try await SmallDisk.start(Configuration.hub(more: Self.seldom), database: nil, size: "24m")
        try await agent.load("kept", 4_000, extra: ",\"pad\":\"\(String(repeating: "x", count: 100))\"")
        var doomed: [(id: String, revision: String)] = []
        for number in 0..<50 { doomed.append(("doomed-\(number)", try await agent.save("doomed-\(number)", "{\"n\":\(number)}"))) }
        try disk.fill()
        for (id, revision) in doomed {
            let gone = try await agent.admin.request("DELETE", "/api/databases/main/documents/\(id)?rev=\(revision)")
            #expect(gone.status == 200, "\(gone)")
        }
        #expect(try await agent.stop().status == 0)
    }

    /// Without a reserve nothing is left for the way out: deletions and compaction say so and change nothing, and work once there is room.
    @Test("on a full disk without a reserve, compaction says that it needs room, as often as it is tried, and works once there is some")
    func fullLog() async throws {
        let (agent, disk) = try await SmallDisk.start(Configuration.hub(more: "disk: { interval: 3600, reserve: 0 }\n"), database: nil, size: "24m")
        try await agent.load("kept", 4_000, extra: ",\"pad\":\"\(String(repeating: "x", count: 100))\"")
        let doomed = try await agent.save("doomed", "{\"pad\":\"\(Self.pad)\"}")
        try disk.fill()
        let deletion = "/api/databases/main/documents/doomed?rev=\(doomed)"
        #expect(try await agent.admin.request("DELETE", deletion).status == 507)
        for _ in 0..<2 {
            let compacted = try await agent.admin.post("/api/databases/main/compact", "")
            #expect(compacted.status == 507, "\(compacted)")
            #expect(try await agent.admin.get("/health").text.contains("writes_failing"))
        }
        disk.empty()
        #expect(try await agent.admin.post("/api/databases/main/compact", "").status == 200)
        #expect(try await agent.admin.request("DELETE", deletion).status == 200)
        #expect(try await agent.stop().status == 0)
    }

    @Test("an agent that starts on a full disk with a reserve starts, accepts deletions, and accepts everything once there is room")
    func starting() async throws {
        let folder = try TemporaryFolder()
        let configuration = Configuration.hub(more: "disk: { interval: 1 }\n")
        let first = try await AgentProcess.start(configuration, in: folder)
        let doomed = try await first.save("doomed", "{}")
        #expect(try await first.stop().status == 0)
        try folder.rename("data", to: "seed")
        // The reserve of that disk is of another size than that of this one: it is made as this one's would be.
        let before = """
            cp -r seed/. "$0" && dd if=/dev/zero of="$0/disk.reserve" bs=1048576 count=2 2>/dev/null \\
            && { dd if=/dev/zero of="$0/filler" bs=4096 2>/dev/null; dd if=/dev/zero bs=1 count=4096 2>/dev/null >>"$0/filler"; true; }
            """
        let (process, disk) = try SmallDisk.launch(configuration, database: nil, in: folder, size: "64m", before: before)
        let agent = AgentProcess(process: process, folder: folder, ready: try await process.line(containing: "ready"))
        #expect(try await agent.put("main", "more", "{}").status == 507)
        #expect(try await agent.admin.request("DELETE", "/api/databases/main/documents/doomed?rev=\(doomed)").status == 200)
        disk.empty()
        try await eventually("there is room") { try await agent.put("main", "more", "{}").status == 201 }
        #expect(try await agent.stop().status == 0)
    }
}

import Documents
import Glibc
@testable import TestSupport
import Testing

/// A full file system under each way in: what was acknowledged is there, what was not is refused in words, and room is all that is needed.
@Suite("A full disk and every way of writing", .serialized, .enabled("needs the right to mount a tmpfs (unshare -m, mount)") { await SmallDisk.isPossible() })
struct FullDiskSavingTests {
    private static let configuration = Configuration.hub(listener: "couchdb: true")
    private static let pad = String(repeating: "x", count: 100_000)

    /// Saves until nothing more can be, and gives what was acknowledged.
    private func fill(_ agent: AgentProcess, _ disk: SmallDisk) async throws -> [String] {
        var acknowledged: [String] = []
        try await agent.save("before", "{}")
        try disk.fill()
        for number in 0..<1000 {
            let answer = try await agent.put("main", "until-\(number)", "{\"pad\":\"\(Self.pad)\"}")
            guard answer.status == 201 else { return acknowledged + ["before"] }
            acknowledged.append("until-\(number)")
        }
        throw SupportError("1,000 documents of 100 KB are stored on a full disk")
    }

    /// The ids in a copy of the database's files, as they are at this moment: as after a loss of power.
    private func idsInCopy(_ disk: SmallDisk) async throws -> Set<String> {
        let copy = try TemporaryFolder()
        copy.makeFolder("data")
        let copied = try await Subprocess.run("/bin/sh", ["-c", "cp -r \"$0\" \"$1\" && rm -f \"$1/filler\"", disk.path, copy.path("data/main.nightjar")])
        try #require(copied.status == 0, "\(copied)")
        try copy.write("nightjar.yaml", "data: data\ndatabases: { main: {} }\nlisteners: []\n")
        let export = try await NightjarExecutable.run("export", "main", "--config", copy.path("nightjar.yaml"), folder: copy.path)
        try #require(export.status == 0, "\(export.errors)")
        return Set(try export.output.split(separator: "\n").compactMap { try JSONValue(parsing: Array($0.utf8))["_id"]?.asString })
    }

    @Test("saving, importing and attaching: 507 with a message, nothing that was acknowledged is lost, and making room is all there is to do")
    func saving() async throws {
        let (agent, disk) = try await SmallDisk.start(Self.configuration, database: "main")
        var acknowledged = try await fill(agent, disk)
        let couch = try CouchHTTP(agent)
        let large = "{\"pad\":\"\(Self.pad)\"}"
        let blob = String(repeating: "b", count: 300_000)
        for (method, target, body, type) in [
            ("PUT", "/main/couch", large, "application/json"), ("POST", "/main/_bulk_docs", "{\"docs\":[\(large)]}", "application/json"),
            ("PUT", "/main/couch/file", blob, "text/plain"),
        ] {
            let answer = try await couch.send(method, target, body, [("Content-Type", type)])
            #expect(answer.status == 507 && answer.text.contains("insufficient_storage") && answer.text.contains("no room"), "\(method) \(target): \(answer)")
        }
        for (method, target, body) in [("PUT", "/api/databases/main/documents/admin", large), ("POST", "/api/databases/main/blobs", blob)] {
            let answer = try await agent.admin.request(method, target, body: Array(body.utf8))
            #expect(answer.status == 507 && answer.text.contains("no room"), "\(method) \(target): \(answer)")
        }
        let lines = (0..<20).map { "{\"_id\":\"imported-\($0)\",\"pad\":\"\(Self.pad)\"}\n" }.joined()
        let imported = try await agent.command("import", "main", input: .text(lines))
        #expect(imported.status == 1 && imported.errors.contains("no room") && imported.errors.contains("go on with line 1"), "\(imported)")
        #expect(try await agent.get("main", "before").status == 200)
        #expect(Set(acknowledged).isSubset(of: try await idsInCopy(disk)))

        disk.empty()
        #expect(try await agent.command("import", "main", input: .text(lines)).status == 0)
        acknowledged += (0..<20).map { "imported-\($0)" }
        let revision = try await couch.ok("PUT", "/main/couch", large, status: 201)["rev"]?.asString ?? ""
        try await couch.ok("PUT", "/main/couch/file?rev=\(revision)", blob, status: 201, [("Content-Type", "text/plain")])
        #expect(try await couch.send("GET", "/main/couch/file").text == blob)
        #expect(Set(acknowledged + ["couch"]).isSubset(of: try await idsInCopy(disk)))
        try await eventually("all is well") { try await agent.isWell() }
        #expect(try await agent.stop().status == 0)
    }

    @Test("an incoming blob is not accepted, its document waits, and both arrive when there is room")
    func blobs() async throws {
        let (agent, disk) = try await SmallDisk.start(Self.configuration, database: "main")
        try await agent.save("before", "{}")
        let edge = try await AgentProcess.start(Configuration.edge(to: try agent.port("edge"), type: "push"))
        try disk.fill()
        let stored = try await edge.admin.request("POST", "/api/databases/main/blobs", body: [UInt8](repeating: 7, count: 2 << 20))
        let digest = try #require(try stored.json["digest"]?.asString)
        try await edge.save("photo", "{\"photo\":{\"@type\":\"blob\",\"digest\":\"\(digest)\",\"length\":\(2 << 20)}}")
        try await edge.waits("told that there is no room") { $0["failed"]?.asInt64 ?? 0 > 0 || $0["error"]?.isNull == false }
        #expect(try await agent.get("main", "photo").status == 404)
        #expect(try await agent.has("before"))
        disk.empty()
        // By itself, however long it waits between two tries.
        try await eventually("the document arrives", within: .seconds(120)) { try await agent.has("photo") }
        let got = try await agent.admin.get("/api/databases/main/blobs/\(digest)")
        #expect(got.status == 200 && got.body.count == 2 << 20)
        #expect(try await edge.stop().status == 0)
        #expect(try await agent.stop().status == 0)
    }

    @Test("an agent that starts on a full disk says so, and the next start has everything")
    func starting() async throws {
        let folder = try TemporaryFolder()
        let first = try await AgentProcess.start(Self.configuration, in: folder)
        try await first.load("before", 200)
        #expect(try await first.stop().status == 0)
        try folder.rename("data/main.nightjar", to: "seed")
        // The tail of the disk is taken byte by byte. Then one start, room, and the other start, as a supervisor would have it.
        let before = """
            cp -r seed/. "$0" && { dd if=/dev/zero of="$0/filler" bs=4096 2>&3; dd if=/dev/zero bs=1 count=4096 2>&3 >>"$0/filler"; true; } 3>/dev/null \\
            && { "$@"; echo "ended with $?" >&2; rm "$0/filler"; }
            """
        let (process, _) = try SmallDisk.launch(Self.configuration, database: "main", in: folder, size: "8m", before: before)
        let ready = try await process.line(containing: "ready")
        #expect(process.errors.contains("no room for") && process.errors.contains("ended with 1"), "\(process.errors)")
        #expect(process.errors.contains("the disk is full, and the database cannot be opened"), "\(process.errors)")
        let agent = AgentProcess(process: process, folder: folder, ready: ready)
        #expect(try await agent.documents("main") == 200)
        try await agent.save("late", "{\"pad\":\"\(Self.pad)\"}")
        #expect(try await agent.isWell())
        #expect(try await agent.stop().status == 0)
    }
}

import Glibc
@testable import TestSupport
import Testing

/// A file system that is full: writes fail in words, everything else goes on, and room brings it back.
@Suite("A full disk", .serialized, .enabled("needs the right to mount a tmpfs (unshare -m, mount)") { await SmallDisk.isPossible() })
struct FullDiskTests {
    private static func configuration(_ replicator: String = "") -> String {
        Configuration.hub(databases: ["main", "roomy"], more: replicator)
    }

    @Test("a listener's database: 507 to the operator, 503 to peers, and a push resumes when there is room")
    func receiving() async throws {
        let (agent, disk) = try await SmallDisk.start(Self.configuration(), database: "main")
        try await agent.save("before", "{}")
        let bystander = try await Bystander(agent, database: "roomy")
        try disk.fill()
        let pad = String(repeating: "x", count: 100_000)
        let answer = try await eventually("a write fails") {
            let answer = try await agent.put("main", "too-much-\(UInt64.random(in: 0 ... .max))", "{\"pad\":\"\(pad)\"}")
            return answer.status == 201 ? nil : answer
        }
        #expect(answer.status == 507, "\(answer)")
        #expect(answer.text.contains("no room"), "\(answer)")
        // Peers are told to keep their documents; the connection stays.
        let peer = try await Peer.connect(agent)
        let refused = try await peer.ask(Peer.revision("refused", "1-aa", "{\"pad\":\"\(pad)\"}"))
        #expect(refused.error?.domain == "HTTP")
        #expect(refused.error?.code == 503)
        // An agent that pushes into it waits.
        let edge = try await AgentProcess.start(Configuration.edge(to: try agent.port("edge"), type: "push"))
        try await edge.load("pushed", 50, extra: ",\"pad\":\"\(pad)\"")
        try await edge.waits("told that there is no room") { $0["failed"]?.asInt64 ?? 0 > 0 }
        // Reading goes on, so do other databases, and the process.
        #expect(try await agent.has("before"))
        #expect(try await peer.pull()["before"] != nil)
        try await bystander.goesOn()
        try await agent.save("in-roomy", "{}", in: "roomy")

        disk.empty()
        #expect(try await peer.ask(Peer.revision("refused", "1-aa", "{\"pad\":\"\(pad)\"}")).error == nil)
        try await agent.save("after", "{}")
        // By itself it would try again after half a minute.
        try await edge.post("/api/replicators/hub/stop")
        try await edge.waits("stopped") { $0["activity"]?.asString == "stopped" }
        try await edge.post("/api/replicators/hub/start")
        try await edge.isSettled()
        for n in 0..<50 { #expect(try await agent.has("pushed-\(n)"), "pushed-\(n)") }
        try await peer.close()
        try await bystander.leave()
        #expect(try await edge.stop().status == 0)
        #expect(try await agent.stop().status == 0)
    }

    @Test("a replicator's own database: the pull waits with 507 and resumes by itself")
    func pulling() async throws {
        let hub = try await AgentProcess.start(Configuration.hub())
        let (agent, disk) = try await SmallDisk.start(
            Self.configuration("replicators:\n  - { name: hub, database: main, target: \"ws://127.0.0.1:\(try hub.port("edge"))/main\", type: pull, continuous: true, max_attempt_wait_time: 1 }\n"),
            database: "main")
        try await hub.load("early", 10)
        try await agent.waits(documents: 10)
        try disk.fill()
        let pad = String(repeating: "x", count: 10_000)
        try await hub.load("late", 200, extra: ",\"pad\":\"\(pad)\"")
        try await agent.waits("no room") { $0["pull_waits"]?["code"]?.asInt64 == 507 && $0["activity"] == "idle" }
        let status = try await agent.replicator("hub")
        #expect(status["error"]?.isNull == true)
        #expect(status["pull_waits"]?["domain"]?.asString == "store")
        #expect(status["pull_waits"]?["transient"]?.asBool == true)
        #expect(status["pull_waits"]?["message"]?.asString?.contains("no room") == true)
        #expect(try await agent.isAlive)
        try await agent.save("in-roomy", "{}", in: "roomy")
        #expect(try await hub.isWell())
        disk.empty()
        try await agent.waits(documents: 210)
        try await agent.waits("all is well") { $0["error"]?.isNull == true && $0["pull_waits"]?.isNull == true }
        #expect(try await agent.revisions() == hub.revisions())
        #expect(try await agent.stop().status == 0)
        #expect(try await hub.stop().status == 0)
    }

    @Test("a start without room says so")
    func starting() async throws {
        let folder = try TemporaryFolder()
        let (process, _) = try SmallDisk.launch(Self.configuration(), database: "main", in: folder, size: "8k")
        let end = try await process.wait()
        #expect(end.status == 1, "\(end)")
        #expect(end.errors.contains("no room") || end.errors.contains("No space"), "\(end)")
    }
}

/// A tmpfs that only one agent sees, in a mount namespace of its own; it is gone with the process.
struct SmallDisk {
    /// The folder of the database, as seen from outside.
    let path: String

    /// Whether this machine lets us mount.
    static func isPossible() async -> Bool {
        let outcome = try? await Subprocess.run("/usr/bin/unshare", ["-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"])
        return outcome?.status == 0
    }

    /// Starts an agent whose database folder, or whole data folder, is on a small disk.
    static func start(_ configuration: String, database: String?, size: String = "16m") async throws -> (AgentProcess, SmallDisk) {
        let folder = try TemporaryFolder()
        let (process, disk) = try launch(configuration, database: database, in: folder, size: size)
        let ready = try await process.line(containing: "ready")
        return (AgentProcess(process: process, folder: folder, ready: ready), disk)
    }

    /// - Parameters:
    ///   - database: the one whose folder is on the small disk; nil: the data folder is.
    ///   - before: commands of the shell between the mount and the agent's start, with the mount as `$0`.
    static func launch(
        _ configuration: String, database: String?, in folder: TemporaryFolder, size: String, before: String = "true"
    ) throws -> (Subprocess, SmallDisk) {
        let file = try folder.write("nightjar.yaml", configuration)
        folder.makeFolder("data")
        let mount = database.map { "data/\($0).nightjar" } ?? "data"
        folder.makeFolder(mount)
        let process = try Subprocess(
            "/usr/bin/unshare",
            ["-m", "sh", "-c", "mount -t tmpfs -o size=\(size) tmpfs \"$0\" && \(before) && exec \"$@\"", folder.path(mount), try NightjarExecutable.path(), "run", "--config", file],
            folder: folder.path)
        let path = "/proc/\(process.pid)/root\(folder.path(mount))"
        // The agent's socket is in a folder that nobody else sees.
        if database == nil { guard symlink("\(path)/admin.sock", folder.path("data/admin.sock")) == 0 else { throw SupportError("symlink: \(String(cString: strerror(errno)))") } }
        return (process, SmallDisk(path: path))
    }

    private var filler: String { "\(path)/filler" }

    /// Percent of it in use.
    var percent: Int {
        get throws {
            var facts = statvfs()
            guard statvfs(path, &facts) == 0 else { throw SupportError("\(path): \(String(cString: strerror(errno)))") }
            return Int((facts.f_blocks - facts.f_bavail) * 100 / facts.f_blocks)
        }
    }

    /// Takes all room there is.
    func fill() throws {
        let descriptor = open(filler, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw SupportError("\(filler): \(String(cString: strerror(errno)))") }
        defer { close(descriptor) }
        for size in [65_536, 4096, 1] {
            let block = [UInt8](repeating: 0, count: size)
            while write(descriptor, block, size) > 0 {}
        }
        guard errno == ENOSPC else { throw SupportError("\(filler): \(String(cString: strerror(errno)))") }
    }

    /// Takes so much that the disk is in use to a percentage.
    func fill(percent: Int) throws {
        var facts = statvfs()
        guard statvfs(path, &facts) == 0 else { throw SupportError("\(path): \(String(cString: strerror(errno)))") }
        let wanted = Int(facts.f_blocks) * percent / 100 - Int(facts.f_blocks - facts.f_bavail)
        let descriptor = open(filler, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw SupportError("\(filler): \(String(cString: strerror(errno)))") }
        defer { close(descriptor) }
        let block = [UInt8](repeating: 0, count: Int(facts.f_frsize))
        for _ in 0...max(0, wanted) { guard write(descriptor, block, block.count) == block.count else { throw SupportError("\(filler): \(String(cString: strerror(errno)))") } }
    }

    /// Gives it back.
    func empty() { unlink(filler) }
}

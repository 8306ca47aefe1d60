import Glibc
import TestSupport
import Testing

/// What an agent has in its data folder besides databases goes away under it: commands still reach it, and no second one starts beside it.
@Suite("The admin socket and the lock, lost under a running agent")
struct LostDataFolderTests {
    private func startsBeside(_ agent: AgentProcess) async throws -> Subprocess.Outcome {
        try await NightjarExecutable.run("run", "--config", agent.configuration, folder: agent.folder.path)
    }

    private func mode(_ path: String) -> mode_t {
        var facts = stat()
        return stat(path, &facts) == 0 ? facts.st_mode & 0o7777 : 0
    }

    @Test("without its data folder: status says what is wrong, a second agent is refused, and no empty database is made")
    func folder() async throws {
        let agent = try await AgentProcess.start(Configuration.hub())
        try await agent.load("before", 10)
        agent.folder.remove("data")
        _ = try await agent.process.line(containing: "the admin socket was gone or another file, and has been made again", in: .errors)
        #expect(agent.process.errors.contains("the lock file of the data folder was gone or another one, and has been made again"))
        #expect(mode(agent.folder.path("data")) == 0o700 && mode(agent.folder.path("data/admin.sock")) == 0o600)
        let status = try await agent.command("status")
        #expect(status.status == 0 && status.output.contains("main.nightjar/db.sqlite3 has disappeared"), "\(status)")
        let health = try await agent.admin.get("/health")
        #expect(health.status == 503 && health.text.contains("database_unreadable"), "\(health)")
        let second = try await startsBeside(agent)
        #expect(second.status == 1 && second.errors.contains("in use by process \(agent.process.pid)"), "\(second)")
        #expect(!agent.folder.exists("data/main.nightjar/db.sqlite3") && !agent.folder.exists("data/identities"))
        #expect(try await agent.stop().status == 0)
        #expect(!agent.folder.exists("data/admin.sock"))
    }

    @Test("an agent with an identity of its own puts back the same one")
    func identity() async throws {
        let agent = try await AgentProcess.start(Configuration.secureHub([("edge", "")]))
        let pin = try await agent.pin("edge")
        let before = try agent.folder.read("data/identities/anonymous.pem")
        agent.folder.remove("data")
        _ = try await agent.process.line(containing: "the admin socket was gone or another file, and has been made again", in: .errors)
        try await eventually("the identity is there again") { agent.folder.exists("data/identities/anonymous.pem") }
        #expect(try agent.folder.read("data/identities/anonymous.pem") == before)
        #expect(try await agent.pin("edge") == pin)
        #expect(try await agent.stop().status == 0)
    }

    @Test("without its socket, or with another file in the place", arguments: ["gone", "another file"])
    func socket(_ how: String) async throws {
        let agent = try await AgentProcess.start(Configuration.hub())
        agent.folder.remove("data/admin.sock")
        if how == "another file" { try agent.folder.write("data/admin.sock", "not a socket") }
        _ = try await agent.process.line(containing: "the admin socket was gone or another file, and has been made again", in: .errors)
        #expect(mode(agent.folder.path("data/admin.sock")) == 0o600)
        let status = try await agent.command("status")
        #expect(status.status == 0, "\(status)")
        #expect(try await agent.admin.get("/health").status == 200)
        #expect(!agent.process.errors.contains("the lock file of the data folder was gone"))
        #expect(try await agent.stop().status == 0)
    }

    @Test("while another process has the lock, the agent says so, leaves the socket alone, and takes the lock when it is free")
    func lock() async throws {
        let agent = try await AgentProcess.start(Configuration.hub())
        try agent.folder.write("other.lock", "4711\n")
        let other = open(agent.folder.path("other.lock"), O_RDWR)
        #expect(flock(other, LOCK_EX | LOCK_NB) == 0)
        try agent.folder.rename("other.lock", to: "data/agent.lock")
        try agent.folder.write("data/mine.sock", "the other agent's")
        try agent.folder.rename("data/mine.sock", to: "data/admin.sock")
        let line = try await agent.process.line(containing: "cannot be made again", in: .errors)
        #expect(line.contains("in use by process 4711") && line.lowercased().contains("error"), "\(line)")
        #expect(try agent.folder.text("data/admin.sock") == "the other agent's")
        close(other)
        _ = try await agent.process.line(containing: "the admin socket was gone or another file, and has been made again", in: .errors)
        let second = try await startsBeside(agent)
        #expect(second.status == 1 && second.errors.contains("in use by process \(agent.process.pid)"), "\(second)")
        #expect(try await agent.stop().status == 0)
    }
}

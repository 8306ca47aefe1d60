import Glibc
import TestSupport
import Testing

/// What keeps an agent from starting: said in words, and nothing is overwritten.
@Suite("Starts that are refused", .serialized)
struct DataFolderTests {
    /// Runs an agent that must not come up.
    private func refusedStart(_ configuration: String, in folder: TemporaryFolder) async throws -> Subprocess.Outcome {
        let file = try folder.write("refused.yaml", configuration)
        return try await NightjarExecutable.run("run", "--config", file, folder: folder.path)
    }

    @Test("a wrong configuration ends with 78, file, line and column", arguments: [
        ("an unknown key", "databases: { main: {} }\nlistners: []\n", "wrong.yaml:4:1", "listeners"),
        ("an unknown key below", "databases:\n  main: { colections: [] }\n", "wrong.yaml:4:11", "collections"),
        ("a wrong type", "databases: { main: {} }\nlisteners:\n  - { name: a, databases: [ main ], port: many, disable_tls: true }\n", "wrong.yaml:5:43", "port"),
        ("a database that is not there", "databases: { main: {} }\nlisteners:\n  - { name: a, databases: [ mian ], port: 0, interface: lo, disable_tls: true }\n", "wrong.yaml:5:29", "main"),
        ("a missing plugin", "databases: { main: { conflict_resolver: gats } }\n", "wrong.yaml:3:41", "gate"),
        ("a plugin without the hook", "databases: { main: { conflict_resolver: gate } }\n", "wrong.yaml:3:41", "resolve"),
        (
            "a missing parameter", "databases: { main: {} }\nreplicators:\n"
                + "  - { name: r, database: main, target: \"ws://localhost/x\", collections: { _default: { push_filter: gate } } }\n",
            "wrong.yaml:5:", "minimum"
        ),
        (
            "a parameter of the wrong type", "databases: { main: {} }\nreplicators:\n"
                + "  - { name: r, database: main, target: \"ws://localhost/x\", collections: { _default: { push_filter: { plugin: gate, params: { minimum: high } } } } }\n",
            "wrong.yaml:5:", "number"
        ),
        ("no YAML", "databases: { main: {}\n", "wrong.yaml:", ""),
    ])
    func configuration(_ what: String, _ text: String, _ place: String, _ word: String) async throws {
        let folder = try TemporaryFolder()
        try folder.write("plugins/gate.lua", "return { params = { minimum = { type = 'number', required = true } }, push_filter = function() return true end }")
        let file = try folder.write("wrong.yaml", "data: data\nplugins: plugins\n" + text)
        for command in ["check", "run"] {
            let outcome = try await NightjarExecutable.run(command, "--config", file, folder: folder.path)
            #expect(outcome.status == 78, "\(what), \(command): \(outcome)")
            #expect(outcome.errors.contains(place), "\(what), \(command): \(outcome)")
            #expect(outcome.errors.contains(word), "\(what), \(command): \(outcome)")
            if command == "check" { #expect(!folder.exists("data"), "check has made something") }
        }
    }

    @Test("a second agent on the same data folder is refused; the first goes on")
    func secondAgent() async throws {
        let first = try await AgentProcess.start(Configuration.hub())
        let bystander = try await Bystander(first)
        let refused = try await refusedStart(Configuration.hub(), in: first.folder)
        #expect(refused.status == 1, "\(refused)")
        #expect(refused.errors.contains("in use by process \(first.process.pid)"), "\(refused)")
        try await bystander.goesOn()
        // Another database, but the same folder and so the same admin socket.
        let other = try await refusedStart(Configuration.hub(databases: ["other"]), in: first.folder)
        #expect(other.status == 1, "\(other)")
        #expect(other.errors.contains("\(first.process.pid)"), "\(other)")
        try await bystander.leave()
        #expect(try await first.stop().status == 0)
        // And once the first is gone, the folder is free.
        let next = try await AgentProcess.start(Configuration.hub(), in: first.folder)
        #expect(try await next.isWell())
        #expect(try await next.stop().status == 0)
    }

    @Test("a start waits for a command that works on a database, and for an agent that was killed a moment ago", arguments: [
        ("main.nightjar/lock", "waiting for its end"), ("agent.lock", "is in use; waiting up to 2 s for the process that has it to end"),
    ])
    func busy(_ name: String, _ notice: String) async throws {
        let folder = try TemporaryFolder()
        let before = try await AgentProcess.start(Configuration.hub(), in: folder)
        #expect(try await before.stop().status == 0)
        let lock = open(folder.path("data/\(name)"), O_RDWR)
        #expect(flock(lock, LOCK_EX | LOCK_NB) == 0)
        let file = try folder.write("waiting.yaml", Configuration.hub())
        let run = "exec '\(try NightjarExecutable.path())' run --config '\(file)' 2> '\(folder.path("start.log"))'"
        async let running = Subprocess.run("/bin/sh", ["-c", run], folder: folder.path)
        @Sendable func says(_ words: String) -> Bool { (try? folder.text("start.log"))?.contains(words) == true }
        try await eventually("the agent waits") { says(notice) }
        close(lock)
        try await eventually("it goes on") { says("listening") }
        let pid = Int32(try folder.text("data/agent.lock").prefix { $0.isNumber }) ?? 0
        #expect(pid > 0 && kill(pid, SIGTERM) == 0)
        #expect(try await running.status == 0)
    }

    @Test("the log says what runs, and whether the run before was cut short")
    func startLine() async throws {
        let folder = try TemporaryFolder()
        func started() async throws -> (agent: AgentProcess, line: String) {
            let agent = try await AgentProcess.start(Configuration.hub(), in: folder)
            return (agent, try await agent.process.line(containing: " started: configuration ", in: .errors))
        }
        let first = try await started()
        #expect(first.line.contains("nightjar.yaml, data ") && first.line.contains("/data, 1 database, 1 listener, 0 replicators"), "\(first.line)")
        #expect(!first.line.contains("the last run"), "\(first.line)")
        first.agent.process.send(SIGKILL)
        #expect(try await first.agent.process.wait().signal == SIGKILL)
        let second = try await started()
        #expect(second.line.contains("; the last run did not end cleanly: "), "\(second.line)")
        #expect(try await second.agent.stop().status == 0)
        let third = try await started()
        #expect(third.line.contains("; the last run ended cleanly"), "\(third.line)")
        #expect(try await third.agent.stop().status == 0)
    }

    @Test("a data folder that cannot be one")
    func noFolder() async throws {
        let folder = try TemporaryFolder()
        try folder.write("data", "a file")
        let refused = try await refusedStart(Configuration.hub(), in: folder)
        #expect(refused.status == 1, "\(refused)")
        #expect(refused.errors.contains("data"), "\(refused)")
        #expect(try folder.text("data") == "a file")
    }

    @Test("what another user made is not opened: the error says who runs the agent, whose it is, and what to do", .enabled(if: geteuid() == 0, "only root can be somebody else"), arguments: [
        ("data/main.nightjar", "as root: chown -R nobody"), ("data", "run it as the agent's user (root), for example sudo -u root; or, if it is to run as user nobody, as root: chown -R nobody"),
    ])
    func othersFolder(_ name: String, _ remedy: String) async throws {
        let folder = try TemporaryFolder()
        #expect(chmod(folder.path, 0o755) == 0)
        let agent = try await AgentProcess.start(Configuration.hub(), in: folder)
        #expect(try await agent.stop().status == 0)
        #expect(try await Subprocess.run("/bin/sh", ["-c", "chown -R 65534 data && chown -R 0 \(name) && chmod 700 \(name)"], folder: folder.path).status == 0)
        let refused = try await Subprocess.run(
            "/usr/bin/setpriv", ["--reuid=65534", "--clear-groups", try NightjarExecutable.path(), "run", "--config", folder.path("nightjar.yaml")], folder: folder.path)
        #expect(refused.status == 1 && refused.errors.contains("Permission denied"), "\(refused)")
        let whose = "the agent runs as user nobody, and \(folder.path(name)) belongs to root (mode 0700): \(remedy) \(folder.path("data"))"
        #expect(refused.errors.contains(whose), "\(refused)")
        // Without an agent, commands do not take it for a folder without databases.
        for command in [["doc", "list", "main"], ["conflicts", "list"]] {
            let listed = try await Subprocess.run(
                "/usr/bin/setpriv",
                ["--reuid=65534", "--clear-groups", try NightjarExecutable.path()] + command + ["--config", folder.path("nightjar.yaml")], folder: folder.path)
            #expect(listed.status == 1 && listed.errors.contains("Permission denied"), "\(listed)")
            // Who may not even enter it is told so by the search for a running agent.
            #expect(name == "data" || listed.errors.contains("chown -R nobody"), "\(listed)")
        }
        let doctor = try await Subprocess.run(
            "/usr/bin/setpriv",
            ["--reuid=65534", "--clear-groups", try NightjarExecutable.path(), "doctor", "--offline", "--config", folder.path("nightjar.yaml")], folder: folder.path)
        #expect(doctor.status == 1 && doctor.output.contains("cannot look into \(folder.path(name))") && !doctor.output.contains("was not made yet"), "\(doctor)")
    }

    enum Damage: String, CaseIterable, Sendable, CustomTestStringConvertible {
        case text, anotherProgram, newerSchema, halfHeader, truncated, zeroedPages

        var testDescription: String { rawValue }
    }

    @Test("a file that is not a database is left as it is, with a message", arguments: Damage.allCases)
    func notADatabase(_ damage: Damage) async throws {
        let agent = try await AgentProcess.start(Configuration.hub())
        try await agent.load("before", 500, extra: ",\"pad\":\"\(String(repeating: "x", count: 200))\"")
        #expect(try await agent.stop().status == 0)
        let name = "data/main.nightjar/db.sqlite3"
        let whole = try agent.folder.read(name)
        var bytes = whole
        switch damage {
        case .text: bytes = Array("these are my notes, not a database\n".utf8)
        case .anotherProgram: bytes.replaceSubrange(68..<72, with: [0, 0, 0x12, 0x34])
        case .newerSchema: bytes.replaceSubrange(60..<64, with: [0, 0, 3, 0xE7])
        case .halfHeader: bytes = Array(bytes.prefix(10))
        case .truncated: bytes = Array(bytes.prefix(bytes.count / 2 + 1234))
        case .zeroedPages: for index in 4096..<min(bytes.count, 40_960) { bytes[index] = 0 }
        }
        try agent.folder.write(name, bytes: bytes)
        let refused = try await refusedStart(Configuration.hub(), in: agent.folder)
        #expect(refused.status == 1, "\(refused)")
        #expect(refused.errors.contains("db.sqlite3"), "\(refused)")
        #expect(try agent.folder.read(name) == bytes, "the file was changed")
        // With the right file back, everything is there.
        try agent.folder.write(name, bytes: whole)
        let again = try await AgentProcess.start(Configuration.hub(), in: agent.folder)
        #expect(try await again.documents("main") == 500)
        #expect(try await again.stop().status == 0)
    }

    @Test("a database file without a byte is a creation that was cut short: it is made now")
    func zeroLength() async throws {
        let folder = try TemporaryFolder()
        folder.makeFolder("data")
        try folder.write("data/main.nightjar/db.sqlite3", bytes: [])
        let agent = try await AgentProcess.start(Configuration.hub(), in: folder)
        try await agent.save("first", "{}")
        #expect(try await agent.isWell())
        #expect(try await agent.stop().status == 0)
    }
}

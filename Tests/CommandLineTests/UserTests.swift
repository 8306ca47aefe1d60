import Digests
import Documents
import Encodings
import Glibc
import TestSupport
import Testing

/// `nightjar user`: the file by which `password-file` lets people in.
@Suite struct UserTests {
    private static func configuration(_ listeners: String...) -> String {
        """
        data: data
        plugins: plugins
        databases: { main: {} }
        listeners:
        \(listeners.map { "  - { databases: [ main ], port: 0, interface: 127.0.0.1, disable_tls: true, \($0) }\n" }.joined())
        """
    }

    private static func listener(_ name: String, _ file: String) -> String {
        "name: \(name), authenticator: { plugin: password-file, params: { file: \(file) } }"
    }

    private let folder: TemporaryFolder

    init() throws {
        folder = try TemporaryFolder()
        try folder.copy("\(NightjarExecutable.package())/plugins/password-file.lua", to: "plugins/password-file.lua")
        try folder.write("nightjar.yaml", Self.configuration(Self.listener("edge", "users.txt")))
    }

    private func user(_ arguments: String..., password: String? = nil) async throws -> Subprocess.Outcome {
        try await run(arguments + ["--config", folder.path("nightjar.yaml")], password)
    }

    private func run(_ arguments: [String], _ password: String?) async throws -> Subprocess.Outcome {
        let outcome = try await Subprocess.run(
            try NightjarExecutable.path(), ["user"] + arguments, folder: folder.path, input: password.map { .text("\($0)\n") } ?? .none)
        if let password, !password.isEmpty { #expect(!outcome.output.contains(password) && !outcome.errors.contains(password), "a password was shown") }
        return outcome
    }

    private func mode(_ name: String) -> mode_t {
        var facts = stat()
        return lstat(folder.path(name), &facts) == 0 ? facts.st_mode : 0
    }

    private func lines(_ name: String = "users.txt") throws -> [String] { try folder.text(name).split(separator: "\n").map(String.init) }

    private func lets(_ password: String, _ line: String) throws -> Bool {
        try PasswordHash.verify(password: password, hash: String(line.split(separator: ":")[1]))
    }

    @Test("users come, get other passwords and go, in a file that only its owner reads, and every other line of it stays")
    func changes() async throws {
        let none = try await user("list")
        #expect(none.status == 1 && none.errors.contains("users.txt yet; nightjar user add makes it"), "\(none)")
        for name in ["passwd", "remove"] { #expect(try await user(name, "ada", password: "x-x-x").status == 1 && !folder.exists("users.txt")) }
        #expect(try await user("add", "ada", password: "first of ada").status == 0)
        #expect(mode("users.txt") & 0o777 == 0o600)
        #expect(try lines().count == 1 && lets("first of ada", lines()[0]))
        // What somebody has written by hand, for others to read, and without an end of its last line.
        try folder.write("users.txt", "# people\r\n\r\n\(lines()[0])\r\nhand:made:read_only  ")
        #expect(chmod(folder.path("users.txt"), 0o644) == 0)
        let added = try await user("add", "bob", "--read-only", "--json", password: "first of bob")
        #expect(added.status == 0)
        #expect(try added.json["name"]?.asString == "bob" && added.json["file"]?.asString == folder.path("users.txt"))
        #expect(mode("users.txt") & 0o777 == 0o600)
        #expect(try await user("passwd", "ada", password: "second of ada").status == 0)
        let text = try folder.text("users.txt")
        #expect(text.hasPrefix("# people\r\n\r\nada:$scrypt$") && text.contains("\r\nhand:made:read_only  \r\nbob:$scrypt$") && text.hasSuffix(":read_only\r\n"), "\(text)")
        let now = text.split(whereSeparator: \.isNewline).map(String.init)
        #expect(try lets("second of ada", now[1]) && !lets("first of ada", now[1]) && lets("first of bob", now[3]))
        #expect(try await user("passwd", "bob", password: "second of bob").status == 0)
        #expect(try folder.text("users.txt").hasSuffix(":read_only\r\n"))

        let again = try await user("add", "ada", password: "third of ada")
        #expect(again.status == 1 && again.errors.contains("in line 3") && again.errors.contains("user passwd"), "\(again)")
        #expect(try await user("remove", "ada").status == 0)
        #expect(try await user("remove", "ada").status == 1)
        #expect(try folder.text("users.txt").hasPrefix("# people\r\n\r\nhand:made:read_only  \r\nbob:"))
        // Nothing of a file half written is left.
        #expect(try await Subprocess.run("/bin/ls", ["-A", folder.path]).output == "nightjar.yaml\nplugins\nusers.txt\n")
    }

    @Test("of two lines with one name the first counts, and neither is left when it is removed; a list names each line that is not a valid user")
    func wrongLines() async throws {
        #expect(try await user("add", "ada", password: "secret-1").status == 0)
        let hash = String(try lines()[0].dropFirst(4))
        try folder.write("users.txt", "\u{FEFF}ada:\(hash)\nwho\nbob:\(hash):readonly\nada:\(hash):read_only\n:\(hash)\neve:$scrypt$x\n")
        let list = try await user("list")
        #expect(list.status == 1 && list.lines.count == 7, "\(list)")
        for words in ["line 1 has the same name", "expected NAME:HASH", "unknown option; expected read_only", "a user needs a name"] {
            #expect(list.output.contains(words), "\(words) is not in \(list)")
        }
        #expect(!list.output.contains(hash))
        // By a line that is wrong nobody may do anything.
        #expect(list.lines.count { $0.contains("pull and push") } == 1 && !list.lines.contains { $0.contains("  pull  ") }, "\(list)")
        let json = try await user("list", "--json").json.asArray ?? []
        #expect(json.map { $0["line"]?.asInt64 } == [1, 2, 3, 4, 5, 6])
        #expect(json[0]["name"]?.asString == "ada" && json[0]["problem"]?.isNull == true && json[5]["problem"]?.isNull == false)
        let bob = try await user("passwd", "bob", password: "secret-2")
        #expect(bob.status == 1 && bob.errors.contains("line 3") && bob.errors.contains("unknown option"), "\(bob)")
        #expect(try await user("remove", "ada").status == 0)
        #expect(try folder.text("users.txt").hasPrefix("who\nbob:") && !folder.text("users.txt").contains("ada:"))
        for name in ["", "a:b", "#a", "a\nb", " a", "a "] {
            #expect(try await user("add", name, password: "secret-3").status == 64, "\(name)")
        }
        #expect(try await user("add", "eva", password: "").errors.contains("the password is empty"))
        let raw = try folder.read("users.txt")
        try folder.write("users.txt", bytes: raw + [UInt8](repeating: UInt8(ascii: "#"), count: 512 << 10))
        let full = try await user("add", "eva", password: "secret-4")
        #expect(full.status == 1 && full.errors.contains("parameter file"), "\(full)")
    }

    @Test("channels and roles are given, listed and replaced, kept with another password, and what is wrong with them is named with line and column")
    func channels() async throws {
        #expect(try await user("add", "ada", "--channel", "plant-7", "--channel", "alarms", "--role", "engineer", password: "secret-1").status == 0)
        #expect(try lines()[0].hasSuffix(":channels=plant-7,alarms:roles=engineer"))
        #expect(try await user("passwd", "ada", password: "secret-2").status == 0)
        #expect(try lines()[0].hasSuffix(":channels=plant-7,alarms:roles=engineer") && lets("secret-2", lines()[0]))
        let json = try #require(try await user("list", "--json").json.asArray?.first)
        #expect(json["channels"]?.asArray == ["plant-7", "alarms"] && json["roles"]?.asArray == ["engineer"] && json["read_only"] == false, "\(json.text)")
        #expect(try await user("list").output.contains("plant-7, alarms"))
        #expect(try await user("permit", "ada", "--read-only", "--channel", "*").status == 0)
        #expect(try lines()[0].hasSuffix(":read_only:channels=*") && lets("secret-2", lines()[0]))
        // What is not given is taken away, and that is told.
        let taken = try await user("permit", "ada")
        #expect(taken.status == 0 && taken.errors.contains("ada may push now: read_only was taken away") && taken.errors.contains("ada has no channels any more"), "\(taken)")
        #expect(try lines()[0].split(separator: ":").count == 2)
        #expect(try await user("permit", "bob").status == 1)
        let wrong = try await user("permit", "ada", "--channel", "two words")
        #expect(wrong.status == 64 && wrong.errors.contains("is no name of a channel"), "\(wrong)")
        let hash = String(try lines()[0].dropFirst(4))
        try folder.write("users.txt", "# people\nada:\(hash):channels=a,b c\n")
        let list = try await user("list", "--json").json.asArray?.first
        #expect(list?["line"]?.asInt64 == 2 && list?["problem"]?.asString?.hasPrefix("column \(hash.utf8.count + 17): \"b c\" is no name of a channel; expected letters") == true, "\(list?.text ?? "")")
    }

    @Test("check tells of users without channels where the sync function grants none, and not where somebody has one")
    func withoutChannels() async throws {
        #expect(try await user("add", "ada", password: "secret-1").status == 0)
        try folder.write("nightjar.yaml", Self.configuration(Self.listener("edge", "users.txt") + ", sync: route"))
        try folder.write("plugins/route.lua", "return { sync = function(doc) require_access(doc.team) channel(doc.team) end }")
        func check() async throws -> String { try await NightjarExecutable.run("check", "--config", folder.path("nightjar.yaml")).errors }
        let told = try await check()
        #expect(told.contains("warning: listener \"edge\": sync function route puts documents into channels, and no user of \(folder.path("users.txt")) has one"), "\(told)")
        #expect(told.contains("nightjar user permit USER --channel CHANNEL"), "\(told)")
        #expect(try await user("permit", "ada", "--channel", "red").status == 0)
        #expect(try await !check().contains("puts documents into channels"))
        #expect(try await user("permit", "ada").status == 0)
        try folder.write("plugins/route.lua", "return { sync = function(doc) access(doc.owner, doc.team) channel(doc.team) end }")
        #expect(try await !check().contains("puts documents into channels"))
    }

    @Test("check and the agent tell of users with channels where no sync function puts documents into any, and not where one does")
    func channelsWithoutSync() async throws {
        #expect(try await user("add", "ada", "--channel", "red", password: "secret-1").status == 0)
        // Nobody misses channels who may pull everything.
        #expect(try await user("add", "bob", "--channel", "*", password: "secret-2").status == 0)
        func check() async throws -> String { try await NightjarExecutable.run("check", "--config", folder.path("nightjar.yaml")).errors }
        func attention(_ agent: AgentProcess) async throws -> JSONValue? {
            try await agent.admin.get("/health").json["attention"]?.asArray?.first { $0["kind"] == "channels_without_sync" }
        }
        let words = "has channels, and no listener serves database main with a sync function, which would put documents into channels: "
            + "the user pulls nothing of it"
        let remedy = "add sync: PLUGIN to the listener, or let the user pull everything: nightjar user permit ada --channel '*'"
        let told = try await check()
        #expect(told.contains("warning: listener \"edge\": user ada of \(folder.path("users.txt")) \(words): \(remedy)"), "\(told)")
        let agent = try await AgentProcess.start(try folder.text("nightjar.yaml"), in: folder)
        let found = try #require(try await attention(agent))
        #expect(found["subject"] == "listener edge" && found["text"]?.asString?.hasPrefix("user ada of ") == true, "\(found.text)")
        #expect(found["text"]?.asString?.hasSuffix(words) == true && found["remedy"]?.asString?.hasPrefix(remedy) == true, "\(found.text)")
        #expect(try await agent.stop().status == 0)

        // What one listener's sync function puts into channels, users of every listener find there.
        try folder.write("plugins/route.lua", "return { sync = function(doc) channel(doc.team) end }")
        let routed = Self.configuration(Self.listener("edge", "users.txt"), Self.listener("door", "users.txt") + ", sync: route")
        try folder.write("nightjar.yaml", routed)
        let nothing = try await check()
        #expect(!nothing.contains("has channels"), "\(nothing)")
        let other = try await AgentProcess.start(routed, in: folder)
        #expect(try await attention(other) == nil)
        #expect(try await other.stop().status == 0)
    }

    @Test("several commands at once lose nobody, and a link stays a link")
    func together() async throws {
        try folder.write("elsewhere/people", "")
        #expect(symlink("elsewhere/people", folder.path("users.txt")) == 0)
        try await withThrowingTaskGroup(of: Int32?.self) { tasks in
            for number in 0..<12 { tasks.addTask { try await user("add", "user-\(number)", password: "secret of \(number)").status } }
            for try await status in tasks { #expect(status == 0) }
        }
        #expect(try Set(lines("elsewhere/people").map { String($0.prefix { $0 != ":" }) }) == Set((0..<12).map { "user-\($0)" }))
        #expect(mode("users.txt") & S_IFMT == S_IFLNK && mode("elsewhere/people") & 0o777 == 0o600)
    }

    @Test("the file is that of the listener; where there are several, or none, the command asks which")
    func places() async throws {
        try folder.write(
            "nightjar.yaml",
            // Secrets of replicators are not for who keeps the users.
            Self.configuration(Self.listener("edge", "users.txt"), Self.listener("door", "plugins/door.txt"), "name: open")
                + "replicators: [ { name: hub, database: main, target: \"wss://h/d\", authenticator: { bearer: \"${credential:nowhere}\" } } ]\n")
        let which = try await user("add", "ada", password: "secret-1")
        #expect(which.status == 1 && which.errors.contains("--listener: edge (\(folder.path("users.txt"))), door ("), "\(which)")
        #expect(try await user("add", "ada", "--listener", "door", password: "secret-1").status == 0)
        #expect(folder.exists("plugins/door.txt") && !folder.exists("users.txt"))
        for (listener, words) in [("open", "has no authenticator"), ("gate", "there is no listener \"gate\"")] {
            let outcome = try await user("list", "--listener", listener)
            #expect(outcome.status == 1 && outcome.errors.contains(words), "\(outcome)")
        }
        #expect(try await user("add", "bob", "--file", "third.txt", password: "secret-1").status == 0)
        #expect(folder.exists("third.txt"))
        #expect(try await run(["list"], nil).errors.contains("no listener has authenticator"))
        #expect(try await run(["list", "--file", "third.txt"], nil).output.contains("bob"))
        #expect(try await user("list", "--file", "third.txt", "--listener", "door").status == 64)
        let odd = try await user("list", "--file", "plugins")
        #expect(odd.status == 1 && odd.errors.contains("not a regular file"), "\(odd)")
    }

    @Test("the terminal asks twice and shows nothing")
    func terminal() async throws {
        let process = try Subprocess(
            try NightjarExecutable.path(), ["user", "add", "ada", "--config", folder.path("nightjar.yaml")], folder: folder.path, input: .terminal)
        let outcome = try await eventually("the user is there") { () -> Subprocess.Outcome? in
            process.write("s3cret\n")
            return process.isRunning ? nil : try await process.wait()
        }
        #expect(outcome.status == 0 && !outcome.output.contains("s3cret"), "\(outcome)")
        #expect(try lets("s3cret", lines()[0]))
    }

    @Test("root leaves the file to the agent's user, and another user does not take it from the agent", .enabled(if: geteuid() == 0, "only root can be somebody else"))
    func owners() async throws {
        let agent: uid_t = 64_321
        #expect(chmod(folder.path, 0o777) == 0)
        folder.makeFolder("data")
        #expect(chown(folder.path("data"), agent, agent) == 0)
        #expect(try await user("add", "ada", password: "secret-1").status == 0)
        func owner() -> uid_t? {
            var facts = stat()
            return stat(folder.path("users.txt"), &facts) == 0 ? facts.st_uid : nil
        }
        #expect(owner() == agent)
        #expect(try await user("passwd", "ada", password: "secret-2").status == 0)
        #expect(owner() == agent && mode("users.txt") & 0o777 == 0o600)
        try folder.write("others.txt", "")
        let other = try await Subprocess.run(
            "/usr/bin/setpriv",
            ["--reuid", "64322", "--clear-groups", try NightjarExecutable.path(), "user", "add", "bob", "--file", "others.txt", "--config", "nightjar.yaml"],
            folder: folder.path, input: .text("secret-3\n"))
        #expect(other.status == 1 && other.errors.contains("the agent runs as the user 64321") && other.errors.contains("sudo -u 64321"), "\(other)")
        #expect(try folder.text("others.txt").isEmpty)
    }

    // MARK: - A running agent

    private func login(_ agent: AgentProcess, _ login: String) async throws -> Int {
        do {
            return try await WebSocketProbe.connect(
                port: try agent.port("edge"), path: "/main/_blipsync", headers: [("Authorization", "Basic \(Base64.encode(Array(login.utf8)))")]
            ).answer.status
        } catch let refused as WebSocketProbe.Refused { return refused.answer.status }
    }

    @Test("a running agent admits added users, disconnects those who got another password or were removed, and keeps read-only users from writing")
    func running() async throws {
        #expect(try await user("add", "ada", password: "first-secret").status == 0)
        let agent = try await AgentProcess.start(try folder.text("nightjar.yaml"), in: folder)
        let ada = try await Peer.connect(agent, login: Base64.encode(Array("ada:first-secret".utf8)))
        try await ada.push("from-ada")
        #expect(try await user("add", "bob", "--read-only", password: "second-secret").status == 0)
        try await eventually("bob is let in") { try await login(agent, "bob:second-secret") == 101 }
        // Who did not change stays.
        try await ada.push("again-from-ada")
        let write = try await HTTPProbe.tcp(port: try agent.port("edge")).request(
            "PUT", "/main/from-bob", headers: [("Authorization", "Basic \(Base64.encode(Array("bob:second-secret".utf8)))")], body: Array("{}".utf8))
        #expect(write.status == 403, "\(write)")
        #expect(try await user("passwd", "ada", password: "third-secret").status == 0)
        try await eventually("ada is put off") {
            try await agent.admin.get("/api/status").json["listeners"]?.asArray?.first?["peers"]?.asArray?.contains { $0["user"]?.asString == "ada" } == false
        }
        #expect(try await login(agent, "ada:first-secret") == 401)
        #expect(try await login(agent, "ada:third-secret") == 101)
        #expect(try await user("remove", "ada").status == 0)
        try await eventually("ada is out") { try await login(agent, "ada:third-secret") == 401 }
        #expect(try await login(agent, "bob:second-secret") == 101)
        #expect(try await agent.stop().status == 0)
    }
}

import Documents
import Encodings
import TestSupport
import Testing

/// Logins by people who guess, alongside one by a user who knows the password.
@Suite("Logins")
struct LoginTests {
    private static let shipped = #filePath.split(separator: "/").dropLast(4).reduce("") { $0 + "/" + $1 } + "/plugins/password-file.lua"

    private func agent(_ users: (_ hash: String) -> String) async throws -> AgentProcess {
        let folder = try TemporaryFolder()
        folder.makeFolder("plugins")
        try folder.copy(Self.shipped, to: "plugins/password-file.lua")
        let made = try await Subprocess.run(
            try NightjarExecutable.path(), ["password"], folder: folder.path, input: .text("secret\n"))
        let hash = String(made.output.prefix { $0 != "\n" })
        try #require(hash.hasPrefix("$scrypt$"), "\(made)")
        try folder.write("users.txt", users(hash))
        return try await AgentProcess.start(
            Configuration.hub(
                listener: "authenticator: { plugin: password-file, params: { file: users.txt } }", plugins: true), in: folder)
    }

    private func login(_ agent: AgentProcess, _ login: String) async throws -> HTTPProbe.Answer {
        do {
            return try await WebSocketProbe.connect(
                port: try agent.port("edge"), path: "/main/_blipsync", headers: [("Authorization", "Basic \(Base64.encode(Array(login.utf8)))")]
            ).answer
        } catch let refused as WebSocketProbe.Refused { return refused.answer }
    }

    private func checks(_ agent: AgentProcess) async throws -> Int64 { try await agent.plugin("password-file")["calls"]?.asInt64 ?? -1 }

    @Test("hundreds of simultaneous guesses delay no known user, and are refused without being checked")
    func flood() async throws {
        let agent = try await agent { "ada:\($0)\nbob:\($0)\nvictim:\($0)\n" }
        #expect(try await login(agent, "ada:secret").status == 101)
        let before = try await checks(agent)
        let statuses = try await withThrowingTaskGroup(of: Int.self) { tasks in
            // One address may have 256 connections (max_connections_per_address); a busy machine may have all of them open at once.
            for number in 0..<240 { tasks.addTask { try await login(agent, "victim:\(number)").status } }
            var statuses: [Int: Int] = [:]
            // In the middle of it: one who has logged in before, and one who has not.
            #expect(try await login(agent, "ada:secret").status == 101)
            #expect(try await login(agent, "bob:secret").status == 101)
            for try await status in tasks { statuses[status, default: 0] += 1 }
            return statuses
        }
        #expect(Set(statuses.keys).isSubset(of: [401, 429, 503]), "\(statuses)")
        // 20 for nothing, and one for each wait that passed meanwhile.
        // Ada, who had logged in before, cost none, and Bob one.
        let guesses = try await checks(agent) - before - 1
        #expect((20...30).contains(guesses), "\(guesses) of 240 guesses cost a password hash; \(statuses)")
        #expect(try await agent.stop().status == 0)
    }

    @Test("a broken line of users.txt is one user's, whatever he tries, and the log names it")
    func brokenLine() async throws {
        let agent = try await agent { "# people\nada:\($0)\nbob:nonsense\n" }
        for _ in 0..<60 { #expect(try await login(agent, "bob:x").status == 503) }
        #expect(try await login(agent, "ada:secret").status == 101)
        let line = try await agent.process.line(containing: "the authenticator failed", in: .errors)
        #expect(line.contains("line 3 of the users file, user bob"), "\(line)")
        // So does the listener's status, although others have come in since, and until the line is mended. It is no matter of health,
        // which anybody could then turn by a name.
        #expect(try await agent.admin.get("/health").status == 200)
        let attention = try await agent.listener("edge")["attention"] ?? .null
        #expect(attention.text.contains("users.txt:3: user bob: ") && attention.text.contains("only logins as this user are affected"), "\(attention.text)")
        #expect(!attention.text.contains("fix the plugin") && attention.text.contains("nightjar user passwd bob"), "\(attention.text)")
        let users = try agent.folder.read("users.txt")
        try agent.folder.write("users.txt", bytes: Array(String(decoding: users, as: UTF8.self).replacing("bob:nonsense\n", with: "").utf8))
        try await eventually("all is well") { try await agent.listener("edge")["attention"]?.asArray?.isEmpty == true }
        #expect(try await agent.stop().status == 0)
    }

    @Test("a users file that lets nobody in makes the agent unhealthy, with a remedy", arguments: ["", "# people\n\n", "ada:nonsense\n"])
    func nobody(_ emptied: String) async throws {
        let agent = try await agent { "ada:\($0)\n" }
        #expect(try await agent.admin.get("/health").status == 200)
        let users = try agent.folder.read("users.txt")
        try agent.folder.write("users.txt", emptied)
        @Sendable func entry() async throws -> JSONValue? {
            try await agent.admin.get("/health").json["attention"]?.asArray?.first { $0["kind"] == "nobody_can_log_in" }
        }
        try await eventually("health says it") { try await entry() != nil }
        let found = try #require(try await entry())
        #expect(found["subject"] == "listener edge" && found["gravity"] == "unhealthy" && found["remedy"]?.asString?.contains("nightjar user add") == true, "\(found.text)")
        #expect(found["text"]?.asString?.contains(emptied.hasPrefix("ada") ? "line 1" : "users.txt has no user") == true, "\(found.text)")
        #expect(try await agent.admin.get("/health").status == 503)
        _ = try await agent.process.line(containing: "needs attention: listener edge: ", in: .errors)
        try agent.folder.write("users.txt", bytes: users)
        try await eventually("all is well") { try await agent.admin.get("/health").status == 200 }
        #expect(try await login(agent, "ada:secret").status == 101)
        #expect(try await agent.stop().status == 0)
    }

    @Test("a body is not read before the login")
    func bodies() async throws {
        let agent = try await agent { "ada:\($0)\n" }
        let probe = HTTPProbe.tcp(port: try agent.port("edge"))
        for method in ["GET", "PUT", "POST"] {
            // Announced, and never sent.
            let head = "\(method) /main/_blipsync HTTP/1.1\r\nHost: a\r\nContent-Length: 20000000\r\nExpect: 100-continue\r\n\r\n"
            let answer = try HTTPProbe.parse(try await probe.raw(Array(head.utf8)))
            #expect(answer.status >= 400, "\(method): \(answer)")
        }
        #expect(try await agent.stop().status == 0)
    }
}

import Documents
import TestSupport
import Testing

/// Sessions that peers open with a password, and logins that are remembered.
@Suite("Sessions")
struct SessionTests {
    private static let plugin = """
        return { params = { file = { type = "file", required = true } },
          authenticate_password = function(name, password, ctx)
            if name == "broken" then error("no answer for this one") end
            local kind = ctx.params.file:match(name .. "=(%a+)")
            return kind and password == "x" and { name = name, read_only = kind == "reader" } or false
          end }
        """

    private func agent(_ users: String) async throws -> AgentProcess {
        let folder = try TemporaryFolder()
        folder.makeFolder("plugins")
        try folder.write("plugins/users.lua", Self.plugin)
        try folder.write("users.txt", users)
        return try await AgentProcess.start(
            Configuration.hub(listener: "authenticator: { plugin: users, params: { file: users.txt } }", plugins: true), in: folder)
    }

    private func http(_ agent: AgentProcess) throws -> HTTPProbe { .tcp(port: try agent.port("edge")) }

    /// The cookie, as `NAME=ID`.
    private func open(_ agent: AgentProcess, _ user: String) async throws -> String {
        let answer = try await http(agent).post("/main/_session", "{\"name\":\"\(user)\",\"password\":\"x\"}")
        try #require(answer.status == 200, "\(answer)")
        let cookie = try #require(answer.header("Set-Cookie"))
        for part in ["Path=/main", "HttpOnly", "SameSite=Strict", "Max-Age=86400"] { #expect(cookie.contains(part), "\(cookie)") }
        return String(cookie.prefix { $0 != ";" })
    }

    private func connect(_ agent: AgentProcess, _ cookie: String, _ more: [(String, String)] = []) async throws -> WebSocketProbe {
        try await WebSocketProbe.connect(port: try agent.port("edge"), path: "/main/_blipsync", headers: [("Cookie", "a=b; \(cookie)")] + more)
    }

    private func refusal(_ agent: AgentProcess, _ cookie: String, _ more: [(String, String)] = []) async throws -> Int? {
        do {
            _ = try await connect(agent, cookie, more)
            return nil
        } catch let refused as WebSocketProbe.Refused { return refused.answer.status }
    }

    @Test("an operator sees sessions and peers, and revokes those of one user")
    func revoked() async throws {
        let agent = try await agent("ada=writer bob=writer")
        let (ada, bob) = (try await open(agent, "ada"), try await open(agent, "bob"))
        _ = try await open(agent, "ada")
        let peer = try await connect(agent, ada)
        let other = try await connect(agent, bob)
        let sessions = try await agent.command("listener", "edge", "sessions", "--json")
        #expect(try JSONValue(parsing: sessions.output).asArray?.map { $0["user"]?.asString } == ["ada", "ada", "bob"], "\(sessions)")
        let id = ada.split(separator: "=").last.map(String.init) ?? ada
        #expect(!sessions.output.contains(id))
        #expect(try await agent.command("listener", "edge", "peers").output.split(separator: "\n").count == 3)
        #expect(try await agent.command("listener", "edge", "revoke", "ada").output == "ada: 2 sessions and 1 connection ended\n")
        #expect(try await peer.closeCode() == 4001)
        #expect(try await refusal(agent, ada) == 401)
        #expect(try await agent.command("listener", "edge", "peers").output.split(separator: "\n").count == 2)
        #expect(try await refusal(agent, bob) == nil)
        #expect(try await agent.command("listener", "edge", "disconnect", "bob").output.hasPrefix("bob: "))
        #expect(try await other.closeCode() == 4001)
        let none = try await agent.command("listener", "edgy", "peers")
        #expect(none.status == 1 && none.errors.contains("there is no listener \"edgy\"; there is edge"), "\(none)")
    }

    /// Replicators' side.
    @Test("a replicator with open_session logs in once, connects with its session, and opens another when that was revoked")
    func openedByAReplicator() async throws {
        let hub = try await agent("ada=writer bob=writer")
        let port = try hub.port("edge")
        func edge(_ login: String) async throws -> AgentProcess {
            try await AgentProcess.start(Configuration.edge(to: port, replicator: "authenticator: { \(login) }\n    open_session: true"))
        }
        @Sendable func sessions() async throws -> [String] {
            try await hub.admin.get("/api/listeners/edge/sessions").json.asArray?.compactMap { $0["user"]?.asString } ?? []
        }
        let ada = try await edge("username: ada, password: x")
        try await ada.isSettled()
        #expect(try await sessions() == ["ada"])
        try await ada.save("here", "{}")
        try await eventually("it is pushed") { try await hub.has("here") }
        // Another connection, the same session.
        let before = try await ada.replicator("hub")["correlation_id"]?.asString
        #expect(try await hub.command("disconnect", "ada").status == 0)
        _ = try await ada.process.line(containing: "the peer asks to come back later (4001): disconnected by the operator", in: .errors)
        try await ada.waits("connected anew") { $0["activity"]?.asString == "idle" && ![nil, before].contains($0["correlation_id"]?.asString) }
        #expect(try await sessions() == ["ada"])
        #expect(try await hub.command("listener", "edge", "revoke", "ada").status == 0)
        try await eventually("another session") { try await sessions() == ["ada"] }
        try await ada.save("later", "{}")
        try await eventually("it is pushed, too") { try await hub.has("later") }
        // A wrong password is reported as such, and no session is opened.
        let eve = try await edge("username: bob, password: wrong")
        try await eve.waits("refused") { $0["error"]?["public_code"]?.asInt64 == 10401 && $0["error"]?["kind"]?.asString == "needs_action" }
        #expect(try await sessions() == ["ada"])
        #expect(!eve.process.errors.contains("wrong") && !ada.process.errors.contains("_session="))
        #expect(try await ada.stop().status == 0)
    }

    @Test("the doctor logs in with name and password, and leaves no session behind", arguments: [("ws", "open_session: true"), ("http", "blocked_wait_time: 60")])
    func doctor(_ scheme: String, _ more: String) async throws {
        let place = try TemporaryFolder()
        try place.write("plugins/users.lua", Self.plugin)
        try place.write("users.txt", "ada=writer")
        let login = "authenticator: { plugin: users, params: { file: users.txt } }\n    couchdb: true"
        let hub = try await AgentProcess.start(Configuration.hub(listener: login, plugins: true), in: place)
        let folder = try TemporaryFolder()
        let edge = Configuration.edge(to: try hub.port("edge"), replicator: "authenticator: { username: ada, password: x }\n    \(more)", scheme: scheme)
        let path = try folder.write("nightjar.yaml", edge)
        for _ in 0..<2 {
            let outcome = try await NightjarExecutable.run("doctor", "--quick", "--config", path, folder: folder.path)
            #expect(outcome.output.contains("answers and lets us in"), "\(outcome)")
        }
        #expect(try await hub.admin.get("/api/listeners/edge/sessions").json.asArray?.isEmpty == true)
        #expect(try await hub.stop().status == 0)
    }

    @Test("a cookie counts as a login until it is given back; nothing else does")
    func cookie() async throws {
        let agent = try await agent("ada=writer bob=writer")
        for body in ["{\"name\":\"ada\",\"password\":\"y\"}", "{\"name\":\"eve\",\"password\":\"x\"}", ""] {
            let answer = try await http(agent).post("/main/_session", body)
            #expect(answer.status == 401 && answer.header("Set-Cookie") == nil, "\(answer)")
        }
        #expect(try await http(agent).post("/main/_session", "[1]").status == 400)
        #expect(try await http(agent).post("/main/_session", String(repeating: " ", count: 20_000)).status == 413)
        // The cookie goes to the path that the database has, whatever was asked.
        let login = "{\"name\":\"ada\",\"password\":\"x\"}"
        for path in ["//main/_session", "/main//_session", "/main/_session/"] {
            let answer = try await http(agent).post(path, login)
            #expect(answer.status >= 400 && answer.header("Set-Cookie") == nil, "\(path): \(answer)")
        }
        #expect(try await http(agent).post("/m%61in/_session", login).header("Set-Cookie")?.contains("Path=/main;") == true)
        let cookie = try await open(agent, "ada")
        let shown = try await http(agent).get("/main/_session", headers: [("Cookie", cookie)])
        #expect(try shown.json["userCtx"]?["name"]?.asString == "ada", "\(shown)")
        #expect(try await http(agent).get("/main/_session").json["userCtx"]?["name"] == .null)
        let peer = try await connect(agent, cookie)
        #expect(try await agent.listener("edge")["peers"]?.asArray?.first?["user"]?.asString == "ada")
        // Another database, a made-up id, and the page of another site have nothing of it.
        #expect(try await http(agent).get("/other/_session", headers: [("Cookie", cookie)]).json["userCtx"]?["name"] == .null)
        #expect(try await refusal(agent, String(cookie.dropLast()) + (cookie.hasSuffix("0") ? "1" : "0")) == 401)
        #expect(try await refusal(agent, cookie, [("Origin", "https://elsewhere.example")]) == 401)
        let other = try await open(agent, "bob")
        let gone = try await http(agent).request("DELETE", "/main/_session", headers: [("Cookie", cookie)])
        #expect(gone.status == 200 && gone.header("Set-Cookie")?.contains("Max-Age=0") == true, "\(gone)")
        #expect(try await peer.closeCode() == 4001)
        #expect(try await refusal(agent, cookie) == 401)
        #expect(try await refusal(agent, other) == nil)
        #expect(try await agent.stop().status == 0)
    }

    @Test("the cookie goes to pages of configured origins where they may have credentials, and TLS keeps it from others", arguments: [true, false])
    func otherOrigins(_ credentials: Bool) async throws {
        let folder = try TemporaryFolder()
        folder.makeFolder("plugins")
        try folder.write("plugins/users.lua", Self.plugin)
        try folder.write("users.txt", "ada=writer")
        let more = "couchdb: true, authenticator: { plugin: users, params: { file: users.txt } }, cors: { origins: [ \"https://app.example\" ], credentials: \(credentials) }"
        let agent = try await AgentProcess.start(Configuration.secureHub([("edge", more)], plugins: true), in: folder)
        let place = "https://127.0.0.1:\(try agent.port("edge"))"
        func curl(_ arguments: String...) async throws -> String {
            try await Subprocess.run(
                "/usr/bin/curl", ["-ski", "--http1.1", "--noproxy", "*", "-H", "Origin: https://app.example", "--max-time", "60"] + arguments).output
        }
        let json = ["-H", "Content-Type: application/json", "-d", "{\"name\":\"ada\",\"password\":\"x\"}"]
        for (path, asked) in [("/main/_session", "/main/_session"), ("/_session", "/main")] {
            let answer = try await curl(json[0], json[1], json[2], json[3], place + path)
            let cookie = try #require(answer.split(separator: "\r\n").first { $0.hasPrefix("Set-Cookie: ") }.map { String($0.dropFirst(12)) }, "\(answer)")
            #expect(cookie.contains("; Secure") && cookie.contains(credentials ? "SameSite=None" : "SameSite=Strict"), "\(cookie)")
            #expect(answer.contains("Access-Control-Allow-Credentials: true") == credentials)
            let pair = "Cookie: \(cookie.prefix { $0 != ";" })"
            if credentials || path == "/_session" {
                #expect(try await curl("-H", pair, place + asked).hasPrefix("HTTP/1.1 \(credentials ? 200 : 401)"), "\(path)")
            }
            if credentials, path == "/main/_session" { _ = try await SecureWebSocket(agent, "edge", headers: [pair, "Origin: https://app.example"]) }
        }
        #expect(try await agent.stop().status == 0)
    }

    @Test("a session ends with what its user may")
    func userChanges() async throws {
        let agent = try await agent("ada=writer bob=writer eve=writer")
        var cookies: [String] = []
        for user in ["ada", "bob", "eve"] { cookies.append(try await open(agent, user)) }
        let eve = try await connect(agent, cookies[2])
        try agent.folder.write("users.txt", "ada=writer bob=reader")
        #expect(try await eve.closeCode() == 4001)
        #expect(try await refusal(agent, cookies[2]) == 401)
        #expect(try await refusal(agent, cookies[1]) == 401)
        #expect(try await refusal(agent, cookies[0]) == nil)
        #expect(try await agent.stop().status == 0)
    }

    @Test("a replicator logs in with a session")
    func replicator() async throws {
        let hub = try await agent("ada=writer")
        let id = try await open(hub, "ada").split(separator: "=")[1]
        let edge = try await AgentProcess.start(
            Configuration.secureEdge([("hub", try hub.target("edge", scheme: "ws"), "authenticator: { session: \"\(id)\" }")]))
        try await edge.connects("hub")
        #expect(try await hub.listener("edge")["peers"]?.asArray?.first?["user"]?.asString == "ada")
        #expect(try await edge.stop().status == 0)
        #expect(try await hub.stop().status == 0)
    }

    @Test("a repeated login is remembered until the users change; a user for whom the authenticator fails does not affect others")
    func remembered() async throws {
        let agent = try await agent("ada=writer")
        func calls() async throws -> Int64 { try await agent.plugin("users")["calls"]?.asInt64 ?? -1 }
        let first = try await Peer.connect(agent, login: "YWRhOng=")
        let before = try await calls()
        for _ in 0..<20 { #expect(try await http(agent).post("/main/_session", "{\"name\":\"broken\",\"password\":\"x\"}").status == 503) }
        for _ in 0..<5 { _ = try await Peer.connect(agent, login: "YWRhOng=") }
        #expect(try await calls() == before + 20)
        // A wrong password is never known.
        #expect(try await http(agent).post("/main/_session", "{\"name\":\"ada\",\"password\":\"xx\"}").status == 401)
        try agent.folder.write("users.txt", "bob=writer")
        #expect(try await first.socket.closeCode() == 4001)
        await #expect(throws: WebSocketProbe.Refused.self) { try await Peer.connect(agent, login: "YWRhOng=") }
        #expect(try await agent.stop().status == 0)
    }
}

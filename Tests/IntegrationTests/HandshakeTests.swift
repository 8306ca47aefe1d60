import Encodings
import TestSupport
import Testing

private let denies = """
    return {
      authenticate_password = function(username, password)
        if username == "broken" then error("the user list cannot be read") end
        if username == "endless" then while true do end end
        if username == "hungry" then local t = {}; while true do t[#t + 1] = string.rep("x", 100000) end end
        if username == "silent" then return end
        if username == "odd" then return 42 end
        return username == "ada" and password == "secret"
      end,
    }
    """

/// Who gets in, and what those are told who do not.
@Suite(
    "Handshakes that are refused", .serialized,
    .agent(
        Configuration.hub(
            databases: ["main", "other"], plugins: true,
            more: """
                  - { name: guarded, databases: [ main ], interface: 127.0.0.1, port: 0, disable_tls: true, authenticator: denies }
                  - { name: guessed, databases: [ main ], interface: 127.0.0.1, port: 0, disable_tls: true, authenticator: denies }
                  - { name: small, databases: [ main ], interface: 127.0.0.1, port: 0, disable_tls: true, max_connections: 1 }
                """),
        files: ["plugins/denies.lua": denies]))
struct HandshakeTests {
    private func refusal(
        _ listener: String = "edge", _ path: String, protocols: String? = "BLIP_3+CBMobile_3", login: String? = nil
    ) async throws -> HTTPProbe.Answer {
        let port = try sharedAgent().port(listener)
        var head = "GET \(path) HTTP/1.1\r\nHost: 127.0.0.1:\(port)\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        head += "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAECAwQFBgcICQoLDA0ODw==\r\n"
        if let protocols { head += "Sec-WebSocket-Protocol: \(protocols)\r\n" }
        if let login { head += "Authorization: Basic \(Base64.encode(Array(login.utf8)))\r\n" }
        let answer = try HTTPProbe.parse(try await HTTPProbe.tcp(port: port).raw(Array((head + "\r\n").utf8)))
        #expect(answer.status >= 400)
        return answer
    }

    @Test("a subprotocol that is not spoken is refused, and not as a missing database or login", arguments: [
        nil, "BLIP_3", "BLIP_3+CBMobile_5", "BLIP_3+CBMobile_1,mqtt", "blip_3+cbmobile_3", "\u{1}",
    ])
    func subprotocol(_ offered: String?) async throws {
        let answer = try await refusal("edge", "/main/_blipsync", protocols: offered)
        #expect((400..<500).contains(answer.status))
        #expect(![401, 404].contains(answer.status))
        if offered != "\u{1}" { #expect(try answer.json["reason"]?.asString?.contains("BLIP_3+CBMobile_3") == true, "\(answer)") }
        #expect(try await sharedAgent().isWell())
    }

    @Test("a peer with an incompatible protocol is explained to the operator")
    func anotherGeneration() async throws {
        let answer = try await refusal("edge", "/main/_blipsync", protocols: "BLIP_3+CBMobile_5")
        #expect(answer.status == 400)
        let agent = try sharedAgent()
        try await eventually("the log tells of it") {
            agent.process.errors.split(separator: "\n").contains {
                $0.contains("turned away") && $0.contains("127.0.0.1") && $0.contains("offered=BLIP_3+CBMobile_5")
            }
        }
    }

    @Test("the client's order decides among several", arguments: [
        ("BLIP_3+CBMobile_4,BLIP_3+CBMobile_3", "BLIP_3+CBMobile_3"),
        ("BLIP_3+CBMobile_2, BLIP_3+CBMobile_3", "BLIP_3+CBMobile_2"),
        ("BLIP_3+CBMobile_4", "BLIP_3+CBMobile_4"),
    ])
    func order(_ offered: String, _ chosen: String) async throws {
        let socket = try await WebSocketProbe.connect(port: try sharedAgent().port("edge"), path: "/main/_blipsync", protocols: offered)
        #expect(socket.answer.header("sec-websocket-protocol") == chosen)
    }

    @Test("an unknown database is 404 if no login is required", arguments: [
        "/nothing/_blipsync", "/main._default._default/_blipsync", "/main.a.b/_blipsync", "/MAIN/_blipsync", "/main%00/_blipsync",
        "/ma%69n%2f/_blipsync",
    ])
    func unknownDatabase(_ path: String) async throws {
        let answer = try await refusal("edge", path)
        #expect(answer.status == 404, "\(path): \(answer)")
        #expect(try answer.json["error"]?.asString == "not_found")
    }

    @Test("a plain GET of the endpoint says what it is for")
    func noUpgrade() async throws {
        let answer = try await HTTPProbe.tcp(port: try sharedAgent().port("edge")).get("/main/_blipsync")
        #expect(answer.status == 426)
    }

    @Test("no login, a wrong password and a wrong user are 401, whatever the database")
    func logins() async throws {
        for path in ["/main/_blipsync", "/other/_blipsync", "/nothing/_blipsync"] {
            for login in [nil, "ada:wrong", "bob:secret", "ada", ":"] {
                let answer = try await refusal("guarded", path, login: login)
                #expect(answer.status == 401, "\(path) \(login ?? "no login"): \(answer)")
                #expect(answer.header("www-authenticate")?.hasPrefix("Basic") == true)
            }
        }
        // With the right login it may be said that the database is not there.
        #expect(try await refusal("guarded", "/nothing/_blipsync", login: "ada:secret").status == 404)
        #expect(try await refusal("guarded", "/other/_blipsync", login: "ada:secret").status == 404)
    }

    @Test("the right login gets in, while others fail")
    func rightLogin() async throws {
        let agent = try sharedAgent()
        let socket = try await WebSocketProbe.connect(
            port: try agent.port("guarded"), path: "/main/_blipsync", headers: [("Authorization", "Basic \(Base64.encode(Array("ada:secret".utf8)))")])
        let peer = Peer(socket)
        try await peer.push("by-ada")
        #expect(try await refusal("guarded", "/main/_blipsync", login: "eve:x").status == 401)
        try await peer.push("by-ada-again")
        let user = try await agent.listener("guarded")["peers"]?.asArray?.first?["user"]?.asString
        #expect(user == "ada")
        try await peer.close()
    }

    @Test("guessing a password costs more and more time, and says how much")
    func guessing() async throws {
        var statuses: [Int] = []
        var wait: String?
        for guess in 0..<22 {
            let answer = try await refusal("guessed", "/main/_blipsync", login: "ada:\(guess)")
            statuses.append(answer.status)
            wait = wait ?? answer.header("retry-after")
        }
        #expect(statuses.prefix(20).allSatisfy { $0 == 401 }, "\(statuses)")
        #expect(statuses.contains(429), "\(statuses)")
        #expect(wait == "1")
        // The same address on another listener is not concerned.
        #expect(try await refusal("guarded", "/nothing/_blipsync", login: "ada:secret").status == 404)
    }

    @Test("an authenticator that fails is 503: the login may be right; status says that it needs attention, and no stranger's name makes the agent unhealthy")
    func failingAuthenticator() async throws {
        let folder = try TemporaryFolder()
        try folder.write("plugins/denies.lua", denies)
        let more = "  - { name: open, databases: [ main ], interface: 127.0.0.1, port: 0, disable_tls: true }\n"
        let agent = try await AgentProcess.start(Configuration.hub(listener: "authenticator: denies", plugins: true, more: more), in: folder)
        #expect(try await agent.isWell())
        let peer = Peer(try await WebSocketProbe.connect(port: try agent.port("open"), path: "/main/_blipsync"))
        for user in ["broken", "endless", "hungry", "silent", "odd"] {
            let login = Base64.encode(Array("\(user):x".utf8))
            let refused = await #expect(throws: WebSocketProbe.Refused.self) { try await Peer.connect(agent, login: login) }
            #expect(refused?.answer.status == 503, "\(user)")
            // The log says why, with file and line; the peer is not told.
            #expect(refused?.answer.text.contains("denies") == false)
            #expect(try await agent.isWell())
            let status = try await agent.status()
            let edge = status["listeners"]?.asArray?.first { $0["name"]?.asString == "edge" }
            let attention = edge?["attention"]?.asArray?.compactMap(\.asString) ?? []
            #expect(attention.contains { $0.contains("a login could not be checked: plugin_") }, "\(attention)")
            let problems = (status["attention"]?.asArray ?? []).map { "\($0["subject"]?.asString ?? ""): \($0["text"]?.asString ?? "")" }
            #expect(problems.contains { $0.hasPrefix("listener edge: plugin denies: a login could not be checked") }, "\(problems)")
            try await peer.push("beside-\(user)")
        }
        let line = try await agent.process.line(containing: "the authenticator failed: plugin_", in: .errors)
        #expect(line.contains("denies.lua"), "\(line)")
        try folder.write("plugins/denies.lua", denies + "\n-- mended")
        try await eventually("all is well") { try await agent.status()["attention"]?.asArray?.isEmpty == true }
        #expect(try await agent.stop().status == 0)
    }

    @Test("one connection more than allowed is 503, and the others stay")
    func tooManyConnections() async throws {
        let agent = try sharedAgent()
        let first = Peer(try await WebSocketProbe.connect(port: try agent.port("small"), path: "/main/_blipsync"))
        try await first.push("first-connection")
        #expect(try await refusal("small", "/main/_blipsync").status == 503)
        try await first.push("first-connection-again")
        try await first.close()
        let port = try agent.port("small")
        try await eventually("there is room again") {
            do {
                _ = try await WebSocketProbe.connect(port: port, path: "/main/_blipsync")
                return true
            } catch { return false }
        }
    }

    @Test("requests that are not HTTP", arguments: [
        "GET\r\n\r\n", "\u{16}\u{3}\u{1}\u{0}\u{5}hello\r\n\r\n", "GET /main/_blipsync HTTP/1.1\r\nHost: a\r\n bad: fold\r\n\u{0}x\r\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
    ])
    func noHTTP(_ text: String) async throws {
        let agent = try sharedAgent()
        let bystander = try await Bystander(agent)
        let bytes = try await HTTPProbe.tcp(port: try agent.port("edge")).raw(Array(text.utf8))
        if !bytes.isEmpty { #expect(try HTTPProbe.parse(bytes).status == 400) }
        try await bystander.leave()
    }

    @Test("a header without end is refused")
    func endlessHeader() async throws {
        let agent = try sharedAgent()
        let bystander = try await Bystander(agent)
        let text = "GET /main/_blipsync HTTP/1.1\r\nHost: a\r\nX: \(String(repeating: "x", count: 200_000))"
        let bytes = try await HTTPProbe.tcp(port: try agent.port("edge")).raw(Array(text.utf8))
        if !bytes.isEmpty { #expect([400, 431].contains(try HTTPProbe.parse(bytes).status)) }
        try await bystander.leave()
    }
}

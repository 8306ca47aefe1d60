import Documents
import Glibc
import TestSupport
import Testing

/// Bounds of TLS listeners that peers run into.
@Suite("Limits of TLS listeners")
struct ListenerLimitTests {
    private let selfSigned = "accept_only_self_signed_server_certificate: true"

    @Test("a peer above max_connections gets 503 and is admitted when there is room")
    func connections() async throws {
        let hub = try await AgentProcess.start(Configuration.secureHub([("edge", "max_connections: 1")]))
        let first = try await SecureWebSocket(hub, "edge")
        let edge = try await AgentProcess.start(Configuration.secureEdge([("hub", try hub.target("edge"), selfSigned)]))
        try await edge.waits("503 is shown") { $0["error"]?["public_code"]?.asInt64 == 10503 && $0["error"]?["transient"]?.asBool == true }
        #expect(try await edge.replicator("hub")["error"]?["message"]?.asString?.contains("max_connections") == true)
        first.process.send(SIGTERM)
        try await edge.connects("hub")
        for agent in [edge, hub] { #expect(try await agent.stop().status == 0) }
    }

    @Test("one address holds no more than max_connections_per_address sockets; further ones are told so, and so is the operator")
    func perAddress() async throws {
        let hub = try await AgentProcess.start(Configuration.secureHub([("edge", "max_connections_per_address: 2")]))
        let address = "127.0.0.1:\(try hub.port("edge"))"
        for _ in 0..<5 { #expect(try await tool("openssl", "s_client", "-connect", address, "-tls1_1").status != 0) }
        let held = [try await SecureWebSocket(hub, "edge"), try await SecureWebSocket(hub, "edge")]
        let beyond = try await tool("curl", "-sk", "--noproxy", "*", "-w", "%{http_code}", "https://\(address)/main")
        #expect(beyond.output.contains("503") && beyond.output.contains("127.0.0.1 holds as many connections as max_connections_per_address (2)"), "\(beyond)")
        _ = try await hub.process.line(containing: "max_connections_per_address (2) is reached", in: .errors)
        let health = try await hub.admin.get("/health")
        let told = try health.json["attention"]?.asArray?.first { $0["kind"] == "connections_refused" }
        #expect(health.status == 200 && told?["subject"] == "listener edge, max_connections_per_address", "\(health)")
        #expect(told?["text"]?.asString?.contains("from 127.0.0.1 are refused") == true && told?["text"]?.asString?.contains("max_connections_per_address is 2") == true, "\(health)")
        #expect(told?["remedy"]?.asString?.contains("behind a proxy") == true, "\(health)")
        // A gateway is told why, too.
        let edge = try await AgentProcess.start(Configuration.secureEdge([("hub", try hub.target("edge"), selfSigned)]))
        try await edge.waits("503 is shown") {
            $0["error"]?["public_code"]?.asInt64 == 10503 && $0["error"]?["message"]?.asString?.contains("max_connections_per_address (2)") == true
        }
        held[0].process.send(SIGTERM)
        try await edge.connects("hub")
        #expect(try await edge.stop().status == 0)
        #expect(try await hub.listener("edge")["connections"]?.asInt64 == 1)
        #expect(try await hub.stop().status == 0)
    }

    @Test("guessing is slowed down with 429, and no password is shown anywhere")
    func guessing() async throws {
        let folder = try TemporaryFolder()
        try folder.write("plugins/users.lua", "return { authenticate_password = function(name, password) return name == \"ada\" and password == \"right-secret\" end }")
        let hub = try await AgentProcess.start(
            Configuration.secureHub([("edge", "authenticator: users")], plugins: true, log: "trace"), in: folder)
        let url = "https://127.0.0.1:\(try hub.port("edge"))/main/_blipsync?[1-25]"
        let curl = try await tool(
            "curl", "-sk", "--noproxy", "*", "-o", "/dev/null", "-w", "%{http_code} %header{retry-after}\\n", "-u", "ada:wrong-secret", "-H", "Connection: Upgrade", "-H",
            "Upgrade: websocket", "-H", "Sec-WebSocket-Version: 13", "-H", "Sec-WebSocket-Key: AAECAwQFBgcICQoLDA0ODw==", "-H",
            "Sec-WebSocket-Protocol: BLIP_3+CBMobile_3", url)
        let answers = curl.output.split(separator: "\n").map(String.init)
        #expect(answers.prefix(20).allSatisfy { $0.hasPrefix("401") } && answers.count == 25, "\(curl)")
        #expect(answers.last.map { $0.hasPrefix("429 ") && $0 != "429 " } == true, "\(curl)")
        _ = try await hub.process.line(containing: "the next such login is not checked", in: .errors)
        // From another address of this machine, so that the first one's waiting time does not count.
        let edge = try await AgentProcess.start(
            Configuration.secureEdge([
                ("right", try hub.target("edge"), "\(selfSigned), network_interface: 127.0.0.2, authenticator: { username: ada, password: right-secret }"),
                ("wrong", try hub.target("edge"), "\(selfSigned), network_interface: 127.0.0.2, authenticator: { username: ada, password: other-secret }"),
                ("slowed", try hub.target("edge"), "\(selfSigned), authenticator: { username: ada, password: right-secret }"),
            ], log: "trace"))
        try await edge.connects("right")
        #expect(try await hub.listener("edge")["peers"]?.asArray?.first?["user"]?.asString == "ada")
        // Until the right one is known at that address, the guesses from the other one count against both.
        try await edge.waits("refused for good", replicator: "wrong") {
            $0["error"]?["public_code"]?.asInt64 == 10401 && $0["error"]?["transient"]?.asBool == false
        }
        try await edge.waits("slowed down, or in after the wait", replicator: "slowed") {
            $0["error"]?["public_code"]?.asInt64 == 10429 || $0["activity"]?.asString == "idle"
        }
        for agent in [edge, hub] {
            let seen = try await [agent.status().text, agent.metrics(), agent.admin.get("/health").text, agent.command("status").output]
            let end = try await agent.stop()
            #expect(end.status == 0)
            for text in seen + [end.output, end.errors] {
                #expect(!text.isEmpty)
                for secret in ["right-secret", "wrong-secret", "other-secret", "YWRhOn", "Basic "] { #expect(!text.contains(secret), "\(secret): \(text)") }
            }
        }
    }
}

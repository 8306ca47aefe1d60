import Documents
import TestSupport
import Testing

/// Real replicators that reach their hub only through a proxy.
@Suite("Replication through a proxy")
struct ProxyTests {
    @Test("TLS goes through, with the pins and names of the target; the proxy resolves its name; no secret is shown", arguments: [TestProxy.Kind.http, .socks5])
    func tls(_ kind: TestProxy.Kind) async throws {
        let proxy = try TestProxy(kind, login: ("gateway", "proxy-hunter-1"))
        let scheme = kind == .http ? "http" : "socks5"
        let hub = try await AgentProcess.start(Configuration.secureHub([("anonymous", "")]))
        let (port, pin) = (try hub.port("anonymous"), try await hub.pin("anonymous"))
        let folder = try TemporaryFolder()
        try folder.write("proxy.secret", "proxy-hunter-1\n")
        func through(_ password: String) -> String { "proxy: { url: \"\(scheme)://127.0.0.1:\(proxy.port)\", username: gateway, password: \(password) }" }
        // Nobody but the proxy knows this name.
        let target = "wss://hub.invalid:\(port)/main"
        let edge = try await AgentProcess.start(Configuration.secureEdge([
            ("good", target, "pinned_server_certificate: \(pin), \(through("\"${file:proxy.secret}\""))"),
            ("stranger", target, "accept_only_self_signed_server_certificate: false, \(through("proxy-hunter-1"))"),
            ("locked-out", target, "pinned_server_certificate: \(pin), \(through("proxy-hunter-2"))"),
        ], log: "trace"), in: folder)
        try await edge.connects("good")
        try await edge.save("there", "{}")
        try await eventually("the document is there") { try await hub.has("there") }
        try await hub.save("back", "{}")
        try await eventually("the document is here") { try await edge.has("back") }
        #expect(proxy.requests.contains("hub.invalid:\(port)"))
        #expect(try await edge.replicator("good")["tls"]?["server_certificate"]?["sha256"]?.asString == (try await hub.listener("anonymous")["tls"]?["sha256"]?.asString))

        #expect(try await edge.refusal("stranger")["public_code"]?.asInt64 == 5011)
        let refused = try await edge.refusal("locked-out")
        #expect(refused["public_code"]?.asInt64 == 10407 && refused["kind"]?.asString == "needs_action", "\(refused.text)")
        #expect(refused["remedy"]?.asString == "check proxy.username and proxy.password", "\(refused.text)")
        let status = try await edge.status().text
        let check = try await edge.command("check")
        for text in [status, edge.process.errors, check.output, check.errors, try await edge.metrics()] {
            #expect(!text.contains("proxy-hunter"))
        }
    }

    @Test("databases of CouchDB are reached through it as well, each request; the server's certificate is in the status", arguments: [TestProxy.Kind.http, .socks5])
    func databases(_ kind: TestProxy.Kind) async throws {
        let proxy = try TestProxy(kind, login: ("gateway", "proxy-hunter-1"))
        let scheme = kind == .http ? "http" : "socks5"
        let hub = try await AgentProcess.start(Configuration.secureHub([("anonymous", ""), ("clear", "disable_tls: true")]))
        let (port, clear, pin) = (try hub.port("anonymous"), try hub.port("clear"), try await hub.pin("anonymous"))
        func through(_ password: String) -> String {
            "proxy: { url: \"\(scheme)://127.0.0.1:\(proxy.port)\", username: gateway, password: \(password) }"
        }
        let target = "https://hub.invalid:\(port)/main"
        let edge = try await AgentProcess.start(Configuration.secureEdge([
            ("good", target, "pinned_server_certificate: \(pin), \(through("proxy-hunter-1"))"),
            ("clear", "http://hub.invalid:\(clear)/main", through("proxy-hunter-1")),
            ("locked-out", target, "pinned_server_certificate: \(pin), \(through("proxy-hunter-2"))"),
        ]))
        try await edge.connects("good")
        try await edge.connects("clear")
        try await edge.save("there", "{}")
        try await eventually("the document is there") { try await hub.has("there") }
        try await hub.save("back", "{}")
        try await eventually("the document is here") { try await edge.has("back") }
        #expect(Set(proxy.requests) == ["hub.invalid:\(port)", "hub.invalid:\(clear)"])
        let shown = try await edge.replicator("good")["tls"]?["server_certificate"]
        #expect(try await shown?["sha256"]?.asString == hub.listener("anonymous")["tls"]?["sha256"]?.asString && shown != nil)
        #expect(try await edge.metrics().contains("nightjar_replicator_server_certificate_expires_seconds{replicator=\"good\"}"))
        let refused = try await edge.refusal("locked-out")
        #expect(refused["public_code"]?.asInt64 == 10407 && refused["remedy"]?.asString == "check proxy.username and proxy.password", "\(refused.text)")
        let status = try await edge.status().text
        for text in [status, edge.process.errors] { #expect(!text.contains("proxy-hunter")) }
    }

    @Test("clear-text targets go through it as well; while nobody is there, the replicator comes back by itself")
    func clearText() async throws {
        let proxy = try TestProxy(.http)
        let hub = try await AgentProcess.start(Configuration.hub())
        let port = try hub.port("edge")
        let edge = try await AgentProcess.start(Configuration.edge(to: port, replicator: "proxy: { url: \"http://127.0.0.1:\(proxy.port)\" }"))
        try await edge.connects("hub")
        try await edge.save("there", "{}")
        try await eventually("the document is there") { try await hub.has("there") }
        #expect(proxy.requests == ["127.0.0.1:\(port)"])
    }
}

import Documents
import Glibc
import TestSupport
import Testing

/// The example configurations of nginx, Caddy and HAProxy, in the real programs, in front of a listener.
@Suite("Proxies in front of a listener", .serialized)
struct FrontProxyTests {
    private let folder: TemporaryFolder
    private let hub: AgentProcess
    private let port: Int

    init() async throws {
        folder = try TemporaryFolder()
        hub = try await AgentProcess.start(Configuration.hub())
        port = try freePort()
        let made = try await Subprocess.run(
            "/usr/bin/openssl",
            [
                "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", folder.path("key.pem"), "-out", folder.path("cert.pem"),
                "-days", "90", "-subj", "/CN=hub.example.com", "-addext", "subjectAltName=DNS:hub.example.com,IP:127.0.0.1",
            ])
        guard made.status == 0 else { throw SupportError("\(made)") }
    }

    private static func example(_ name: String) throws -> String {
        String(decoding: try TemporaryFolder.bytes(of: "\(NightjarExecutable.package())/examples/deploy/configurations/\(name)"), as: UTF8.self)
    }

    private func curl(_ arguments: String...) async throws -> Subprocess.Outcome {
        try await Subprocess.run("/usr/bin/curl", ["-sS", "--cacert", folder.path("cert.pem")] + arguments)
    }

    @Test("nginx", .enabled("needs nginx") { TemporaryFolder.canRun("/usr/sbin/nginx") })
    func nginx() async throws {
        // The proxy's patience is shortened, so that a connection that goes on has been kept by heartbeats.
        let server = try Self.example("nginx.conf").replacing("listen 443", with: "listen 127.0.0.1:\(port)")
            .replacing("/etc/letsencrypt/live/hub.example.com/fullchain.pem", with: folder.path("cert.pem"))
            .replacing("/etc/letsencrypt/live/hub.example.com/privkey.pem", with: folder.path("key.pem"))
            .replacing("127.0.0.1:4984", with: "127.0.0.1:\(try hub.port("edge"))").replacing("15m", with: "3s")
        let folders = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map { "\($0)_temp_path \(folder.path($0));" }.joined()
        let file = try folder.write(
            "nginx.conf",
            "\(geteuid() == 0 ? "user root;" : "") daemon off; master_process off; pid \(folder.path("pid")); error_log stderr; events {} http { access_log off; \(folders)\n\(server)\n}\n")
        let proxy = try Subprocess("/usr/sbin/nginx", ["-p", folder.path, "-c", file, "-e", "stderr"], folder: folder.path)
        try await carries(proxy, patience: .seconds(3))
        proxy.send(SIGTERM)
        _ = try await proxy.wait()
    }

    @Test("Caddy", .enabled("needs caddy") { TemporaryFolder.canRun("/usr/bin/caddy") })
    func caddy() async throws {
        let site = try Self.example("Caddyfile")
            .replacing("hub.example.com {", with: "https://127.0.0.1:\(port) {\n\ttls \(folder.path("cert.pem")) \(folder.path("key.pem"))")
            .replacing("127.0.0.1:4984", with: "127.0.0.1:\(try hub.port("edge"))")
        let file = try folder.write("Caddyfile", "{\n\tadmin off\n\tauto_https disable_redirects\n}\n\(site)")
        let proxy = try Subprocess(
            "/usr/bin/caddy", ["run", "--config", file, "--adapter", "caddyfile"], environment: ["HOME": folder.path, "XDG_DATA_HOME": folder.path, "XDG_CONFIG_HOME": folder.path],
            folder: folder.path)
        try await carries(proxy, patience: .seconds(3))
        proxy.send(SIGTERM)
        _ = try await proxy.wait()
    }

    @Test("HAProxy", .enabled("needs haproxy") { TemporaryFolder.canRun("/usr/sbin/haproxy") })
    func haproxy() async throws {
        let pem = try ["cert.pem", "key.pem"].flatMap { try TemporaryFolder.bytes(of: folder.path($0)) }
        try folder.write("both.pem", bytes: pem)
        let text = try Self.example("haproxy.cfg").replacing("bind :443", with: "bind 127.0.0.1:\(port)")
            .replacing("/etc/haproxy/hub.example.com.pem", with: folder.path("both.pem"))
            .replacing("127.0.0.1:4984", with: "127.0.0.1:\(try hub.port("edge"))").replacing("15m", with: "3s")
        let file = try folder.write("haproxy.cfg", text)
        let proxy = try Subprocess("/usr/sbin/haproxy", ["-db", "-f", file], folder: folder.path)
        try await carries(proxy, patience: .seconds(3))
        proxy.send(SIGTERM)
        _ = try await proxy.wait()
    }

    /// A replication and CouchDB's API through the proxy.
    private func carries(_ proxy: Subprocess, patience: Duration) async throws {
        let base = "https://127.0.0.1:\(port)/main"
        try await eventually("the proxy answers") {
            guard proxy.isRunning else { throw SupportError("the proxy ended: \(try await proxy.wait())") }
            return try await curl("-f", base).status == 0
        }
        let edge = try await AgentProcess.start("""
            data: data
            databases: { main: {} }
            listeners: []
            replicators:
              - { name: hub, database: main, target: "wss://127.0.0.1:\(port)/main", continuous: true, pinned_server_certificate: "\(folder.path("cert.pem"))", heartbeat: 1 }

            """)
        try await edge.put("main", "from-edge", "{}")
        try await eventually("a document comes through") { try await hub.has("from-edge") }

        // An attachment above nginx's own limit of 1 MiB, and a feed whose rows are not kept back.
        let bytes = (0..<3_000_000).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 3) }
        try folder.write("attachment", bytes: bytes)
        #expect(try await curl("-f", "-X", "PUT", "\(base)/doc/file", "--data-binary", "@\(folder.path("attachment"))", "-H", "Content-Type: application/octet-stream").status == 0)
        #expect(try await curl("-f", "\(base)/doc/file").outputBytes == bytes)
        let feed = try Subprocess("/usr/bin/curl", ["-sS", "-N", "--cacert", folder.path("cert.pem"), "\(base)/_changes?feed=continuous&since=now&heartbeat=1000"])
        try await eventually("the feed is open") { feed.output.contains("\n") }
        try await hub.put("main", "later", "{}")
        _ = try await feed.line(containing: #""id":"later""#)
        feed.send(SIGTERM)
        try await eventually("the edge has it all") { try await every(edge.has("later"), edge.has("doc")) }

        // The same connection, beyond the time after which the proxy gives up a silent one. A busy machine may have been silent for that long, once.
        var (before, now) = (String?.none, try await Self.correlation(hub))
        for _ in 0..<3 where now == nil || now != before {
            let start = ContinuousClock.now
            try await eventually("the proxy's patience is over") { ContinuousClock.now - start > patience * 2 }
            (before, now) = (now, try await Self.correlation(hub))
        }
        #expect(now != nil && now == before)
        try await hub.put("main", "last", "{}")
        try await eventually("it still carries") { try await edge.has("last") }
        #expect(try await edge.stop().status == 0)
    }

    private static func correlation(_ agent: AgentProcess) async throws -> String? {
        try await agent.status()["listeners"]?.asArray?.first?["peers"]?.asArray?.first?["correlation_id"]?.asString
    }
}

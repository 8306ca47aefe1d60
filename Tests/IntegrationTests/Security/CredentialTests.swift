import Documents
import Encodings
import TestSupport
import Testing

/// What a replicator tells a server about itself, read at the server.
@Suite("Credentials on the wire")
struct CredentialTests {
    /// A TLS server that shows what comes and answers what the test types.
    private struct TLSServer {
        let process: Subprocess
        let port: Int

        init(_ certificates: Certificates) async throws {
            process = try Subprocess(
                "/usr/bin/openssl",
                ["s_server", "-accept", "127.0.0.1:0", "-cert", certificates.path("alone.pem"), "-key", certificates.path("alone.key"), "-naccept", "1"],
                input: .open)
            let line = try await process.line(containing: "ACCEPT 127.0.0.1:")
            guard let port = line.split(separator: ":").last.flatMap({ Int($0) }) else { throw SupportError("no port in \(line)") }
            self.port = port
        }

        /// The head of the request, once it is there.
        func request() async throws -> [String] {
            let text = try await eventually("the request") {
                let text = process.output
                return text.contains("\r\n\r\n") && text.contains("GET /") ? text : nil
            }
            return text.replacing("\r\n", with: "\n").split(separator: "\n").map(String.init)
        }
    }

    @Test("over TLS everything goes with the first request, as it was configured")
    func overTLS() async throws {
        let certificates = try await Certificates()
        let folder = try TemporaryFolder()
        try folder.write("token.txt", "file-hunter-2\n")
        let expected: [(name: String, options: String, lines: [String], not: [String])] = [
            ("basic", "authenticator: { username: ada, password: \"${HUB_PASSWORD}\" }",
                ["Authorization: Basic \(Base64.encode(Array("ada:env-hunter-1".utf8)))"], ["Cookie:"]),
            ("bearer", "authenticator: { bearer: \"${file:token.txt}\" }", ["Authorization: Bearer file-hunter-2"], ["Cookie:"]),
            ("session", "authenticator: { session: cookie-hunter-3 }", ["Cookie: SyncGatewaySession=cookie-hunter-3"], ["Authorization:"]),
            ("cookie", "authenticator: { session: cookie-hunter-3, cookie: AuthSession }", ["Cookie: AuthSession=cookie-hunter-3"], ["Authorization:"]),
            ("headers", "headers: { X-Site: plant-7, X-Token: header-hunter-4 }", ["X-Site: plant-7", "X-Token: header-hunter-4"], ["Authorization:", "Cookie:"]),
        ]
        var servers: [TLSServer] = []
        for _ in expected { servers.append(try await TLSServer(certificates)) }
        let edge = try await AgentProcess.start(
            Configuration.secureEdge(zip(expected, servers).map { wanted, server in
                (wanted.name, "wss://127.0.0.1:\(server.port)/main", "pinned_server_certificate: \(certificates.path("alone.pem")), \(wanted.options)")
            }, log: "trace", wait: 300), in: folder, environment: ["HUB_PASSWORD": "env-hunter-1"])
        let events = try await EventProbe(edge)
        for (wanted, server) in zip(expected, servers) {
            let request = try await server.request()
            #expect(request.contains { $0 == "GET /main/_blipsync HTTP/1.1" })
            #expect(request.contains { $0.hasPrefix("User-Agent: nightjar/") })
            for line in wanted.lines { #expect(request.contains(line), "\(wanted.name): \(request)") }
            for name in wanted.not { #expect(!request.contains { $0.hasPrefix(name) }, "\(wanted.name): \(request)") }
            // What a proxy with a grudge would do: give it all back in the refusal.
            let body = "refused: \(request.joined(separator: " | "))"
            server.process.write(
                "HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\nContent-Length: \(body.utf8.count)\r\nConnection: close\r\n\r\n\(body)")
        }
        var seen: [String] = []
        for wanted in expected {
            let error = try await edge.refusal(wanted.name)
            #expect(error["public_code"]?.asInt64 == 10403 && error["transient"]?.asBool == false, "\(wanted.name): \(error.text)")
            #expect(error["message"]?.asString?.contains("(secret)") == true, "\(wanted.name): \(error.text)")
        }
        try await events.wait("the refusals") { $0.contains("10403") }
        seen.append(events.text)
        for path in ["/api/status", "/api/replicators", "/health", "/metrics"] { seen.append(try await edge.admin.get(path).text) }
        let status = try await NightjarExecutable.run(
            "status", "--config", edge.configuration, environment: ["HUB_PASSWORD": "env-hunter-1"], folder: folder.path)
        #expect(status.status == 0, "\(status)")
        seen.append(status.output)
        let end = try await edge.stop()
        seen += [end.output, end.errors]
        #expect(end.errors.contains("HTTP 403"))
        for text in seen {
            #expect(!text.isEmpty)
            for secret in ["env-hunter-1", "file-hunter-2", "cookie-hunter-3", "header-hunter-4", Base64.encode(Array("ada:env-hunter-1".utf8))] {
                #expect(!text.contains(secret), "\(secret) in \(text)")
            }
        }
    }

    /// Sync Gateway takes who shows nothing for a guest where a database admits guests, and asks for no password.
    @Test("a password goes with the first request in clear text too", arguments: [false, true])
    func inClearText(_ waits: Bool) async throws {
        let server = try ServerSocket()
        let options = "authenticator: { username: ada, password: hunter }" + (waits ? ", challenge_auth: true" : "")
        let edge = try await AgentProcess.start(Configuration.secureEdge([("hub", "ws://127.0.0.1:\(server.port)/main", options)]))
        let login = "Authorization: Basic \(Base64.encode(Array("ada:hunter".utf8)))\r\n"
        if waits {
            let first = try await server.serve("HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"x\"\r\nContent-Length: 0\r\n\r\n")
            #expect(!first.contains("Authorization:"), "\(first)")
        }
        let request = try await server.serve("HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")
        #expect(request.contains(login), "\(request)")
        let error = try await edge.refusal("hub")
        #expect(error["public_code"]?.asInt64 == 10401 && error["transient"]?.asBool == false, "\(error.text)")
        #expect(try await edge.stop().status == 0)
    }

    @Test("a plugin's token goes with the first request, and another one when it is refused; neither is shown", arguments: ["ws", "http"])
    func fromPlugin(_ scheme: String) async throws {
        let server = try ServerSocket()
        let folder = try TemporaryFolder()
        try folder.write("plugins/maker.lua", """
            return {
              params = { prefix = { type = "string", required = true } },
              token = function(ctx)
                return { token = ctx.params.prefix .. "-" .. ctx.replicator .. "-" .. nightjar.uuid(), expires_in = 3600 }
              end,
            }
            """)
        let options = "authenticator: { plugin: maker, params: { prefix: made } }"
        let configuration = "plugins: plugins\n" + Configuration.secureEdge([("hub", "\(scheme)://127.0.0.1:\(server.port)/main", options)], log: "trace")
        let edge = try await AgentProcess.start(configuration, in: folder)
        try await isRenewedAndNotShown(edge, server, "Authorization: Bearer ", "made-hub-")
    }

    @Test("a plugin's session goes in its cookie with the first request, and another one when it is refused; neither is shown", arguments: ["ws", "http"])
    func sessionFromPlugin(_ scheme: String) async throws {
        let server = try ServerSocket()
        let folder = try TemporaryFolder()
        try folder.write("plugins/maker.lua", """
            return {
              get_session = function(ctx)
                local expires = nightjar.time.format(nightjar.time.now() + 3600)
                return { session_id = ctx.replicator .. "-" .. nightjar.uuid(), cookie_name = "Ticket", expires = expires }
              end,
            }
            """)
        let configuration = "plugins: plugins\n"
            + Configuration.secureEdge([("hub", "\(scheme)://127.0.0.1:\(server.port)/main", "authenticator: { plugin: maker }")], log: "trace")
        let edge = try await AgentProcess.start(configuration, in: folder)
        for request in try await isRenewedAndNotShown(edge, server, "Cookie: Ticket=", "hub-") { #expect(!request.contains("Authorization:"), "\(request)") }
    }

    /// Both of its first requests are refused: each has another secret in its header, and neither is in anything that is shown.
    @discardableResult
    private func isRenewedAndNotShown(_ edge: AgentProcess, _ server: ServerSocket, _ header: String, _ start: String) async throws -> [String] {
        var (requests, secrets): ([String], [String]) = ([], [])
        for _ in 0..<2 {
            let request = try await server.serve("HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            let line = request.replacing("\r\n", with: "\n").split(separator: "\n").first { $0.hasPrefix(header + start) }
            secrets.append(String(try #require(line, "\(request)").dropFirst(header.utf8.count)))
            requests.append(request)
        }
        #expect(secrets[0] != secrets[1])
        let error = try await edge.refusal("hub")
        #expect(error["public_code"]?.asInt64 == 10401 && error["transient"]?.asBool == false, "\(error.text)")
        let status = try await edge.admin.get("/api/status").text
        let end = try await edge.stop()
        #expect(end.status == 0)
        for text in [status, error.text, end.output, end.errors] {
            for secret in secrets { #expect(!text.contains(secret), "\(secret) in \(text)") }
        }
        return requests
    }

    @Test("a plugin that returns no token or session is reported as the reason, and asked again", arguments: ["token", "session"])
    func pluginFails(_ what: String) async throws {
        let folder = try TemporaryFolder()
        let server = try ServerSocket()
        let (hook, answer) = what == "token" ? ("token", "'mended'") : ("get_session", "{ session_id = 'mended' }")
        try folder.write("plugins/maker.lua", "return { \(hook) = function(ctx) return nil end }")
        let configuration = "plugins: plugins\n" + Configuration.secureEdge([("hub", "ws://127.0.0.1:\(server.port)/main", "authenticator: { plugin: maker }")])
        let edge = try await AgentProcess.start(configuration, in: folder)
        let error = try await edge.refusal("hub")
        #expect(error["transient"]?.asBool == true, "\(error.text)")
        #expect(error["message"]?.asString?.contains("the plugin maker gave no \(what): plugin_result: ") == true, "\(error.text)")
        try folder.write("plugins/maker.lua", "return { \(hook) = function(ctx) return \(answer) end }")
        let request = try await server.serve("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
        #expect(request.contains(what == "token" ? "Authorization: Bearer mended\r\n" : "Cookie: SyncGatewaySession=mended\r\n"), "\(request)")
        #expect(try await edge.stop().status == 0)
    }

    @Test("connections leave by the interface that is named, by name or by address")
    func interface() async throws {
        let hub = try await AgentProcess.start(Configuration.secureHub([("edge", "")]))
        let target = try hub.target("edge")
        let options = ["name": "lo", "address": "127.0.0.3", "unknown": "nosuch0", "foreign": "192.0.2.1"].mapValues {
            "accept_only_self_signed_server_certificate: true, network_interface: \($0)"
        }
        let edge = try await AgentProcess.start(Configuration.secureEdge(options.map { ($0.key, target, $0.value) }))
        for name in ["name", "address"] { try await edge.connects(name) }
        let addresses = try await hub.listener("edge")["peers"]?.asArray?.compactMap { $0["address"]?.asString?.split(separator: ":").first.map(String.init) }
        #expect(addresses?.sorted() == ["127.0.0.1", "127.0.0.3"], "\(String(describing: addresses))")
        for (name, code, words) in [("unknown", 5027, "nosuch0 is neither a network interface"), ("foreign", 5025, "192.0.2.1")] as [(String, Int64, String)] {
            try await edge.waits("\(code)", replicator: name) { $0["error"]?["public_code"]?.asInt64 == code }
            let error = try await edge.replicator(name)["error"]
            #expect(error?["message"]?.asString?.contains(words) == true, "\(name): \(error?.text ?? "")")
        }
        for agent in [edge, hub] { #expect(try await agent.stop().status == 0) }
    }
}

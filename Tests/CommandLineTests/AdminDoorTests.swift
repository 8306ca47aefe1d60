import Documents
import Glibc
import TestSupport
import Testing

/// Who may do what over the admin port, and what is recorded of it.
@Suite("Access to the admin port")
struct AdminDoorTests {
    private static let configuration = """
        data: data
        plugins: plugins
        admin:
          port: 0
          token: all-of-it
          tokens:
            - { name: grafana, token: only-look, role: read }
            - { name: night-shift, token: start-and-stop, role: operate }
            - { name: importer, token: write-too, role: edit }
        databases: { main: {} }
        listeners:
          - { name: edge, databases: [ main ], port: 0, interface: 127.0.0.1, disable_tls: true, authenticator: users }

        """

    private static func start() async throws -> AgentProcess {
        let folder = try TemporaryFolder()
        try folder.write("plugins/users.lua", "return { authenticate_password = function(n, p) return p == 'right' and { name = n } end }\n")
        return try await AgentProcess.start(configuration, in: folder)
    }

    private static func ask(_ agent: AgentProcess, _ method: String, _ path: String, _ token: String?, _ body: String? = nil) async throws -> HTTPProbe.Answer {
        try await HTTPProbe.tcp(port: try agent.port("admin")).request(
            method, path, headers: token.map { [("Authorization", "Bearer \($0)")] } ?? [], body: body.map { Array($0.utf8) })
    }

    @Test("a port without a token in the configuration asks for one that the agent made, and keeps it")
    func madeToken() async throws {
        let folder = try TemporaryFolder()
        let configuration = "data: data\nadmin: { port: 0 }\nlisteners: []\ndatabases: { main: {} }\n"
        let file = folder.path("data/admin.token")
        var token = ""
        for start in 1...2 {
            let agent = try await AgentProcess.start(configuration, in: folder)
            let probe = HTTPProbe.tcp(port: try agent.port("admin"))
            let refused = try await probe.get("/api/status")
            #expect(refused.status == 401 && refused.text.contains("DATA/admin.token"), "\(refused)")
            let written = try folder.text("data/admin.token").replacing("\n", with: "")
            #expect(written.utf8.count == 64)
            if start == 2 { #expect(written == token) }
            token = written
            #expect(try await probe.get("/api/status", headers: [("Authorization", "Bearer \(token)")]).status == 200)
            var facts = stat()
            #expect(stat(file, &facts) == 0 && facts.st_mode & 0o777 == 0o600)
            _ = try await agent.stop()
        }
        // Once the configuration names others, that one lets nobody in, and this is said wherever somebody would wonder.
        let named = configuration.replacing("port: 0", with: "port: 0, tokens: [ { name: grafana, token: a-token-of-its-own, role: read } ]")
        let before = try await AgentProcess.start(configuration, in: folder)
        try folder.write("nightjar.yaml", named)
        let reload = try await before.command("reload")
        #expect(reload.status == 0 && reload.output.contains("admin: at the next start") && reload.output.contains("DATA/admin.token"), "\(reload)")
        _ = try await before.stop()
        let check = try await NightjarExecutable.run("check", "--config", folder.path("nightjar.yaml"))
        #expect(check.status == 0 && check.errors.contains("warning: ") && check.errors.contains("DATA/admin.token"), "\(check)")
        let after = try await AgentProcess.start(named, in: folder)
        let shut = try await HTTPProbe.tcp(port: try after.port("admin")).get("/api/status", headers: [("Authorization", "Bearer \(token)")])
        #expect(shut.status == 401 && shut.text.contains("one of admin.tokens") && shut.text.contains("DATA/admin.token is not used"), "\(shut)")
        _ = try await after.stop()
        // Who else can read it could do everything.
        chmod(file, 0o644)
        try folder.write("nightjar.yaml", configuration)
        let loose = try await NightjarExecutable.run("run", "--config", folder.path("nightjar.yaml"))
        #expect(loose.status == 78 && loose.errors.contains("admin.token") && loose.errors.contains("chmod 600"), "\(loose)")
        chmod(file, 0o600)
        try folder.write("data/admin.token", "short\n")
        chmod(file, 0o600)
        let short = try await NightjarExecutable.run("run", "--config", folder.path("nightjar.yaml"))
        #expect(short.status == 78 && short.errors.contains("remove the file"), "\(short)")
        // White space at the ends is no part of it; a second line would make another token of it.
        try folder.write("data/admin.token", "\(token)\nanother\n")
        let lines = try await NightjarExecutable.run("run", "--config", folder.path("nightjar.yaml"))
        #expect(lines.status == 78 && lines.errors.contains("several lines"), "\(lines)")
        unlink(file)
        #expect(symlink(folder.path("nowhere.token"), file) == 0)
        let dangling = try await NightjarExecutable.run("run", "--config", folder.path("nightjar.yaml"))
        #expect(dangling.status == 78 && dangling.errors.contains("symbolic link") && !dangling.errors.contains("--replace"), "\(dangling)")
    }

    @Test("it is reached by the host names that the configuration gives it, with the token as ever, and by no others")
    func hosts() async throws {
        let agent = try await AgentProcess.start("data: data\nadmin: { port: 0, token: look, hosts: [ gateway-1, metrics.plant.example ] }\nlisteners: []\ndatabases: { main: {} }\n")
        let port = try agent.port("admin")
        func get(_ host: String, _ more: String = "") async throws -> HTTPProbe.Answer {
            try HTTPProbe.parse(try await HTTPProbe.tcp(port: port).raw(Array("GET /metrics HTTP/1.1\r\nHost: \(host)\r\n\(more)Connection: close\r\n\r\n".utf8)))
        }
        let token = "Authorization: Bearer look\r\n"
        for host in ["gateway-1:4985", "GATEWAY-1", "metrics.plant.example", "localhost"] {
            #expect(try await get(host, token).status == 200, "\(host)")
            #expect(try await get(host).status == 401, "\(host)")
        }
        #expect(try await get("gateway-1:\(port)", "\(token)Origin: http://gateway-1:\(port)\r\n").status == 200)
        #expect(try await get("gateway-1:\(port)", "\(token)Origin: http://evil.example\r\n").status == 403)
        for host in ["gateway-2", "gateway-1.evil.example", "plant.example", "x.metrics.plant.example", "*"] {
            let answer = try await get(host, token)
            #expect(answer.status == 403 && answer.text.contains("admin: { hosts: ["), "\(host): \(answer)")
        }
        #expect(try await agent.stop().status == 0)
    }

    @Test("each role may do what it is meant for, and is told what it may not do")
    func roles() async throws {
        let agent = try await Self.start()
        let requests: [(method: String, path: String, body: String?, from: Int)] = [
            ("GET", "/api/status", nil, 0), ("GET", "/metrics", nil, 0), ("GET", "/api/databases/main/documents", nil, 0), ("GET", "/api", nil, 0),
            ("POST", "/api/reload", "", 1), ("POST", "/api/plugins/reload", "", 1), ("POST", "/api/databases/main/check", "", 1),
            ("POST", "/api/databases/main/compact", "", 1), ("GET", "/api/audit", nil, 1), ("PUT", "/api/databases/main/documents/a", "{}", 2),
            ("POST", "/api/databases/main/resync", "", 1), ("POST", "/api/databases/main/import", "{}", 2), ("POST", "/api/databases/main/purge/nothing", "", 2),
        ]
        for (rank, token) in ["only-look", "start-and-stop", "write-too", "all-of-it"].enumerated() {
            for (method, path, body, from) in requests {
                let answer = try await Self.ask(agent, method, path, token, body)
                #expect((answer.status == 403) == (min(rank, 2) < from), "\(token) \(method) \(path): \(answer)")
                guard answer.status == 403 else { continue }
                // However the path is written.
                for (plain, encoded) in [("/api/", "/%61pi/"), ("atabases/", "atab%61ses/"), ("/audit", "/%61udit"), ("/purge/", "/purg%65/")] where path.contains(plain) {
                    let other = String(path.split(separator: plain, maxSplits: 1, omittingEmptySubsequences: false).joined(separator: encoded))
                    let again = try await Self.ask(agent, method, other, token, body)
                    #expect(again.status == 403, "\(token) \(method) \(other): \(again)")
                }
                #expect(answer.text.contains("has the role") && answer.text.contains("needs \(["read", "operate", "edit"][from])"), "\(answer)")
            }
        }
        #expect(try await Self.ask(agent, "GET", "/api/status", nil).status == 401)
        #expect(try await Self.ask(agent, "GET", "/api/status", "only-loo").status == 401)
        #expect(try await Self.ask(agent, "GET", "/api/status", "").status == 401)
        #expect(try await agent.stop().status == 0)
    }

    @Test("/api lists every route with its role and what it is for, and openapi.json the same")
    func index() async throws {
        let agent = try await AgentProcess.start(Configuration.plain)
        let list = try await agent.admin.get("/api").json.asArray ?? []
        #expect(list.count > 50)
        for route in list { #expect((route["what"]?.asString?.utf8.count ?? 0) > 5, "AdminRouteSummaries lacks \(route.text)") }
        func role(_ method: String, _ path: String) -> String? { list.first { $0["method"]?.asString == method && $0["path"]?.asString == path }?["role"]?.asString }
        #expect(role("GET", "/api/status") == "read" && role("POST", "/api/reload") == "operate" && role("PUT", "/api/databases/:db/documents/:id") == "edit")
        let description = try await agent.admin.get("/api/openapi.json").json
        #expect(description["openapi"] == "3.1.0")
        let paths = description["paths"]?.asObject
        let parameters = paths?["/api/databases/{db}/documents/{id}"]?["put"]?["parameters"]?.asArray ?? []
        #expect(parameters.filter { $0["in"] == "path" }.count == 2 && parameters.contains { $0["name"] == "on_conflict" && $0["in"] == "query" })
        // Every path that is listed answers something else than "there is nothing".
        for route in list where route["method"] == "GET" && route["path"]?.asString != "/api/events" {
            let path = (route["path"]?.asString ?? "").replacing(":db", with: "main").replacing(":name", with: "edge").replacing(":id", with: "x").replacing(":digest", with: "x")
            let answer = try await agent.admin.get(path)
            #expect(!answer.text.contains("there is nothing at"), "\(path): \(answer)")
        }
    }

    @Test("who did what is recorded: actions with the token's name, failed logins, plugins, purges; but no secrets and no documents")
    func audit() async throws {
        let agent = try await Self.start()
        _ = try await Self.ask(agent, "POST", "/api/reload", "start-and-stop", "")
        _ = try await Self.ask(agent, "POST", "/api/reload", "only-look", "")
        _ = try await Self.ask(agent, "GET", "/api/status", "guess-0x1")
        #expect(try await agent.command("doc", "put", "main", "secret-document", #"{"a":"body-0x2"}"#).status == 0)
        for n in 0..<50 { _ = try await agent.admin.request("PUT", "/api/databases/main/documents/many-\(n)", body: Array("{}".utf8)) }
        #expect(try await agent.command("doc", "purge", "main", "secret-document").status == 0)
        #expect(try await agent.command("doc", "purge", "main", "secret-document").status == 1)
        for _ in 0..<5 {
            let login = try await HTTPProbe.tcp(port: try agent.port("edge")).get("/main/x", headers: [("Authorization", "Basic YWRhOndyb25n")])
            #expect(login.status == 401)
        }
        // What makes another action of it is told with it, and nothing else of a query.
        _ = try await agent.admin.request("POST", "/api/replicators/none/start?reset=true&token=query-0x3", body: [])
        _ = try await Self.ask(agent, "DELETE", "/api/databases/main/documents/from-afar?rev=1-ab", "write-too")
        _ = try await agent.admin.request("POST", "/api/databases/main/backup?to=%2Fdev%2Fnull%2Fbackup", body: [])
        try agent.folder.write("plugins/users.lua", "return { authenticate_password = function(n, p) return false end }\n")
        try await eventually("the plugin is changed") { try await agent.command("audit", "--json").output.contains("plugin changed") }

        let outcome = try await agent.command("audit", "--json")
        let entries = try outcome.lines.map { try JSONValue(parsing: Array($0.utf8)) }
        func has(_ who: String, _ action: String, _ target: String, _ outcome: String) -> Bool {
            entries.contains {
                $0["who"]?.asString == who && $0["action"]?.asString == action && $0["target"]?.asString?.contains(target) == true
                    && $0["outcome"]?.asString?.contains(outcome) == true && $0["time"]?.asString?.hasPrefix("20") == true
            }
        }
        #expect(has("agent", "started", "", "ready"), "\(outcome)")
        #expect(has("night-shift", "POST /api/reload", "", "200"), "\(outcome)")
        #expect(has("grafana", "POST /api/reload", "admin port", "403"), "\(outcome)")
        #expect(has("", "login", "admin port", "401"), "\(outcome)")
        #expect(has("ada", "login", "listener edge", "refused"), "\(outcome)")
        #expect(has("the agent's user", "POST /api/databases/main/purge/secret-document", "", "200") && has("the agent's user", "POST /api/databases/main/purge/secret-document", "", "404"), "\(outcome)")
        #expect(has("the agent's user", "POST /api/replicators/none/start?reset=true", "", "400"), "\(outcome)")
        #expect(has("the agent's user", "POST /api/databases/main/backup?to=/dev/null/backup", "", ""), "\(outcome)")
        #expect(has("plugins folder", "plugin changed", "users", " to "), "\(outcome)")
        // A thousand documents are not a thousand lines, and one who guesses does not push the rest out.
        // (A line is for a minute; a busy machine may need some for them.)
        #expect((1..<25).contains(entries.count { $0["action"]?.asString?.hasPrefix("PUT ") == true }))
        #expect((1..<5).contains(entries.count { $0["target"] == "listener edge" }))
        let removal = try #require(entries.first { $0["document"]?.asString == "from-afar" })
        #expect(removal["action"] == "DELETE /api/databases/main/documents" && removal["from"] == "127.0.0.1" && removal["who"]?.asString?.isEmpty == false, "\(removal.text)")
        // Which document it was, and from where; a table shows it, too.
        let put = try #require(entries.first { $0["document"]?.asString == "secret-document" })
        #expect(put["who"] == "the agent's user" && put["from"] == "admin.sock" && put["target"] == "main" && put["action"] == "PUT /api/databases/main/documents", "\(put.text)")
        #expect(try await agent.command("audit").output.contains("main secret-document"))
        for secret in ["guess-0x1", "body-0x2", "query-0x3", "only-look", "all-of-it"] { #expect(!outcome.output.contains(secret)) }
        #expect(try await agent.command("audit", "--limit", "1").lines.count == 2)
        let answer = try await Self.ask(agent, "GET", "/api/audit?limit=2", "start-and-stop")
        #expect(try answer.json.asArray?.count == 2, "\(answer)")
        let metrics = try await agent.admin.get("/metrics").text
        #expect(metrics.contains(#"nightjar_logins_refused_total{listener="edge"} 5"#) && metrics.contains(#"nightjar_logins_refused_total{listener="admin port"} 1"#))
        #expect(try await agent.stop().status == 0)
        // Also without an agent, for the agent's user only.
        #expect(try await agent.command("audit").output.contains("stopped"))
        var facts = stat()
        #expect(stat(agent.folder.path("data/audit.log"), &facts) == 0 && facts.st_mode & 0o777 == 0o600)
    }

    @Test("the audit log stays below its bounds, and goes on in its first file")
    func rotation() async throws {
        let folder = try TemporaryFolder()
        let line = "{\"time\":\"2026-01-01T00:00:00Z\",\"who\":\"\(String(repeating: "x", count: 950))\"}\n"
        try folder.write("data/audit.log", String(repeating: line, count: (1 << 20) / line.utf8.count))
        for n in 1...4 { try folder.write("data/audit.log.\(n)", "{\"who\":\"file-\(n)\"}\n") }
        let agent = try await AgentProcess.start(Configuration.plain, in: folder)
        #expect(try await agent.command("reload").status == 0)
        #expect(try await agent.stop().status == 0)
        #expect(try folder.read("data/audit.log").count < 10_000)
        #expect(try folder.text("data/audit.log").contains("POST /api/reload"))
        #expect(try folder.read("data/audit.log.1").count > 1_000_000)
        #expect(try folder.text("data/audit.log.4").contains("file-3") && !folder.exists("data/audit.log.5"))
    }

    @Test("audit says that its limit leaves entries out, and nothing where it shows all of them")
    func limitedAudit() async throws {
        let folder = try TemporaryFolder()
        try folder.write("nightjar.yaml", Configuration.plain)
        func entry(_ who: String) -> String { "{\"time\":\"2026-01-01T00:00:00Z\",\"who\":\"\(who)\",\"action\":\"login\"}\n" }
        // Entries of the file before count like those of the present one.
        try folder.write("data/audit.log.1", entry("ada"))
        try folder.write("data/audit.log", entry("ben") + entry("carl"))
        func audit(_ options: [String]) async throws -> Subprocess.Outcome {
            try await Subprocess.run(try NightjarExecutable.path(), ["audit", "--config", folder.path("nightjar.yaml")] + options)
        }
        for (limit, shown) in [(1, "1 entry"), (2, "2 entries")] {
            let outcome = try await audit(["--limit", "\(limit)", "--json"])
            #expect(outcome.status == 0 && outcome.lines.count == limit && outcome.lines.last?.contains("carl") == true, "\(outcome)")
            #expect(outcome.errors.contains("only the last \(shown) of the log; --limit shows more"), "\(outcome)")
        }
        for options in [["--limit", "3"], ["--limit", "\(Int.max)"], []] {
            let outcome = try await audit(options)
            // With the heads of the columns.
            #expect(outcome.status == 0 && outcome.lines.count == 4 && outcome.errors.isEmpty, "\(outcome)")
        }
        #expect(try await audit(["--limit", "0"]).status == 64)
    }
}

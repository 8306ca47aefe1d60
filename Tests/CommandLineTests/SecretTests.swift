import Documents
import Glibc
import TestSupport
import Testing

/// Secrets from the environment, from files and from systemd reach their use and nothing else.
@Suite struct SecretTests {
    private static let secrets = ["env-hunter-1", "file-hunter-2", "credential-hunter-3", "header-hunter-4", "literal-hunter-5", "token-hunter-6"]

    @Test func noSecretIsShownAnywhere() async throws {
        let folder = try TemporaryFolder()
        try folder.write("secret.txt", "file-hunter-2\n")
        try folder.write("credentials/hub", "credential-hunter-3\n")
        // Nobody listens on a port that was just given back: every replicator fails and says why.
        let configuration = """
            data: data
            admin: { port: 0, token: token-hunter-6 }
            log: { level: trace }
            databases: { main: {} }
            listeners:
              - { name: edge, databases: [ main ], port: 0, interface: 127.0.0.1, disable_tls: true }
            replicators:
            \(Self.replicator("env", "{ username: u, password: \"${HUB_PASSWORD}\" }"))
            \(Self.replicator("file", "{ bearer: \"${file:secret.txt}\" }"))
            \(Self.replicator("credential", "{ session: \"${credential:hub}\" }"))
            \(Self.replicator("literal", "{ username: u, password: literal-hunter-5 }"))
                headers: { X-Token: header-hunter-4 }
            """
        let agent = try await AgentProcess.start(
            configuration, in: folder,
            environment: ["HUB_PASSWORD": "env-hunter-1", "CREDENTIALS_DIRECTORY": folder.path("credentials")])
        let socket = try #require(agent.addresses.first { $0.address.hasPrefix("unix:") }).address.dropFirst(5)
        let events = try Subprocess("/usr/bin/curl", ["-sN", "--unix-socket", String(socket), "http://localhost/api/events"])
        try await eventually("every replicator has failed once") {
            try await agent.status()["replicators"]?.asArray?.allSatisfy { $0["error"]?["message"]?.asString != nil } == true
        }
        var seen: [(String, String)] = []
        for path in ["/api/status", "/api/replicators/env", "/api/replicators", "/api/listeners", "/api/plugins", "/health", "/metrics"] {
            let answer = try await agent.admin.get(path)
            seen.append((path, String(decoding: answer.body, as: UTF8.self)))
        }
        for arguments in [["status"], ["status", "--json"], ["check", "--json"]] {
            let outcome = try await Subprocess.run(
                try NightjarExecutable.path(), arguments + ["--config", agent.configuration],
                environment: ["HUB_PASSWORD": "env-hunter-1", "CREDENTIALS_DIRECTORY": folder.path("credentials")], folder: folder.path)
            #expect(outcome.status == 0, "\(outcome)")
            seen.append((arguments.joined(separator: " "), outcome.output + outcome.errors))
        }
        // Each replicator tries again, and says so.
        _ = try await events.line(containing: "Connection refused")
        // A reload that is refused tells what is wrong, and one that is taken tells what it did.
        try folder.write("secret.txt", "file-hunter-2-changed\n")
        agent.process.send(SIGHUP)
        _ = try await agent.process.line(containing: "replicator file", in: .errors)
        try folder.write("secret.txt", bytes: Array("file-hunter-2\u{1}bad".utf8))
        agent.process.send(SIGHUP)
        _ = try await agent.process.line(containing: "cannot carry", in: .errors)
        let outcome = try await agent.stop()
        seen.append(("events", events.output))
        seen.append(("standard output", outcome.output))
        seen.append(("standard error", outcome.errors))
        #expect(outcome.errors.contains("replicator"))
        for (place, text) in seen {
            // Silence would prove nothing.
            #expect(text.contains(place == "/api/plugins" ? "[]" : "e"), "\(place) is silent")
            for secret in Self.secrets + ["Authorization:", "dTplbnYtaHVudGVyLTE", "SyncGatewaySession="] {
                #expect(!text.contains(secret), "\(secret) in \(place): \(text)")
            }
        }
    }

    @Test("a secret that other users can read is a warning that says what to run: in check, in doctor and at the start")
    func exposed() async throws {
        let folder = try TemporaryFolder()
        // Others get as far as the files.
        chmod(folder.path, 0o755)
        try folder.copy("\(NightjarExecutable.package())/plugins/password-file.lua", to: "plugins/password-file.lua")
        let made = try await NightjarExecutable.run("password", folder: folder.path, input: .text("secret\n"))
        let open = [try folder.write("users.txt", "ada:\(made.output)"), try folder.write("hub.secret", "file-hunter-2\n")]
        for path in open { chmod(path, 0o644) }
        let closed = try folder.write("closed.secret", "file-hunter-2\n")
        chmod(closed, 0o600)
        let agent = try await AgentProcess.start(
            """
            data: data
            admin: { port: 0, open: true }
            databases: { main: {} }
            listeners:
              - name: edge
                databases: [ main ]
                port: 0
                interface: 127.0.0.1
                disable_tls: true
                authenticator: { plugin: password-file, params: { file: users.txt } }
            replicators:
            \(Self.replicator("loose", "{ bearer: \"${file:hub.secret}\" }"))
            \(Self.replicator("closed", "{ bearer: \"${file:closed.secret}\" }"))
            """, in: folder)
        let words = "other users can access this secret (permissions 0644, and 0600"
        for path in open { _ = try await agent.process.line(containing: "\(path): \(words)", in: .errors) }
        let check = try await agent.command("check")
        let doctor = try await agent.command("doctor", "--offline")
        #expect(check.status == 0, "\(check)")
        for path in open {
            #expect(check.errors.contains("warning: \(path): \(words)") && check.errors.contains("run: chmod 600 \(path)"), "\(check)")
            #expect(doctor.output.contains("\(path): \(words)") && doctor.output.contains("mend: chmod 600 \(path)"), "\(doctor)")
        }
        #expect(!agent.process.errors.contains("closed.secret") && !check.errors.contains("closed.secret"), "\(check)")
        // So can a secret that the configuration itself holds.
        try folder.write("inline.yaml", """
            data: data
            databases: { main: {} }
            replicators:
            \(Self.replicator("inline", "{ bearer: secret-words }"))
            """)
        chmod(folder.path("inline.yaml"), 0o644)
        func inline() async throws -> String { try await NightjarExecutable.run("check", "--config", "inline.yaml", folder: folder.path).errors }
        #expect(try await inline().contains("inline.yaml: other users can access the secrets in it (permissions 0644"))
        chmod(folder.path("inline.yaml"), 0o600)
        #expect(try await !inline().contains("other users can access the secrets"))
        chmod(folder.path, 0o700)
        let shut = try await agent.command("check")
        #expect(!shut.errors.contains("other users can access"), "\(shut)")
        chmod(folder.path, 0o755)
        for path in open { chmod(path, 0o600) }
        let mended = try await agent.command("check")
        #expect(!mended.errors.contains("other users can access"), "\(mended)")
        try await agent.stop()
    }

    @Test func theyReachTheirUse() async throws {
        let folder = try TemporaryFolder()
        try folder.write("credentials/token", "credential-hunter-3\n")
        let agent = try await AgentProcess.start(
            Configuration.plain.replacing("admin: { port: 0, open: true }", with: "admin: { port: 0, token: \"${credential:token}\" }"), in: folder,
            environment: ["CREDENTIALS_DIRECTORY": folder.path("credentials")])
        let admin = HTTPProbe.tcp(port: try agent.port("admin"))
        #expect(try await admin.get("/api/status").status == 401)
        #expect(try await admin.request("GET", "/api/status", headers: [("Authorization", "Bearer credential-hunter-3")]).status == 200)
        try await agent.stop()
    }

    private static func replicator(_ name: String, _ authenticator: String) -> String {
        """
          - name: \(name)
            database: main
            target: ws://127.0.0.1:1/\(name)
            continuous: true
            authenticator: \(authenticator)
        """
    }
}

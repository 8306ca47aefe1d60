import Documents
import Glibc
import TestSupport
import Testing

/// `nightjar support-bundle`: what helps is in it, and no secret.
@Suite("Support bundles")
struct SupportBundleTests {
    private static let secrets = [
        "token-0xA1", "password-0xB2", "header-0xC3", "bearer-0xD4", "session-0xE5", "proxy-0xF6", "params-0x17", "comment-0x28", "env-0x39", "file-0x4A",
        "argument-0x5B", "query-0x6C", "nested-0x7D", "hunter7", "hunter8",
    ]

    private static func configuration(_ folder: TemporaryFolder) -> String {
        """
        data: data
        plugins: plugins
        admin: { port: 0, token: token-0xA1 }
        databases: { main: {} }
        listeners:
          - { name: edge, databases: [ main ], port: 0, interface: 127.0.0.1, disable_tls: true, authenticator: { plugin: users, params: { key: params-0x17, more: { inner: [ nested-0x7D ] } } } }
        replicators:   # comment-0x28
          - { name: basic, database: main, target: "ws://127.0.0.1:9/main", continuous: true, authenticator: { username: ada, password: password-0xB2 }, headers: { X-Key: header-0xC3 } }
          - { name: bearer, database: main, target: "ws://127.0.0.1:9/bearer", continuous: true, authenticator: { bearer: bearer-0xD4 } }
          - { name: session, database: main, target: "ws://127.0.0.1:9/session", continuous: true, authenticator: { session: session-0xE5 } }
          - { name: proxied, database: main, target: "ws://127.0.0.1:9/proxied", continuous: true, proxy: { url: "http://127.0.0.1:9", username: u, password: proxy-0xF6 } }
          - { name: env, database: main, target: "ws://127.0.0.1:9/env", continuous: true, authenticator: { username: ada, password: "${NIGHTJAR_TEST_SECRET}" } }
          - { name: file, database: main, target: "ws://127.0.0.1:9/file", continuous: true, authenticator: { username: ada, password: "${file:\(folder.path("hub.secret"))}" } }
          - { name: program, database: main, target: "exec:true --password argument-0x5B", continuous: true }
          - { name: shell, database: main, target: "exec:sh -c 'exit 1 # hunter7' --password hunter8", continuous: true }

        """
    }

    private static let environment = ["NIGHTJAR_TEST_SECRET": "env-0x39"]

    private static func folder() throws -> TemporaryFolder {
        let folder = try TemporaryFolder()
        try folder.write("hub.secret", "file-0x4A\n")
        try folder.write("plugins/users.lua", """
            return { params = { key = { type = "string" }, more = { type = "table" } }, authenticate_password = function(n) return { name = n } end }

            """)
        return folder
    }

    private static func bundle(_ folder: TemporaryFolder) async throws -> Subprocess.Outcome {
        try await Subprocess.run(
            try NightjarExecutable.path(), ["support-bundle", "--config", "nightjar.yaml", "--output", "bundle.tar"], environment: environment, folder: folder.path)
    }

    /// What tar itself makes of it.
    private static func unpacked(_ folder: TemporaryFolder) async throws -> (names: [String], all: String, configuration: String) {
        let list = try await Subprocess.run("/bin/tar", ["-tf", "bundle.tar"], folder: folder.path)
        #expect(list.status == 0, "\(list)")
        let all = try await Subprocess.run("/bin/tar", ["-xOf", "bundle.tar"], folder: folder.path)
        let name = list.lines.first { $0.hasSuffix("/configuration.yaml") }
        let configuration = try await name.asyncMap { try await Subprocess.run("/bin/tar", ["-xOf", "bundle.tar", $0], folder: folder.path).output }
        return (list.lines.map { String($0.split(separator: "/").last ?? "") }, all.output + all.errors, configuration ?? "")
    }

    @Test("with and without a running agent: it contains what helps, and nothing of a configuration full of secrets", arguments: Place.allCases)
    func noSecrets(_ place: Place) async throws {
        let folder = try Self.folder()
        let text = Self.configuration(folder)
        try folder.write("nightjar.yaml", text)
        let agent = place == .agent ? try await AgentProcess.start(text, in: folder, environment: Self.environment) : nil
        let outcome = try await Self.bundle(folder)
        #expect(outcome.status == 0, "\(outcome)")
        let (names, all, configuration) = try await Self.unpacked(folder)
        let expected = ["configuration.yaml", "machine.json", "files.txt"]
            + (place == .agent ? ["status.json", "health.json", "metrics.txt", "log.json", "plugins.json"] : []) + ["doctor.json"]
        #expect(names == expected)
        for secret in Self.secrets { #expect(!all.contains(secret), "\(secret) is in it") }
        // The rest can be read, and where secrets come from.
        for shown in [
            "username: \"ada\"", "\"exec:true (removed)\"", "\"exec:sh (removed)\"", "\"${NIGHTJAR_TEST_SECRET}\"", "key: \"(removed)\"", "X-Key: \"(removed)\"", "target: \"ws://127.0.0.1:9/main\"",
            "disable_tls: true", "port: 0",
        ] { #expect(configuration.contains(shown), "\(shown)\n\(configuration)") }
        if let agent {
            #expect(try await agent.replicator("shell")["target"] == "exec:sh")
            let status = try await agent.command("status")
            #expect(status.output.contains("exec:sh") && !status.output.contains("hunter"), "\(status)")
            #expect(all.contains("nightjar_build_info{") && all.contains("\"database open\""))
            #expect(all.contains(#""name":"users""#))
            #expect(try await agent.stop().status == 0)
        }
    }

    @Test("only its owner can read it, also where an older file of that name was for everybody")
    func isPrivate() async throws {
        let folder = try Self.folder()
        try folder.write("nightjar.yaml", Self.configuration(folder))
        chmod(try folder.write("bundle.tar", "old"), 0o644)
        #expect(try await Self.bundle(folder).status == 0)
        var facts = stat()
        #expect(stat(folder.path("bundle.tar"), &facts) == 0 && facts.st_mode & 0o777 == 0o600, "\(String(facts.st_mode, radix: 8))")
    }

    @Test("the log in it holds no documents: bodies that were shown on the wire stay out, also after bodies was switched off, and the rest of the line is there")
    func noBodies() async throws {
        let folder = try TemporaryFolder()
        let agent = try await AgentProcess.start(Configuration.plain + "log: { level: info, domains: { network: trace }, bodies: true }\n", in: folder)
        let peer = try await Peer.connect(agent)
        #expect(try await peer.ask(Peer.revision("visible", "1-aa", #"{"note":"inside of the document"}"#)).error == nil)
        #expect(try await agent.admin.get("/api/log").text.contains("inside of the document"))
        for log in [nil, "log: { level: info }\n"] {
            if let log {
                try folder.write("nightjar.yaml", Configuration.plain + log)
                #expect(try await agent.command("reload").status == 0)
            }
            #expect(try await Self.bundle(folder).status == 0)
            let (names, all, _) = try await Self.unpacked(folder)
            #expect(names.contains("log.json") && all.contains("received rev") && all.contains("id: visible"), "\(all)")
            #expect(!all.contains("inside of the document"), "\(all)")
        }
    }

    @Test("a configuration that is not YAML, and unknown keys, are reported without their content")
    func unreadable() async throws {
        let folder = try Self.folder()
        try folder.write("nightjar.yaml", "data: data\ndatabases: { main: {} }\nunknown: { password: nested-0x7D }\npasswort: query-0x6C\n")
        #expect(try await Self.bundle(folder).status == 0)
        var (_, all, configuration) = try await Self.unpacked(folder)
        #expect(configuration.contains("password: \"(removed)\"") && !all.contains("0x7D") && !all.contains("0x6C"), "\(all)")
        try folder.write("nightjar.yaml", "data: data\nadmin: { token: token-0xA1\n  bad: [\n")
        #expect(try await Self.bundle(folder).status == 0)
        (_, all, configuration) = try await Self.unpacked(folder)
        #expect(configuration.isEmpty && !all.contains("0xA1") && all.contains("cannot be read as YAML"), "\(all)")
    }
}

extension Optional {
    fileprivate func asyncMap<T>(_ body: (Wrapped) async throws -> T) async rethrows -> T? {
        if let self { try await body(self) } else { nil }
    }
}

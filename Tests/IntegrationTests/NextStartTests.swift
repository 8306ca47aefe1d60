import Documents
import TestSupport
import Testing

/// What would stop the next start is told while the agent still runs, and is true.
@Suite("The next start")
struct NextStartTests {
    enum Lost: String, Sendable, CaseIterable {
        case pin = "hub.pem"
        case users = "users.txt"
        case secret = "secret.txt"
        case configuration = "nightjar.yaml"
    }

    /// An authority's certificate, for a pin.
    private static func pin(_ folder: TemporaryFolder) async throws {
        let outcome = try await Subprocess.run(
            "/usr/bin/openssl",
            ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=hub", "-days", "400", "-keyout", "hub.key", "-out", "hub.pem"],
            folder: folder.path)
        guard outcome.status == 0 else { throw SupportError("certificate: \(outcome)") }
    }

    private static func failing(_ agent: AgentProcess) async throws -> JSONValue? {
        try await agent.admin.get("/health").json["attention"]?.asArray?.first { $0["kind"]?.asString == "next_start_fails" }
    }

    @Test("a file that is gone makes the agent unhealthy, a start fails for it, and with the file all is well again", arguments: Lost.allCases)
    func lost(_ lost: Lost) async throws {
        let folder = try TemporaryFolder()
        try await Self.pin(folder)
        try folder.write("secret.txt", "hush")
        try folder.write("users.txt", "ada:x\n")
        try folder.write(
            "plugins/gate.lua", "return { params = { file = { type = 'file', required = true } }, authenticate_password = function(u) return u == 'ada' end }\n")
        let hub = Configuration.hub(listener: "authenticator: { plugin: gate, params: { file: users.txt } }", plugins: true)
        let replicator = """
            replicators:
              - name: hub
                database: main
                target: wss://127.0.0.1:\(try freePort())/main
                continuous: true
                pinned_server_certificate: hub.pem
                authenticator: { username: u, password: "${file:secret.txt}" }

            """
        let agent = try await AgentProcess.start(hub + replicator, in: folder)
        #expect(try await Self.failing(agent) == nil)
        let text = String(decoding: try TemporaryFolder.bytes(of: folder.path(lost.rawValue)), as: UTF8.self)
        folder.remove(lost.rawValue)
        try await eventually("health says it") { try await Self.failing(agent) != nil }
        let entry = try #require(try await Self.failing(agent))
        #expect(entry["gravity"] == "unhealthy" && entry["text"]?.asString?.contains(lost.rawValue) == true, "\(entry.text)")
        #expect(entry["text"]?.asString?.contains("start") == true && entry["remedy"]?.asString?.isEmpty == false, "\(entry.text)")
        #expect(try await agent.admin.get("/health").status == 503)

        // It is no lie.
        _ = try await agent.stop()
        let failed = try await Subprocess.run(try NightjarExecutable.path(), ["run", "--config", agent.configuration], folder: folder.path)
        #expect([1, 78].contains(failed.status) && failed.errors.contains(lost.rawValue), "\(failed)")
        try folder.write(lost.rawValue, text)
        let again = try await AgentProcess.start(hub + replicator, in: folder)
        #expect(try await Self.failing(again) == nil)
        folder.remove(lost.rawValue)
        try await eventually("health says it again") { try await Self.failing(again) != nil }
        try folder.write(lost.rawValue, text)
        try await eventually("health takes it back") { try await Self.failing(again) == nil }
        _ = try await again.stop()
    }

    @Test("a damaged token of the admin port is reported while the agent runs, and makes a start fail", arguments: ["", "short"])
    func token(_ text: String) async throws {
        let folder = try TemporaryFolder()
        let agent = try await AgentProcess.start("data: data\nadmin: { port: 0 }\ndatabases: { main: {} }\n", in: folder)
        #expect(try await Self.failing(agent) == nil)
        try folder.write("data/admin.token", text)
        try await eventually("health says it") { try await Self.failing(agent) != nil }
        let entry = try #require(try await Self.failing(agent))
        #expect(entry["text"]?.asString?.contains("admin.token") == true, "\(entry.text)")
        _ = try await agent.stop()
        let failed = try await Subprocess.run(try NightjarExecutable.path(), ["run", "--config", agent.configuration], folder: folder.path)
        #expect(failed.status == 78 && failed.errors.contains("admin.token"), "\(failed)")
        // Without the file one is made.
        folder.remove("data/admin.token")
        let again = try await AgentProcess.start("data: data\nadmin: { port: 0 }\ndatabases: { main: {} }\n", in: folder)
        #expect(try await Self.failing(again) == nil)
        _ = try await again.stop()
    }

    @Test("a plugin whose file is gone: as explain says, a restart uses the kept version, check says so, and a reload is refused")
    func pluginGone() async throws {
        let folder = try TemporaryFolder()
        try folder.write("plugins/gate.lua", "return { authenticate_password = function(u) return u == 'ada' end }\n")
        let configuration = Configuration.hub(listener: "authenticator: gate", plugins: true)
        let first = try await AgentProcess.start(configuration, in: folder)
        let version = try #require(try await first.plugin("gate")["version"]?.asString)
        folder.remove("plugins/gate.lua")
        try await eventually("the file is missed") { try await first.plugin("gate")["state"] == "missing" }
        #expect(try await Self.failing(first) == nil)
        _ = try await first.stop()
        let agent = try await AgentProcess.start(configuration, in: folder)
        #expect(try await agent.plugin("gate")["version"]?.asString == version)
        let check = try await agent.command("check")
        #expect(check.status == 78 && check.errors.contains("warning: plugin gate: run would serve version \(version)"), "\(check)")
        #expect(try await agent.command("reload").status == 78)
        let words = try await NightjarExecutable.run("explain", "plugin_file_gone")
        _ = try await agent.stop()
        #expect(words.output.contains("Its last version stays in use, even after a restart") && words.output.contains("nightjar reload and nightjar check refuse it"), "\(words)")
        // Without the kept copy there is nothing to serve.
        folder.remove("data/plugin-versions")
        let bare = try await Subprocess.run(try NightjarExecutable.path(), ["run", "--config", agent.configuration], folder: folder.path)
        #expect(bare.status == 78 && bare.errors.contains("gate"), "\(bare)")
    }

    @Test("a plugin that is refused: check says which version a start would serve, and a start serves it")
    func pluginRefused() async throws {
        let folder = try TemporaryFolder()
        try folder.write("plugins/gate.lua", "return { authenticate_password = function(u) return u == 'ada' end }\n")
        let configuration = Configuration.hub(listener: "authenticator: gate", plugins: true)
        let first = try await AgentProcess.start(configuration, in: folder)
        let version = try #require(try await first.plugin("gate")["version"]?.asString)
        _ = try await first.stop()
        try folder.write("plugins/gate.lua", "return {\n")
        let check = try await first.command("check")
        #expect(check.status == 78 && check.errors.contains("run would serve version \(version)"), "\(check)")
        let report = try await first.command("doctor", "--quick", "--offline", "--json")
        let findings = try JSONValue(parsing: report.outputBytes)["findings"]?.asArray ?? []
        let kept = findings.first { $0["text"]?.asString?.contains("run would serve version") == true }
        #expect(kept?["mend"] == "fix the plugin's file, or put it back", "\(report)")
        let again = try await AgentProcess.start(configuration, in: folder)
        #expect(try await again.plugin("gate")["version"]?.asString == version)
        _ = try await again.stop()
    }

    @Test("after a reload that fails because of a broken plugin, fixing the file ends the attention, and a refused configuration ends it when the file is restored")
    func refusalEnds() async throws {
        let sound = "return { authenticate_password = function(u) return u == 'ada' end }\n"
        let folder = try TemporaryFolder()
        try folder.write("plugins/gate.lua", sound)
        let configuration = Configuration.hub(listener: "authenticator: gate", plugins: true)
        let agent = try await AgentProcess.start(configuration, in: folder)
        try folder.write("plugins/gate.lua", "return {\n")
        try await eventually("the plugin is refused") { try await agent.plugin("gate")["refused"]?.isNull == false }
        #expect(try await agent.command("reload").status == 78)
        let health = try await agent.admin.get("/health")
        #expect(health.status == 200 && health.text.contains("plugin_refused") && !health.text.contains("would not start"), "\(health)")
        try folder.write("plugins/gate.lua", sound)
        try await eventually("the mended file ends it") { try await !agent.admin.get("/health").text.contains("refused") }

        try folder.write("nightjar.yaml", configuration + "bogus: 1\n")
        #expect(try await agent.command("reload").status == 78)
        let refused = try await agent.admin.get("/health")
        #expect(refused.status == 503 && refused.text.contains("configuration_refused"), "\(refused)")
        try folder.write("nightjar.yaml", configuration)
        try await eventually("the file put back ends it") { try await agent.admin.get("/health").status == 200 }
        _ = try await agent.stop()
    }

    enum Obstacle: String, Sendable, CaseIterable {
        case adminPort, data
    }

    @Test("what is put into the file and would make a start fail is told by reload, health and doctor", arguments: Obstacle.allCases)
    func obstacles(_ obstacle: Obstacle) async throws {
        let folder = try TemporaryFolder()
        let taken = try TakenPort()
        for name in ["other", "other/agent.lock"] { folder.makeFolder(name) }
        let sound = Configuration.hub(port: try freePort())
        let agent = try await AgentProcess.start(sound, in: folder)
        let (changed, named) =
            switch obstacle {
            case .adminPort: (sound.replacing("admin: { port: 0", with: "admin: { port: \(taken.port)"), "admin port 127.0.0.1:\(taken.port): cannot listen")
            case .data: (sound.replacing("data: data", with: "data: other"), "other/agent.lock is a folder")
            }
        #expect(changed != sound)
        let reload = try await agent.reload(changed)
        #expect(reload.status == 0 && reload.output.contains("at the next start"), "\(reload)")
        #expect(reload.errors.contains("warning: the next start would fail: ") && reload.errors.contains(named), "\(reload)")
        let entry = try #require(try await Self.failing(agent))
        #expect(entry["text"]?.asString?.contains(named) == true, "\(entry.text)")
        let doctor = try await agent.command("doctor", "--quick", "--offline")
        #expect(doctor.status == 1 && doctor.output.contains(named), "\(doctor)")
        // The ports that the agent has itself are no fault, wherever it runs.
        #expect(!doctor.output.contains("listener edge: port") && !doctor.output.contains("listener hub: port"), "\(doctor)")
        _ = try await agent.stop()
        // It is no lie.
        let failed = try await Subprocess.run(try NightjarExecutable.path(), ["run", "--config", agent.configuration], folder: folder.path)
        #expect(failed.status != 0 && failed.errors.contains(obstacle == .data ? "other/agent.lock" : named), "\(failed)")
        // Nothing had begun for which the agent would have had to stop.
        #expect(!failed.errors.contains("listening on"), "\(failed)")
    }

    @Test("an agent whose file names another data folder is found by doctor, which does not take its ports for another program's")
    func ownPorts() async throws {
        let folder = try TemporaryFolder()
        let (port, admin) = (try freePort(), try freePort())
        let text = Configuration.hub(port: port).replacing("admin: { port: 0", with: "admin: { port: \(admin)")
        let agent = try await AgentProcess.start(text, in: folder)
        #expect(try await agent.reload(text.replacing("data: data", with: "data: other")).status == 0)
        let doctor = try await agent.command("doctor", "--quick", "--offline")
        #expect(doctor.output.contains("runs on the data folder \(folder.path("data"))"), "\(doctor)")
        for own in [port, admin] { #expect(!doctor.output.contains("port \(own)"), "\(doctor)") }
        #expect(doctor.status == 0, "\(doctor)")
        _ = try await agent.stop()
        // Once nobody has them, it says so.
        let after = try await agent.command("doctor", "--quick", "--offline")
        #expect(after.output.contains("port \(port) is free") && after.output.contains("port \(admin) is free"), "\(after)")
    }

    @Test("reload warns of what check warns of, also where nothing has changed")
    func warnings() async throws {
        let agent = try await AgentProcess.start(Configuration.hub(), in: try TemporaryFolder())
        let wanted = Configuration.hub() + "log: { file: { path: nowhere/nightjar.log } }\n"
        func warnings(_ outcome: Subprocess.Outcome) -> [Substring] { outcome.errors.split(separator: "\n").filter { $0.hasPrefix("warning: ") } }
        let first = try await agent.reload(wanted)
        let check = try await agent.command("check")
        #expect(check.status == 0 && first.status == 0 && warnings(check).contains { $0.contains("log.file") }, "\(check)")
        let again = try await agent.command("reload")
        #expect(again.output.contains("nothing changed"), "\(again)")
        for outcome in [first, again] { #expect(warnings(outcome).map(Self.message) == warnings(check).map(Self.message), "\(outcome)\n\(check)") }
        _ = try await agent.stop()
    }

    /// Without the file's path, which differs with the folder in which a command runs.
    private static func message(_ line: Substring) -> Substring { line.split(separator: "nightjar.yaml", maxSplits: 1).last ?? line }
}

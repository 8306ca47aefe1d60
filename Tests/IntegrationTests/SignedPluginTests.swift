import Documents
import TestSupport
import Testing

@Suite("Plugins of the folder that need a signature") struct SignedPluginTests {
    private static func filter(_ n: Int) -> String { "local limit = require 'limit'\nreturn { push_filter = function(doc) return limit(doc.n) == \(n) end }\n" }

    @Test("the help is one text, without gaps in its lines")
    func help() async throws {
        let help = try await NightjarExecutable.run("plugin", "sign", "--help").output
        let overview = help.split(separator: "\n").prefix { !$0.hasPrefix("USAGE:") }
        #expect(overview.count > 3 && overview.allSatisfy { !$0.contains("  ") }, "\(help)")
    }

    @Test("a signed plugin is used; one that is changed, unsigned or signed with another key is refused, the version in force stays in use, and health names it")
    func requireSigned() async throws {
        let hub = try await AgentProcess.start(Configuration.hub())
        let folder = try TemporaryFolder()
        let key = try await NightjarExecutable.run("fleet", "keygen", folder.path("key.pem")).output.split(separator: "\n").first.map(String.init) ?? ""
        _ = try await NightjarExecutable.run("fleet", "keygen", folder.path("other.pem"))
        try folder.write("plugins/gate.lua", Self.filter(1))
        try folder.write("plugins/lib/limit.lua", "return function(n) return n end\n")
        func sign(_ file: String) async throws {
            let signed = try await NightjarExecutable.run("plugin", "sign", "gate", "--key", folder.path(file), "--plugins", folder.path("plugins"))
            #expect(signed.status == 0 && signed.output.hasSuffix("plugins/gate.lua.sig\n"), "\(signed)")
        }
        let configuration = Configuration.edge(
            to: try hub.port("edge"), type: "push", collection: "{ push_filter: gate }", plugins: true,
            more: "fleet: { keys: [ \"\(key)\" ], require_signed: true }\n")
        try folder.write("nightjar.yaml", configuration)
        let unsigned = try await NightjarExecutable.run("check", "--config", folder.path("nightjar.yaml"))
        #expect(unsigned.status != 0 && "\(unsigned)".contains("gate.lua.sig: is missing"), "\(unsigned)")

        let doctor = try await NightjarExecutable.run("doctor", "--offline", "--config", folder.path("nightjar.yaml"))
        let mend = "sign it on the machine that has the signing key: nightjar plugin sign gate --key FILE --plugins FOLDER; then put gate.lua.sig into the plugins folder"
        #expect(doctor.status == 1 && doctor.output.contains("mend: \(mend)"), "\(doctor)")

        try await sign("key.pem")
        let edge = try await AgentProcess.start(configuration, in: folder)
        try await edge.save("first", "{\"n\":1}")
        try await eventually("the signed one serves") { try await hub.has("first") }
        let version = try await edge.plugin("gate")["version"]

        func refused(_ why: String) async throws {
            try await eventually("refused: \(why)") { try await edge.plugin("gate")["refused"]?["error"]?.asString?.contains(why) == true }
            #expect(try await edge.plugin("gate")["version"] == version)
            #expect(try await edge.admin.get("/health").text.contains("gate.lua.sig"))
            let entry = try await edge.status()["attention"]?.asArray?.first { $0["kind"] == "plugin_refused" }
            #expect(entry?["remedy"]?.asString?.hasPrefix(mend) == true, "\(entry?.text ?? "nothing")")
        }
        // A module that it reaches is of what is signed.
        try folder.write("plugins/lib/limit.lua", "return function(n) return 1 end\n")
        try await refused("does not fit")
        try await sign("other.pem")
        try await refused("which fleet.keys does not name")
        #expect(try await edge.command("plugin", "list").output.contains("gate: what is in the folder is refused: gate.lua.sig: is by "))
        folder.remove("plugins/gate.lua.sig")
        try await refused("is missing")
        try await edge.save("second", "{\"n\":2}")
        try await edge.waits("rejected", is: 1)

        try await sign("key.pem")
        try await eventually("the new version serves") { try await edge.plugin("gate")["version"] != version }
        try await eventually("it lets all through") { try await hub.has("second") }
        #expect(try await edge.stop().status == 0)

        // The version is kept with its signature.
        try folder.write("plugins/gate.lua", Self.filter(3))
        let again = try await AgentProcess.start(configuration, in: folder)
        try await again.save("third", "{\"n\":7}")
        try await eventually("the signed one serves on") { try await hub.has("third") }
        #expect(try await again.stop().status == 0)
    }

    @Test("what was kept before signatures were asked for serves neither by a rollback nor at a start, nor after a reload that asks for them")
    func keptBefore() async throws {
        let hub = try await AgentProcess.start(Configuration.hub())
        let folder = try TemporaryFolder()
        let key = try await TestFleet.newKey("key.pem", in: folder)
        func configuration(_ more: String = "") throws -> String {
            Configuration.edge(to: try hub.port("edge"), type: "push", collection: "{ push_filter: gate }", plugins: true, more: more)
        }
        let signed = try configuration("fleet: { keys: [ \"\(key)\" ], require_signed: true }\n")
        try folder.write("plugins/gate.lua", TestFleet.passing(1))
        let edge = try await AgentProcess.start(try configuration(), in: folder)
        let first = try #require(try await edge.plugin("gate")["version"]?.asString)
        try await edge.plugin("gate", becomes: TestFleet.passing(2))
        let second = try await edge.plugin("gate")["version"]
        #expect(try await edge.command("plugin", "rollback", "gate").status == 0)
        try await edge.save("one", "{\"n\":1}")
        try await eventually("the first one serves") { try await hub.has("one") }

        let early = try await edge.reload(signed)
        #expect(early.status == 78 && early.errors.contains("gate.lua.sig: is missing"), "\(early)")
        let sign = try await NightjarExecutable.run("plugin", "sign", "gate", "--key", folder.path("key.pem"), "--plugins", folder.path("plugins"))
        #expect(sign.status == 0, "\(sign)")
        #expect(try await edge.reload(signed).status == 0)
        #expect(try await edge.plugin("gate")["version"] == second)
        #expect(try await edge.plugin("gate")["rolled_back"]?.isNull == true)
        try await edge.save("again", "{\"n\":1}")
        try await edge.save("two", "{\"n\":2}")
        try await eventually("the signed one serves") { try await hub.has("two") }
        #expect(try await !hub.has("again"))
        let rollback = try await edge.command("plugin", "rollback", "gate")
        #expect(rollback.status == 1, "\(rollback)")
        for words in ["gate.lua.sig", "version \(first)", "it has no signature", "nightjar plugin sign gate"] { #expect(rollback.errors.contains(words), "\(rollback)") }
        #expect(try await edge.plugin("gate")["version"] == second)
        #expect(try await edge.stop().status == 0)

        // Another agent, which never had a signed version.
        let other = try TemporaryFolder()
        try other.write("plugins/gate.lua", TestFleet.passing(1))
        #expect(try await AgentProcess.start(try configuration(), in: other).stop().status == 0)
        let path = try other.write("nightjar.yaml", signed)
        for isGone in [false, true] {
            if isGone { other.remove("plugins/gate.lua") }
            let check = try await NightjarExecutable.run("check", "--config", path, folder: other.path)
            #expect(check.status == 78 && !"\(check)".contains("run would serve version"), "\(check)")
            let start = try await NightjarExecutable.run("run", "--config", path, folder: other.path)
            #expect(start.status == 78, "\(start)")
            for words in ["gate.lua.sig", "version \(first)", "it has no signature", "nightjar plugin sign gate"] { #expect(start.errors.contains(words), "\(start)") }
        }
    }
}

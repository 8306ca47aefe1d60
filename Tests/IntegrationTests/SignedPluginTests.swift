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

    @Test("what is signed serves; what is changed, unsigned or signed by another is refused, the version in force serves on, and health names it")
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

        try await sign("key.pem")
        let edge = try await AgentProcess.start(configuration, in: folder)
        try await edge.save("first", "{\"n\":1}")
        try await eventually("the signed one serves") { try await hub.has("first") }
        let version = try await edge.plugin("gate")["version"]

        func refused(_ why: String) async throws {
            try await eventually("refused: \(why)") { try await edge.plugin("gate")["refused"]?["error"]?.asString?.contains(why) == true }
            #expect(try await edge.plugin("gate")["version"] == version)
            #expect(try await edge.admin.get("/health").text.contains("gate.lua.sig"))
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
    }
}

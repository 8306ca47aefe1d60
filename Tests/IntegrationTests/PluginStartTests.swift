import Documents
import TestSupport
import Testing

@Suite("Starts with plugins that changed meanwhile")
struct PluginStartTests {
    @Test("a removed plugin file in use: its last version serves, and health says so")
    func removed() async throws {
        let folder = try TemporaryFolder()
        folder.makeFolder("plugins")
        try folder.write("plugins/gate.lua", "return { authenticate_password = function(u) return u == 'ada' end }")
        let configuration = Configuration.hub(listener: "authenticator: gate", plugins: true)
        let first = try await AgentProcess.start(configuration, in: folder)
        #expect(try await first.stop().status == 0)
        folder.remove("plugins/gate.lua")
        let agent = try await AgentProcess.start(configuration, in: folder)
        let peer = try await Peer.connect(agent, login: "YWRhOng=")
        try await peer.push("served")
        try await peer.close()
        await #expect(throws: WebSocketProbe.Refused.self) { try await Peer.connect(agent, login: "Ym9iOng=") }
        let health = try await agent.admin.get("/health")
        #expect(health.status == 503 && health.text.contains("gate is used and its file is gone"), "\(health)")
        #expect(try await agent.stop().status == 0)
    }
}

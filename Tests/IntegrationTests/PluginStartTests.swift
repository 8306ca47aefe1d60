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
        #expect(health.status == 503 && health.text.contains("plugin gate: is used, but its file is gone"), "\(health)")
        #expect(try await agent.stop().status == 0)
    }

    /// Some seconds of work, in cases that are each far from their limit.
    private static let longTests = """
        local cases = {}
        for n = 1, 200 do
          cases["case " .. n] = function(t)
            local sum = 0
            for i = 1, 500000 do sum = sum + i % 7 end
            t.accept(t.authenticate_password("ada", ""))
          end
        end
        return cases
        """

    @Test("ports are open before the tests of a plugin in use have run; logins get 503 and are retried")
    func longTests() async throws {
        let folder = try TemporaryFolder()
        folder.makeFolder("plugins")
        try folder.write("plugins/gate.lua", "return { authenticate_password = function(u) return u == 'ada' end }")
        try folder.write("plugins/gate.test.lua", Self.longTests)
        let configuration = Configuration.hub(listener: "authenticator: gate", plugins: true)
        let agent = try await AgentProcess.start(configuration, in: folder)
        // Until they are over nobody is refused permanently.
        try await eventually("the login is looked at") {
            do {
                try await Peer.connect(agent, login: "YWRhOng=").close()
                return true
            } catch let refused as WebSocketProbe.Refused {
                #expect(refused.answer.status == 503 && refused.answer.header("Retry-After") == "1", "\(refused)")
                return false
            }
        }
        #expect(try await agent.plugin("gate")["state"] == "active")
        // What took seconds came last.
        let log = agent.process.errors
        let (open, loaded) = (try #require(log.firstRange(of: "listening on")), try #require(log.firstRange(of: "plugin loaded")))
        #expect(open.lowerBound < loaded.lowerBound, "\(log)")
        let peer = try await Peer.connect(agent, login: "YWRhOng=")
        try await peer.push("served")
        try await peer.close()
        #expect(try await agent.stop().status == 0)
    }

    @Test("a stop in the middle of tests is a stop, and the next start begins with them")
    func stopped() async throws {
        let folder = try TemporaryFolder()
        folder.makeFolder("plugins")
        try folder.write("plugins/gate.lua", "return { authenticate_password = function(u) return u == 'ada' end }")
        try folder.write("plugins/gate.test.lua", Self.longTests)
        let configuration = Configuration.hub(listener: "authenticator: gate", plugins: true)
        for _ in 0..<2 {
            let agent = try await AgentProcess.start(configuration, in: folder)
            let outcome = try await agent.stop()
            #expect(outcome.status == 0 && !outcome.errors.contains("refused"), "\(outcome)")
        }
    }
}

import TestSupport
import Testing

/// A setting whose change says nothing about what happened before.
@Suite("A change of enable_auto_purge")
struct AutoPurgeSettingTests {
    @Test("it is reported at the next start and at a reload, once each time, and not if nothing changed")
    func told() async throws {
        let folder = try TemporaryFolder()
        func configuration(_ isOn: Bool) -> String { Configuration.edge(to: 1, replicator: "enable_auto_purge: \(isOn)") }
        var edge = try await AgentProcess.start(configuration(true), in: folder)
        #expect(try await edge.stop().status == 0)
        #expect(!edge.process.errors.contains("enable_auto_purge"))
        edge = try await AgentProcess.start(configuration(false), in: folder)
        #expect(edge.process.errors.contains("enable_auto_purge is off from now on"))
        #expect(try await edge.reload(configuration(true)).status == 0)
        #expect(edge.process.errors.contains("enable_auto_purge is on from now on") && edge.process.errors.contains("start --reset"))
        try await edge.kill9()
        edge = try await AgentProcess.start(configuration(true), in: folder)
        #expect(!edge.process.errors.contains("enable_auto_purge"))
        #expect(try await edge.stop().status == 0)
    }
}

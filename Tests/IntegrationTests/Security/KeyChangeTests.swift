import Documents
import TestSupport
import Testing

/// The key of a listener is changed, and no peer that pins it is cut off.
@Suite("A listener's next key") struct KeyChangeTests {
    private func identity(_ folder: TemporaryFolder, _ arguments: String...) async throws -> Subprocess.Outcome {
        try await Subprocess.run(
            try NightjarExecutable.path(), ["identity"] + arguments + ["--config", folder.path("nightjar.yaml")], folder: folder.path)
    }

    @Test("is announced, pinned alongside the current one, put in force while connections stay open, and reverted")
    func change() async throws {
        let folder = try TemporaryFolder()
        let configuration = Configuration.secureHub([("edge", "identity: gateway")])
        try folder.write("nightjar.yaml", configuration)
        #expect(try await identity(folder, "create", "gateway", "--ip", "127.0.0.1").status == 0)
        let hub = try await AgentProcess.start(configuration, in: folder)
        let old = try await hub.pin("edge")

        let early = try await identity(folder, "switch", "gateway")
        #expect(early.status == 1 && early.errors.contains("nightjar identity create gateway --next"), "\(early)")
        let made = try await identity(folder, "create", "gateway", "--next", "--json")
        let fields = try JSONValue(parsing: Array(made.output.utf8))
        let new = try #require(fields["pin"]?.asString, "\(made)")
        #expect(fields["names"]?["ip"]?.asArray?.compactMap(\.asString) == ["127.0.0.1"], "it keeps the names")
        #expect(new != old && made.errors.contains("[ \(old), \(new) ]"), "\(made)")
        try await eventually("the next pin is announced") { try await hub.listener("edge")["tls"]?["next_pin"]?.asString == new }
        #expect(try await hub.pin("edge") == old)
        #expect(try await hub.command("status").output.contains("its next key, which peers should pin too: \(new)"))
        let line = try await hub.process.line(containing: "the key is going to change", in: .errors)
        #expect(line.contains("next_pin=") && line.contains(new), "\(line)")

        let edge = try await AgentProcess.start(Configuration.secureEdge([
            ("hub", try hub.target("edge"), "pinned_server_certificate: [ \(old), \(new) ]")
        ]))
        try await edge.connects("hub")
        #expect(try await identity(folder, "switch", "gateway").status == 0)
        try await eventually("the new key is in force") { try await hub.pin("edge") == new }
        #expect(try await hub.listener("edge")["tls"]?["next_pin"]?.isNull == true)
        #expect(try await hub.listener("edge")["connections"]?.asInt64 == 1)
        #expect(try await edge.stop().status == 0)
        let late = try await AgentProcess.start(Configuration.secureEdge([("hub", try hub.target("edge"), "pinned_server_certificate: \(new)")]))
        try await late.connects("hub")

        #expect(try await identity(folder, "switch", "gateway", "--back").status == 0)
        try await eventually("the old key is in force") { try await hub.pin("edge") == old }
        for agent in [late, hub] { #expect(try await agent.stop().status == 0) }
    }
}

import Documents
import TestSupport
import Testing

@Suite("Events of what needs attention") struct AttentionEventTests {
    /// The data of the events of a name.
    private static func events(_ name: String, in text: String) -> [JSONValue] {
        // Before each event stands the size of its chunk.
        let start = "event: \(name)\ndata: "
        return text.components(of: "\n\n").filter { $0.contains(start) }.compactMap { event in
            event.components(of: start).last.flatMap { try? JSONValue(parsing: Array($0.utf8)) }
        }
    }

    @Test("say what has begun and what is over, each once and with its time, and those of another replicator only to its readers")
    func comesAndGoes() async throws {
        let folder = try TemporaryFolder()
        try folder.write("plugins/gate.lua", "return { push_filter = function() return true end }")
        let configuration = Configuration.edge(to: 9, collection: "{ push_filter: gate }", plugins: true)
        let agent = try await AgentProcess.start(configuration, in: folder)
        let all = try await EventProbe(agent)
        try folder.write("nightjar.yaml", configuration + "\nnonsense: 1\n")
        #expect(try await agent.command("reload").status == 78)
        try await all.wait("it begins") { text in
            Self.events("attention", in: text).contains { $0["kind"] == "configuration_refused" && $0["state"] == "began" && $0["time"]?.asString != nil }
        }
        try folder.write("nightjar.yaml", configuration)
        #expect(try await agent.command("reload").status == 0)
        try await all.wait("it is over") { text in
            Self.events("attention", in: text).contains { $0["kind"] == "configuration_refused" && $0["state"] == "over" }
        }
        let heard = Self.events("attention", in: all.text).filter { $0["kind"] == "configuration_refused" }
        #expect(heard.count == 2 && heard.allSatisfy { $0["gravity"] == "unhealthy" && $0["remedy"]?.asString?.isEmpty == false }, "\(heard)")

        try folder.write("plugins/gate.lua", "return {")
        try await all.wait("a plugin's event has a time") { text in
            Self.events("plugin", in: text).contains { $0["kind"] == "refused" && $0["time"]?.asString?.hasSuffix("Z") == true }
        }
        #expect(try await agent.stop().status == 0)
    }
}

extension String {
    fileprivate func components(of separator: String) -> [String] { split(separator: separator).map(String.init) }
}

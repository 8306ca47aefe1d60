import Documents
import TestSupport
import Testing

/// Which hubs a replicator for a group reached is kept for as long as there is such a replicator.
@Suite("Reached hubs")
struct ReachedHubsTests {
    private static func configuration(_ replicators: [String]) -> String {
        """
        data: data
        databases: { main: {} }
        listeners: []
        replicators:
        \(replicators.map { "  - { name: \($0), database: main, target: \"discover:*?group=\($0)&tls=off\", continuous: true }" }.joined(separator: "\n"))

        """
    }

    @Test("a start and a reload forget those of replicators that are not in the configuration any more, and keep the others and all records")
    func removed() async throws {
        let folder = try TemporaryFolder()
        for name in ["one", "two", "before"] {
            try folder.write("data/replicators/\(name).hubs", "{\"reached\":[]}")
            try folder.write("data/replicators/\(name).json", "{}")
        }
        func left() -> [String] { ["one", "two", "before"].filter { folder.exists("data/replicators/\($0).hubs") } }
        let agent = try await AgentProcess.start(Self.configuration(["one", "two"]), in: folder)
        #expect(left() == ["one", "two"])
        let refused = try await agent.reload(Self.configuration(["two", "two"]))
        #expect(refused.status != 0 && left() == ["one", "two"], "\(refused)")
        let reload = try await agent.reload(Self.configuration(["two"]))
        #expect(reload.status == 0 && left() == ["two"], "\(reload)")
        #expect(["one", "two", "before"].allSatisfy { folder.exists("data/replicators/\($0).json") })
        #expect(try await agent.stop().status == 0)
    }
}

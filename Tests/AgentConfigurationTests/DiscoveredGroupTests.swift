import AgentConfiguration
import Testing

/// Listeners that are announced as one of a group.
@Suite("Groups on the local network")
struct DiscoveredGroupTests {
    private static func listener(_ more: String) -> [String] {
        problems(
            """
            databases: { main: {} }
            listeners: [ { name: door, databases: [ main ], authenticator: none\(more) } ]
            """
        ).map(\.message)
    }

    @Test("a group is of a listener that is announced, and has a name")
    func announced() throws {
        #expect(Self.listener(", advertise: true, advertise_group: hubs.north-1").isEmpty)
        #expect(Self.listener(", advertise_group: hubs").first?.contains("no effect without \"advertise\"") == true)
        for group in ["\"a&b\"", "\"two words\"", "\(String(repeating: "a", count: 129))"] {
            #expect(Self.listener(", advertise: true, advertise_group: \(group)").count == 1, "\(group)")
        }
        let endpoint = problems(
            "databases: { main: {} }\nlisteners: [ { name: door, databases: [ main ], endpoint: \"unix:/run/door\", advertise_group: hubs } ]")
        #expect(endpoint.contains { $0.message.contains("\"advertise_group\" is of listeners on a port") })
    }
}

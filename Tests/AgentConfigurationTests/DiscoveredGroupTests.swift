import AgentConfiguration
import Testing

/// Listeners announced as members of a group.
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

    @Test("a group needs an announced listener and a name")
    func announced() throws {
        #expect(Self.listener(", advertise: true, advertise_group: hubs.north-1").isEmpty)
        #expect(Self.listener(", advertise_group: hubs").first?.contains("no effect without \"advertise\"") == true)
        for group in ["\"a&b\"", "\"two words\"", "\(String(repeating: "a", count: 129))"] {
            #expect(Self.listener(", advertise: true, advertise_group: \(group)").count == 1, "\(group)")
        }
        let endpoint = problems(
            "databases: { main: {} }\nlisteners: [ { name: door, databases: [ main ], endpoint: \"unix:/run/door\", advertise_group: hubs } ]")
        #expect(endpoint.contains { $0.message.contains("\"advertise_group\" applies to listeners on a port only") })
    }

    @Test("a target names one listener, or any listener of a group")
    func targets() throws {
        let target = try ReplicatorTarget(parsing: "discover:*?group=hubs&database=main&tls=off")
        #expect(target.group == "hubs" && target.database == "main" && !target.usesTLS)
        #expect(try ReplicatorTarget(parsing: "discover:plant-hub").group == nil)
        for text in ["discover:*", "discover:plant-hub?group=hubs", "discover:*?group=", "discover:*?group=two words", "unix:/run/a?group=hubs"] {
            #expect(throws: ReplicatorTarget.Invalid.self, "\(text)") { try ReplicatorTarget(parsing: text) }
        }
    }

    private static func replicator(_ target: String, _ more: String = "", pin: Bool = true) -> [String] {
        let pin = pin ? ", pinned_server_certificate: \"sha256/\(String(repeating: "A", count: 43))=\"" : ""
        return problems("databases: { main: {} }\nreplicators: [ { name: hub, database: main, target: \"\(target)\"\(pin)\(more) } ]").map(\.message)
    }

    @Test("a group needs a pin as a name does and takes no remote_id; select_peer goes only with a group")
    func replicators() throws {
        let group = "discover:*?group=hubs"
        #expect(Self.replicator(group).isEmpty && Self.replicator(group, ", select_peer: { plugin: nearest }").isEmpty)
        #expect(Self.replicator(group, pin: false).first?.contains("can announce this group") == true)
        #expect(Self.replicator(group, ", remote_id: plant").first?.contains("a group has several") == true)
        #expect(Self.replicator("discover:plant-hub", ", select_peer: nearest").first?.contains("the target is none") == true)
        #expect(Self.replicator("wss://hub/main", ", select_peer: nearest").first?.contains("the target is none") == true)
        let settings = try settings(
            "databases: { main: {} }\nreplicators: [ { name: hub, database: main, target: \"\(group)\", pinned_server_certificate: \"sha256/\(String(repeating: "A", count: 43))=\" } ]")
        let replicator = try #require(settings.replicators.first)
        #expect(replicator.knows(remote: "\(group) hub-a 0123") && replicator.knows(remote: group) && !replicator.knows(remote: "\(group)2 hub-a"))
    }
}

import Documents
import TestSupport
import Testing

@Suite("The event stream for readers that reconnect") struct EventResumeTests {
    /// The lines of each event; keep-alive comments are none, and before each event stands the size of its chunk.
    private static func events(_ text: String) -> [[String: String]] {
        var events: [[String: String]] = []
        var event: [String: String] = [:]
        for line in text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline) {
            for name in ["id", "event", "data"] where line.hasPrefix("\(name): ") { event[name] = String(line.dropFirst(name.utf8.count + 2)) }
            if line.isEmpty, event["data"] != nil {
                events.append(event)
                event = [:]
            }
        }
        return events
    }

    private static func hasDocument(_ id: String) -> @Sendable (String) -> Bool {
        { text in events(text).contains { $0["event"] == "documents" && $0["data"]?.contains("\"id\":\"\(id)\"") == true } }
    }

    /// What a reader hears who goes when a document has come, and the id of the last of its events.
    private func heard(_ edge: AgentProcess) async throws -> (events: [[String: String]], last: String) {
        let first = try await EventProbe(edge)
        try await edge.save("heard", "{}")
        try await first.wait("the document's event", Self.hasDocument("heard"))
        let events = Self.events(first.text)
        return (events, try #require(events.last { $0["event"] == "documents" }?["id"]))
    }

    @Test("every event has an id, and a reader that sends its last one gets what came since, and is told how much of it is lost")
    func resumes() async throws {
        let hub = try await AgentProcess.start(Configuration.hub())
        let port = try hub.port("edge")
        let folder = try TemporaryFolder()
        let edge = try await AgentProcess.start(Configuration.edge(to: port), in: folder)
        try await edge.isSettled()
        let (events, id) = try await heard(edge)
        #expect(events.allSatisfy { $0["id"]?.isEmpty == false }, "\(events)")
        let status = try #require(events.first { $0["event"] == "status" })
        let time = try JSONValue(parsing: Array((status["data"] ?? "").utf8))["time"]?.asString
        #expect(time?.hasSuffix("Z") == true)
        try await edge.save("missed", "{}")
        try await edge.isSettled()

        let query = try await EventProbe(edge, query: "?last_event_id=\(id)")
        try await query.wait("what was missed is told", Self.hasDocument("missed"))
        let header = try await EventProbe(edge, header: "Last-Event-ID: \(id)")
        try await header.wait("what was missed is told", Self.hasDocument("missed"))
        for text in [query.text, header.text] {
            #expect(!Self.hasDocument("heard")(text) && !text.contains("event: lost"), "\(text)")
        }
        let fresh = try await EventProbe(edge)
        #expect(!Self.hasDocument("missed")(fresh.text))

        #expect(try await edge.stop().status == 0)
        let again = try await AgentProcess.start(Configuration.edge(to: port), in: folder)
        let late = try await EventProbe(again, query: "?last_event_id=\(id)")
        try await late.wait("events of another run are missing, nobody knows how many") {
            Self.events($0).contains { $0["event"] == "lost" && $0["data"] == "{\"events\":null}" && $0["id"] != nil }
        }
    }

    @Test("says how many are missing where more came than are kept")
    func tooMany() async throws {
        let hub = try await AgentProcess.start(Configuration.hub())
        let edge = try await AgentProcess.start(Configuration.edge(to: try hub.port("edge")))
        try await edge.isSettled()
        let id = try await heard(edge).last
        // More than a MiB of events.
        try await edge.load("many", 12_000)
        try await edge.isSettled()
        let late = try await EventProbe(edge, query: "?last_event_id=\(id)")
        try await late.wait("it is said that some are lost, before the others") { text in
            let events = Self.events(text)
            guard let lost = events.firstIndex(where: { $0["event"] == "lost" }), let next = events.firstIndex(where: { $0["event"] == "documents" }) else { return false }
            return lost < next && events[lost]["data"]?.contains("null") == false && !Self.hasDocument("heard")(text)
        }
    }
}

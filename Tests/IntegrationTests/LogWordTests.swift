import TestSupport
import Testing

/// Words of the log that come from elsewhere, and the domain of queries.
@Suite("Lines of the log") struct LogWordTests {
    @Test("queries are logged at debug, with their index and how many documents they looked at, but not with their selector")
    func query() async throws {
        let hub = try await AgentProcess.start(
            Configuration.hub(listener: "couchdb: true", more: "log: { level: info, domains: { query: verbose } }\n"))
        let couch = try CouchHTTP(hub)
        for n in 0..<3 { try await hub.save("d\(n)", "{\"kind\":\"secret-\(n)\"}") }
        _ = try await couch.ok("POST", "/main/_find", "{\"selector\":{\"kind\":\"secret-1\"}}")
        _ = try await couch.ok("POST", "/main/_index", "{\"index\":{\"fields\":[\"kind\"]},\"ddoc\":\"d\",\"name\":\"by-kind\"}")
        try await eventually("the index is used") {
            _ = try await couch.ok("POST", "/main/_find", "{\"selector\":{\"kind\":\"secret-1\"}}")
            return hub.process.errors.contains(" debug query: a query by index by-kind")
        }
        let lines = hub.process.errors.split(separator: "\n").filter { $0.contains(" query: ") }
        #expect(lines.first?.contains("debug query: a query by no index") == true && lines.first?.contains("examined=3") == true, "\(lines)")
        #expect(lines.last?.contains("returned=1") == true && lines.last?.contains("database=main") == true, "\(lines)")
        #expect(!hub.process.errors.contains("secret-1") && !hub.process.errors.contains(" debug listener: "))
        #expect(try await hub.stop().status == 0)
    }

    @Test("verbose is debug, and with none only domains with a level of their own are logged")
    func levels() async throws {
        let silent = try await AgentProcess.start(Configuration.hub(more: "log: { level: none, domains: { listener: verbose } }\n"))
        #expect(try await silent.stop().status == 0)
        let lines = silent.process.errors.split(separator: "\n")
        #expect(lines.contains { $0.contains(" listener: ") && $0.contains("listening on") }, "\(lines)")
        #expect(!lines.contains { $0.contains(" database: ") }, "\(lines)")
    }
}

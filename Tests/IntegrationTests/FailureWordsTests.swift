import Documents
import TestSupport
import Testing

/// What an operator reads when much fails at once.
@Suite("Messages of failures")
struct FailureWordsTests {
    @Test("line breaks in a plugin's error are shown as such, and each line about a batch says which documents it is about")
    func batches() async throws {
        let hub = try await AgentProcess.start(Configuration.hub())
        let folder = try TemporaryFolder()
        try folder.write("plugins/gate.lua", "return { push_filter = function(doc) error('first\\nsecond') end }\n")
        let edge = try await AgentProcess.start(Configuration.edge(to: try hub.port("edge"), collection: "{ push_filter: gate }", plugins: true), in: folder)
        try await edge.load("doc", 250)
        try await edge.waits("held", is: 250)
        let table = try await edge.command("replicator", "hub", "held").output
        #expect(table.contains("first\\nsecond") && !table.contains("first?second"), "\(table.prefix(500))")
        _ = try await edge.process.line(containing: " more documents failed, doc-", in: .errors)
        _ = try await edge.stop()
        let lines = edge.process.errors.split(separator: "\n").filter { $0.contains(" failed, doc-") }
        let ranges = lines.compactMap { $0.firstMatch(of: #/[0-9]+ more documents? failed, (doc-[0-9]+(?: to doc-[0-9]+)?);/#).map { String($0.1) } }
        #expect(ranges.count == lines.count && Set(ranges).count == ranges.count, "\(lines.joined(separator: "\n"))")
    }

    @Test("collections that the remote lacks are all named, with a remedy")
    func missingCollections() async throws {
        let hub = try await AgentProcess.start(Configuration.hub())
        let edge = try await AgentProcess.start("""
            data: data
            admin: { port: 0, open: true }
            databases: { main: { collections: [ plant.readings, plant.alarms ] } }
            listeners: []
            replicators:
              - { name: hub, database: main, target: "ws://127.0.0.1:\(try hub.port("edge"))/main", continuous: true, collections: { _default: {}, plant.readings: {}, plant.alarms: {} } }

            """)
        try await edge.waits("the collections are missed") { $0["error"]?["code"]?.asInt64 == 404 }
        let entry = try await edge.admin.get("/health").json["attention"]?.asArray?.first { $0["kind"] == "replicator_failing" }
        #expect(entry?["text"]?.asString?.contains("has no collection plant.readings, plant.alarms") == true, "\(entry?.text ?? "none")")
        #expect(entry?["remedy"]?.asString?.contains("add them to collections of that database there") == true, "\(entry?.text ?? "none")")
    }

    @Test("what a continuous replicator tries again is not called permanent")
    func triedAgain() async throws {
        let hub = try await AgentProcess.start(Configuration.secureHub([("edge", "couchdb: true")]))
        let edge = try await AgentProcess.start(Configuration.secureEdge([("hub", try hub.target("edge", scheme: "http"), "")]))
        try await edge.waits("clear text is refused") { $0["error"]?["kind"] == "permanent" && $0["next_retry_at"]?.isNull == false }
        let text = try await edge.command("status").output
        #expect(text.contains("(does not pass by itself), retry ") && !text.contains("(permanent)"), "\(text)")
        #expect(try await edge.stop().status == 0)
        #expect(try await hub.stop().status == 0)
    }

    @Test("where a CouchDB has no such database, the remedy names create_target")
    func createTarget() async throws {
        let hub = try await AgentProcess.start(Configuration.hub(listener: "couchdb: true"))
        let edge = try await AgentProcess.start(Configuration.edge(to: try hub.port("edge"), database: "other", scheme: "http"))
        try await edge.waits("the database is missed", replicator: "hub") { $0["error"]?["code"]?.asInt64 == 404 }
        let entry = try await edge.admin.get("/health").json["attention"]?.asArray?.first { $0["kind"] == "replicator_failing" }
        #expect(entry?["remedy"]?.asString?.contains("create_target: true") == true, "\(entry?.text ?? "none")")
    }
}

import Documents
import TestSupport
import Testing

/// The collection of a fleet is guarded, and the others of its database are what they would be without it.
@Suite("A fleet's collection beside others")
struct FleetCollectionTests {
    @Test("in other collections the guard does not apply; what it keeps from peers is not logged again at each start")
    func others() async throws {
        let folder = try TemporaryFolder()
        let configuration = TestFleet.hubConfiguration("couchdb: true")
        var hub = try await AgentProcess.start(configuration, in: folder)
        var couch = try CouchHTTP(hub)
        let root = String(repeating: "c", count: 32)
        for digit in ["a", "b"] {
            let digest = String(repeating: digit, count: 32)
            let document = "{\"_id\":\"tea\",\"_rev\":\"2-\(digest)\",\"_revisions\":{\"start\":2,\"ids\":[\"\(digest)\",\"\(root)\"]}}"
            try await couch.ok("POST", "/main/_bulk_docs", "{\"new_edits\":false,\"docs\":[\(document)]}", status: 201)
        }
        #expect(try await couch.ok("GET", "/main")["doc_count"]?.asInt64 == 1)
        #expect(try await couch.ok("GET", "/main/tea?conflicts=true")["_conflicts"]?.asArray?.count == 1)
        try await couch.ok("PUT", "/main/_design/views", "{}", status: 201)
        // There nobody in particular writes what is published, or reads a gateway's status.
        #expect(try await couch.problem("PUT", "/main.\(TestFleet.collection)/plugin:gate:1", "{}") == "403 forbidden")
        #expect(try await hub.put("main.\(TestFleet.collection)", "status:north", "{}").status < 300)
        #expect(try await couch.ok("GET", "/main.\(TestFleet.collection)/_changes")["results"]?.asArray?.isEmpty == true)
        #expect(try await hub.stop().status == 0)

        hub = try await AgentProcess.start(configuration, in: folder)
        couch = try CouchHTTP(hub)
        #expect(try await couch.ok("GET", "/main.\(TestFleet.collection)/_changes")["results"]?.asArray?.isEmpty == true)
        let outcome = try await hub.stop()
        #expect(outcome.status == 0 && !outcome.errors.contains("checked again"), "\(outcome.errors)")
    }
}

import TestSupport
import Testing

/// Documents and tombstones that become too old.
@Suite("Ageing")
struct AgeingTests {
    @Test("a document is purged when its time is over, here only; what is younger, or in another collection, stays")
    func documents() async throws {
        let hub = try await AgentProcess.start(Configuration.hub(database: "{ collections: [ keep.all ] }"))
        let agent = try await AgentProcess.start("""
            data: data
            admin: { port: 0, open: true }
            databases: { main: { collections: [ keep.all ], ttl: { _default: 2 } } }
            replicators:
              - { name: hub, database: main, target: "ws://127.0.0.1:\(try hub.port("edge"))/main", type: push, continuous: true }

            """)
        try await agent.save("old", "{}")
        try await agent.put("main.keep.all", "forever", "{}")
        try await eventually("it goes") { try await !agent.has("old") }
        #expect(try await agent.get("main.keep.all", "forever").status == 200)
        // Not as a deletion: the hub keeps it.
        #expect(try await hub.has("old"))
        #expect(try await agent.documents("main") == 0)
        let deleted = try await agent.database("main")["collections"]?.asArray?.first?["deleted"]
        #expect(deleted == 0)
        // A change makes it young again, and it goes once more.
        try await agent.save("old", "{}")
        try await eventually("it goes again") { try await !agent.has("old") }
        #expect(try await agent.command("audit").output.contains("purge of old documents"))
        #expect(try await agent.stop().status == 0)
    }

    @Test("what a replicator has not pushed yet stays, whatever its age, until it has")
    func undelivered() async throws {
        let port = try freePort()
        let folder = try TemporaryFolder()
        let agent = try await AgentProcess.start("""
            data: data
            admin: { port: 0, open: true }
            databases: { main: { ttl: { _default: 1 }, tombstone_age: 1 }, free: { ttl: { _default: 1 } } }
            replicators:
              - { name: hub, database: main, target: "ws://127.0.0.1:\(port)/main", type: push, continuous: true, max_attempt_wait_time: 1 }

            """, in: folder)
        try await agent.save("waits", "{}")
        try await agent.save("goes", "{}", in: "free")
        // The same age, in a database that nobody replicates: by then the other one has been judged as well.
        try await eventually("the free one goes") { try await !agent.has("goes", in: "free") }
        try await agent.save("goes-too", "{}", in: "free")
        try await eventually("and another one") { try await !agent.has("goes-too", in: "free") }
        #expect(try await agent.has("waits"))
        let hub = try await AgentProcess.start(Configuration.hub(port: port))
        try await eventually("it is pushed, and goes") { try await every(hub.has("waits"), !agent.has("waits")) }
        #expect(try await hub.has("waits"))
        #expect(try await agent.stop().status == 0)
    }

    /// What stands between a document and its push: something that only a connection has judged so far.
    enum Policy: String, CaseIterable {
        case transform = "return { transform = function(doc) local made = nightjar.copy(doc); made.seen = true; return made end }"
        case failingFilter = "return { push_filter = function(doc) error('no such table') end }"

        var use: String { self == .transform ? "push_transform: gate" : "push_filter: gate" }
    }

    @Test("what a transform changes on its way, or a filter fails on, has not been pushed and stays", arguments: Policy.allCases)
    func undelivered(_ policy: Policy) async throws {
        let port = try freePort()
        let folder = try TemporaryFolder()
        try folder.write("plugins/gate.lua", policy.rawValue)
        let agent = try await AgentProcess.start("""
            data: data
            admin: { port: 0, open: true }
            plugins: plugins
            databases: { main: { ttl: { _default: 1 } }, free: { ttl: { _default: 1 } } }
            replicators:
              - name: hub
                database: main
                target: "ws://127.0.0.1:\(port)/main"
                type: push
                continuous: true
                max_attempt_wait_time: 1
                collections: { _default: { \(policy.use) } }

            """, in: folder)
        try await agent.save("waits", "{}")
        // The same age, in a database that nobody replicates: by then the other one has been judged as well.
        for id in ["goes", "goes-too"] {
            try await agent.save(id, "{}", in: "free")
            try await eventually("\(id) goes") { try await !agent.has(id, in: "free") }
        }
        #expect(try await agent.has("waits"))
        // The list and the question say the same.
        let listed = try await agent.admin.get("/api/replicators/hub/pending").json.asArray?.map { $0["id"]?.asString }
        #expect(listed == ["waits"])
        #expect(try await agent.admin.get("/api/replicators/hub/pending/waits").json["pending"]?.asBool == true)
        let hub = try await AgentProcess.start(Configuration.hub(port: port))
        if policy == .failingFilter {
            try await agent.waits("held", is: 1)
            try await agent.plugin("gate", becomes: "return { push_filter = function(doc) return true end }\n")
        }
        try await eventually("it is pushed, and goes") { try await every(hub.has("waits"), !agent.has("waits")) }
        #expect(try await agent.stop().status == 0)
    }

    @Test("tombstones go when they are old, documents stay")
    func tombstones() async throws {
        let agent = try await AgentProcess.start(Configuration.hub(database: "{ tombstone_age: 1 }"))
        let revision = try await agent.save("gone", "{}")
        try await agent.save("stays", "{}")
        #expect(try await agent.admin.request("DELETE", "/api/databases/main/documents/gone?rev=\(revision)").status == 200)
        try await eventually("the tombstone goes") { try await agent.database("main")["collections"]?.asArray?.first?["deleted"] == 0 }
        #expect(try await agent.has("stays"))
        #expect(try await agent.stop().status == 0)
    }
}

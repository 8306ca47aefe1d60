import Documents
import TestSupport
import Testing

/// `remote_id`: what a replicator knows of a remote database belongs to the database, not to its address.
@Suite("Replicators whose remote moves")
struct RemoteIdentityTests {
    private static let documents = 60

    /// How the second target names the remote, and whether what was known of the first counts there.
    enum Naming: CaseIterable {
        case sameID, oldTargetAsID, none, anotherID

        var isKnown: Bool { self == .sameID || self == .oldTargetAsID }
        var before: String { self == .sameID || self == .anotherID ? "remote_id: plant" : "" }
        func after(_ oldTarget: String) -> String {
            switch self {
            case .sameID: "remote_id: plant"
            case .oldTargetAsID: "remote_id: \"\(oldTarget)\""
            case .none: ""
            case .anotherID: "remote_id: other"
            }
        }
    }

    @Test("replication with a target that moved resumes where it was, if its remote_id says that it is the same", arguments: Naming.allCases)
    func moves(_ naming: Naming) async throws {
        let hub = try await AgentProcess.start(Configuration.hub())
        let port = try hub.port("edge")
        // Another address of the same server.
        let relay = try CountingRelay(to: port)
        let folder = try TemporaryFolder()
        folder.makeFolder("plugins")
        // Says how often documents are looked at.
        try folder.write("plugins/looks.lua", "return { push_filter = function(doc, ctx) return true end }\n")
        func configuration(_ port: Int, _ id: String) -> String {
            Configuration.edge(to: port, collection: "{ push_filter: looks }", replicator: id, plugins: true)
        }
        let edge = try await AgentProcess.start(configuration(port, naming.before), in: folder)
        try await edge.load("mine", Self.documents - 1)
        let text = String(repeating: "wind and weather ", count: 200)
        let revision = try await edge.save("long", "{\"n\":0,\"text\":\"\(text)\"}")
        try await hub.load("theirs", 20)
        try await hub.waits(documents: Int64(Self.documents + 20))
        try await edge.waits(documents: Int64(Self.documents + 20))
        try await edge.isSettled()
        // The checkpoint is saved when the connection ends, if not before.
        try await edge.post("/api/replicators/hub/stop")
        try await edge.waits("stopped") { $0["activity"]?.asString == "stopped" }
        func looks() async throws -> Int64 { try await edge.plugin("looks")["calls"]?.asInt64 ?? -1 }
        let before = try await looks()
        #expect(before >= Int64(Self.documents))

        try folder.write("nightjar.yaml", configuration(relay.port, naming.after("ws://127.0.0.1:\(port)/main")))
        let reloaded = try await edge.command("reload")
        #expect(reloaded.status == 0, "\(reloaded)")
        try await edge.waits("connected by the new address") { $0["target"]?.asString?.contains(":\(relay.port)/") == true && $0["activity"]?.asString == "idle" }
        try await edge.isSettled()
        let again = try await looks() - before
        #expect(naming.isKnown ? again == 0 : again >= Int64(Self.documents), "\(again) documents were looked at again")
        #expect(try await edge.replicator("hub")["remote_id"]?.asString == (naming == .none ? nil : naming == .oldTargetAsID ? "ws://127.0.0.1:\(port)/main" : naming == .sameID ? "plant" : "other"))
        // Nothing was stored again in any case, and what the remote has of a document is still known: a delta is made from it.
        try await edge.save("long", "{\"_rev\":\"\(revision)\",\"n\":1,\"text\":\"\(text)\"}")
        try await hub.load("new", 1)
        try await eventually("the edit and the new document are there") {
            try await every(hub.field("n", of: "long")?.asInt64 == 1, edge.has("new-0"))
        }
        try await edge.isSettled()
        let status = try await edge.replicator("hub")
        #expect(status["pushed"]?.asInt64 == 1 && status["pulled"]?.asInt64 == 1, "\(status.text)")
        #expect(status["delta"]?["sent"]?.asInt64 == 1, "\(status.text)")
        #expect(try await edge.revisions() == hub.revisions())
    }

    @Test("a conflict whose resolver fails stays pending over a restart where the remote has a remote_id, and its own replicator's resolver ends it")
    func pendingConflict() async throws {
        let hub = try await AgentProcess.start(Configuration.hub())
        let folder = try TemporaryFolder()
        try folder.write("plugins/judge.lua", "return { resolve = function(c) error('undecided') end }\n")
        let configuration = Configuration.edge(
            to: try hub.port("edge"), collection: "{ conflict_resolver: judge }", replicator: "remote_id: plant", plugins: true)
        let first = try await AgentProcess.start(configuration, in: folder)
        let base = try await first.save("torn", "{\"side\":\"both\"}")
        try await eventually("the base is at the hub") { try await hub.has("torn") }
        try await first.isSettled()
        #expect(try await first.command("replicator", "hub", "stop", "--keep").status == 0)
        try await first.waits("stopped") { $0["activity"]?.asString == "stopped" }
        try await first.save("torn", "{\"_rev\":\"\(base)\",\"side\":\"edge\"}")
        try await hub.save("torn", "{\"_rev\":\"\(base)\",\"side\":\"hub\"}")
        try await first.post("/api/replicators/hub/start")
        try await eventually("the conflict is pending") { try await first.database("main")["conflicts_pending"]?.asInt64 == 1 }

        // Nobody is connected: only the keepers look at it.
        #expect(try await first.command("replicator", "hub", "stop", "--keep").status == 0)
        #expect(try await first.stop().status == 0)
        let edge = try await AgentProcess.start(configuration, in: folder)
        try await edge.post("/api/plugins/judge/retry")
        #expect(try await edge.database("main")["conflicts_pending"]?.asInt64 == 1)
        #expect(try await edge.field("side", of: "torn")?.asString == "edge")
        try await edge.plugin("judge", becomes: "return { resolve = function(c, ctx) local m = nightjar.copy(c.remote_doc); m.by = ctx.replicator; return m end }\n")
        try await eventually("it is decided") { try await edge.database("main")["conflicts_pending"]?.asInt64 == 0 }
        #expect(try await edge.field("by", of: "torn")?.asString == "hub")
        #expect(try await edge.field("side", of: "torn")?.asString == "hub")
    }

    @Test("a remote_id that leads to another database loses nothing: it has no checkpoint, so everything is offered to it")
    func anotherDatabase() async throws {
        let hub = try await AgentProcess.start(Configuration.hub(databases: ["main", "spare"]))
        let port = try hub.port("edge")
        let folder = try TemporaryFolder()
        let edge = try await AgentProcess.start(Configuration.edge(to: port, replicator: "remote_id: plant"), in: folder)
        try await edge.load("mine", 30)
        try await hub.waits(documents: 30)
        try await edge.post("/api/replicators/hub/stop")
        try await edge.waits("stopped") { $0["activity"]?.asString == "stopped" }
        try folder.write("nightjar.yaml", Configuration.edge(to: port, database: "spare", replicator: "remote_id: plant"))
        #expect(try await edge.command("reload").status == 0)
        try await hub.waits(documents: 30, in: "spare")
        for agent in [edge, hub] { #expect(try await agent.stop().status == 0) }
    }

    @Test("another user name at the same remote starts afresh, and is not a sign that the remote went back")
    func anotherUser() async throws {
        let folder = try TemporaryFolder()
        try folder.write(
            "plugins/users.lua", "return { authenticate_password = function(name, password) return password == 'secret' and { name = name } end }\n")
        let hub = try await AgentProcess.start(Configuration.hub(listener: "authenticator: users", plugins: true), in: folder)
        func configuration(_ user: String) throws -> String {
            Configuration.edge(to: try hub.port("edge"), replicator: "authenticator: { username: \(user), password: secret }")
        }
        let edge = try await AgentProcess.start(try configuration("anna"))
        try await hub.load("theirs", 5)
        try await edge.load("mine", 5)
        try await edge.waits(documents: 10)
        try await hub.waits(documents: 10)
        try await edge.isSettled()
        // The checkpoint is saved when the connection ends, if not before.
        try await edge.post("/api/replicators/hub/stop")
        try await edge.waits("stopped") { $0["activity"]?.asString == "stopped" }
        for user in ["ben", "anna"] {
            let reload = try await edge.reload(try configuration(user))
            #expect(reload.status == 0, "\(reload)")
            try await hub.load("for-\(user)", 1)
            try await eventually("\(user) gets what is new") { try await edge.has("for-\(user)-0") }
            try await edge.isSettled()
            let status = try await edge.replicator("hub")
            #expect(status["remote_went_back"]?.isNull == true, "\(status.text)")
            try await edge.post("/api/replicators/hub/stop")
            try await edge.waits("stopped") { $0["activity"]?.asString == "stopped" }
        }
        for agent in [edge, hub] { #expect(try await agent.stop().status == 0) }
    }

    @Test("replicators with one remote_id keep apart what they replicate, and are refused if it means two remotes")
    func two() async throws {
        let database = "{ collections: [ plant.readings ] }"
        let hub = try await AgentProcess.start(Configuration.hub(database: database))
        let target = "ws://127.0.0.1:\(try hub.port("edge"))/main"
        func configuration(_ one: String, _ two: String) -> String {
            """
            data: data
            databases: { main: \(database) }
            replicators:
              - { name: one, database: main, continuous: true, remote_id: plant, target: "\(target)"\(one) }
              - { name: two, database: main, continuous: true, \(two) }
            """
        }
        let edge = try await AgentProcess.start(configuration("", "remote_id: plant, target: \"\(target)\", collections: { plant.readings: {} }"))
        try await edge.save("here", "{}")
        try await edge.save("there", "{}", in: "main.plant.readings")
        try await eventually("both are at the hub") {
            try await every(hub.has("here"), hub.get("main.plant.readings", "there").status == 200)
        }
        let folder = try TemporaryFolder()
        func check(_ text: String) async throws -> Subprocess.Outcome {
            try await Subprocess.run(try NightjarExecutable.path(), ["check", "--config", try folder.write("n.yaml", text)], folder: folder.path)
        }
        for other in ["remote_id: plant, target: \"wss://h/a\"", "remote_id: plant, target: \"wss://h/a\", type: pull, collections: { plant.readings: {} }"] {
            let refused = try await check(configuration("", other))
            #expect(refused.status == 78 && refused.errors.contains("n.yaml:5:"), "\(refused)")
            #expect(refused.errors.contains("know both as \"plant\" (remote_id)") && refused.errors.contains("wss://h/a"), "\(refused)")
            #expect(!refused.errors.contains("would share a checkpoint"), "\(refused)")
        }
        let same = try await check(configuration("", "remote_id: plant, target: \"\(target)\""))
        #expect(same.status == 78 && same.errors.contains("would share a checkpoint") && same.errors.contains("with the same remote_id"), "\(same)")
        let asTarget = try await check(configuration("", "target: plant").replacing("remote_id: plant", with: "remote_id: \"wss://h/a\"")
            .replacing("target: plant", with: "target: \"wss://h/a\""))
        #expect(asTarget.status == 78 && asTarget.errors.contains("n.yaml:4:"), "\(asTarget)")
        let empty = try await check(configuration("", "remote_id: \"\", target: \"\(target)\", type: pull"))
        #expect(empty.status == 78 && empty.errors.contains("remote_id"), "\(empty)")
        let apart = try await check(configuration("", "remote_id: spare, target: \"wss://h/a\""))
        #expect(apart.status == 0, "\(apart)")
    }
}

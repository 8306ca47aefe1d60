import Documents
import TestSupport
import Testing

/// Two users of one gateway: a sync plugin routes their documents, and their passwords say who they are.
@Suite("Channels of real agents", .serialized)
struct ChannelTests {
    private let plugin = """
        return {
          sync = function(doc, old_doc, ctx)
            if doc.broken then error("out of order") end
            if old_doc then require_user(old_doc.owner) end
            if doc._deleted then return end
            if doc.type == "card" then
              require_role("boss")
              access(doc.member, doc.team)
              channel("cards")
              return
            end
            if not doc.team then throw("a document needs a team") end
            channel(doc.team)
            expiry(doc.expires)
          end,
        }
        """
    private let users = """
        local channels = { anna = { "red" }, ben = { "blue" }, boss = { "*" } }
        return { authenticate_password = function(name, password)
          return password == "secret" and channels[name] and { channels = channels[name], roles = name == "boss" and { "boss" } or {} }
        end }
        """

    private func hub(_ database: String = "{}") async throws -> AgentProcess {
        let folder = try TemporaryFolder()
        try folder.write("plugins/route.lua", plugin)
        try folder.write("plugins/users.lua", users)
        return try await AgentProcess.start(
            Configuration.hub(database: database, listener: "authenticator: users\n    sync: route", plugins: true), in: folder)
    }

    private func device(_ user: String, _ hub: AgentProcess, _ database: String = "{}") async throws -> AgentProcess {
        let folder = try TemporaryFolder()
        return try await AgentProcess.start(
            Configuration.edge(to: try hub.port("edge"), replicator: "authenticator: { username: \(user), password: secret }")
                .replacing("main: {}", with: "main: \(database)"),
            in: folder)
    }

    private static func channelAttention(_ hub: AgentProcess) async throws -> JSONValue? {
        try await hub.admin.get("/health").json["attention"]?.asArray?.first { $0["kind"] == "users_without_channels" }
    }

    private func holds(_ agent: AgentProcess, _ ids: String...) async throws {
        try await eventually("the device holds \(ids)") {
            let held = try await Set(agent.revisions().keys)
            return held == Set(ids)
        }
    }

    @Test("a user without a channel is told in the log, once for each connection, and among the peers, as the channels of others are")
    func whoHasNone() async throws {
        let folder = try TemporaryFolder()
        try folder.write("plugins/route.lua", plugin)
        let many = (1...7).map { "\"c\($0)\"" }.joined(separator: ", ")
        try folder.write("plugins/users.lua", users.replacing("boss = { \"*\" } }", with: "boss = { \"*\" }, carl = {}, dora = { \(many) } }"))
        let hub = try await AgentProcess.start(
            Configuration.hub(database: "{}", listener: "authenticator: users\n    sync: route", plugins: true), in: folder)
        let devices = (try await device("carl", hub), try await device("anna", hub), try await device("boss", hub), try await device("dora", hub))
        let line = try await hub.process.line(containing: "user carl has no channel", in: .errors)
        #expect(line.contains("public documents"), "\(line)")
        try await eventually("all are connected") { try await hub.admin.get("/api/listeners/edge/peers").json.asArray?.count == 4 }
        let peers = try await hub.admin.get("/api/listeners/edge/peers").json.asArray ?? []
        func row(_ user: String) -> JSONValue? { peers.first { $0["user"]?.asString == user } }
        #expect(row("carl")?["channels"]?.asArray?.isEmpty == true && row("carl")?["all_channels"] == false, "\(peers)")
        #expect(row("anna")?["channels"]?.asArray == ["red"] && row("anna")?["more_channels"] == 0, "\(peers)")
        #expect(row("boss")?["all_channels"] == true, "\(peers)")
        #expect(row("dora")?["channels"]?.asArray == ["c1", "c2", "c3", "c4", "c5"] && row("dora")?["more_channels"] == 2, "\(peers)")
        let shown = try await hub.command("listener", "edge", "peers")
        for (user, words) in [("carl", "  none  "), ("anna", "  red  "), ("boss", "  all  "), ("dora", "  c1, c2, c3, c4, c5 and 2 more  ")] {
            #expect(shown.output.split(separator: "\n").contains { $0.contains("  \(user)  ") && $0.contains(words) }, "\(shown)")
        }
        // A document grants one.
        _ = try await hub.save("card", "{\"type\":\"card\",\"member\":\"carl\",\"team\":\"green\"}")
        try await eventually("it is carl's") {
            let now = try await hub.admin.get("/api/listeners/edge/peers").json.asArray ?? []
            return now.contains { $0["user"] == "carl" && $0["channels"]?.asArray == ["green"] }
        }
        let told = hub.process.errors.split(separator: "\n").filter { $0.contains("has no channel") }
        #expect(told.count == 1, "\(told)")
        withExtendedLifetime(devices) {}
    }

    @Test("users of a password file have the channels of their lines; where nobody has any, health says so until somebody has")
    func passwordFile() async throws {
        let folder = try TemporaryFolder()
        try folder.write("plugins/route.lua", "return { sync = function(doc) channel(doc.team) end }")
        try folder.copy("\(NightjarExecutable.package())/plugins/password-file.lua", to: "plugins/password-file.lua")
        let hash = try await NightjarExecutable.run("password", input: .text("secret\n")).output.split(separator: "\n").last.map(String.init) ?? ""
        try folder.write("users.txt", "anna:\(hash)\n")
        let hub = try await AgentProcess.start(
            Configuration.hub(listener: "authenticator: { plugin: password-file, params: { file: users.txt } }\n    sync: route", plugins: true), in: folder)
        let entry = try #require(try await Self.channelAttention(hub))
        #expect(entry["gravity"] == "attention" && entry["text"]?.asString?.contains("users.txt has none: it pulls public documents") == true, "\(entry.text)")
        #expect(entry["remedy"]?.asString?.contains("nightjar user permit USER --channel CHANNEL") == true, "\(entry.text)")
        _ = try await hub.save("red-1", "{\"team\":\"red\"}")
        _ = try await hub.save("blue-1", "{\"team\":\"blue\"}")
        try folder.write("users.txt", "anna:\(hash):channels=red\n")
        let anna = try await device("anna", hub)
        try await holds(anna, "red-1")
        try await eventually("nothing is told any more") { try await Self.channelAttention(hub) == nil }
        #expect(try await hub.admin.get("/api/listeners/edge/peers").json.asArray?.first?["channels"]?.asArray == ["red"])
    }

    @Test("each user gets what is in its channels, what a document grants, and loses it with the document, by ids and by versions", arguments: [
        "{ version_vectors: false }", "{ version_vectors: true }",
    ])
    func twoUsers(_ database: String) async throws {
        let hub = try await hub(database)
        // Written before anybody came, by the agent itself.
        _ = try await hub.save("local", "{\"team\":\"red\",\"owner\":\"anna\"}")
        _ = try await hub.save("broken", "{\"team\":\"red\",\"broken\":true}")
        let (anna, ben, boss) = (try await device("anna", hub, database), try await device("ben", hub, database), try await device("boss", hub, database))
        try await holds(anna, "local")
        _ = try await anna.save("red-1", "{\"team\":\"red\",\"owner\":\"anna\"}")
        let blue = try await ben.save("blue-1", "{\"team\":\"blue\",\"owner\":\"ben\"}")
        try await holds(boss, "broken", "local", "red-1", "blue-1")
        try await holds(anna, "local", "red-1")
        try await holds(ben, "blue-1")

        // What sync throws stays on the device; what breaks it does too, and is tried again.
        _ = try await anna.save("homeless", "{\"owner\":\"anna\"}")
        _ = try await anna.save("bug", "{\"team\":\"red\",\"broken\":true}")
        _ = try await anna.save("card", "{\"type\":\"card\",\"member\":\"anna\",\"team\":\"blue\",\"owner\":\"anna\"}")
        try await anna.waits("three documents fail") { ($0["failed"]?.asInt64 ?? 0) >= 3 }
        for id in ["homeless", "bug", "card"] { #expect(try await !hub.has(id), "\(id)") }
        #expect(try await hub.plugin("route")["last_failure"]?.asString?.contains("out of order") == true)

        // What could not be routed here is counted, listed with the reason, and tried again when the operator asks for it.
        let databases = try await hub.status()["databases"]?.asArray
        #expect(databases?.first { $0["name"] == "main" }?["unrouted"]?.asInt64 == 1)
        let told = try await hub.status()["attention"]?.asArray?.first { $0["kind"] == "documents_unrouted" }
        #expect(told?["text"]?.asString?.contains("because sync failed or rejected them") == true, "\(told?.text ?? "nothing")")
        // Where sync rejects a document, no other plugin helps.
        #expect(told?["remedy"]?.asString?.contains("if it rejected documents, change or remove them (nightjar doc rm)") == true, "\(told?.text ?? "nothing")")
        let list = try await hub.command("doc", "unrouted", "main", "--json")
        let rows = try JSONValue(parsing: list.outputBytes).asArray
        #expect(rows?.count == 1 && rows?.first?["id"] == "broken" && rows?.first?["plugin"] == "route", "\(list)")
        #expect(rows?.first?["error"]?.asString?.contains("route.lua:3: out of order") == true, "\(list)")
        let calls = try await hub.plugin("route")["errors"]?.asInt64 ?? 0
        #expect(try await hub.command("plugin", "retry", "route").status == 0)
        try await eventually("the plugin is asked again") { (try await hub.plugin("route")["errors"]?.asInt64 ?? 0) > calls }

        // The boss lets ben see the red ones, and changes its mind.
        let card = try await boss.save("access", "{\"type\":\"card\",\"member\":\"ben\",\"team\":\"red\",\"owner\":\"boss\"}")
        try await holds(ben, "blue-1", "local", "red-1")
        #expect(try await boss.put("main", "access", "{\"_rev\":\"\(card)\",\"type\":\"card\",\"member\":\"nobody\",\"team\":\"red\",\"owner\":\"boss\"}").status < 300)
        try await holds(ben, "blue-1")

        // Nobody at the device did that: it is in its record.
        let audit = try await ben.command("audit").output
        #expect(audit.contains("purge of documents with access removed") && audit.contains("replicator hub") && audit.contains(" purged"), "\(audit)")

        // And counted, for of the documents themselves nothing is left.
        try await eventually("counted") { try await ben.replicator("hub")["access_removed"]?.asInt64 ?? 0 >= 2 }
        let row = try await ben.replicator("hub")
        let count = row["access_removed"]?.asInt64 ?? 0
        #expect(row["lifetime"]?["access_removed"]?.asInt64 == count, "\(row.text)")
        #expect(try await ben.metrics().contains("nightjar_replicator_access_removed_total{replicator=\"hub\"} \(count)\n"))
        let why = try await ben.command("doc", "why", "main", "red-1").output
        #expect(why.contains("took away access to it"), "\(why)")

        // A document that changes its team goes over; its owner alone may do that.
        #expect(try await ben.put("main", "blue-1", "{\"_rev\":\"\(blue)\",\"team\":\"red\",\"owner\":\"ben\"}").status < 300)
        try await eventually("anna has it") { try await anna.has("blue-1") }
        try await eventually("ben has it no longer") { try await !ben.has("blue-1") }

        // Peers that come back after the hub was away miss nothing.
        for agent in [anna, ben, boss] { #expect(try await agent.stop().status == 0) }
        #expect(try await hub.stop().status == 0)
    }

    @Test("a database has one sync function, and a plugin without one is named")
    func configuration() async throws {
        let folder = try TemporaryFolder()
        try folder.write("plugins/route.lua", plugin)
        try folder.write("plugins/users.lua", users)
        let one = "authenticator: users\n    sync: route"
        let second = "  - { name: other, databases: [ main ], interface: 127.0.0.1, port: 0, disable_tls: true, sync: SYNC }\n"
        func check(_ sync: String) async throws -> Subprocess.Outcome {
            let path = try folder.write(
                "nightjar.yaml", Configuration.hub(listener: one, plugins: true, more: second.replacing("SYNC", with: sync)))
            return try await NightjarExecutable.run("check", "--config", path)
        }
        #expect(try await check("route").status == 0)
        var outcome = try await check("{ plugin: users }")
        #expect(outcome.status != 0)
        #expect("\(outcome)".contains("users.lua") && "\(outcome)".contains("sync"), "\(outcome)")
        try folder.write("plugins/second.lua", plugin)
        outcome = try await check("second")
        #expect(outcome.status != 0)
        #expect("\(outcome)".contains("already has a different sync function on listener"), "\(outcome)")
    }
}

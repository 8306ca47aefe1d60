import Documents
import TestSupport
import Testing

/// One push to a hub changes what its gateways run, and nothing that is not signed for them does.
@Suite("A fleet's plugins")
struct FleetTests {
    @Test("what is published is used by all gateways, including a new one; what is for a label only by gateways that have it")
    func updates() async throws {
        let fleet = try await TestFleet.make()
        let (north, south) = (try await fleet.gateway("north", label: "canary"), try await fleet.gateway("south"))
        try await fleet.sends(north, 0, "baseline")
        #expect(try await fleet.publish(TestFleet.passing(1)).output == "plugin:gate:1 is published\n")
        for id in ["north", "south"] { try await fleet.waits(id, runs: 1) }
        try await fleet.sends(north, 1, "north-1")
        try await fleet.sends(south, 1, "south-1")
        #expect(try await fleet.publish(TestFleet.passing(2), "--for-label", "canary").status == 0)
        try await fleet.waits("north", runs: 2)
        try await fleet.sends(north, 2, "north-2")
        // It has looked at what follows and passed over what is for others, without a complaint.
        #expect(try await fleet.publish(TestFleet.passing(3)).status == 0)
        for id in ["north", "south"] { try await fleet.waits(id, runs: 3) }
        #expect(try await fleet.status("south")?["refused"]?.asArray?.isEmpty == true)
        let table = try await fleet.hub.command("fleet", "status").output
        #expect(table.contains("GATEWAY") && table.split(separator: "\n").filter { $0.contains("  current  ") }.count == 2, "\(table)")
        // A status that says the same is not written again: both sides come to rest.
        let before = try await south.get(TestFleet.place, "status:south").json["_rev"]
        #expect(try await fleet.publish(TestFleet.passing(9), "--for-id", "nobody").status == 0)
        try await eventually("it arrives") { try await south.has("plugin:gate:4", in: TestFleet.place) }
        #expect(try await south.get(TestFleet.place, "status:south").json["_rev"] == before)
    }

    @Test("another's signature, an altered document, an older version and failing tests are refused by name, and the last good one serves")
    func refusals() async throws {
        let fleet = try await TestFleet.make()
        let gateway = try await fleet.gateway("north")
        #expect(try await fleet.publish(TestFleet.passing(1), "--plugin-version", "10").status == 0)
        try await fleet.waits("north", runs: 10)

        _ = try await NightjarExecutable.run("fleet", "keygen", fleet.desk.path("other.pem"))
        #expect(try await fleet.publish(TestFleet.passing(2), signedBy: "other.pem", "--plugin-version", "11").status == 0)
        try await fleet.waits("north", refuses: "which fleet.keys does not name")

        // What a hub could do with a signed document: give it another version.
        let signed = try await fleet.hub.get(TestFleet.place, "plugin:gate:10").text
        let changed = signed.replacing("\"version\":10", with: "\"version\":12").replacing("\"_id\":\"plugin:gate:10\",", with: "")
        guard case .object(var forged) = try JSONValue(parsing: Array(changed.utf8)) else { return }
        forged["_rev"] = nil
        #expect(try await fleet.hub.put(TestFleet.place, "plugin:gate:12", JSONValue.object(forged).text).status < 300)
        try await fleet.waits("north", refuses: "its signature is wrong")

        let failing = "return { fails = function(t) t.accept(t.push_filter { n = 1 }) end }\n"
        let kept = try await fleet.publish(TestFleet.passing(3), tests: failing)
        #expect(kept.status != 0 && kept.errors.contains("plugin gate, test fails:") && kept.errors.contains("--no-tests"), "\(kept)")
        #expect(try await fleet.publish(TestFleet.passing(3), tests: failing, "--no-tests").status == 0)
        try await fleet.waits("north", refuses: "test \"fails\" failed")
        try await fleet.sends(gateway, 1, "still")

        let health = try await gateway.admin.get("/health")
        #expect(health.status == 200 && health.text.contains("\"fleet_refused\"") && health.text.contains("fleet plugin:gate:13"), "\(health.text)")
        #expect(try await gateway.command("status").output.contains("fleet plugin:gate:13"))

        // Properly signed, and older than what was in force: a replay.
        try fleet.desk.write("gate.lua", TestFleet.passing(5))
        fleet.desk.remove("gate.test.lua")
        let old = try await NightjarExecutable.run(
            "fleet", "sign", fleet.desk.path("gate.lua"), "--key", fleet.desk.path("key.pem"), "--plugin-version", "9")
        let put = try await fleet.hub.command("import", TestFleet.place, input: .text(old.output))
        #expect(put.status == 0, "\(put)")
        // Without the one in force, which a hub can take away, the old one would be the newest.
        #expect(try await fleet.hub.command("doc", "rm", TestFleet.place, "plugin:gate:10").status == 0)
        try await eventually("the one in force is gone") { try await !gateway.has("plugin:gate:10", in: TestFleet.place) }
        try await eventually("the old one arrives") { try await gateway.has("plugin:gate:9", in: TestFleet.place) }
        try await fleet.sends(gateway, 1, "no-replay")
        #expect(try await fleet.publish(TestFleet.passing(5), "--plugin-version", "9").output.isEmpty)
        #expect(try await fleet.publish(TestFleet.passing(6)).status == 0)
        try await fleet.waits("north", runs: 14)
        try await fleet.sends(gateway, 6, "mended")
    }

    @Test("what was in force stays in use after a restart without the hub, and ends when its key is no longer trusted")
    func restart() async throws {
        let fleet = try await TestFleet.make()
        let gateway = try await fleet.gateway("north")
        #expect(try await fleet.publish(TestFleet.passing(1)).status == 0)
        try await fleet.waits("north", runs: 1)
        let version = try await gateway.plugin("gate")["version"]
        try await gateway.kill9()
        #expect(try await fleet.hub.stop().status == 0)
        let again = try await fleet.gateway("north", in: gateway.folder)
        #expect(try await again.plugin("gate")["version"] == version)
        #expect(try await again.stop().status == 0)
        var other = fleet
        other.key = try await NightjarExecutable.run("fleet", "keygen", fleet.desk.path("other.pem")).output.split(separator: "\n").first.map(String.init) ?? ""
        let distrusting = try await other.gateway("north", in: gateway.folder)
        #expect(try await distrusting.plugin("gate")["version"] != version)
    }

    @Test("users of a listener write their own status and nothing else into the collection")
    func writers() async throws {
        let fleet = try await TestFleet.make("authenticator: { plugin: users }")
        let edge = HTTPProbe.tcp(port: try fleet.hub.port("edge"))
        func put(_ id: String) async throws -> Int {
            let answer = try await edge.request(
                "PUT", "/main.\(TestFleet.collection)/\(id)", headers: [("Authorization", "Basic bm9ydGg6c2VjcmV0")], body: Array("{\"n\":1}".utf8))
            return answer.status
        }
        #expect(try await put("plugin:gate:1") == 403)
        #expect(try await put("status:south") == 403)
        #expect(try await put("status:north") == 201)
        let publishing = try await TestFleet.make("authenticator: { plugin: users }", publishers: "north")
        let other = HTTPProbe.tcp(port: try publishing.hub.port("edge"))
        let answer = try await other.request(
            "PUT", "/main.\(TestFleet.collection)/plugin:gate:1", headers: [("Authorization", "Basic bm9ydGg6c2VjcmV0")], body: Array("{\"n\":1}".utf8))
        #expect(answer.status == 201)
        let login = "authenticator: { username: north, password: secret }"
        let gateway = try await fleet.gateway("north-west", login: login)
        // Its id is not its user name: the hub keeps the two apart.
        try await eventually("the hub refuses it") { try await gateway.replicator("hub")["refused"]?.asInt64 == 1 }
        #expect(try await fleet.status("north-west") == nil)
    }

    @Test("a gateway has the name of its document, whatever it calls itself; where the two differ, status says so")
    func names() async throws {
        let fleet = try await TestFleet.make()
        #expect(try await fleet.hub.put(TestFleet.place, "status:north", "{\"kind\":\"status\",\"id\":\"south\",\"labels\":[],\"plugins\":[]}").status < 300)
        #expect(try await fleet.status("south") == nil)
        #expect(try await fleet.status("north")?["calls_itself"]?.asString == "south")
        #expect(try await fleet.hub.command("fleet", "status").output.contains("north (calls itself south)"))
    }

    @Test("the fleet's commands use the database that the configuration names, and the hub is not one of its gateways")
    func database() async throws {
        let desk = try TemporaryFolder()
        let key = try await TestFleet.newKey("key.pem", in: desk)
        let hub = try await AgentProcess.start(
            "data: data\nadmin: { port: 0, open: true }\ndatabases: { central: { collections: [ \(TestFleet.collection) ] } }\n"
                + "fleet: { database: central, keys: [ \"\(key)\" ], id: hub }\n")
        let fleet = TestFleet(hub: hub, desk: desk, key: key)
        #expect(try await fleet.publish(TestFleet.passing(1)).output == "plugin:gate:1 is published\n")
        #expect(try await hub.get("central.\(TestFleet.collection)", "plugin:gate:1").status == 200)
        try await eventually("the hub has told its status") { try await hub.get("central.\(TestFleet.collection)", "status:hub").status == 200 }
        let status = try await hub.command("fleet", "status")
        #expect(status.status == 0 && status.output == "no gateway has reported its status yet\n", "\(status)")
        // Somewhere else there is none.
        #expect(try await hub.command("fleet", "status", "--db", "main").errors.contains("\"main\""))
        #expect(try await fleet.withdraw("gate").output.contains("plugin:gate:2 is published"))

        // Another key: that gateways may refuse it is said, and so is what its version is counted from.
        _ = try await TestFleet.newKey("other.pem", in: desk)
        let other = try await fleet.publish(TestFleet.passing(2), signedBy: "other.pem")
        #expect(other.output == "plugin:gate:3 is published\n" && other.errors.contains("is not among fleet.keys of the configuration"), "\(other)")
        let own = try await fleet.publish(TestFleet.passing(3))
        #expect(own.output == "plugin:gate:4 is published\n" && own.errors.contains("version 3 is taken by what does not count here, signed by ed25519/"), "\(own)")
    }

    @Test("without --db and fleet.database the only database with the fleet's collection is taken; where none or several have it, the error says what to give")
    func chosenDatabase() async throws {
        func status(_ databases: String) async throws -> Subprocess.Outcome {
            let hub = try await AgentProcess.start("data: data\nadmin: { port: 0, open: true }\ndatabases: { \(databases) }\n")
            let outcomes = [
                try await hub.command("fleet", "status"),
                try await NightjarExecutable.run("fleet", "status", "--data", hub.folder.path("data")),
            ]
            #expect(outcomes[0].status == outcomes[1].status && outcomes[0].errors == outcomes[1].errors, "\(outcomes)")
            return outcomes[0]
        }
        let one = try await status("plant: {}, central: { collections: [ \(TestFleet.collection) ] }")
        #expect(one.status == 0 && one.output == "no gateway has reported its status yet\n", "\(one)")
        let several = try await status("east: { collections: [ \(TestFleet.collection) ] }, west: { collections: [ \(TestFleet.collection) ] }")
        #expect(several.status == 1 && several.errors.contains("name one with --db: east, west"), "\(several)")
        let none = try await status("plant: {}")
        #expect(none.status == 1 && none.errors.contains("no database \"main\"") && none.errors.contains("name that with --db"), "\(none)")
    }

    @Test("what no trusted key has signed does not count as published, and uses up no version number")
    func unsignedVersions() async throws {
        let fleet = try await TestFleet.make()
        let place = TestFleet.place
        for version in ["1", "\(Int64(1) << 53)"] {
            #expect(try await fleet.hub.put(place, "plugin:gate:\(version)", "{\"kind\":\"plugin\",\"name\":\"gate\"}").status < 300)
        }
        // The id of version 1 is taken, by what is none.
        #expect(try await fleet.publish(TestFleet.passing(1)).output == "plugin:gate:2 is published\n")
        _ = try await NightjarExecutable.run("fleet", "keygen", fleet.desk.path("other.pem"))
        #expect(try await fleet.publish(TestFleet.passing(9), signedBy: "other.pem", "--plugin-version", "90").status == 0)
        #expect(try await fleet.publish(TestFleet.passing(2)).output == "plugin:gate:3 is published\n")
        #expect(try await fleet.publish(TestFleet.passing(2), "--plugin-version", "3").errors.contains("version 3 was published"))
        let gateway = try await fleet.gateway("north")
        try await fleet.sends(gateway, 2, "believed")
        try await fleet.waits("north", runs: 3)
        let trusted = try await fleet.hub.command("fleet", "status", "--trust", fleet.key, "--json")
        #expect(try JSONValue(parsing: trusted.outputBytes).asArray?.first?["plugins"]?.asArray?.first?["published"]?.asInt64 == 3)
        // While a key is replaced, the versions of the one before count too.
        let other = try await NightjarExecutable.run("fleet", "keygen", fleet.desk.path("third.pem"))
        #expect(other.status == 0)
        #expect(try await fleet.publish(TestFleet.passing(4), signedBy: "third.pem", "--trust", fleet.key).output == "plugin:gate:4 is published\n")
    }
}

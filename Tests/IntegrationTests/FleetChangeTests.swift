import Documents
import TestSupport
import Testing

/// What changes while gateways run: whom they believe, what they refused, and what is taken out again.
@Suite("A fleet that changes")
struct FleetChangeTests {
    @Test("a gateway without a plugins folder runs the fleet's plugins, and its configuration may name one that has come")
    func withoutFolder() async throws {
        let fleet = try await TestFleet.make()
        let gateway = try await fleet.gateway(running: try fleet.configuration("north", filter: nil, plugins: false))
        let early = try await gateway.command("check")
        #expect(early.status == 0, "\(early)")
        #expect(try await fleet.publish(TestFleet.passing(1)).status == 0)
        try await fleet.waits("north", runs: 1)
        #expect(try await gateway.plugin("gate")["state"]?.asString == "active")
        #expect(try await gateway.reload(try fleet.configuration("north", plugins: false)).status == 0)
        try await fleet.sends(gateway, 1, "filtered")
        try await gateway.kill9()
        let again = try await fleet.gateway(running: try fleet.configuration("north", plugins: false), in: gateway.folder)
        try await fleet.sends(again, 1, "filtered-again")
        #expect(try await again.command("check").status == 0)
    }

    @Test("a reload applies trusted keys and accepted settings at once")
    func trust() async throws {
        let fleet = try await TestFleet.make()
        let gateway = try await fleet.gateway(running: try fleet.configuration("north", fleet: ""))
        #expect(try await fleet.publish(TestFleet.passing(1)).status == 0)
        try await fleet.sends(gateway, 0, "not-accepted")
        #expect(try await fleet.hub.command("fleet", "status").output.contains("not accepted there: 1 is published"))

        let accepting = try await gateway.reload(try fleet.configuration("north"))
        #expect(accepting.status == 0 && accepting.output.contains("fleet applied"), "\(accepting)")
        try await fleet.waits("north", runs: 1)
        try await fleet.sends(gateway, 1, "accepted")
        #expect(try await gateway.plugin("gate")["fleet"]?["version"]?.asInt64 == 1)
        #expect(try await gateway.command("status").output.contains("gate: is version 1 of the fleet's"))

        var other = fleet
        other.key = try await TestFleet.newKey("other.pem", in: fleet.desk)
        #expect(try await gateway.reload(try other.configuration("north")).status == 0)
        try await fleet.sends(gateway, 0, "distrusted")
        #expect(try await gateway.plugin("gate")["fleet"] == .null)
        // What another key had brought into force does not stand in the way of this one's.
        #expect(try await fleet.publish(TestFleet.passing(2), signedBy: "other.pem", "--plugin-version", "2").status == 0)
        try await fleet.waits("north", runs: 2)
        // The first key again, with what it had signed.
        #expect(try await gateway.reload(try fleet.configuration("north")).status == 0)
        try await fleet.waits("north", refuses: "which fleet.keys does not name")
        try await fleet.sends(gateway, 1, "not-the-others")
    }

    @Test("the fleet continues when a reload reopens its database")
    func reopened() async throws {
        let fleet = try await TestFleet.make()
        let gateway = try await fleet.gateway("north")
        #expect(try await fleet.publish(TestFleet.passing(1)).status == 0)
        try await fleet.waits("north", runs: 1)
        let reload = try await gateway.reload(try fleet.configuration("north", database: "history: { revisions: 60 }"))
        #expect(reload.output.contains("database main opened"), "\(reload)")
        #expect(try await fleet.publish(TestFleet.passing(2)).status == 0)
        try await fleet.waits("north", runs: 2)
    }

    @Test("a hub's publishers change with a reload")
    func publishers() async throws {
        let listener = "authenticator: { plugin: users }"
        let fleet = try await TestFleet.make(listener)
        let port = try fleet.hub.port("edge")
        func put() async throws -> Int {
            try await HTTPProbe.tcp(port: port).request(
                "PUT", "/\(TestFleet.place)/plugin:gate:1", headers: [("Authorization", "Basic bm9ydGg6c2VjcmV0")], body: Array("{\"n\":1}".utf8)).status
        }
        #expect(try await put() == 403)
        #expect(try await fleet.hub.reload(TestFleet.hubConfiguration(listener, publishers: "north")).status == 0)
        #expect(try await put() == 201)
    }

    @Test("a plugin that does not suit its use is named by status, doctor, health and metrics, and accepted once a reload has made it suitable")
    func retry() async throws {
        let fleet = try await TestFleet.make()
        let gateway = try await fleet.gateway("north")
        #expect(try await fleet.publish("return { pull_filter = function(doc) return true end }\n").status == 0)
        try await fleet.waits("north", refuses: "push_filter")
        #expect(try await gateway.command("status").output.contains("fleet plugin:gate:1"))
        #expect(try await gateway.command("doctor", "--quick").output.contains("fleet plugin:gate:1"))
        #expect(try await gateway.status()["fleet"]?["refused"]?.asArray?.first?["id"]?.asString == "plugin:gate:1")
        #expect(try await gateway.admin.get("/metrics").text.contains("\nnightjar_fleet_refused 1\n"))
        #expect(try await fleet.hub.command("fleet", "status").output.contains("refuses 1: "))

        #expect(try await gateway.reload(try fleet.configuration("north", filter: nil)).status == 0)
        try await fleet.waits("north", runs: 1)
        try await fleet.waitsForNoRefusal("north")
        let metrics = try await gateway.admin.get("/metrics").text
        #expect(metrics.contains("\nnightjar_fleet_refused 0\n") && metrics.contains("nightjar_fleet_version{kind=\"plugin\",name=\"gate\"} 1"), "\(metrics)")
    }

    @Test("a withdrawal of a fragment by its name alone, or of a plugin as one, says which option is missing or too much")
    func withdrawalOfTheOtherKind() async throws {
        let fleet = try await TestFleet.make()
        #expect(try await fleet.configure("plugin_limits: { gate: { cpu_ms: 40 } }\n").status == 0)
        #expect(try await fleet.publish(TestFleet.passing(1)).status == 0)
        let plain = try await fleet.withdraw("site")
        #expect(plain.status == 1 && plain.errors.contains("plugin site was not published by a key that counts; there are: gate; a fragment has that name: add --fragment"), "\(plain)")
        let marked = try await fleet.withdraw("gate", "--fragment")
        #expect(marked.status == 1 && marked.errors.contains("there are: site; a plugin has that name: leave out --fragment"), "\(marked)")
    }

    @Test("a withdrawn plugin is replaced by the file of the same name, and no older version comes back")
    func withdrawal() async throws {
        let fleet = try await TestFleet.make()
        let gateway = try await fleet.gateway("north")
        let unknown = try await fleet.withdraw("gate")
        #expect(unknown.status == 1 && unknown.errors.contains("plugin gate was not published") && !unknown.errors.contains("--fragment"), "\(unknown)")
        #expect(try await fleet.publish(TestFleet.passing(1)).status == 0)
        try await fleet.waits("north", runs: 1)
        #expect(try await fleet.withdraw("gate").output == "plugin:gate:2 is published: a plugin is withdrawn\n")
        try await eventually("it is withdrawn") { try await fleet.row("north")?["state"]?.asString == "withdrawn" }
        try await fleet.sends(gateway, 0, "own-file")

        // Without the withdrawal, which a hub can take away, what was published before would be the newest.
        #expect(try await fleet.hub.command("doc", "rm", TestFleet.place, "plugin:gate:2").status == 0)
        try await eventually("the withdrawal is gone") { try await !gateway.has("plugin:gate:2", in: TestFleet.place) }
        #expect(try await gateway.command("reload").status == 0)
        try await fleet.sends(gateway, 0, "no-replay")
        try await gateway.kill9()
        let again = try await fleet.gateway("north", in: gateway.folder)
        try await fleet.sends(again, 0, "no-replay-after-a-restart")
        #expect(try await fleet.publish(TestFleet.passing(3), "--plugin-version", "3").status == 0)
        try await fleet.waits("north", runs: 3)
        try await fleet.sends(again, 3, "published-again")
    }

    @Test("a plugin that an operator rolls back on a gateway is not current for fleet status, until a reload of it or the next version")
    func rolledBack() async throws {
        let fleet = try await TestFleet.make()
        let gateway = try await fleet.gateway("north")
        for number in 1...2 {
            #expect(try await fleet.publish(TestFleet.passing(number)).status == 0)
            try await fleet.waits("north", runs: Int64(number))
        }
        func isTold() async throws {
            #expect(try await gateway.command("plugin", "rollback", "gate").status == 0)
            try await eventually("the rollback is told") { try await fleet.row("north")?["is_current"] == false }
        }
        try await isTold()
        let serving = try #require(try await gateway.plugin("gate")["version"]?.asString)
        let row = try #require(try await fleet.row("north"))
        #expect(row["version"]?.asInt64 == 2 && row["rolled_back_to"]?.asString == serving, "\(row.text)")
        let table = try await fleet.hub.command("fleet", "status").output
        #expect(table.contains("rolled back there to \(serving) (nightjar plugin rollback)"), "\(table)")
        try await fleet.sends(gateway, 1, "first-again")

        #expect(try await gateway.command("plugin", "reload", "gate").status == 0)
        try await eventually("the fleet's version serves") { try await fleet.row("north")?["state"]?.asString == "current" }
        try await isTold()
        #expect(try await fleet.publish(TestFleet.passing(3)).status == 0)
        try await fleet.waits("north", runs: 3)
        try await eventually("the next one serves") { try await fleet.row("north")?["state"]?.asString == "current" }
        try await fleet.sends(gateway, 3, "third")
    }

    @Test("with require_signed, a rollback accepts only versions that the fleet signed with a trusted key")
    func rolledBackWithSignatures() async throws {
        var fleet = try await TestFleet.make()
        let accept = "accept: [ plugins ], require_signed: true"
        let gateway = try await fleet.gateway(running: try fleet.configuration("north", fleet: accept, filter: nil, plugins: false))
        for number in 1...2 {
            #expect(try await fleet.publish(TestFleet.passing(number)).status == 0)
            try await fleet.waits("north", runs: Int64(number))
        }
        #expect(try await gateway.reload(try fleet.configuration("north", fleet: accept, plugins: false)).status == 0)
        #expect(try await gateway.command("plugin", "rollback", "gate").status == 0)
        try await fleet.sends(gateway, 1, "first-again")
        let first = try #require(try await gateway.plugin("gate")["version"]?.asString)
        #expect(try await gateway.command("plugin", "reload", "gate").status == 0)
        // The next version is signed with another key, and the previous key is not trusted any more.
        let key = try await TestFleet.newKey("other.pem", in: fleet.desk)
        let both = try fleet.configuration("north", fleet: accept, plugins: false).replacing("keys: [ ", with: "keys: [ \"\(key)\", ")
        #expect(try await gateway.reload(both).status == 0)
        #expect(try await fleet.publish(TestFleet.passing(3), signedBy: "other.pem", "--trust", fleet.key).status == 0)
        try await fleet.waits("north", runs: 3)
        fleet.key = key
        #expect(try await gateway.reload(try fleet.configuration("north", fleet: accept, plugins: false)).status == 0)
        let rollback = try await gateway.command("plugin", "rollback", "gate", "--to", first)
        #expect(rollback.status == 1 && rollback.errors.contains("which fleet.keys does not name"), "\(rollback)")
        try await fleet.sends(gateway, 3, "third")
    }

    @Test("a plugin that is in use and has no file is not withdrawn before its use has ended")
    func withdrawalOfWhatIsUsed() async throws {
        let fleet = try await TestFleet.make()
        let gateway = try await fleet.gateway("north")
        #expect(try await fleet.publish(TestFleet.passing(1)).status == 0)
        try await fleet.waits("north", runs: 1)
        gateway.folder.remove("plugins/gate.lua")
        #expect(try await fleet.withdraw("gate").status == 0)
        try await fleet.waits("north", refuses: "it is used by replicator hub push_filter, and there is no file gate.lua")
        try await fleet.sends(gateway, 1, "serves-on")
        #expect(try await gateway.reload(try fleet.configuration("north", filter: nil)).status == 0)
        try await eventually("it is withdrawn") { try await fleet.row("north")?["state"]?.asString == "withdrawn" }
        #expect(try await gateway.status()["plugins"]?.asArray?.isEmpty == true)
    }

    @Test("what a distrusted key has signed is not used from the kept versions either; check and start say so")
    func distrustedWithoutFile() async throws {
        let fleet = try await TestFleet.make()
        let gateway = try await fleet.gateway("north")
        #expect(try await fleet.publish(TestFleet.passing(1)).status == 0)
        try await fleet.waits("north", runs: 1)
        gateway.folder.remove("plugins/gate.lua")
        var other = fleet
        other.key = try await TestFleet.newKey("other.pem", in: fleet.desk)
        let reload = try await gateway.reload(try other.configuration("north"))
        #expect(reload.status == 78 && reload.errors.contains("the fleet's version of it is signed with a key that fleet.keys does not name"), "\(reload)")
        try await fleet.sends(gateway, 1, "serves-on")
        #expect(try await gateway.stop().status == 0)
        let check = try await NightjarExecutable.run("check", "--config", gateway.configuration, folder: gateway.folder.path)
        #expect(check.status == 78 && check.errors.contains("there is no plugin \"gate\""), "\(check)")
        let start = try await NightjarExecutable.run("run", "--config", gateway.configuration, folder: gateway.folder.path)
        #expect(start.status == 78, "\(start)")
    }
}

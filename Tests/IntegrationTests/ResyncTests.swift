import Documents
import TestSupport
import Testing

/// A sync function that put documents into wrong channels is mended, and what is stored goes where it belongs.
@Suite("Resync of a real agent", .serialized)
struct ResyncTests {
    private static func route(_ body: String) -> String { "return { sync = function(doc, old_doc, ctx)\n\(body)\nend }\n" }

    private let users = """
        return { authenticate_password = function(name, password)
          return password == "secret" and { channels = { name == "anna" and "red" or "blue" } }
        end }
        """
    private let anna = "YW5uYTpzZWNyZXQ=", ben = "YmVuOnNlY3JldA=="

    private func start(_ sync: String) async throws -> AgentProcess {
        let folder = try TemporaryFolder()
        try folder.write("plugins/route.lua", sync)
        try folder.write("plugins/users.lua", users)
        return try await AgentProcess.start(
            Configuration.hub(listener: "couchdb: true\n    authenticator: users\n    sync: route", plugins: true), in: folder)
    }

    private func isOutdated(_ hub: AgentProcess) async throws -> Bool {
        try await hub.status()["attention"]?.asArray?.contains { $0["kind"] == "channels_outdated" } == true
    }

    @Test("a document leaves one user and comes to the other; what is rejected is in no channel; health says that a resync is due, and then that it was done")
    func moves() async throws {
        let hub = try await start(Self.route("channel(doc.team)"))
        let (anna, ben) = (try CouchHTTP(hub, login: anna), try CouchHTTP(hub, login: ben))
        try await hub.save("tea", "{\"team\":\"red\",\"crew\":\"blue\"}")
        try await hub.save("jam", "{\"team\":\"red\",\"crew\":\"red\"}")
        let pie = try await hub.save("pie", "{\"team\":\"red\"}")
        try await eventually("anna has all") { try await anna.changes().ids.sorted() == ["jam", "pie", "tea"] }
        let folder = try TemporaryFolder()
        let device = try await AgentProcess.start(
            Configuration.edge(to: try hub.port("edge"), replicator: "authenticator: { username: anna, password: secret }"), in: folder)
        try await device.waits(documents: 3)
        let (_, last) = try await ben.changes()
        #expect(try await !isOutdated(hub))

        try await hub.plugin("route", becomes: Self.route("if not doc.crew then throw('no crew') end\nchannel(doc.crew)"))
        try await eventually("health tells of it") { try await isOutdated(hub) }
        #expect(try await anna.changes().ids.sorted() == ["jam", "pie", "tea"])

        let trial = try await hub.command("resync", "main", "--dry-run", "--json")
        let told = try JSONValue(parsing: trial.outputBytes)
        #expect(trial.status == 0 && told["changed"]?.asInt64 == 1 && told["rejected"]?.asInt64 == 1 && told["refused"] == told["rejected"] && told["looked_at"]?.asInt64 == 3 && told["dry_run"]?.asBool == true, "\(trial)")
        #expect(try await anna.changes().ids.sorted() == ["jam", "pie", "tea"])
        #expect(try await isOutdated(hub))

        // Everyone who waits is told at once.
        async let waiting = ben.ok("GET", "/main/_changes?feed=longpoll&timeout=30000&since=\(last)")
        let outcome = try await hub.command("resync", "main")
        #expect(outcome.status == 0 && outcome.output.contains("CHANGED  main tea\n") && !outcome.output.contains("CHANGED  main pie"), "\(outcome)")
        #expect(outcome.output.contains("REJECTED  main pie: rejected: no crew\n"), "\(outcome)")
        #expect(outcome.output.hasSuffix("looked at 3 documents: 1 changed, 1 rejected, 0 failed\n"), "\(outcome)")
        #expect(try await waiting["results"]?.asArray?.compactMap { $0["id"]?.asString } == ["tea"])
        #expect(try await anna.changes().ids == ["jam"])
        #expect(try await anna.problem("GET", "/main/tea") == "404 not_found")
        #expect(try await ben.ok("GET", "/main/tea")["crew"]?.asString == "blue")
        try await device.waits(documents: 1)

        // No document was edited, and nothing is left to do.
        #expect(try await hub.revisions()["pie"] == pie)
        #expect(try await !isOutdated(hub))
        #expect(try await hub.command("doc", "unrouted", "main").output.contains("rejected: no crew"))
        let state = try await hub.database("main")["resync"]
        #expect(state?["state"] == "done" && state?["changed"]?.asInt64 == 1, "\(state?.text ?? "nothing")")
        #expect(try await hub.command("audit").output.contains("done: looked at 3 documents, 1 changed, 1 rejected, 0 failed"))
        #expect(try await device.stop().status == 0)
        #expect(try await hub.stop().status == 0)
    }

    @Test("where sync fails documents stay where they are, and the command says so; a part is asked for by its name")
    func failures() async throws {
        let hub = try await start(Self.route("channel(doc.team)"))
        let anna = try CouchHTTP(hub, login: anna)
        try await hub.save("tea", "{\"team\":\"red\"}")
        try await hub.save("jam", "{\"team\":\"red\",\"crew\":{\"name\":\"blue\"}}")
        try await eventually("anna has both") { try await anna.changes().ids.sorted() == ["jam", "tea"] }
        try await hub.plugin("route", becomes: Self.route("channel(doc.crew.name)"))

        var outcome = try await hub.command("resync", "main", "--document", "jam")
        #expect(outcome.status == 0 && outcome.output.hasSuffix("looked at 1 document: 1 changed, 0 rejected, 0 failed\n"), "\(outcome)")
        outcome = try await hub.command("resync", "main", "--collection", "_default")
        #expect(outcome.status == 1 && outcome.output.contains("FAILED  main tea: plugin_error: "), "\(outcome)")
        #expect(outcome.errors.contains("sync failed on 1 document, which keeps its channels"), "\(outcome)")
        #expect(try await anna.changes().ids == ["tea"])
        try await eventually("it is still to be done") { try await isOutdated(hub) }

        outcome = try await hub.command("resync", "main", "--document", "cake")
        #expect(outcome.status == 1 && outcome.errors.contains("there is no document \"cake\""), "\(outcome)")
        // A trial that is asked for by another word must not be the real thing.
        #expect(try await hub.admin.post("/api/databases/main/resync?dry_run=1").status == 400)
        #expect(try await hub.command("resync", "main", "--collection", "_default", "--dry-run").status == 1)
        #expect(try await hub.command("audit").output.contains("POST /api/databases/main/resync?collection=_default&dry_run=true"))
        outcome = try await hub.command("resync", "other")
        #expect(outcome.status == 1 && outcome.errors.contains("there is no database \"other\""), "\(outcome)")
        #expect(try await hub.stop().status == 0)
    }
}

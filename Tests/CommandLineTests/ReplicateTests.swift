import Documents
import TestSupport
import Testing

/// A folder with databases, and commands in it.
private struct Desk: Sendable {
    let folder: TemporaryFolder

    init() throws {
        folder = try TemporaryFolder()
        for plugin in ["skip-drafts", "by-owner", "password-file"] {
            try folder.copy("\(NightjarExecutable.package())/plugins/\(plugin).lua", to: "plugins/\(plugin).lua")
        }
    }

    func run(_ arguments: String..., environment: [String: String] = [:], input: Subprocess.Input = .none) async throws -> Subprocess.Outcome {
        try await Subprocess.run(
            try NightjarExecutable.path(), arguments, environment: environment, folder: folder.path, input: input)
    }

    func fill(_ database: String, _ lines: String...) async throws {
        let outcome = try await run("import", database, "--data", "d", input: .text(lines.joined(separator: "\n")))
        #expect(outcome.status == 0, "\(outcome)")
    }

    func ids(_ database: String) async throws -> [String] {
        let outcome = try await run("doc", "list", database, "--data", "d", "--deleted")
        return outcome.lines.map { String($0.split(separator: "\t")[0]) }.sorted()
    }
}

@Suite struct ReplicateTests {
    @Test func aFolderIsPushedToAnAgentAndPulledIntoANewFolder() async throws {
        let hub = try await AgentProcess.start(Configuration.plain)
        let url = "ws://127.0.0.1:\(try hub.port("edge"))/main"
        let desk = try Desk()
        try await desk.fill("main", "{\"_id\":\"a\",\"n\":1}", "{\"_id\":\"b\"}")
        #expect(try await hub.put("main", "there", "{}").status == 201)

        let push = try await desk.run("replicate", "d/main.nightjar", url, "--json")
        #expect(push.status == 0, "\(push)")
        #expect(try push.json["pushed"] == 2)
        // One way only.
        #expect(try push.json["pulled"] == 0)
        #expect(try await hub.get("main", "a").status == 200)
        #expect(try await desk.ids("main") == ["a", "b"])
        // A checkpoint was kept.
        let again = try await desk.run("replicate", "d/main.nightjar", url, "--json")
        #expect(try again.json["pushed"] == 0)

        let pull = try await desk.run("replicate", url, "d/copy.nightjar")
        #expect(pull.status == 0, "\(pull)")
        #expect(pull.output.contains("pulled 3"), "\(pull)")
        #expect(try await desk.ids("copy") == ["a", "b", "there"])

        let both = try await desk.run("replicate", "d/main.nightjar", url, "--both", "--json")
        #expect(both.status == 0, "\(both)")
        #expect(try await desk.ids("main") == ["a", "b", "there"])
    }

    @Test func foldersReplicateWithEachOther() async throws {
        let desk = try Desk()
        try await desk.fill("one", "{\"_id\":\"a\"}", "{\"_id\":\"draft\",\"type\":\"draft\"}")
        let push = try await desk.run("replicate", "d/one.nightjar/", "d/two.nightjar", "--push-filter", "skip-drafts", "--json")
        #expect(push.status == 0, "\(push)")
        #expect(try push.json["rejected"] == 1)
        #expect(try await desk.ids("two") == ["a"])
        try await desk.fill("two", "{\"_id\":\"b\"}")
        let both = try await desk.run("replicate", "d/one.nightjar", "d/two.nightjar", "--both", "--json")
        #expect(both.status == 0, "\(both)")
        #expect(try await desk.ids("one") == ["a", "b", "draft"])
        #expect(try await desk.ids("two") == ["a", "b", "draft"])
        #expect(try both.json["pulled"] == 1)
    }

    @Test func onlyWhatIsAskedForIsReplicated() async throws {
        let desk = try Desk()
        try await desk.fill("one", "{\"_id\":\"a\",\"owner\":\"x\"}", "{\"_id\":\"b\",\"owner\":\"y\"}", "{\"_id\":\"c\",\"owner\":\"x\"}")
        let byID = try await desk.run("replicate", "d/one.nightjar", "d/ids.nightjar", "--doc-ids", "a,b", "--doc-ids", "nothing")
        #expect(byID.status == 0, "\(byID)")
        #expect(try await desk.ids("ids") == ["a", "b"])
        let byOwner = try await desk.run(
            "replicate", "d/one.nightjar", "d/owner.nightjar", "--push-filter", "by-owner", "--params", "{\"name\":\"x\"}")
        #expect(byOwner.status == 0, "\(byOwner)")
        #expect(try await desk.ids("owner") == ["a", "c"])
        let two = try await desk.run(
            "replicate", "d/one.nightjar", "d/pair.nightjar", "--both", "--push-filter", "by-owner", "--pull-filter", "skip-drafts", "--params",
            "{\"by-owner\":{\"name\":\"y\"}}")
        #expect(two.status == 0, "\(two)")
        #expect(try await desk.ids("pair") == ["b"])

        try await desk.fill("one.plant.readings", "{\"_id\":\"r\"}")
        let collection = try await desk.run("replicate", "d/one.nightjar", "d/coll.nightjar", "--collections", "plant.readings")
        #expect(collection.status == 0, "\(collection)")
        #expect(try await desk.ids("coll.plant.readings") == ["r"])
        #expect(try await desk.ids("coll") == [])
        let missing = try await desk.run("replicate", "d/one.nightjar", "d/coll.nightjar", "--collections", "plant.other")
        #expect(missing.status == 1)
        #expect(missing.errors.contains("no collection plant.other"), "\(missing)")
    }

    @Test func aPasswordComesFromOptionEnvironmentOrTerminal() async throws {
        let folder = try TemporaryFolder()
        try folder.copy("\(NightjarExecutable.package())/plugins/password-file.lua", to: "plugins/password-file.lua")
        let hash = try await NightjarExecutable.run("password", input: .text("s3cret\n")).output
        try folder.write("users.txt", "ann:\(hash)")
        let hub = try await AgentProcess.start(
            Configuration.plain.replacing(
                "disable_tls: true", with: "disable_tls: true, authenticator: { plugin: password-file, params: { file: users.txt } }"),
            in: folder)
        let url = "ws://127.0.0.1:\(try hub.port("edge"))/main"
        let desk = try Desk()
        try await desk.fill("main", "{\"_id\":\"a\"}")

        let nobody = try await desk.run("replicate", "d/main.nightjar", url)
        #expect(nobody.status == 1)
        #expect(nobody.errors.contains("401"), "\(nobody)")
        let wrong = try await desk.run("replicate", "d/main.nightjar", url, "--user", "ann", "--password", "guess")
        #expect(wrong.status == 1)
        #expect(wrong.errors.contains("401"), "\(wrong)")
        let option = try await desk.run("replicate", "d/main.nightjar", url, "--user", "ann", "--password", "s3cret")
        #expect(option.status == 0, "\(option)")
        let variable = try await desk.run(
            "replicate", "d/main.nightjar", url, "--user", "ann", environment: ["NIGHTJAR_PASSWORD": "s3cret"])
        #expect(variable.status == 0, "\(variable)")
        let asked = try Subprocess(
            try NightjarExecutable.path(), ["replicate", "d/main.nightjar", url, "--user", "ann"], folder: desk.folder.path, input: .terminal)
        let outcome = try await eventually("it has its password") { () -> Subprocess.Outcome? in
            asked.write("s3cret\n")
            return asked.isRunning ? nil : try await asked.wait()
        }
        #expect(outcome.status == 0, "\(outcome)")
    }

    @Test("a name and a password in a URL are refused in words, before a folder is made")
    func credentialsInTheURL() async throws {
        let desk = try Desk()
        for scheme in ["http", "https", "ws", "wss"] {
            let outcome = try await desk.run("replicate", "\(scheme)://ann:s3cret@127.0.0.1:1/main", "d/x.nightjar")
            #expect(outcome.status == 1 && outcome.errors.contains("--user and --password") && !outcome.errors.contains("s3cret"), "\(outcome)")
        }
        #expect(!desk.folder.exists("d"))
    }

    @Test("a CouchDB database is asked for what matches a selector, or what one of its filters passes, and each selection has its own checkpoint")
    func sourceChoices() async throws {
        let folder = try TemporaryFolder()
        try folder.write("plugins/site.lua", "return { params = { site = { type = \"string\", required = true } }, push_filter = function(doc, ctx) return doc.site == ctx.params.site end }\n")
        let hub = try await AgentProcess.start("plugins: plugins\n" + Configuration.plain, in: folder)
        for n in 0..<6 { #expect(try await hub.put("main", "d\(n)", "{\"site\":\"\(n % 2 == 0 ? "north" : "south")\",\"n\":\(n)}").status == 201) }
        let url = "http://127.0.0.1:\(try hub.port("edge"))/main"
        let desk = try Desk()
        func pulled(_ database: String, _ options: String...) async throws -> [String] {
            let outcome = try await Subprocess.run(
                try NightjarExecutable.path(), ["replicate", url, "d/\(database).nightjar"] + options, folder: desk.folder.path)
            #expect(outcome.status == 0, "\(outcome)")
            return try await desk.ids(database)
        }
        #expect(try await pulled("found", "--selector", "{\"n\":{\"$gt\":3}}") == ["d4", "d5"])
        #expect(try await pulled("found", "--selector", "{\"n\":{\"$lt\":1}}") == ["d0", "d4", "d5"])
        #expect(try await pulled("named", "--source-filter", "design/site", "--source-params", "{\"site\":\"south\"}") == ["d1", "d3", "d5"])
        #expect(try await pulled("named", "--source-filter", "design/site", "--source-params", "{\"site\":\"north\"}").count == 6)
        let help = try await NightjarExecutable.run("replicate", "--help").output.split(whereSeparator: \.isWhitespace).joined(separator: " ")
        #expect(help.contains("an object of names with single values, or lists of them."), "\(help)")
        #expect(try await pulled("chosen", "--doc-ids", "d1,d2") == ["d1", "d2"])
        let unknown = try await desk.run("replicate", url, "d/none.nightjar", "--source-filter", "design/none", "--max-attempts", "1")
        #expect(unknown.status == 1 && unknown.errors.contains("none"), "\(unknown)")
        for (wrong, words) in [
            (["d/found.nightjar", url, "--selector", "{\"n\":1}"], "as SOURCE"), ([url.replacing("http", with: "ws"), "d/x.nightjar", "--selector", "{\"n\":1}"], "as SOURCE"),
            ([url, "d/x.nightjar", "--selector", "{\"n\":1}", "--doc-ids", "d1"], "--selector or --doc-ids"),
            ([url, "d/x.nightjar", "--selector", "{\"n\":1}", "--source-filter", "a/b"], "--selector or --source-filter"),
            ([url, "d/x.nightjar", "--source-params", "{}"], "needs --source-filter"), ([url, "d/x.nightjar", "--source-filter", "_view"], "CouchDB's own"),
        ] {
            let outcome = try await Subprocess.run(try NightjarExecutable.path(), ["replicate"] + wrong, folder: desk.folder.path)
            #expect(outcome.status == 64 && outcome.errors.contains(words), "\(outcome)")
        }
        for (wrong, words) in [
            (["--selector", "{"], "is not JSON"), (["--selector", "[]"], "not a JSON object with conditions"),
            (["--source-filter", "a/b", "--source-params", "{\"since\":1}"], "\"since\" of _changes is set by the replicator"),
            (["--source-filter", "a/b", "--source-params", "{\"x\":{\"y\":1}}"], "\"x\" is neither a single value"),
        ] {
            let outcome = try await Subprocess.run(try NightjarExecutable.path(), ["replicate", url, "d/x.nightjar"] + wrong, folder: desk.folder.path)
            #expect(outcome.status == 1 && outcome.errors.contains(words), "\(outcome)")
        }
    }

    @Test("with a remote id the next run resumes at another address where the last one ended")
    func remoteID() async throws {
        let hub = try await AgentProcess.start(Configuration.plain)
        let port = try hub.port("edge")
        let relay = try CountingRelay(to: port)
        let desk = try Desk()
        for n in 0..<5 { try await desk.fill("main", "{\"_id\":\"d\(n)\"}") }
        func total(_ port: Int, _ id: String) async throws -> Int64 {
            let outcome = try await desk.run("replicate", "d/main.nightjar", "ws://127.0.0.1:\(port)/main", "--json", "--remote-id", id)
            #expect(outcome.status == 0, "\(outcome)")
            return try outcome.json["progress"]?["total"]?.asInt64 ?? -1
        }
        #expect(try await total(port, "plant") == 5)
        #expect(try await total(relay.port, "plant") == 0)
        #expect(try await total(relay.port, "another") == 5)
    }

    @Test func failuresSayWhy() async throws {
        let hub = try await AgentProcess.start(Configuration.plain.replacing("disable_tls: true", with: "disable_tls: true, read_only: true"))
        let port = try hub.port("edge")
        let desk = try Desk()
        try await desk.fill("main", "{\"_id\":\"a\"}")
        // Nobody listens there, and no test running beside this one can come to.
        let closed = 1

        for (arguments, words) in [
            (["d/main.nightjar", "ws://127.0.0.1:\(closed)/main", "--max-attempts", "1"], ["refused", "network/19"]),
            (["d/main.nightjar", "ws://127.0.0.1:\(port)/nothing"], ["404", "nothing"]),
            (["d/main.nightjar", "ws://127.0.0.1:\(port)/main"], ["403", "this listener is read-only"]),
            (["d/absent.nightjar", "ws://127.0.0.1:\(port)/main"], ["there is no database in d/absent.nightjar"]),
            (["ws://127.0.0.1:\(port)/main", "ws://127.0.0.1:\(port)/main"], ["both URLs"]),
            (["d/main", "ws://127.0.0.1:\(port)/main"], ["d/main", ".nightjar"]),
            (["d/main.nightjar", "wss://127.0.0.1:\(port)/main"], ["tls/11", "speaks plain HTTP, not TLS"]),
            (["d/main.nightjar", "exec:/no/such/ssh hub nightjar pipe hub.sock", "--max-attempts", "1"], ["exec:/no/such/ssh cannot be started"]),
            (["d/main.nightjar", "ws://127.0.0.1:\(port)/main", "--push-filter", "skip-draft"], ["did you mean skip-drafts"]),
            (["d/main.nightjar", "ws://127.0.0.1:\(port)/main", "--push-filter", "by-owner"], ["missing parameter \"name\""]),
            (["d/main.nightjar", "ws://127.0.0.1:\(port)/main", "--push-filter", "by-owner", "--params", "{"], ["--params is not JSON"]),
            (["\(hub.folder.path)/data/main.nightjar", "d/main.nightjar"], ["is in use by process \(hub.process.pid)"]),
        ] {
            let outcome = try await Subprocess.run(try NightjarExecutable.path(), ["replicate"] + arguments, folder: desk.folder.path)
            #expect(outcome.status == 1, "\(arguments): \(outcome)")
            for word in words { #expect(outcome.errors.contains(word), "\(arguments): \(outcome)") }
        }
        for option in [["--pinned", "x.pem"], ["--self-signed"]] {
            let outcome = try await Subprocess.run(
                try NightjarExecutable.path(), ["replicate", "d/main.nightjar", "ws://h/main"] + option, folder: desk.folder.path)
            #expect(outcome.status == 64)
            #expect(outcome.errors.contains("need a URL that begins with wss://"), "\(outcome)")
        }
        // A failed pull from nowhere is a failure too, and an absent folder was not made by a failed push.
        #expect(!desk.folder.exists("d/absent.nightjar"))
    }

    @Test func aFailingFilterHoldsTheDocument() async throws {
        let desk = try Desk()
        try desk.folder.write("plugins/fragile.lua", "return {\n  push_filter = function(doc) return doc.a.b end\n}\n")
        try await desk.fill("one", "{\"_id\":\"x\"}", "{\"_id\":\"y\",\"a\":{\"b\":true}}")
        let outcome = try await desk.run("replicate", "d/one.nightjar", "d/two.nightjar", "--push-filter", "fragile")
        #expect(outcome.status == 1)
        #expect(outcome.errors.contains("held") && outcome.errors.contains("fragile.lua:2:"), "\(outcome)")
        #expect(try await desk.ids("two") == ["y"])
    }

    @Test func aContinuousOneGoesOnUntilItIsInterrupted() async throws {
        let hub = try await AgentProcess.start(Configuration.plain)
        let desk = try Desk()
        try await desk.fill("main", "{\"_id\":\"a\"}")
        let process = try Subprocess(
            try NightjarExecutable.path(),
            ["replicate", "d/main.nightjar", "ws://127.0.0.1:\(try hub.port("edge"))/main", "--both", "--continuous"], folder: desk.folder.path)
        try await eventually("the document arrives") { try await hub.get("main", "a").status == 200 }
        #expect(try await hub.put("main", "later", "{}").status == 201)
        try await eventually("the other one was taken") {
            try await hub.status()["listeners"]?.asArray?.first?["peers"]?.asArray?.first?["pulled_by_peer"] == 1
        }
        #expect(process.isRunning)
        process.send(2)
        let outcome = try await process.wait()
        #expect(outcome.status == 0, "\(outcome)")
        #expect(outcome.output.contains("pushed 1, pulled 1"), "\(outcome)")
        #expect(try await desk.ids("main") == ["a", "later"])
    }
}

import Documents
import TestSupport
import Testing

@Suite("plugin new, test, run --last")
struct PluginToolTests {
    @Test(arguments: [
        "filter", "push_filter", "pull_filter", "resolve", "resolver", "authenticator", "authenticate_password",
        "authenticate_certificate", "sync", "token", "get_session", "on_status", "on_documents", "select_peer",
    ])
    func aNewPluginPassesItsTests(kind: String) async throws {
        let folder = try TemporaryFolder()
        // The folder is made as well.
        let made = try await NightjarExecutable.run("plugin", "new", kind, "mine", "--plugins", folder.path("p"))
        #expect(made.status == 0 && made.lines == [folder.path("p/mine.lua"), folder.path("p/mine.test.lua")], "\(made)")
        let tests = try await NightjarExecutable.run("plugin", "test", "--plugins", folder.path("p"))
        #expect(tests.status == 0 && tests.output.contains(" 0 failed, 1 plugin,"), "\(tests)")
        #expect(try await NightjarExecutable.run("plugin", "check", "--plugins", folder.path("p")).status == 0)

        try folder.write("p/mine.lua", "mine")
        let again = try await NightjarExecutable.run("plugin", "new", kind, "mine", "--plugins", folder.path("p"))
        #expect(again.status == 1 && again.errors.contains("is there already; nothing was written"), "\(again)")
        #expect(try folder.text("p/mine.lua") == "mine")
    }

    @Test("commands that need no secret do without the unit's credentials and variables, and say where these are", arguments: [
        ("${credential:hub}", "add LoadCredential=hub:PATH to the unit, if it is not there"),
        ("${NIGHTJAR_TEST_ABSENT}", "the environment variable NIGHTJAR_TEST_ABSENT is not set"),
    ])
    func withoutSecrets(_ secret: String, _ words: String) async throws {
        let folder = try TemporaryFolder()
        try folder.write("p/all.lua", "return { push_filter = function(doc) return true end, resolve = function(c) return c.local_doc end }")
        let text = """
            data: data
            plugins: p
            databases: { main: {} }
            replicators:
              - { name: hub, database: main, target: "wss://hub.example/main", authenticator: { username: u, password: "\(secret)" } }

            """
        try folder.write("nightjar.yaml", text.replacing("\(secret)", with: "x"))
        let config = folder.path("nightjar.yaml")
        let made = try await NightjarExecutable.run("import", "main", "--config", config, input: .text("{\"_id\":\"a\"}\n"))
        #expect(made.status == 0, "\(made)")
        try folder.write("nightjar.yaml", text)
        let elsewhere = "this shell is not the agent's unit and has not its environment: nightjar reload"
        for arguments in [["plugin", "test"], ["plugin", "check"], ["conflicts", "list"], ["conflicts", "replay", "--plugin", folder.path("p/all.lua")]] {
            let outcome = try await Subprocess.run(try NightjarExecutable.path(), arguments + ["--config", config], folder: folder.path)
            #expect(outcome.status == 0, "\(arguments) \(outcome)")
            #expect(outcome.errors.contains("warning: ") && outcome.errors.contains(words) && outcome.errors.contains(elsewhere), "\(arguments) \(outcome)")
        }
        let check = try await NightjarExecutable.run("check", "--config", config)
        #expect(check.status == 78 && check.errors.contains(words) && check.errors.contains(elsewhere), "\(check)")
        try folder.write("nightjar.yaml", text + "bogus: 1\n")
        let wrong = try await NightjarExecutable.run("conflicts", "list", "--config", config)
        #expect(wrong.status == 78 && wrong.errors.contains("bogus"), "\(wrong)")
    }

    @Test("plugin run does without what only the agent's environment has, and says so")
    func runWithoutSecrets() async throws {
        let folder = try TemporaryFolder()
        try folder.write("p/above.lua", "return { params = { minimum = { type = 'number' } }, push_filter = function(doc, ctx) return doc.value >= ctx.params.minimum end }")
        try folder.write("nightjar.yaml", """
            data: data
            plugins: p
            databases: { main: {} }
            replicators:
              - name: hub
                database: main
                target: wss://hub.example/main
                collections: { _default: { push_filter: { plugin: above, params: { minimum: 5 } } } }
                authenticator: { username: u, password: "${NIGHTJAR_TEST_ABSENT}" }

            """)
        for (value, answer) in [(4, "false"), (5, "true")] {
            let outcome = try await Subprocess.run(
                try NightjarExecutable.path(), ["plugin", "run", "above", "push_filter", "--doc", "-", "--config", "nightjar.yaml"], folder: folder.path,
                input: .text("{\"value\":\(value)}"))
            #expect(outcome.status == 0 && outcome.output.contains(answer), "\(outcome)")
            #expect(outcome.errors.contains("warning: ") && outcome.errors.contains("NIGHTJAR_TEST_ABSENT"), "\(outcome)")
        }
        try folder.write("nightjar.yaml", "data: [")
        let broken = try await NightjarExecutable.run("plugin", "run", "above", "push_filter", "--doc", "-", "--config", folder.path("nightjar.yaml"))
        #expect(broken.status == 78, "\(broken)")
    }

    @Test func helpNamesEveryHookThatCanBeRun() async throws {
        let help = try await NightjarExecutable.run("plugin", "run", "--help").output
        for hook in ["push_filter", "pull_filter", "transform", "resolve", "authenticate_password", "authenticate_certificate", "sync", "token", "get_session", "on_status", "on_documents", "select_peer"] {
            #expect(help.split { $0.isWhitespace || ",.".contains($0) }.contains { $0 == hook }, "\(hook): \(help)")
        }
    }

    @Test func namesAndKindsAreChecked() async throws {
        let folder = try TemporaryFolder()
        let name = try await NightjarExecutable.run("plugin", "new", "filter", "../up", "--plugins", folder.path("p"))
        #expect(name.status == 1 && name.errors.contains("cannot be the name of a plugin"), "\(name)")
        #expect(!folder.exists("p"))
        #expect(try await NightjarExecutable.run("plugin", "new", "thing", "x", "--plugins", folder.path("p")).status == 64)
    }

    private func failing() throws -> TemporaryFolder {
        let folder = try TemporaryFolder()
        try folder.write("p/a.lua", "return { resolve = function() return { price = 1, tags = { 'x' } } end }")
        try folder.write("p/a.test.lua", """
            return {
              ["sums <up> & \\"quotes\\""] = function(t)
                t.equal(t.resolve { local_doc = {}, remote_doc = {} }, { price = 2, tags = { 'x' } })
              end,
              fine = function(t) end,
            }
            """)
        try folder.write("p/b.lua", "return {")
        try folder.write("p/c.lua", "return { push_filter = function() return true end }")
        return folder
    }

    @Test func aFailedTestShowsPlaceAndFields() async throws {
        let folder = try failing()
        let outcome = try await NightjarExecutable.run("plugin", "test", "--plugins", folder.path("p"))
        #expect(outcome.status == 1)
        for text in ["ok    fine (", "FAIL  sums <up>", "a.test.lua:3: got {", "          price: got 1, expected 2", "FAIL  b.lua:1:", "c: no tests", "1 passed, 2 failed, 3 plugins"] {
            #expect(outcome.output.contains(text), "\(text): \(outcome)")
        }
        #expect(!outcome.output.contains("tags: got"))
        #expect(try await NightjarExecutable.run("plugin", "test", "c", "--plugins", folder.path("p")).status == 0)
        let unknown = try await NightjarExecutable.run("plugin", "test", "d", "--plugins", folder.path("p"))
        #expect(unknown.status == 1 && unknown.errors.contains("there is no plugin \"d\""), "\(unknown)")
    }

    @Test func resultsAreJSONAndJUnit() async throws {
        let folder = try failing()
        let outcome = try await NightjarExecutable.run(
            "plugin", "test", "--plugins", folder.path("p"), "--json", "--junit", folder.path("report.xml"))
        #expect(outcome.status == 1)
        let report = try outcome.json
        #expect(report["ok"] == false && report["passed"]?.asInt64 == 1 && report["failed"]?.asInt64 == 2)
        let test = report["plugins"]?.asArray?.first?["tests"]?.asArray?.last
        #expect(test?["file"] == "a.test.lua" && test?["line"]?.asInt64 == 3 && test?["differences"] == ["price: got 1, expected 2"], "\(outcome)")
        #expect(test?["error"]?["kind"] == "plugin_error" && test?["time_ms"]?.asDouble != nil)
        let xml = try folder.text("report.xml")
        for text in [
            "<testsuite name=\"a\" tests=\"2\" failures=\"1\" errors=\"0\"", "name=\"sums &lt;up&gt; &amp; &quot;quotes&quot;\"", "<failure message=\"a.test.lua:3:",
            "price: got 1, expected 2</failure>", "<testsuite name=\"b\" tests=\"1\" failures=\"0\" errors=\"1\"", "<error message=\"b.lua:1:",
        ] { #expect(xml.contains(text), "\(text): \(xml)") }
    }

    @Test(arguments: Place.allCases)
    func theLastDocumentsOfADatabaseAreTried(place: Place) async throws {
        let documents = try await Documents.at(place)
        var lines = ""
        for number in 0..<40 { lines += "{\"_id\":\"d\(number)\",\"n\":\(number % 20)}\n" }
        let imported = try await documents.run("import", "main", "-", input: .text(lines))
        #expect(imported.status == 0, "\(imported)")
        // Sequences with gaps.
        for number in 0..<5 {
            let rev = try await documents.run("doc", "get", "main", "d\(number)").json["_rev"]?.asString ?? ""
            #expect(try await documents.run("doc", "put", "main", "d\(number)", "{\"_rev\":\"\(rev)\",\"n\":100}").status == 0)
        }
        try documents.folder.write("plugins/cut.lua", """
            return { push_filter = function(doc)
              if doc.n == 19 then error("odd") end
              return doc.n >= 15
            end }
            """)
        let plugins = documents.folder.path("plugins")
        let table = try await documents.run("plugin", "run", "cut", "push_filter", "--last", "12", "main", "--plugins", plugins)
        // The five that changed last, and before them d33 to d39: 13 … 19.
        #expect(table.status == 1, "\(table)")
        #expect(table.output.contains("12 documents: 9 pass, 2 rejected, 1 failed;"), "\(table)")
        #expect(table.output.contains("plugin_error: cut.lua:2: odd"))
        let json = try await documents.run("plugin", "run", "cut", "push_filter", "--last", "3", "main", "--plugins", plugins, "--json")
        #expect(json.status == 0)
        let calls = try json.lines.map { try JSONValue(parsing: $0) }
        #expect(calls.map { $0["id"]?.asString } == ["d2", "d3", "d4"])
        #expect(calls.allSatisfy { $0["result"] == true && $0["error"]?.isNull == true && $0["time_ms"]?.asDouble != nil })
        let all = try await documents.run("plugin", "run", "cut", "push_filter", "--last", "1000", "main", "--plugins", plugins, "--json")
        #expect(all.lines.count == 40)
        // nightjar.get looks at that database, and at its collections only; without one it says so.
        try documents.folder.write("plugins/look.lua", """
            return { push_filter = function(doc)
              if doc.n == 1 then return nightjar.get("nowhere", "d0") ~= nil end
              assert(nightjar.get("_default", "d0").n == 100 and nightjar.get("none") == nil)
              return nightjar.get(doc._id)._rev == doc._rev
            end }
            """)
        let looked = try await documents.run("plugin", "run", "look", "push_filter", "--last", "3", "main", "--plugins", plugins, "--json")
        #expect(looked.status == 0 && looked.lines.count == 3, "\(looked)")
        #expect(try looked.lines.allSatisfy { try JSONValue(parsing: $0)["result"] == true }, "\(looked)")
        let file = try documents.folder.write("one.json", "{\"_id\":\"d4\",\"_rev\":\"1-a\",\"n\":1}")
        let wrong = try await documents.run("plugin", "run", "look", "push_filter", "--doc", file, "main", "--plugins", plugins)
        #expect(wrong.status == 1 && wrong.output.contains("database \"main\" has no collection _default.nowhere"), "\(wrong)")
        let blind = try await documents.run("plugin", "run", "look", "push_filter", "--doc", file, "--plugins", plugins)
        #expect(blind.status == 1 && blind.output.contains("look.lua:2: get is not available here: there is no database"), "\(blind)")
        // Nothing was changed by it.
        #expect(try await documents.run("doc", "get", "main", "d4").json["n"]?.asInt64 == 100)
        #expect(try await documents.run("plugin", "run", "cut", "push_filter", "--last", "3", "--plugins", plugins).status == 64)
        #expect(try await documents.run("plugin", "run", "cut", "resolve", "--last", "3", "main", "--plugins", plugins).status == 64)
        let unknown = try await documents.run("plugin", "run", "cut", "push_filter", "--last", "3", "nowhere", "--plugins", plugins)
        #expect(unknown.status == 1 && unknown.errors.contains("no database \"nowhere\""), "\(unknown)")
    }
}

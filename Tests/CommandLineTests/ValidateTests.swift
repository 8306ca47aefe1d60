import Documents
import TestSupport
import Testing

/// A plugin that may refuse what is written here.
@Suite("Validation of local writes")
struct ValidateTests {
    private static let configuration = """
        data: data
        admin: { port: 0 }
        plugins: plugins
        databases:
          main: { validate: rules }
          other: {}

        """
    private static let rules = """
        return { sync = function(doc, old_doc, ctx)
          require_user("nobody")
          if doc._deleted then
            if old_doc and old_doc.kept then throw("this one is kept") end
            return
          end
          if doc.broken then error("no rule for that") end
          if type(doc.value) ~= "number" then throw("value is a number, not " .. type(doc.value)) end
          if old_doc and old_doc.once then throw("this one is written once") end
          if old_doc and doc.value < old_doc.value then throw("value only grows") end
          channel("readings")
        end }
        """

    private func folder() throws -> TemporaryFolder {
        let folder = try TemporaryFolder()
        folder.makeFolder("plugins")
        try folder.write("plugins/rules.lua", Self.rules)
        try folder.write("nightjar.yaml", Self.configuration)
        return folder
    }

    private func nightjar(_ folder: TemporaryFolder, _ arguments: String..., input: String = "") async throws -> Subprocess.Outcome {
        try await Subprocess.run(
            try NightjarExecutable.path(), arguments + ["--config", folder.path("nightjar.yaml")], folder: folder.path, input: .text(input))
    }

    @Test("the admin API refuses what the plugin throws, with its words, and saves nothing where the plugin fails")
    func adminAPI() async throws {
        let agent = try await AgentProcess.start(Self.configuration, in: try folder())
        let good = try await agent.put("main", "a", "{\"value\":5,\"kept\":true}")
        #expect(good.status == 201)
        let revision = try good.json["rev"]?.asString ?? ""
        let wrong = try await agent.put("main", "b", "{\"value\":\"x\"}")
        #expect(try wrong.status == 403 && wrong.json["reason"]?.asString?.hasSuffix("value is a number, not string") == true, "\(wrong)")
        #expect(try await agent.put("main", "a", "{\"_rev\":\"\(revision)\",\"value\":4}").status == 403)
        #expect(try await agent.admin.request("DELETE", "/api/databases/main/documents/a").status == 403)
        let failed = try await agent.put("main", "c", "{\"value\":1,\"broken\":true}")
        #expect(try failed.status == 503 && failed.json["reason"]?.asString?.contains("rules.lua") == true, "\(failed)")
        for id in ["b", "c"] { #expect(try await agent.get("main", id).status == 404) }
        #expect(try await agent.get("main", "a").json["value"]?.asInt64 == 5)
        // Another database has no rules.
        #expect(try await agent.put("other", "b", "{\"value\":\"x\"}").status == 201)
        // Anyone who removes the rule may write.
        try agent.folder.write("nightjar.yaml", Self.configuration.replacing("{ validate: rules }", with: "{}"))
        #expect(try await agent.command("reload").status == 0)
        #expect(try await agent.put("main", "b", "{\"value\":\"x\"}").status == 201)
    }

    @Test("an import names the lines that are refused and stores the others", arguments: [true, false])
    func imports(agentRuns: Bool) async throws {
        let folder = try folder()
        let agent = agentRuns ? try await AgentProcess.start(Self.configuration, in: folder) : nil
        let lines = "{\"_id\":\"one\",\"value\":1}\n{\"_id\":\"two\",\"value\":\"x\"}\n{\"_id\":\"three\",\"value\":3}\n"
        let outcome = try await nightjar(folder, "import", "main", input: lines)
        #expect(outcome.status == 1 && outcome.errors.contains("line 2: ") && outcome.errors.contains("value is a number"), "\(outcome)")
        #expect(try await nightjar(folder, "doc", "get", "main", "three").status == 0)
        #expect(try await nightjar(folder, "doc", "get", "main", "two").status == 1)
        _ = try await agent?.stop()
    }

    @Test("if several lines are for one document, each is validated against the result of the line before it")
    func repeatedIDs() async throws {
        let folder = try folder()
        var lines = ""
        for value in [5, 4, 6] { lines += "{\"_id\":\"one\",\"_rev\":\"1-abcd\",\"value\":\(value)}\n" }
        let outcome = try await nightjar(folder, "import", "main", input: lines)
        #expect(outcome.status == 1 && outcome.errors.contains("line 2: ") && outcome.errors.contains("value only grows"), "\(outcome)")
        #expect(!outcome.errors.contains("line 3: "), "\(outcome)")
        #expect(try await nightjar(folder, "doc", "get", "main", "one").output.contains("\"value\":6"))
    }

    @Test("a repeated import does not call the plugin for what is stored already")
    func repeatedImport() async throws {
        let folder = try folder()
        let lines = "{\"_id\":\"one\",\"value\":1,\"once\":true}\n{\"_id\":\"two\",\"value\":2}\n"
        #expect(try await nightjar(folder, "import", "main", input: lines).status == 0)
        let again = try await nightjar(folder, "import", "main", input: lines + "{\"_id\":\"three\",\"value\":3}\n")
        #expect(again.status == 0 && again.output.contains("2 unchanged"), "\(again)")
        let other = try await nightjar(folder, "import", "main", input: lines.replacing("\"value\":1", with: "\"value\":7"))
        #expect(other.status == 1 && other.errors.contains("this one is written once"), "\(other)")
    }

    @Test("what the plugin refuses makes no database and no collection, and what it accepts does")
    func nothingIsMade() async throws {
        let folder = try folder()
        // It reads what is not there yet as if it were empty.
        try folder.write("plugins/rules.lua", Self.rules.replacing("require_user(\"nobody\")", with: "if nightjar.get(\"x\") then throw(\"x is there\") end"))
        for (text, words) in [("{\"value\":true}", "value is a number, not boolean"), ("{\"value\":1,\"broken\":true}", "no rule for that")] {
            let put = try await nightjar(folder, "doc", "put", "main", "b", input: text)
            #expect(put.status == 1 && put.errors.contains(words) && !put.errors.contains("created"), "\(put)")
            let lines = "{\"_id\":\"one\",\"value\":\"x\"}\n" + text + "\n"
            let imported = try await nightjar(folder, "import", "main", input: lines)
            #expect(imported.status == 1 && imported.output.hasPrefix("0 saved") && imported.output.contains("2 failed"), "\(imported)")
            #expect(imported.errors.contains("line 2: ") && imported.errors.contains(words), "\(imported)")
            #expect(imported.errors.contains("the database \"main\" was not created"), "\(imported)")
        }
        #expect(!folder.exists("data"))
        let late = try await nightjar(folder, "import", "main", input: "{\"_id\":\"one\",\"value\":\"x\"}\n{\"_id\":\"two\",\"value\":2}\n")
        #expect(late.status == 1 && late.output == "1 saved, 0 unchanged, 0 conflicts, 1 failed\n" && late.errors.contains("created database"), "\(late)")

        let refused = try await nightjar(folder, "doc", "put", "main.logs", "b", input: "{\"value\":true}")
        #expect(refused.status == 1 && refused.errors.contains("value is a number, not boolean") && !refused.errors.contains("created"), "\(refused)")
        let missing = try await nightjar(folder, "doc", "get", "main.logs", "b")
        #expect(missing.status == 1 && missing.errors.contains("has no collection"), "\(missing)")
        let accepted = try await nightjar(folder, "doc", "put", "main.logs", "b", input: "{\"value\":1}")
        #expect(accepted.status == 0 && accepted.errors.contains("created collection"), "\(accepted)")
    }

    @Test("doc put and rm ask the plugin as well where no agent runs")
    func withoutAgent() async throws {
        let folder = try folder()
        #expect(try await nightjar(folder, "doc", "put", "main", "a", input: "{\"value\":1,\"kept\":true}").status == 0)
        let refused = try await nightjar(folder, "doc", "put", "main", "b", input: "{\"value\":true}")
        #expect(refused.status == 1 && refused.errors.contains("value is a number, not boolean"), "\(refused)")
        let kept = try await nightjar(folder, "doc", "rm", "main", "a")
        #expect(kept.status == 1 && kept.errors.contains("this one is kept"), "\(kept)")
        try folder.write("plugins/rules.lua", "return { push_filter = function() return true end }")
        let check = try await nightjar(folder, "check")
        #expect(check.status == 78 && check.errors.contains("nightjar.yaml:5:") && check.errors.contains("sync"), "\(check)")
    }
}

import Documents
import TestSupport
import Testing

@Suite struct PluginCommandTests {
    private static let shipped = NightjarExecutable.package() + "/plugins"

    @Test func theShippedPluginsAreListedAndChecked() async throws {
        for command in ["list", "check"] {
            let outcome = try await NightjarExecutable.run("plugin", command, "--plugins", Self.shipped)
            #expect(outcome.status == 0, "\(outcome)")
            for name in ["by-owner", "merge-fields", "password-file"] { #expect(outcome.output.contains(name)) }
        }
        let json = try await NightjarExecutable.run("plugin", "list", "--plugins", Self.shipped, "--json").json
        let names = json.asArray?.compactMap { $0["name"]?.asString } ?? []
        #expect(names.contains("skip-drafts") && names == names.sorted())
    }

    @Test func aBrokenPluginFailsTheCheckWithItsLine() async throws {
        let folder = try TemporaryFolder()
        try folder.write("p/good.lua", "return { push_filter = function() return true end }")
        try folder.write("p/bad.lua", "return {\n  push_filter = 5,\n}")
        try folder.write("p/worse.lua", "\n\nreturn {{\n")
        let outcome = try await NightjarExecutable.run("plugin", "check", "--plugins", folder.path("p"))
        #expect(outcome.status == 1)
        #expect(outcome.errors.contains("bad.lua") && outcome.errors.contains("worse.lua:"), "\(outcome)")
        #expect(outcome.output.contains("good"))
        let json = try await NightjarExecutable.run("plugin", "check", "--plugins", folder.path("p"), "--json")
        #expect(json.status == 1)
        #expect(try json.json["problems"]?.asArray?.count == 2)
        let nowhere = try await NightjarExecutable.run("plugin", "check", folder: folder.path)
        #expect(nowhere.status == 1)
        #expect(nowhere.errors.contains("--plugins"), "\(nowhere)")
    }

    @Test("one plugin is checked by its name, or by its file anywhere, whatever else is in its folder")
    func checkOfOne() async throws {
        let folder = try TemporaryFolder()
        try folder.write("p/good.lua", "return { push_filter = function() return true end }")
        try folder.write("p/bad.lua", "return {\n  push_filter = 5,\n}")
        try folder.write("p/whole/init.lua", "return { push_filter = function() return require('part') end }")
        try folder.write("p/whole/part.lua", "return true")
        for file in ["p/good.lua", "./p/good.lua", folder.path("p/good.lua"), "p/whole/init.lua", "p/whole"] {
            let outcome = try await NightjarExecutable.run("plugin", "check", file, folder: folder.path)
            #expect(outcome.status == 0 && outcome.lines.count == 2, "\(file): \(outcome)")
        }
        let beside = try await NightjarExecutable.run("plugin", "check", "good.lua", folder: folder.path("p"))
        #expect(beside.status == 0 && beside.output.contains("good"), "\(beside)")
        let both = try await NightjarExecutable.run("plugin", "check", "good", "bad", "--plugins", folder.path("p"), "--json")
        #expect(try both.status == 1 && both.json["plugins"]?.asArray?.count == 1 && both.json["problems"]?.asArray?.count == 1, "\(both)")
        let none = try await NightjarExecutable.run("plugin", "check", "p/none.lua", folder: folder.path)
        #expect(none.status == 1 && none.errors.contains("there is no plugin none in p: expected none.lua or none/init.lua there"), "\(none)")
    }

    @Test func aMisspeltVariableFailsTheCheckBeforeADocumentMeetsIt() async throws {
        let folder = try TemporaryFolder()
        try folder.write("p/rare.lua", "return { push_filter = function(doc)\n  if doc.rare then return docc.type == 'x' end\n  return true\nend }")
        let outcome = try await NightjarExecutable.run("plugin", "check", "--plugins", folder.path("p"))
        #expect(outcome.status == 1)
        #expect(outcome.errors.contains("rare.lua:2: the variable 'docc' is not defined; did you mean 'doc'?"), "\(outcome)")
        // As the agent would refuse it, though the call does not come to the line.
        let run = try await NightjarExecutable.run(
            "plugin", "run", "rare", "push_filter", "--doc", "-", "--plugins", folder.path("p"), "--json", input: .text("{}"))
        #expect(try run.json["error"]?["kind"] == "plugin_load" && run.status == 1, "\(run)")
        #expect(try run.json["error"]?["message"]?.asString == "rare.lua:2: the variable 'docc' is not defined; did you mean 'doc'?", "\(run)")
    }

    @Test func manyCallsAreSummedUp() async throws {
        let folder = try TemporaryFolder()
        try folder.write("p/every-third.lua", """
            local calls = 0
            return { push_filter = function() calls = calls + 1; if calls % 3 == 0 then error("third") end; return true end }
            """)
        let file = try folder.write("doc.json", "{}")
        let outcome = try await NightjarExecutable.run(
            "plugin", "run", "every-third", "push_filter", "--doc", file, "--plugins", folder.path("p"), "--times", "30")
        #expect(outcome.status == 1 && outcome.lines.count == 5, "\(outcome)")
        #expect(outcome.output.contains("20 times") && outcome.output.contains("10 times") && outcome.output.contains("30 calls, 10 failed"), "\(outcome)")
    }

    @Test func aFilterIsTriedOut() async throws {
        let folder = try TemporaryFolder()
        let file = try folder.write("doc.json", "{\"_id\":\"x\",\"owner\":\"ann\"}")
        for (name, expected) in [("ann", true), ("bob", false)] {
            let outcome = try await NightjarExecutable.run(
                "plugin", "run", "by-owner", "push_filter", "--doc", file, "--params", "{\"name\":\"\(name)\"}", "--plugins", Self.shipped,
                "--times", "3", "--json")
            // A "no" is no failure.
            #expect(outcome.status == 0, "\(outcome)")
            #expect(outcome.lines.count == 3)
            for line in outcome.lines {
                let report = try JSONValue(parsing: line)
                #expect(report["result"]?.asBool == expected)
                #expect(report["error"]?.isNull == true)
                #expect(report["log"]?.asArray != nil && report["time_ms"]?.asDouble != nil && report["memory_bytes"]?.asInt64 != nil)
            }
        }
        let piped = try await NightjarExecutable.run(
            "plugin", "run", "skip-drafts", "push_filter", "--doc", "-", "--plugins", Self.shipped, input: .text("{\"type\":\"draft\"}"))
        #expect(piped.status == 0)
        #expect(piped.output.hasPrefix("false "), "\(piped)")
    }

    @Test func aResolverIsTriedOut() async throws {
        let folder = try TemporaryFolder()
        let file = try folder.write(
            "conflict.json", "{\"base_doc\":{\"a\":1,\"b\":1},\"local_doc\":{\"a\":2,\"b\":1},\"remote_doc\":{\"a\":1,\"b\":2}}")
        let outcome = try await NightjarExecutable.run(
            "plugin", "run", "merge-fields", "resolve", "--conflict", file, "--plugins", Self.shipped, "--json")
        #expect(outcome.status == 0, "\(outcome)")
        #expect(try outcome.json["result"] == ["a": 2, "b": 2])
    }

    @Test func failuresHaveTheirKind() async throws {
        let folder = try TemporaryFolder()
        try folder.write("p/slow.lua", "return { push_filter = function() while true do end end }")
        try folder.write("p/silent.lua", "return {\n  push_filter = function() end\n}")
        try folder.write("p/fails.lua", "return {\n  push_filter = function(doc)\n    nightjar.log.warn(\"about to fail\")\n    error(\"oh no\")\n  end\n}")
        try folder.write("p/broken.lua", "return {")
        let file = try folder.write("doc.json", "{}")
        for (name, kind) in [
            ("slow", "plugin_timeout"), ("silent", "plugin_result"), ("fails", "plugin_error"), ("broken", "plugin_load"), ("absent", "plugin_load"),
        ] {
            let outcome = try await NightjarExecutable.run(
                "plugin", "run", name, "push_filter", "--doc", file, "--plugins", folder.path("p"), "--json")
            #expect(outcome.status == 1, "\(outcome)")
            #expect(try outcome.json["error"]?["kind"]?.asString == kind, "\(outcome)")
        }
        let words = try await NightjarExecutable.run("plugin", "run", "fails", "push_filter", "--doc", file, "--plugins", folder.path("p"))
        #expect(words.output.contains("warn: about to fail") && words.output.contains("plugin_error: fails.lua:4: oh no"), "\(words)")
        #expect(try await NightjarExecutable.run("plugin", "run", "fails", "push_filter", "--plugins", folder.path("p")).status == 64)
        #expect(try await NightjarExecutable.run("plugin", "run", "fails", "pushfilter", "--doc", file).status == 64)
    }

    @Test func theRunningAgentReloadsAndLists() async throws {
        let folder = try TemporaryFolder()
        try folder.write("plugins/p.lua", "return { push_filter = function() return true end }")
        let agent = try await AgentProcess.start(
            Configuration.plain.replacing("disable_tls: true", with: "disable_tls: true, push_filter: p"), in: folder)
        let first = try await agent.plugin("p")["version"]?.asString
        try folder.write("plugins/p.lua", "return { push_filter = function() return false end }")
        let reload = try await agent.command("plugin", "reload", "p")
        #expect(reload.status == 0, "\(reload)")
        let second = try await agent.plugin("p")["version"]?.asString
        #expect(second != first)

        try folder.write("plugins/p.lua", "return { push_filter = ")
        let refused = try await agent.command("plugin", "reload", "p", "--json")
        #expect(refused.status == 1, "\(refused)")
        #expect(try refused.json.asArray?.first?["outcome"] == "refused")
        let list = try await agent.command("plugin", "list")
        #expect(list.status == 0)
        #expect(list.output.contains(second ?? "?") && list.output.contains("refused") && list.output.contains("p.lua:1:"), "\(list)")

        let unknown = try await agent.command("plugin", "reload", "q")
        #expect(unknown.status == 1)
        #expect(unknown.errors.contains("there is no plugin \"q\""), "\(unknown)")
    }
}

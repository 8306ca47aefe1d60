import Documents
import TestSupport
import Testing

/// Two agents that disagree, and what an operator sees of it.
@Suite struct ConflictsCommandTests {
    private static let local = "return {\n  resolve = function(c)\n    return c.local_doc\n  end,\n}\n"
    private static let merge = """
        return {
          resolve = function(conflict)
            local doc = nightjar.copy(conflict.local_doc)
            doc.price = conflict.remote_doc.price
            return doc
          end,
        }

        """

    /// A hub, and a gateway whose replicator has the resolver.
    static func pair(
        _ plugins: [String: String], resolver: String, hub hubConfiguration: String = Configuration.plain,
        configuration: String = Configuration.plain, type: String = "push_and_pull"
    ) async throws -> (hub: AgentProcess, edge: AgentProcess) {
        let hubFolder = try TemporaryFolder()
        for (name, text) in plugins { try hubFolder.write("plugins/\(name).lua", text) }
        let hub = try await AgentProcess.start(hubConfiguration, in: hubFolder)
        let folder = try TemporaryFolder()
        for (name, text) in plugins { try folder.write("plugins/\(name).lua", text) }
        let more = "type: \(type)" + (resolver.isEmpty ? "" : "\n    collections: { _default: { conflict_resolver: \(resolver) } }")
        let edge = try await AgentProcess.start(
            configuration + "replicators:\n"
                + Configuration.replicator("hub", to: "ws://127.0.0.1:\(try hub.port("edge"))/main", more: more), in: folder)
        return (hub, edge)
    }

    /// The document at both, then edited at both while they do not talk, then they talk again.
    static func diverge(_ hub: AgentProcess, _ edge: AgentProcess, _ id: String) async throws {
        let first = try await edge.put("main", id, #"{"price":1,"owner":"ann"}"#).json["rev"]?.asString ?? ""
        try await eventually("\(id) is at the hub") { try await hub.get("main", id).status == 200 }
        _ = try await edge.command("replicator", "hub", "stop")
        try await eventually("stopped") { try await edge.replicator("hub")["activity"] == "stopped" }
        #expect(try await edge.put("main", id, "{\"_rev\":\"\(first)\",\"price\":1,\"owner\":\"bob\",\"note\":\"x\"}").status == 201)
        #expect(try await hub.put("main", id, "{\"_rev\":\"\(first)\",\"price\":2,\"owner\":\"ann\"}").status == 201)
        _ = try await edge.command("replicator", "hub", "start")
    }

    @Test func betweenVersionsTheLaterEditWinsAndBothIdentitiesAreShown() async throws {
        let (hub, edge) = try await Self.pair([:], resolver: "", hub: Configuration.versions, configuration: Configuration.versions)
        let first = try await edge.put("main", "x", #"{"n":1}"#).json["rev"]?.asString ?? ""
        try await eventually("x is at the hub") { try await hub.get("main", "x").status == 200 }
        _ = try await edge.command("replicator", "hub", "stop")
        try await eventually("stopped") { try await edge.replicator("hub")["activity"] == "stopped" }
        // Of revisions of trees the third generation would win.
        let second = try await edge.put("main", "x", "{\"_rev\":\"\(first)\",\"n\":2}").json["rev"]?.asString ?? ""
        #expect(try await edge.put("main", "x", "{\"_rev\":\"\(second)\",\"n\":3}").status == 201)
        #expect(try await hub.put("main", "x", "{\"_rev\":\"\(first)\",\"n\":9}").status == 201)
        _ = try await edge.command("replicator", "hub", "start")
        try await eventually("it is decided") { try await edge.get("main", "x").json["n"] == 9 }
        let shown = try await edge.command("conflicts", "show", "x", "--json").json.asArray?.first
        let (local, remote) = (shown?["local"]?["cv"]?.asString, shown?["remote"]?["cv"]?.asString)
        #expect(local?.contains("@") == true && remote?.contains("@") == true && local != remote)
        let text = try await edge.command("conflicts", "show", "x").output
        #expect(text.contains("\(local ?? "?")  {\"n\":3}") && text.contains("\(remote ?? "?")  {\"n\":9}"), "\(text)")
        #expect(try await hub.stop().status == 0)
        #expect(try await edge.stop().status == 0)
    }

    @Test func aConflictOfTwoAgentsIsListedShownAndReplayed() async throws {
        let (hub, edge) = try await Self.pair(
            ["merge": Self.merge, "mine": Self.local], resolver: "{ plugin: merge, shadow: mine }")
        try await Self.diverge(hub, edge, "x")
        try await eventually("the merge is at the hub") {
            let doc = try await hub.get("main", "x").json
            return doc["owner"] == "bob" && doc["price"] == 2
        }
        let entry = try await eventually("the shadow has finished") { () -> JSONValue? in
            let rows = try await edge.command("conflicts", "list", "--json").json.asArray ?? []
            return rows.first { $0["shadow"]?.isNull == false }
        }
        #expect(entry["state"] == "decided" && entry["number"] == 1 && entry["id"] == "x" && entry["database"] == "main")
        #expect(entry["place"]?["kind"] == "replicator" && entry["place"]?["name"] == "hub")
        #expect(entry["decision"] == "merged" && entry["plugin"] == "merge" && entry["version"]?.asString != nil)
        #expect(entry["shadow"]?["plugin"] == "mine" && entry["shadow"]?["outcome"] == "differs" && entry["local"] == nil)

        let list = try await edge.command("conflicts", "list", "main")
        #expect(list.status == 0 && list.output.contains("replicator hub") && list.output.contains("mine differs"), "\(list)")
        #expect(try await edge.command("conflicts", "list", "--pending").output == "no conflicts\n")
        for name in ["1", "x"] {
            let show = try await edge.command("conflicts", "show", name)
            #expect(show.status == 0, "\(show)")
            for words in [
                "here   2-", "there  2-", "base   1-", "now    3-", "both are merged", "owner: from \"ann\" to \"bob\"", "note: added, \"x\"",
                "price: from 1 to 2", "shadow mine", "price: 1 instead of 2",
            ] { #expect(show.output.contains(words), "\(words) is not in \(show.output)") }
        }
        let json = try await edge.command("conflicts", "show", "1", "--json").json.asArray?.first
        #expect(json?["base"]?["body"] == ["price": 1, "owner": "ann"] && json?["local"]?["deleted"] == false)
        #expect(try await edge.command("conflicts", "show", "nothing").status == 1)
        #expect(try await edge.command("conflicts", "list", "nothing").status == 1)
        let status = try await edge.status()["databases"]?.asArray?.first?["conflicts_decided"]
        #expect(status == ["kept": 1, "shadow": ["same": 0, "differs": 1, "failed": 0]])
        let shadows = try await edge.plugin("mine")["shadows"]?.asArray ?? []
        #expect(shadows.contains { $0["beside"] == "merge" && $0["different"] == 1 && $0["differences"]?.asArray?.first?["id"] == "x" }, "\(shadows)")

        // Candidates: on the agent, then on its folder. Nothing is touched.
        let candidates = try TemporaryFolder()
        // Anybody's folder, such as a home: nothing else in it counts.
        for number in 0..<4_100 { try candidates.write("a-\(number)", "") }
        try candidates.write("another.lua", "no plugin")
        let same = try candidates.write("same.lua", Self.merge)
        let other = try candidates.write(
            "other.lua", "return { params = { owner = { type = \"string\" } },\n  resolve = function(c, ctx)\n    assert(ctx.replicator == \"hub\" and c.base_doc)\n    local d = nightjar.copy(c.remote_doc)\n    d.owner = ctx.params.owner or d.owner\n    return d\n  end }\n")
        let broken = try candidates.write("broken.lua", "return {\n  resolve = function(c)\n    return c.local_doc.a.b.c\n  end\n}\n")
        let before = try await edge.get("main", "x").text
        for place in Place.allCases {
            if place == .folder { try await edge.stop() }
            let agreed = try await edge.command("conflicts", "replay", "--plugin", same)
            #expect(agreed.status == 0 && agreed.output.contains("1 conflict replayed, 1 the same"), "\(place) \(agreed)")
            let differs = try await edge.command("conflicts", "replay", "main", "--plugin", other, "--params", "{\"owner\":\"eve\"}", "--last", "5")
            #expect(differs.status == 0, "\(place) \(differs)")
            for words in ["owner: \"eve\" instead of \"bob\"", "note: nothing instead of \"x\"", "1 different, 0 failed"] {
                #expect(differs.output.contains(words), "\(place): \(words) is not in \(differs.output)")
            }
            let fails = try await edge.command("conflicts", "replay", "--plugin", broken, "--json")
            #expect(fails.status == 1, "\(place) \(fails)")
            #expect(try fails.json["failed"] == 1)
            let error = try fails.json["conflicts"]?.asArray?.first?["error"]
            #expect(error?["kind"] == "plugin_error" && error?["message"]?.asString?.contains("broken.lua:3:") == true)
            #expect(try await edge.command("conflicts", "list", "--json").json.asArray?.count == 1)
        }
        #expect(try await edge.command("doc", "get", "main", "x").output == before)
        let notThere = try await edge.command("conflicts", "replay", "--plugin", candidates.path("no.lua"))
        #expect(notThere.status == 1 && notThere.errors.contains("no.lua"), "\(notThere)")
        let unknown = try await edge.command("conflicts", "replay", "--plugin", other, "--params", "{\"onwer\":1}")
        #expect(unknown.status == 1 && unknown.errors.contains("onwer"), "\(unknown)")
    }

    @Test func whatALimitLeavesOutIsSaid() async throws {
        let folder = try TemporaryFolder()
        try folder.write("plugins/mine.lua", Self.local)
        let agent = try await AgentProcess.start(
            Configuration.plain.replacing("plant.readings ] }", with: "plant.readings ], conflict_resolver: mine }"), in: folder)
        let first = try #require(try await agent.put("main", "x", "{\"n\":1}").json["rev"]?.asString)
        #expect(try await agent.put("main", "x", "{\"_rev\":\"\(first)\",\"n\":2}").status == 201)
        // Three saves on top of what is no longer current.
        for n in 3...5 { #expect(try await agent.put("main", "x", "{\"_rev\":\"\(first)\",\"n\":\(n)}").status == 201) }
        for place in Place.allCases {
            if place == .folder { try await agent.stop() }
            for arguments in [["list"], ["show", "x"]] {
                func run(_ limit: Int) async throws -> Subprocess.Outcome {
                    try await Subprocess.run(
                        try NightjarExecutable.path(),
                        ["conflicts"] + arguments + ["--limit", "\(limit)", "--json", "--config", agent.configuration], folder: folder.path)
                }
                let cut = try await run(2)
                #expect(try cut.status == 0 && cut.json.asArray?.count == 2 && cut.errors.contains("there are more"), "\(place) \(cut)")
                let whole = try await run(3)
                #expect(try whole.status == 0 && whole.json.asArray?.count == 3 && whole.errors.isEmpty, "\(place) \(whole)")
            }
        }
    }

    @Test func aPendingConflictIsListedAndDecidedWhenThePluginIsRepaired() async throws {
        let (hub, edge) = try await Self.pair(
            ["fragile": "return {\n  resolve = function(c)\n    return c.local_doc.a.b\n  end,\n}\n"], resolver: "fragile")
        let events = try await EventProbe(edge)
        try await Self.diverge(hub, edge, "x")
        try await events.wait("the conflict is pending") {
            $0.contains("event: conflict") && $0.contains(#""state":"pending""#) && $0.contains("fragile.lua:3:")
        }
        let rows = try await edge.command("conflicts", "list", "--pending", "--json").json.asArray ?? []
        let row = try #require(rows.first)
        #expect(rows.count == 1 && row["id"] == "x" && row["plugin"] == "fragile" && (row["tries"]?.asInt64 ?? 0) >= 1)
        #expect(row["error"]?.asString?.contains("fragile.lua:3:") == true && row["since"]?.asString?.hasSuffix("Z") == true)
        #expect(row["place"]?["kind"] == "replicator" && row["place"]?["name"] == "hub", "\(row.text)")
        let list = try await edge.command("conflicts", "list")
        #expect(list.output.contains("fragile.lua:3:") && list.output.contains("PENDING") && list.output.contains("replicator hub"), "\(list)")
        let show = try await edge.command("conflicts", "show", "x")
        #expect(show.output.contains("pending conflict of document x") && show.output.contains("fragile.lua:3:"), "\(show)")
        #expect(show.output.contains("price: from 1 to 2"), "\(show)")
        // Asked for another try, it fails again, and says so with the count only.
        let retry = try await edge.command("conflicts", "retry")
        #expect(retry.status == 0 && retry.output == "1 pending conflict is tried again\n", "\(retry)")
        try await eventually("another try") {
            (try await edge.command("conflicts", "list", "--pending", "--json").json.asArray?.first?["tries"]?.asInt64 ?? 0) > (row["tries"]?.asInt64 ?? 0)
        }
        try edge.folder.write("plugins/fragile.lua", Self.merge)
        try await eventually("it is decided") { try await hub.get("main", "x").json["note"] == "x" }
        try await events.wait("it is told") { $0.contains(#""state":"decided""#) && $0.contains(#""decision":"merged""#) }
        #expect(try await edge.command("conflicts", "list", "--pending").output == "no conflicts\n")
        #expect(try await edge.command("conflicts", "retry").output == "no conflict waits for a resolver: nothing is tried again\n")
        #expect(try await edge.command("conflicts", "retry", "--json").json["conflicts"] == 0)
        #expect(try await edge.get("main", "x").json["price"] == 2)
    }

    @Test func aListenersDatabaseDecidesForAPeerThatOnlyPushes() async throws {
        let (hub, edge) = try await Self.pair(
            ["merge": Self.merge], resolver: "",
            hub: Configuration.plain.replacing("main: { ", with: "main: { conflict_resolver: merge, "), type: "push")
        try await Self.diverge(hub, edge, "x")
        // Local is the hub's: its owner stays, the price is the pusher's.
        try await eventually("the hub has merged") { try await hub.get("main", "x").json["_rev"]?.asString?.hasPrefix("3-") == true }
        #expect(try await hub.get("main", "x").json["price"] == 1)
        let row = try #require(try await hub.command("conflicts", "list", "--json").json.asArray?.first)
        #expect(row["place"]?["kind"] == "listener" && row["place"]?["name"] == "edge" && row["plugin"] == "merge")
        #expect(try await edge.replicator("hub")["failed"] == 0)
    }

    @Test(arguments: Place.allCases)
    func aSaveOfAnOlderRevisionIsDecidedByTheResolver(_ place: Place) async throws {
        let folder = try TemporaryFolder()
        try folder.write("plugins/merge.lua", Self.merge)
        let configuration = Configuration.plain.replacing("main: { ", with: "main: { conflict_resolver: merge, ")
        let agent = place == .agent ? try await AgentProcess.start(configuration, in: folder) : nil
        try folder.write("nightjar.yaml", configuration)
        func run(_ arguments: String..., input: Subprocess.Input = .none) async throws -> Subprocess.Outcome {
            try await Subprocess.run(
                try NightjarExecutable.path(), arguments + ["--config", folder.path("nightjar.yaml")], folder: folder.path, input: input)
        }
        let first = try await run("doc", "put", "main", "x", #"{"price":1}"#, "--json").json["rev"]?.asString ?? ""
        #expect(try await run("doc", "put", "main", "x", "{\"_rev\":\"\(first)\",\"price\":2,\"here\":true}").status == 0)
        let merged = try await run("doc", "put", "main", "x", "{\"_rev\":\"\(first)\",\"price\":3}", "--json")
        #expect(merged.status == 0, "\(merged)")
        #expect(try merged.json["rev"]?.asString?.hasPrefix("3-") == true)
        var now = try await run("doc", "get", "main", "x").json
        #expect(now["price"] == 3 && now["here"] == true)
        let imported = try await run("import", "main", input: .text("{\"_id\":\"x\",\"_rev\":\"\(first)\",\"price\":4}\n"))
        #expect(imported.status == 0, "\(imported)")
        now = try await run("doc", "get", "main", "x").json
        #expect(now["price"] == 4 && now["here"] == true)
        let rows = try await run("conflicts", "list", "--json").json.asArray ?? []
        #expect(rows.count == 2 && rows.allSatisfy { $0["place"]?["kind"] == "save" && $0["plugin"] == "merge" && $0["version"]?.asString != nil })
        // Who names no revision has seen none: refused as ever. So is one that the document never had.
        #expect(try await run("doc", "put", "main", "x", "{}").status == 1)
        #expect(try await run("doc", "put", "main", "x", #"{"_rev":"1-abcdef"}"#).status == 1)
        // A resolver that fails saves nothing, and says where.
        try folder.write("plugins/merge.lua", "return {\n  resolve = function(c)\n    error(\"not today\")\n  end,\n}\n")
        if let agent { #expect(try await agent.command("plugin", "reload", "merge").status == 0) }
        let failed = try await run("doc", "put", "main", "x", "{\"_rev\":\"\(first)\",\"price\":9}")
        #expect(failed.status == 1 && failed.errors.contains("merge.lua:3: not today") && failed.errors.contains("nothing was saved"), "\(failed)")
        #expect(try await run("doc", "get", "main", "x").json["price"] == 4)
    }

    /// What is gone is said to be gone; JSON's null is a value.
    @Test func deletionsNullsAndMissingFieldsAreToldApart() async throws {
        let folder = try TemporaryFolder()
        try folder.write(
            "plugins/newer.lua",
            "return { resolve = function(c)\n  if not c.remote_doc then return nightjar.delete end\n  return c.remote_doc\nend }\n")
        try folder.write("nightjar.yaml", Configuration.plain.replacing("main: { ", with: "main: { conflict_resolver: newer, "))
        func run(_ arguments: String...) async throws -> Subprocess.Outcome {
            try await Subprocess.run(
                try NightjarExecutable.path(), arguments + ["--config", folder.path("nightjar.yaml")], folder: folder.path)
        }
        let first = try await run("doc", "put", "main", "x", "{}", "--json").json["rev"]?.asString ?? ""
        #expect(try await run("doc", "put", "main", "x", "{\"_rev\":\"\(first)\",\"tags\":[1,2],\"a.b\":null,\"gone\":true}").status == 0)
        #expect(try await run("doc", "put", "main", "x", "{\"_rev\":\"\(first)\",\"tags\":[1],\"a.b\":1,\"new\":null}").status == 0)
        #expect(try await run("doc", "rm", "main", "x", "--rev", first).status == 0)
        let merged = try await run("conflicts", "show", "1").output
        for words in ["tags[1]: removed, it was 2", "\"a.b\": from null to 1", "gone: removed, it was true", "new: added, null"] {
            #expect(merged.contains(words), "\(words) is not in \(merged)")
        }
        let deleted = try await run("conflicts", "show", "2").output
        #expect(deleted.contains("the document is deleted") && !deleted.contains("\nnull\n"), "\(deleted)")
        let keeper = try folder.write("keep/keep.lua", "return { resolve = function(c) return c.local_doc end }")
        let replay = try await run("conflicts", "replay", "--plugin", keeper, "--json").json
        #expect(replay["different"] == 2 && replay["failed"] == 0)
        let words = try await run("conflicts", "replay", "--plugin", keeper).output
        #expect(words.contains("instead of a deletion") && words.contains("new: nothing instead of null"), "\(words)")
    }

    @Test func wrongUsesAreRefused() async throws {
        for arguments in [["list", "--limit", "0"], ["replay"], ["replay", "--plugin", "x.lua", "--last", "0"], ["show"]] {
            let outcome = try await Subprocess.run(try NightjarExecutable.path(), ["conflicts"] + arguments)
            #expect(outcome.status == 64, "\(arguments): \(outcome)")
        }
        let folder = try TemporaryFolder()
        let nowhere = try await NightjarExecutable.run("conflicts", "list", "--data", folder.path("data"))
        #expect(nowhere.status == 1 && nowhere.errors.contains("no agent runs there"), "\(nowhere)")
        // A shadow is checked like the resolver it stands beside.
        try folder.write("plugins/merge.lua", Self.merge)
        try folder.write(
            "nightjar.yaml",
            Configuration.plain.replacing("main: { ", with: "main: { conflict_resolver: { plugin: merge, shadow: { plugin: absent, params: { a: 1 } } }, "))
        let check = try await NightjarExecutable.run("check", "--config", folder.path("nightjar.yaml"))
        #expect(check.status == 78 && (check.errors + check.output).contains("absent"), "\(check)")
        try folder.write(
            "nightjar.yaml",
            Configuration.plain.replacing(
                "main: { ", with: "main: { history: { conflicts: 0 }, conflict_resolver: { plugin: merge, shadow: merge }, "))
        let useless = try await NightjarExecutable.run("check", "--config", folder.path("nightjar.yaml"))
        #expect(useless.status == 78 && (useless.errors + useless.output).contains("conflict history"), "\(useless)")
    }
}

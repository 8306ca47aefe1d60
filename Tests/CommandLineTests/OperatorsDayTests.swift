import Documents
import Glibc
import TestSupport
import Testing

/// What an operator's day found: words where there were none.
@Suite struct OperatorsDayTests {
    @Test func aPluginIsTriedWithTheParametersThatItIsUsedWith() async throws {
        let folder = try TemporaryFolder()
        try folder.write(
            "plugins/above.lua",
            "return {\n  params = { minimum = { type = 'number', default = 90 } },\n  push_filter = function(doc, ctx) return doc.value >= ctx.params.minimum end\n}\n")
        try folder.write("doc.json", #"{"value": 50}"#)
        try folder.write(
            "nightjar.yaml",
            Configuration.plain + "plugins: plugins\nreplicators:\n"
                + Configuration.replicator(
                    "hub", to: "ws://127.0.0.1:1/main", more: "collections: { _default: { push_filter: { plugin: above, params: { minimum: 20 } } } }"))
        func run(_ more: String...) async throws -> Subprocess.Outcome {
            try await Subprocess.run(
                try NightjarExecutable.path(), ["plugin", "run", "above", "push_filter", "--doc", folder.path("doc.json"), "--json"] + more, folder: folder.path)
        }
        let configured = try await run("--config", folder.path("nightjar.yaml"))
        #expect(try configured.json["result"] == true, "\(configured)")
        #expect(configured.errors.contains("parameters of replicator hub push_filter: {\"minimum\":20}"), "\(configured)")
        let given = try await run("--config", folder.path("nightjar.yaml"), "--params", #"{"minimum":60}"#)
        #expect(try given.json["result"] == false && given.errors.isEmpty, "\(given)")
        let alone = try await run("--plugins", folder.path("plugins"))
        #expect(try alone.json["result"] == false && alone.errors.isEmpty, "\(alone)")
    }

    @Test func aPlaceThatUsesAPluginForTwoCollectionsIsOnePlace() async throws {
        let folder = try TemporaryFolder()
        try folder.write("plugins/merge.lua", "return { resolve = function(c) return c.local_doc end }\n")
        let agent = try await AgentProcess.start(
            Configuration.plain.replacing("main: { ", with: "main: { conflict_resolver: merge, ") + "plugins: plugins\nreplicators:\n"
                + Configuration.replicator("hub", to: "ws://127.0.0.1:1/main", more: "collections: { _default: {}, plant.readings: {} }"), in: folder)
        let uses = try await agent.plugin("merge")["used_by"]?.asArray ?? []
        #expect(uses.count { $0 == "replicator hub conflict_resolver" } == 2, "\(uses)")
        let list = try await agent.command("plugin", "list")
        #expect(list.output.contains("replicator hub conflict_resolver") && !list.output.contains("times)"), "\(list)")
        // The use that decides waiting conflicts is no other place.
        #expect(!list.output.contains("pending conflicts"), "\(list)")
        #expect(list.output.split(separator: "replicator hub conflict_resolver").count == 2, "\(list)")
        #expect(try await agent.stop().status == 0)
    }

    @Test func aListenersSyncFunctionIsNamedOnce() async throws {
        let folder = try TemporaryFolder()
        try folder.write("plugins/route.lua", "return { sync = function(doc) channel('all') end }\n")
        let agent = try await AgentProcess.start(
            Configuration.plain.replacing("disable_tls: true", with: "disable_tls: true, sync: route") + "plugins: plugins\n", in: folder)
        let uses = try await agent.plugin("route")["used_by"]?.asArray ?? []
        #expect(uses.contains { $0 == "listener edge sync of main" } && uses.contains { $0 == "listener edge sync" }, "\(uses)")
        let list = try await agent.command("plugin", "list")
        #expect(list.output.contains("listener edge sync") && !list.output.contains("sync of") && !list.output.contains("sync, "), "\(list)")
        #expect(try await agent.stop().status == 0)
    }

    @Test func anAgentThatHangsIsNamedAsSuch() async throws {
        let agent = try await AgentProcess.start(Configuration.plain)
        agent.process.send(SIGSTOP)
        defer { agent.process.send(SIGCONT) }
        for arguments in [["status"], ["replicator", "list"], ["compact", "main"]] {
            let outcome = try await Subprocess.run(
                try NightjarExecutable.path(), arguments + ["--config", agent.configuration], folder: agent.folder.path)
            #expect(outcome.status == 1 && outcome.errors.contains("did not answer within 5 s") && outcome.errors.contains("kill -CONT"), "\(outcome)")
        }
    }

    @Test func aRunningAgentIsReachedPastAFileThatIsNoYAML() async throws {
        let agent = try await AgentProcess.start(Configuration.plain)
        try agent.folder.write("nightjar.yaml", "data: data\ndatabases: { main: [\n")
        for arguments in [["status"], ["doc", "list", "main"], ["reload"]] {
            let outcome = try await Subprocess.run(
                try NightjarExecutable.path(), arguments + ["--config", agent.configuration], folder: agent.folder.path)
            let data = agent.folder.path("data")
            #expect(outcome.status == 78 && outcome.errors.contains("to reach the running agent, use --data \(data) instead of --config"), "\(outcome)")
        }
        let reached = try await Subprocess.run(try NightjarExecutable.path(), ["status", "--data", agent.folder.path("data")], folder: agent.folder.path)
        #expect(reached.status == 0 && reached.output.contains("main"), "\(reached)")
    }

    @Test func aReloadNamesEveryMistakeThatCheckNames() async throws {
        let agent = try await AgentProcess.start(Configuration.plain)
        try agent.folder.write(
            "nightjar.yaml",
            Configuration.plain + "  - { name: pub, databases: [ main ], port: 99999, disable_tls: true, authenticator: none }\n"
                + "  - { name: l1, databases: [ main ], port: abc, disable_tls: true, authenticator: none }\nreplicators:\n"
                + Configuration.replicator(
                    "hub", to: "wss://127.0.0.1:1/main", more: "pinned_server_certificate: nowhere.pem\n    collections: { _default: { push_filter: nobody } }"))
        let check = try await agent.command("check")
        let reload = try await agent.command("reload")
        for outcome in [check, reload] {
            #expect(outcome.status == 78, "\(outcome)")
            for word in ["99999", "abc", "nowhere.pem", "\"nobody\""] { #expect(outcome.errors.contains(word), "\(word): \(outcome)") }
            #expect(!outcome.errors.contains("is already that of"), "\(outcome)")
        }
        // The same holds where the file is right in itself.
        try agent.folder.write(
            "nightjar.yaml",
            Configuration.plain + "replicators:\n"
                + Configuration.replicator(
                    "hub", to: "wss://127.0.0.1:1/main", more: "pinned_server_certificate: nowhere.pem\n    collections: { _default: { push_filter: nobody } }"))
        let second = try await agent.command("reload")
        for word in ["nowhere.pem", "\"nobody\""] { #expect(second.status == 78 && second.errors.contains(word), "\(word): \(second)") }
    }

    @Test(arguments: Place.allCases) func compactTellsWhatWaits(_ place: Place) async throws {
        let documents = try await Documents.at(place)
        try documents.folder.write("blob.bin", "the bytes of a blob")
        #expect(try await documents.run("doc", "put", "main", "a", "{}").status == 0)
        #expect(try await documents.run("blob", "put", "main", "blob.bin").status == 0)
        let text = try await documents.run("compact", "main")
        #expect(text.status == 0 && text.output.contains("1 blob (") && text.output.contains("is kept until 20"), "\(text)")
        let json = try await documents.run("compact", "main", "--json").json
        #expect(json["blobs_removed"] == 0 && json["blobs_waiting"] == 1 && json["blob_bytes_waiting"] == 19, "\(json.text)")
        #expect(json["blobs_wait_until"]?.asString?.hasPrefix("20") == true)
    }

    @Test func aMissingDataFolderIsToldByDoctor() async throws {
        let folder = try TemporaryFolder()
        try folder.write("nightjar.yaml", Configuration.plain)
        let outcome = try await Subprocess.run(
            try NightjarExecutable.path(), ["doctor", "--quick", "--offline", "--json", "--config", "nightjar.yaml"], folder: folder.path)
        let disk = try outcome.json["findings"]?.asArray?.first { $0["area"]?.asString == "disk" }
        #expect(disk?["verdict"] == "warning" && disk?["mend"]?.asString?.contains("mount the disk") == true, "\(outcome)")
    }

    @Test func checkSaysWhatIsUsedWhereNothingIsSaid() async throws {
        let folder = try TemporaryFolder()
        let none = try await Subprocess.run(try NightjarExecutable.path(), ["check"], folder: folder.path)
        #expect(none.status == 0 && none.output.contains("no file was named: this is the built-in default, database main in "), "\(none)")
        #expect(none.errors.isEmpty, "\(none)")
    }

    @Test func aNewPluginThatCannotBeWrittenIsNamedAndLeavesNothing() async throws {
        let folder = try TemporaryFolder()
        let arguments = ["plugin", "new", "filter", "hot", "--plugins", "plugins"]
        // No file may grow, as on a full disk.
        let outcome = try await Subprocess.run(
            "/bin/sh", ["-c", "trap '' XFSZ; ulimit -f 0; exec \"$@\"", "sh", try NightjarExecutable.path()] + arguments, folder: folder.path)
        #expect(outcome.status == 1 && outcome.errors.contains("plugins/hot.test.lua: cannot write: "), "\(outcome)")
        let again = try await Subprocess.run(try NightjarExecutable.path(), arguments, folder: folder.path)
        #expect(again.status == 0 && folder.exists("plugins/hot.lua") && folder.exists("plugins/hot.test.lua"), "\(again)")
    }

    @Test func aBackupIntoAFolderThatIsThereIsAConflictAndNoFailureOfTheAgent() async throws {
        let agent = try await AgentProcess.start(Configuration.plain)
        let path = "/api/databases/main/backup?to=\(agent.folder.path("copy"))"
        #expect(try await agent.admin.post(path).status == 201)
        let again = try await agent.admin.post(path)
        #expect(try again.status == 409 && again.json["reason"]?.asString?.hasSuffix("it is there already; choose a new folder") == true, "\(again)")
        #expect(try await agent.stop().status == 0)
    }

    @Test func withoutASyncFunctionNothingIsSaidToBeInChannels() async throws {
        let agent = try await AgentProcess.start(Configuration.plain)
        #expect(try await agent.put("main", "a", "{}").status == 201)
        let outcome = try await agent.command("doc", "unrouted", "main")
        #expect(outcome.status == 0 && outcome.output == "no document is unrouted\n", "\(outcome)")
        #expect(try await agent.stop().status == 0)
    }

    @Test func aFileThatWasMeantAndNotNamedIsPointedOut() async throws {
        let folder = try TemporaryFolder()
        try folder.write("nightjar.yaml", Configuration.plain)
        let words = "nightjar.yaml is there and is not used, since no file was named: name it with --config"
        let check = try await Subprocess.run(try NightjarExecutable.path(), ["check"], folder: folder.path)
        #expect(check.status == 0 && check.errors.hasPrefix("warning: ") && check.errors.contains(words), "\(check)")
        let doctor = try await Subprocess.run(try NightjarExecutable.path(), ["doctor", "--quick", "--offline"], folder: folder.path)
        #expect(doctor.output.contains(words), "\(doctor)")
        let named = try await Subprocess.run(try NightjarExecutable.path(), ["check", "--config", "nightjar.yaml"], folder: folder.path)
        #expect(named.status == 0 && !named.errors.contains(words), "\(named)")
    }

    @Test("a misspelt command is named, not the first option behind it", arguments: [
        (["statsu", "--config", "nightjar.yaml"], "there is no command \"nightjar statsu\"; did you mean \"status\"?\n  See 'nightjar --help'"),
        (["doc", "gett", "main", "x", "--data", "data"], "there is no command \"nightjar doc gett\"; did you mean \"get\"?\n  See 'nightjar doc --help'"),
        (["identity", "frobnicate"], "there is no command \"nightjar identity frobnicate\"; there are: create, switch"),
        (["help", "statsu"], "there is no command \"nightjar statsu\""),
    ])
    func unknownCommand(_ arguments: [String], _ words: String) async throws {
        let folder = try TemporaryFolder()
        let outcome = try await Subprocess.run(try NightjarExecutable.path(), arguments, folder: folder.path)
        #expect(outcome.status == 64 && outcome.output.isEmpty && outcome.errors.hasPrefix("Error: \(words)"), "\(outcome)")
    }

    @Test("what names a command, or the help of one, is left to the parser", arguments: [
        ["help"], ["help", "doc", "get"], ["--help"], ["doc", "--help"], ["doc", "help"], ["user", "rm", "--help"], ["--version"], ["identity"],
    ])
    func knownCommand(_ arguments: [String]) async throws {
        let outcome = try await Subprocess.run(try NightjarExecutable.path(), arguments)
        #expect(!outcome.errors.contains("there is no command"), "\(outcome)")
    }

    @Test func theWordsOfStatusAreExplained() async throws {
        for word in ["stopped", "offline", "connecting", "idle", "busy", "suspended", "waiting", "listening"] {
            let outcome = try await NightjarExecutable.run("explain", word)
            #expect(outcome.status == 0 && outcome.output.hasPrefix("\(word)\n  cause: "), "\(outcome)")
        }
    }

    @Test func bytesOfADatabaseThatIsAskedOverHTTPAreCounted() async throws {
        let hub = try await AgentProcess.start(Configuration.plain)
        let edge = try await AgentProcess.start(
            Configuration.plain + "replicators:\n" + Configuration.replicator("hub", to: "http://127.0.0.1:\(try hub.port("edge"))/main"))
        let text = String(repeating: "x", count: 3_000)
        #expect(try await edge.put("main", "ours", "{\"text\":\"\(text)\"}").status == 201)
        #expect(try await hub.put("main", "theirs", "{\"text\":\"\(text)\"}").status == 201)
        try await eventually("both have both") {
            let (there, here) = (try await hub.get("main", "ours").status, try await edge.get("main", "theirs").status)
            return there == 200 && here == 200
        }
        let hubStatus = try await edge.replicator("hub")
        #expect((hubStatus["bytes_sent"]?.asInt64 ?? 0) >= 3_000 && (hubStatus["bytes_received"]?.asInt64 ?? 0) >= 3_000, "\(hubStatus.text)")
    }
}

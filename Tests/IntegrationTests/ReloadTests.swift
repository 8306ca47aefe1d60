import Documents
import Glibc
import TestSupport
import Testing

/// A changed configuration comes into force as a whole or not at all.
@Suite("Reloads are one step")
struct ReloadTests {
    private func text(filter: String = "", database: String = "{}", more: String = "") -> String {
        Configuration.hub(database: database, listener: filter, plugins: true) + more
    }

    private func agent(_ configuration: String, plugin: String = "return { push_filter = function() return true end, resolve = function(c) return c.local_doc end }") async throws -> AgentProcess {
        let folder = try TemporaryFolder()
        folder.makeFolder("plugins")
        try folder.write("plugins/gate.lua", plugin)
        return try await AgentProcess.start(configuration, in: folder)
    }

    private func usedBy(_ agent: AgentProcess) async throws -> [String] {
        (try await agent.plugin("gate")["used_by"]?.asArray ?? []).compactMap(\.asString)
    }

    @Test("a port that is in use changes nothing, and the next reload reports it again")
    func takenPort() async throws {
        let agent = try await agent(text(filter: "push_filter: gate"))
        let bystander = try await Bystander(agent)
        let taken = try TakenPort()
        let before = try await usedBy(agent)
        let wanted = text(
            filter: "push_filter: gate", database: "{ conflict_resolver: gate }",
            more: "  - { name: more, databases: [ main, side ], interface: 127.0.0.1, port: \(taken.port), disable_tls: true }\n")
            .replacing("databases:\n  main", with: "databases:\n  side: {}\n  main")
        for attempt in 1...2 {
            let outcome = try await agent.reload(wanted)
            #expect(outcome.status == 1, "\(attempt): \(outcome)")
            let line = wanted.split(separator: "\n", omittingEmptySubsequences: false).firstIndex { $0.contains("name: more") }.map { $0 + 1 } ?? 0
            #expect(outcome.errors.contains("nightjar.yaml:\(line):") && outcome.errors.contains(": listener \"more\": "), "\(attempt): \(outcome)")
            #expect(outcome.errors.contains("\(taken.port)"), "\(attempt): \(outcome)")
            #expect(try await usedBy(agent) == before, "\(attempt)")
            let status = try await agent.status()
            #expect(status["databases"]?.asArray?.count == 1, "\(attempt): \(status.text)")
            #expect(status["listeners"]?.asArray?.count == 1, "\(attempt): \(status.text)")
            // A save over an old revision has nobody who decides it, as before.
            let rev = try await agent.save("doc-\(attempt)", "{\"n\":1}")
            try await agent.save("doc-\(attempt)", "{\"_rev\":\"\(rev)\",\"n\":2}")
            #expect(try await agent.put("main", "doc-\(attempt)", "{\"_rev\":\"\(rev)\",\"n\":3}").status == 409)
            try await bystander.goesOn()
        }
        let free = wanted.replacing("port: \(taken.port)", with: "port: 0")
        let outcome = try await agent.reload(free)
        #expect(outcome.status == 0, "\(outcome)")
        #expect(try await agent.status()["listeners"]?.asArray?.count == 2)
        let without = try await agent.reload(text(filter: "push_filter: gate"))
        #expect(without.status == 0 && without.output.contains("database side closed"), "\(without)")
        let unknown = try await agent.reload(text(filter: "push_filter: nobody"))
        #expect(unknown.status == 78 && unknown.errors.contains("there is no plugin \"nobody\""), "\(unknown)")
        #expect(try await agent.stop().status == 0)
    }

    @Test("a peer that does not answer CLOSE keeps nobody from using a listener whose databases change")
    func silentPeer() async throws {
        let port = try freePort()
        let agent = try await AgentProcess.start(Configuration.hub(port: port))
        // It reads nothing and says nothing, and is waited for three seconds.
        let silent = try await WebSocketProbe.connect(port: port, path: "/main/_blipsync")
        try await eventually("it is connected") { try await agent.status()["listeners"]?.asArray?.first?["connections"] == 1 }
        let wanted = Configuration.hub(port: port).replacing("databases:\n  main", with: "databases:\n  side: {}\n  main").replacing("[ main ]", with: "[ main, side ]")
        let outcome = try await agent.reload(wanted)
        #expect(outcome.status == 0 && outcome.output.contains("listener edge started"), "\(outcome)")
        let next = try await WebSocketProbe.connect(port: port, path: "/side/_blipsync")
        // The port is open again while the one that says nothing is still waited for.
        #expect(silent.isOpen)
        #expect(try await silent.closeCode() == 4001)
        withExtendedLifetime(next) {}
        // A peer that has not left yet must not make a stop take longer than it may.
        #expect(try await agent.stop().status == 0)
    }

    @Test("a reader of the events is told of replicators that a reload adds, and of one that it changes")
    func eventsAfterAReload() async throws {
        let hub = try await AgentProcess.start(Configuration.hub(databases: ["main", "other"]))
        let port = try hub.port("edge")
        let edge = try await AgentProcess.start(Configuration.edge(to: port))
        try await edge.isSettled()
        let events = try await EventProbe(edge)
        let only = try await EventProbe(edge, query: "?replicator=hub")
        let second = "  - { name: second, database: main, target: ws://127.0.0.1:\(port)/other, continuous: true }\n"
        #expect(try await edge.reload(Configuration.edge(to: port, type: "push", more: second)).status == 0)
        try await edge.save("late", "{}")
        @Sendable func moved(_ by: String) -> @Sendable (String) -> Bool {
            { text in text.split(separator: "\n").contains { $0.contains("\"replicator\":\"\(by)\"") && $0.contains("\"id\":\"late\"") } }
        }
        try await events.wait("the replicator that was added tells of the document") { moved("second")($0) }
        try await events.wait("the one that was changed, too") { moved("hub")($0) }
        try await only.wait("a reader who asked for one hears of it") { moved("hub")($0) }
        #expect(!only.text.contains("\"replicator\":\"second\"") && !only.text.contains("\"name\":\"second\""))
    }

    @Test("max_blob_bytes holds at once, and documents that were held for it are tried again")
    func blobLimit() async throws {
        let port = try freePort()
        let hub = try await AgentProcess.start(Configuration.hub(port: port))
        let peer = try await Peer.connect(hub)
        try await peer.push("first", blob: "twenty bytes of blob")
        let edge = try await AgentProcess.start(Configuration.edge(to: port, more: "limits: { max_blob_bytes: 10 }\n"))
        try await edge.waits("held", is: 1)
        #expect(try await !edge.has("first"))
        // No plugin had a hand in it: said is which blob, its size, the limit by name, and what to do.
        let held = try #require(try await edge.admin.get("/api/replicators/hub/held").json.asArray?.first)
        #expect(held["cause"] == "blob" && held["plugin"]?.isNull == true && held["version"]?.isNull == true, "\(held.text)")
        let error = held["error"]?.asString ?? ""
        #expect(error.contains("the blob sha1-") && error.contains("has 20 bytes, limits: { max_blob_bytes } is 10"), "\(error)")
        let told = try #require(try await edge.admin.get("/health").json["attention"]?.asArray?.first { $0["kind"] == "documents_held" })
        #expect(told["text"]?.asString?.contains("because a blob cannot be taken, such as document first of _default._default: the blob sha1-") == true, "\(told.text)")
        #expect(told["remedy"]?.asString?.contains("nightjar reload") == true && told["text"]?.asString?.contains("filter") == false, "\(told.text)")
        let row = try await edge.status()["replicators"]?.asArray?.first
        #expect(row?["attention"]?.text.contains("1 document held because a blob cannot be taken") == true, "\(row?["attention"]?.text ?? "")")
        #expect(try await edge.command("status").output.contains(", attention"))
        let table = try await edge.command("replicator", "hub", "held").output
        #expect(table.contains("max_blob_bytes") && !table.contains("null"), "\(table)")
        #expect(try await NightjarExecutable.run("explain", "documents_held").output.contains("max_blob_bytes"))
        let reload = try await edge.reload(Configuration.edge(to: port, more: "limits: { max_blob_bytes: 20 }\n"))
        #expect(reload.status == 0 && reload.output.contains("limits.max_blob_bytes applied"), "\(reload)")
        try await eventually("it is taken") { try await edge.has("first") }

        #expect(try await hub.reload(Configuration.hub(more: "limits: { max_blob_bytes: 10 }\n", port: port)).status == 0)
        #expect(try await peer.closeCode() == 4001)
        let second = try await Peer.connect(hub)
        await #expect(throws: SupportError.self) { try await second.push("second", blob: "another twenty bytes") }
        // The peer gives it up; the hub's operator has to be told, but a single peer does not make the hub unhealthy.
        @Sendable func notTaken() async throws -> JSONValue? {
            try await hub.admin.get("/health").json["attention"]?.asArray?.first { $0["kind"] == "documents_not_taken" }
        }
        let refused = try await eventually("the hub tells of it") { try await notTaken() }
        let words = "1 document refused as too large, such as second of main from 127.0.0.1: "
        #expect(refused["gravity"] == "attention" && refused["subject"] == "listener edge", "\(refused.text)")
        #expect(refused["text"]?.asString?.contains(words) == true && refused["text"]?.asString?.contains("max_blob_bytes") == true, "\(refused.text)")
        #expect(try await hub.admin.get("/health").status == 200)
        let line = try await hub.process.line(containing: "document second of _default._default refused in a push from a peer", in: .errors)
        #expect(line.contains("warning") && line.contains("max_blob_bytes"), "\(line)")
        // What cannot be changed is said, and does not keep the rest from being changed.
        let both = try await hub.reload(
            Configuration.hub(more: "limits: { max_blob_bytes: 1KiB, memory: 32MiB }\n", port: port))
        #expect(both.output.contains("limits.memory: at the next start") && !both.output.contains("plugin_limits"), "\(both)")
        let third = try await Peer.connect(hub)
        try await third.push("second", blob: "another twenty bytes")
        #expect(try await notTaken() == nil)
        for agent in [edge, hub] { #expect(try await agent.stop().status == 0) }
    }

    @Test("a replicator that an operator stopped or suspended stays so over a reload, until it is started again", arguments: ["stop", "stop?keep=true", "suspend"])
    func haltedReplicator(_ how: String) async throws {
        let hub = try await AgentProcess.start(Configuration.hub())
        let port = try hub.port("edge")
        let edge = try await AgentProcess.start(Configuration.edge(to: port))
        try await edge.isSettled()
        try await edge.post("/api/replicators/hub/\(how)")
        let (word, activity) = how == "suspend" ? ("suspended", "offline") : ("stopped", "stopped")
        try await edge.waits(word) { $0["activity"]?.asString == activity }
        try await edge.save("late", "{}")
        let outcome = try await edge.reload(Configuration.edge(to: port, more: "limits: { max_blob_bytes: 1MiB }\n"))
        #expect(outcome.status == 0 && outcome.output.contains("limits.max_blob_bytes applied"), "\(outcome)")
        #expect(outcome.output.contains("replicator hub stays \(word)") && !outcome.output.contains("hub started"), "\(outcome)")
        let status = try await edge.replicator("hub")
        #expect(status["activity"]?.asString == activity && status["suspended"]?.asBool == (how == "suspend"), "\(status.text)")
        #expect(try await !hub.has("late"))
        // Nobody is ill, but it may have been forgotten.
        let kind = how.hasSuffix("true") ? "replicator_kept_stopped" : "replicator_halted"
        let health = try await edge.admin.get("/health")
        #expect(health.status == 200 && health.text.contains(kind) && health.text.contains("\(word) by an operator"), "\(health)")
        try await edge.post("/api/replicators/hub/\(how == "suspend" ? "resume" : "start")")
        try await eventually("late arrives") { try await hub.has("late") }
        #expect(try await !edge.admin.get("/health").text.contains(kind))
        let running = try await edge.reload(Configuration.edge(to: port, more: "limits: { max_blob_bytes: 2MiB }\n"))
        #expect(running.output.contains("replicator hub started"), "\(running)")
        for agent in [edge, hub] { #expect(try await agent.stop().status == 0) }
    }

    @Test("if a listener cannot get its port back, the old one stays in use")
    func restored() async throws {
        let port = try freePort()
        let agent = try await agent(Configuration.hub(plugins: true, port: port))
        let taken = try TakenPort()
        // Its own port is free for it only when the old one has gone; the other's is not at all.
        let wanted = Configuration.hub(listener: "read_only: true", plugins: true, port: port)
            + "  - { name: more, databases: [ main ], interface: 127.0.0.1, port: \(taken.port), disable_tls: true }\n"
        #expect(try await agent.reload(wanted).status == 1)
        let bystander = try await Bystander(agent)
        #expect(try await agent.reload(Configuration.hub(listener: "max_connections: 7", plugins: true, port: port)).status == 0)
        let next = try await Bystander(agent)
        try await next.leave()
        _ = bystander
        #expect(try await agent.stop().status == 0)
    }

    @Test("a replaced listener no longer uses its plugin, and refuses no version of it")
    func uses() async throws {
        let plugin = "return { params = { a = { type = 'string' } }, push_filter = function() return true end }"
        let agent = try await agent(text(filter: "push_filter: { plugin: gate, params: { a: x } }"), plugin: plugin)
        let peer = try await Peer.connect(agent)
        try await peer.push("before")
        #expect(try await agent.reload(text(filter: "push_filter: gate")).status == 0)
        try await eventually("only the new listener uses it") { try await usedBy(agent) == ["listener edge push_filter"] }
        try agent.folder.write("plugins/gate.lua", "return { push_filter = function() return true end }")
        let outcome = try await agent.command("plugin", "reload", "gate", "--json")
        #expect(outcome.status == 0, "\(outcome)")
        #expect(try await agent.plugin("gate")["refused"]?.isNull == true)
        #expect(try await agent.stop().status == 0)
    }

    @Test("a parameter of a plugin is renamed in its file and in the configuration, and one reload puts both in force or neither")
    func renamedParameter() async throws {
        func plugin(_ name: String) -> String {
            """
            return { params = { \(name) = { type = 'number', required = true } },
                push_filter = function(doc, ctx) return doc.n < ctx.params.\(name) end, resolve = function(c) return c.local_doc end }
            """
        }
        func use(_ name: String, _ n: Int) -> String { "{ plugin: gate, params: { \(name): \(n) } }" }
        let port = try freePort()
        func configuration(_ name: String, _ n: Int) -> String {
            Configuration.hub(
                database: "{ conflict_resolver: \(use(name, n)) }", listener: "couchdb: true\n    push_filter: \(use(name, n))", plugins: true, port: port)
        }
        let agent = try await agent(configuration("most", 10), plugin: plugin("most"))
        try await agent.save("low", "{\"n\":4}")
        try await agent.save("high", "{\"n\":7}")
        func passed() async throws -> Int {
            try await CouchHTTP(agent).changes().ids.count
        }
        #expect(try await passed() == 2)
        // Only the configuration: refused, with the file's names.
        let onlyConfiguration = try await agent.reload(configuration("limit", 5))
        #expect(onlyConfiguration.status == 78 && onlyConfiguration.errors.contains("limit"), "\(onlyConfiguration)")
        // Only the plugin: refused, and the message says what to do.
        try agent.folder.write("plugins/gate.lua", plugin("limit"))
        let onlyPlugin = try await agent.command("plugin", "reload", "gate")
        #expect(onlyPlugin.status == 1 && (onlyPlugin.output + onlyPlugin.errors).contains("change it as well and reload"), "\(onlyPlugin)")
        #expect(try await passed() == 2)
        let taken = try TakenPort()
        let failed = try await agent.reload(
            configuration("limit", 5) + "  - { name: more, databases: [ main ], interface: 127.0.0.1, port: \(taken.port), disable_tls: true }\n")
        #expect(failed.status == 1 && failed.errors.contains("\(taken.port)"), "\(failed)")
        #expect(try await passed() == 2)
        let outcome = try await agent.reload(configuration("limit", 5))
        #expect(outcome.status == 0 && outcome.output.contains("plugin gate: version"), "\(outcome)")
        #expect(try await passed() == 1)
        #expect(try await agent.plugin("gate")["refused"]?.isNull == true)
        #expect(try await usedBy(agent).sorted() == ["database main conflict_resolver", "listener edge push_filter"])
        #expect(try await agent.stop().status == 0)
    }

    @Test("a plugin that is copied and named at once is known to the reload that follows")
    func copiedPlugin() async throws {
        let agent = try await agent(text())
        for number in 1...8 {
            // The check that the reload begins with takes its time, in which who watches the folder might find the file by luck.
            try agent.folder.write("plugins/copied\(number).lua", "return { push_filter = function() return true end }")
            try agent.folder.write("nightjar.yaml", text(filter: "push_filter: copied\(number)"))
            let answer = try await agent.admin.post("/api/reload")
            #expect(answer.status == 200, "\(number): \(answer.text)")
            #expect(try await agent.plugin("copied\(number)")["used_by"]?.asArray?.count == 1)
        }
        #expect(try await agent.admin.get("/health").status == 200)
        #expect(try await agent.stop().status == 0)
    }

    @Test("a plugins folder that is named for the first time is in use after a reload, and a reload that fails leaves none behind")
    func firstPlugins() async throws {
        let agent = try await AgentProcess.start(Configuration.hub())
        try agent.folder.write("scripts/gate.lua", "return { push_filter = function() return true end, resolve = function(c) return c.local_doc end }")
        // A folder "plugins" beside the configuration is the default.
        let wanted = text(filter: "push_filter: gate", database: "{ conflict_resolver: gate }").replacing("plugins: plugins", with: "plugins: scripts")
        let taken = try TakenPort()
        let failed = try await agent.reload(
            wanted + "  - { name: more, databases: [ main ], interface: 127.0.0.1, port: \(taken.port), disable_tls: true }\n")
        #expect(failed.status == 1 && failed.errors.contains("\(taken.port)"), "\(failed)")
        #expect(try await agent.admin.get("/api/plugins").json.asArray?.isEmpty == true)
        let early = try await agent.command("plugin", "reload")
        #expect(early.status == 1 && early.errors.contains("nightjar reload takes one that was made since"), "\(early)")
        let outcome = try await agent.reload(wanted)
        #expect(outcome.status == 0 && outcome.output.contains("plugins started from") && !outcome.output.contains("next start"), "\(outcome)")
        #expect(try await usedBy(agent).sorted() == ["database main conflict_resolver", "listener edge push_filter"])
        let rev = try await agent.save("doc", "{\"n\":1}")
        try await agent.save("doc", "{\"_rev\":\"\(rev)\",\"n\":2}")
        #expect(try await agent.put("main", "doc", "{\"_rev\":\"\(rev)\",\"n\":3}").status < 300)
        // A saved file comes into force as ever.
        let version = try await agent.plugin("gate")["version"]
        try agent.folder.write("scripts/gate.lua", "return { push_filter = function() return false end, resolve = function(c) return c.local_doc end }")
        try await eventually("the new version serves") { try await agent.plugin("gate")["version"] != version }
        #expect(try await agent.stop().status == 0)
    }

    @Test("a changed plugins folder waits for a restart; a reload that needs a plugin from the new folder says that, and not that the plugin is missing")
    func otherPlugins() async throws {
        let agent = try await agent(text())
        let before = agent.folder.path("plugins")
        try agent.folder.write("more/newer.lua", "return { push_filter = function() return true end }")
        let wanted = text(filter: "push_filter: newer").replacing("plugins: plugins", with: "plugins: more")
        #expect(try await agent.command("check").status == 0)
        let refused = try await agent.reload(wanted)
        #expect(refused.status == 78 && refused.errors.contains("continues with the folder \(before) until it is restarted"), "\(refused)")
        #expect(try await agent.isWell())
        let alone = try await agent.reload(text().replacing("plugins: plugins", with: "plugins: more"))
        #expect(alone.status == 0 && alone.output.contains("plugins: at the next start"), "\(alone)")
        #expect(try await agent.stop().status == 0)
    }

    @Test("a file that was emptied closes no database; one that says databases: {} does")
    func emptiedFile() async throws {
        let agent = try await agent(text())
        try await agent.save("kept", "{}")
        // The command would look for the agent where the empty file says.
        try agent.folder.write("nightjar.yaml", "")
        let empty = try await agent.admin.post("/api/reload")
        #expect(empty.status >= 400 && empty.text.contains("names no database") && empty.text.contains("databases: {}"), "\(empty)")
        #expect(try await agent.has("kept"))
        #expect(try await agent.admin.get("/health").text.contains("names no database"))
        let meant = try await agent.reload("data: data\nadmin: { port: 0, open: true }\nplugins: plugins\ndatabases: {}\n")
        #expect(meant.status == 0 && meant.output.contains("database main closed"), "\(meant)")
        #expect(try await agent.stop().status == 0)
    }

    @Test("a changed data folder is for the next start: the reload finds the agent where it runs, and other commands say where that is")
    func changedDataFolder() async throws {
        let agent = try await agent(text())
        let moved = text(filter: "max_connections: 98").replacing("data: data", with: "data: elsewhere")
        let reloaded = try await agent.reload(moved)
        #expect(reloaded.status == 0 && reloaded.output.contains("data: at the next start"), "\(reloaded)")
        let lost = try await agent.command("status")
        #expect(lost.status == 1 && lost.errors.contains("data in the file has changed since") && lost.errors.contains("--data "), "\(lost)")
        #expect(lost.errors.contains("/data"), "\(lost)")
        let named = try await agent.command("reload", "--data", agent.folder.path("data"))
        #expect(named.status == 0, "\(named)")
        let wrong = try await agent.command("reload", "--data", agent.folder.path("nowhere"))
        #expect(wrong.status == 1 && wrong.errors.contains("no agent runs here"), "\(wrong)")
        #expect(try await agent.stop().status == 0)
    }

    @Test("reloads by signal and by request follow each other")
    func queued() async throws {
        let agent = try await agent(text())
        let statuses = try await withThrowingTaskGroup(of: Int.self) { tasks in
            for number in 0..<12 {
                let more = number % 2 == 0 ? "" : "  - { name: more, databases: [ main ], interface: 127.0.0.1, port: 0, disable_tls: true }\n"
                // In one step: a reload may read at any moment, and an empty file is refused.
                try agent.folder.write("next.yaml", text(filter: "max_connections: \(100 + number)", more: more))
                #expect(rename(agent.folder.path("next.yaml"), agent.configuration) == 0)
                tasks.addTask { try await agent.admin.post("/api/reload").status }
                agent.process.send(SIGHUP)
            }
            var statuses: [Int] = []
            for try await status in tasks { statuses.append(status) }
            return statuses
        }
        #expect(statuses.allSatisfy { $0 == 200 }, "\(statuses)")
        // The last file is in force, once.
        let outcome = try await agent.reload(text(filter: "max_connections: 99"))
        #expect(outcome.status == 0, "\(outcome)")
        let names = try await agent.status()["listeners"]?.asArray?.compactMap { $0["name"]?.asString }
        #expect(names == ["edge"])
        #expect(!agent.process.errors.contains("SIGHUP: the configuration is refused"), "\(agent.process.errors)")
        #expect(try await agent.stop().status == 0)
    }
}

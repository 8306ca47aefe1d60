import Documents
import Glibc
import TestSupport
import Testing

/// What an operator does to plugins of a running agent, and what lasts beyond it.
@Suite("Plugins in operation", .serialized, .agent(Configuration.hub(databases: ["main"])))
struct PluginOperationTests {
    private func edge(_ plugin: String, tests: String? = nil) async throws -> AgentProcess {
        let folder = try TemporaryFolder()
        try folder.write("plugins/gate.lua", plugin)
        if let tests { try folder.write("plugins/gate.test.lua", tests) }
        return try await start(in: folder)
    }

    private func start(in folder: TemporaryFolder) async throws -> AgentProcess {
        let port = try sharedAgent().port("edge")
        return try await AgentProcess.start(
            Configuration.edge(to: port, type: "push", collection: "{ push_filter: gate }", plugins: true), in: folder)
    }

    @Test("a plugin that keeps failing is not called, its documents are held and listed, and a repaired one delivers them all")
    func breaker() async throws {
        let hub = try sharedAgent()
        let edge = try await edge("return { push_filter = function(doc)\n  if not doc.ok then error('no such table') end\n  return true\nend }\n")
        // Until the agent stops.
        let events = Task { String(decoding: try await edge.admin.raw(Array("GET /api/events HTTP/1.1\r\nHost: x\r\n\r\n".utf8)), as: UTF8.self) }
        try await edge.save("first", "{\"ok\":true}")
        try await eventually("the first one arrives") { try await hub.has("first") }
        try await edge.load("broken", 200)
        try await edge.waits("held", is: 200)
        let plugin = try await edge.plugin("gate")
        #expect(plugin["state"]?.asString == "failing", "\(plugin.text)")
        #expect(plugin["errors"]?.asInt64 == 50)
        #expect(plugin["not_asked"]?.asInt64 == 150)
        #expect(plugin["failing"]?.asArray?.first?["used_by"]?.asString == "replicator hub push_filter")
        #expect(plugin["failing"]?.asArray?.first?["error"]?.asString == "plugin_error: gate.lua:2: no such table")
        let held = try await edge.admin.get("/api/replicators/hub/held").json.asArray ?? []
        #expect(held.count == 200)
        for entry in held {
            #expect(entry["plugin"]?.asString == "gate")
            #expect(entry["version"]?.asString?.isEmpty == false)
            #expect(entry["error"]?.asString?.hasPrefix("gate.lua:2: no such table") == true, "\(entry.text)")
            #expect(entry["tries"]?.asInt64 ?? 0 >= 1 && entry["since"]?.asString != nil)
        }
        let metrics = try await edge.admin.get("/metrics").text
        #expect(metrics.contains("nightjar_plugin_errors_total{plugin=\"gate\",hook=\"push_filter\",kind=\"plugin_error\"} 50\n"), "\(metrics)")
        #expect(metrics.contains("nightjar_plugin_not_asked_total{plugin=\"gate\",hook=\"push_filter\"} 150\n"))
        #expect(metrics.contains("nightjar_plugin_failing_uses{plugin=\"gate\"} 1\n"))
        // A good document is held too: nobody asks about it.
        try await edge.save("good", "{\"ok\":true}")
        try await edge.waits("held", is: 201)
        // The operator's retry lets the plugin be called again, which fails again.
        let retry = try await edge.command("plugin", "retry", "gate")
        #expect(retry.status == 0 && retry.output.contains("gate: tried again in 1 place"), "\(retry)")
        try await eventually("fifty more calls") { try await edge.plugin("gate")["errors"]?.asInt64 ?? 0 >= 100 }
        // Still held since the first time, and tried more often.
        @Sendable func known(_ id: JSONValue?) async throws -> JSONValue? {
            try await edge.admin.get("/api/replicators/hub/held").json.asArray?.first { $0["id"] == id }
        }
        let first = try #require(held.first)
        try await eventually("the try is counted") { try await known(first["id"])?["tries"]?.asInt64 ?? 0 > first["tries"]?.asInt64 ?? 0 }
        #expect(try await known(first["id"])?["since"] == first["since"])
        try await edge.plugin("gate", becomes: "return { push_filter = function(doc) return true end }\n")
        try await eventually("all are delivered") { try await every(hub.has("broken-199"), hub.has("broken-0"), hub.has("good")) }
        try await edge.waits("held", is: 0)
        #expect(try await edge.plugin("gate")["state"]?.asString == "active")
        #expect(try await edge.stop().status == 0)
        let told = try await events.value
        #expect(told.contains("\"kind\":\"failing\"") && told.contains("replicator hub push_filter failed 50 times in a row"), "\(told.suffix(2000))")
        #expect(told.contains("\"held\":true") && told.contains("\"kind\":\"reloaded\""))
        let reloaded = told.split(separator: "\n").first { $0.contains("\"kind\":\"reloaded\"") } ?? ""
        #expect(reloaded.contains("\"generation\":2"), "\(reloaded)")
    }

    @Test("tests that fail for the version that serves do not make it another version")
    func onlyTests() async throws {
        let test = "return { works = function(t)\n  t.accept(t.push_filter { n = 1 })\nend }\n"
        let edge = try await edge("return { push_filter = function(doc) return doc.n == 1 end }\n", tests: test)
        let version = try #require(try await edge.plugin("gate")["version"]?.asString)
        try edge.folder.write("plugins/gate.test.lua", test.replacing("n = 1", with: "n = 2"))
        try await eventually("its tests have failed") { try await edge.plugin("gate")["refused"]?["only_tests"] == true }
        #expect(try await edge.plugin("gate")["version"]?.asString == version)
        let status = try await edge.command("status")
        let words = "plugin gate: its tests fail now, and its version, \(version), stays in use: gate.test.lua:2: "
        #expect(status.output.contains(words) && !status.output.contains("before serves"), "\(status)")
        let list = try await edge.command("plugin", "list")
        #expect(list.output.contains("gate: its tests fail now, and version \(version) stays in use: gate.test.lua:2: "), "\(list)")
        try edge.folder.write("plugins/gate.test.lua", test)
        try await eventually("nothing is left") { try await edge.plugin("gate")["refused"]?.isNull == true }
        #expect(try await edge.stop().status == 0)
    }

    @Test("a version that fails its tests is refused with file and line; a rollback holds over a restart and ends with a change")
    func rollback() async throws {
        let hub = try sharedAgent()
        let test = "return { works = function(t)\n  t.accept(t.push_filter { n = 1 })\nend }\n"
        let edge = try await edge("return { push_filter = function(doc) return doc.n == 1 end }\n", tests: test)
        let first = try #require(try await edge.plugin("gate")["version"]?.asString)
        try edge.folder.write("plugins/gate.lua", "return { push_filter = function(doc) return doc.n == 7 end }\n")
        let refused = try await edge.command("plugin", "reload", "gate", "--json")
        #expect(refused.status == 1)
        let verdict = try JSONValue(parsing: refused.outputBytes).asArray?.first
        #expect(verdict?["outcome"]?.asString == "refused" && verdict?["version"]?.asString == first && verdict?["generation"]?.asInt64 == 1, "\(refused)")
        #expect(verdict?["error"]?.asString?.hasPrefix("gate.test.lua:2: test \"works\" failed") == true, "\(refused)")

        try await edge.plugin("gate", becomes: "return { push_filter = function(doc) return doc.n >= 1 end }\n")
        let second = try #require(try await edge.plugin("gate")["version"]?.asString)
        let back = try await edge.command("plugin", "rollback", "gate")
        #expect(back.status == 0 && back.output.contains("gate: rolled back from version \(second), version \(first) serves (generation 3)"), "\(back)")
        #expect(back.errors.contains("warning: the plugins folder still holds version \(second): the next change of a file of the plugin"), "\(back)")
        #expect(try edge.folder.text("plugins/gate.lua").contains(">= 1"))
        #expect(try await edge.command("plugin", "rollback", "gate").status == 1)
        #expect(try await edge.command("plugin", "rollback", "other").errors.contains("there is no plugin \"other\""))
        let list = try await edge.command("plugin", "list")
        #expect(list.output.contains("gate: rolled back from \(second) to \(first)"), "\(list)")
        try await edge.kill9()

        let again = try await start(in: edge.folder)
        let status = try await again.plugin("gate")
        #expect(status["version"]?.asString == first, "\(status.text)")
        #expect(status["rolled_back"] == ["from": .string(second), "to": .string(first)])
        try await again.save("one", "{\"n\":1}")
        try await again.save("two", "{\"n\":2}")
        try await eventually("one arrives") { try await hub.has("one") }
        try await again.waits("rejected", is: 1)
        #expect(try await !hub.has("two"))
        // Naming the plugin is the other way out; what the older version rejected is offered to the newer one.
        #expect(try await again.command("plugin", "reload", "gate").status == 0)
        #expect(try await again.plugin("gate")["version"]?.asString == second)
        #expect(try await again.plugin("gate")["rolled_back"]?.isNull == true)
        try await eventually("two arrives") { try await hub.has("two") }
        // With --to, and ended by a change.
        #expect(try await again.post("/api/plugins/gate/rollback?to=\(first.prefix(8))").json["outcome"]?.asString == "rolled_back")
        try await again.plugin("gate", becomes: "return { push_filter = function(doc) return doc.n >= 0 end }\n")
        #expect(try await again.plugin("gate")["rolled_back"]?.isNull == true)
        #expect(try await again.stop().status == 0)
    }

    @Test("a file that is refused at a start leaves the last version serving")
    func refusedAtStart() async throws {
        let edge = try await edge("return { push_filter = function(doc) return true end }\n")
        let version = try await edge.plugin("gate")["version"]?.asString
        #expect(try await edge.stop().status == 0)
        try edge.folder.write("plugins/gate.lua", "return {\n  push_filter = function( return true end }\n")
        let again = try await start(in: edge.folder)
        let plugin = try await again.plugin("gate")
        #expect(plugin["version"]?.asString == version)
        #expect(plugin["state"]?.asString == "refused")
        #expect(plugin["refused"]?["error"]?.asString?.hasPrefix("gate.lua:2:") == true, "\(plugin.text)")
        #expect(try await again.status()["attention"]?.text.contains("gate.lua:2:") == true)
        #expect(try await again.isWell())
        #expect(try await again.stop().status == 0)
    }

    @Test("nightjar.state is kept over reloads, restarts and a kill")
    func state() async throws {
        func counter(_ remark: String) -> String {
            """
            -- \(remark)
            return { push_filter = function(doc)
              nightjar.state.seen = (nightjar.state.seen or 0) + 1
              nightjar.state.last = { id = doc._id, null = nightjar.null, list = {} }
              nightjar.metrics.count("seen", 1, { kind = doc.kind })
              nightjar.metrics.gauge("last_n", doc.n)
              nightjar.log.info("seen " .. nightjar.state.seen)
              return true
            end }

            """
        }
        @Sendable func stored(_ folder: TemporaryFolder) -> JSONValue? { (try? folder.read("data/plugin-state/gate.json")).flatMap { try? JSONValue(parsing: $0) } }
        let hub = try sharedAgent()
        let edge = try await edge(counter("one"))
        try await edge.save("state-1", "{\"n\":1,\"kind\":\"a\\\"b\"}")
        try await eventually("it arrives") { try await hub.has("state-1") }
        try await edge.plugin("gate", becomes: counter("two"))
        try await edge.save("state-2", "{\"n\":2.5,\"kind\":\"c\"}")
        try await eventually("it arrives") { try await hub.has("state-2") }
        let metrics = try await edge.admin.get("/metrics").text
        #expect(metrics.contains("# TYPE plugin_seen_total counter\n"), "\(metrics)")
        #expect(metrics.contains("plugin_seen_total{plugin=\"gate\",kind=\"a\\\"b\"} 1\n"), "\(metrics)")
        #expect(metrics.contains("plugin_last_n{plugin=\"gate\"} 2.5\n"))
        #expect(try await edge.stop().status == 0)
        let first = try #require(stored(edge.folder)?["seen"]?.asInt64)
        #expect(first >= 2)
        #expect(stored(edge.folder)?["last"] == ["id": "state-2", "null": nil, "list": []] || stored(edge.folder)?["last"]?["id"] == "state-2")

        let again = try await start(in: edge.folder)
        try await again.save("state-3", "{\"n\":3}")
        try await eventually("it is in the file, without a stop") { stored(edge.folder)?["seen"]?.asInt64 ?? 0 > first }
        try await again.kill9()
        let second = try #require(stored(edge.folder)?["seen"]?.asInt64)
        let third = try await start(in: edge.folder)
        try await third.save("state-4", "{\"n\":4}")
        try await eventually("it goes on counting") { stored(edge.folder)?["seen"]?.asInt64 ?? 0 > second }
        #expect(try await third.stop().status == 0)
    }

    @Test("the metrics are in Prometheus' text format, on the port and on the socket")
    func metrics() async throws {
        let edge = try await edge("return { push_filter = function(doc) return doc.n ~= 2 end }\n")
        try await edge.load("metric", 5)
        try await edge.waits("rejected", is: 1)
        let answer = try await HTTPProbe.tcp(port: edge.port("admin")).get("/metrics")
        #expect(answer.header("content-type") == "text/plain; version=0.0.4; charset=utf-8")
        let text = answer.text
        for line in [
            "nightjar_documents{database=\"main\",collection=\"_default._default\"} 5",
            "nightjar_plugin_calls_total{plugin=\"gate\",hook=\"push_filter\"} 5",
            "nightjar_plugin_rejected_total{plugin=\"gate\",hook=\"push_filter\"} 1",
            "nightjar_plugin_call_duration_seconds_bucket{plugin=\"gate\",hook=\"push_filter\",le=\"+Inf\"} 5",
            "nightjar_plugin_call_duration_seconds_count{plugin=\"gate\",hook=\"push_filter\"} 5",
            "nightjar_replicator_rejected_total{replicator=\"hub\"} 1",
        ] { #expect(text.contains(line + "\n"), "\(line) is not in \(text)") }
        #expect(text.contains("process_resident_memory_bytes ") && text.contains("nightjar_plugin_memory_bytes{plugin=\"gate\"} "))
        // Each family once, its lines together, and every line a name, labels and a number.
        var families: [Substring] = []
        for line in text.split(separator: "\n") {
            if line.hasPrefix("# TYPE ") {
                let name = line.split(separator: " ")[2]
                #expect(!families.contains(name), "\(name) comes twice")
                families.append(name)
            } else if !line.hasPrefix("#") {
                let family = try #require(families.last)
                #expect(line.hasPrefix(family), "\(line) stands under \(family)")
                #expect(Double(line[line.index(after: try #require(line.lastIndex(of: " ")))...]) != nil, "\(line)")
            }
        }
        #expect(try await edge.admin.get("/metrics").text.contains("nightjar_build_info"))
        #expect(try await edge.stop().status == 0)
    }
}

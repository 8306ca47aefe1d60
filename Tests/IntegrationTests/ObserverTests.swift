import Documents
import TestSupport
import Testing

/// Plugins that are told what a replicator does.
@Suite("Observers", .serialized)
struct ObserverTests {
    private func edge(_ plugin: String, to hub: AgentProcess, in folder: TemporaryFolder, more: String = "") async throws -> AgentProcess {
        try folder.write("plugins/watch.lua", plugin)
        return try await AgentProcess.start(Configuration.edge(to: try hub.port("edge"), replicator: "observer: watch", plugins: true, more: more), in: folder)
    }

    @Test("a plugin receives the status of its replicator, what was sent and received, and what was refused; a new version of it receives what comes from then on")
    func hears() async throws {
        let hubFolder = try TemporaryFolder()
        try hubFolder.write("plugins/gate.lua", "return { pull_filter = function(doc) return not doc.secret end }")
        let hub = try await AgentProcess.start(Configuration.hub(listener: "pull_filter: gate", plugins: true), in: hubFolder)
        let folder = try TemporaryFolder()
        let edge = try await edge("""
            return {
              on_status = function(status, ctx) nightjar.log.info("it is " .. status.activity .. ", as " .. ctx.replicator) end,
              on_documents = function(documents)
                for _, document in ipairs(documents) do
                  local code = document.error and document.error.code or "none"
                  nightjar.log.info("document " .. document.id .. ": push " .. tostring(document.is_push) .. ", deleted " .. tostring(document.flags.deleted) .. ", error " .. code)
                end
              end,
            }
            """, to: hub, in: folder)
        _ = try await edge.process.line(containing: "it is idle, as hub", in: .errors)
        try await edge.save("mine", "{}")
        _ = try await edge.process.line(containing: "document mine: push true, deleted false, error none", in: .errors)
        try await hub.save("theirs", "{}")
        _ = try await edge.process.line(containing: "document theirs: push false, deleted false, error none", in: .errors)
        try await edge.save("hidden", "{\"secret\":true}")
        _ = try await edge.process.line(containing: "document hidden: push true, deleted false, error 403", in: .errors)
        #expect(try await edge.plugin("watch")["used_by"]?.asArray?.count == 2)
        try folder.write("plugins/watch.lua", "return { on_documents = function() end, on_status = function(status) nightjar.log.info('now it is ' .. status.activity) end }")
        try await eventually("the new version is in force") { try await edge.plugin("watch")["generation"]?.asInt64 ?? 0 > 1 }
        _ = try await edge.command("replicator", "hub", "stop")
        _ = try await edge.process.line(containing: "now it is stopped", in: .errors)
        for agent in [edge, hub] { #expect(try await agent.stop().status == 0) }
    }

    @Test("a slow plugin keeps nobody waiting: what it misses is counted, and logged once")
    func slow() async throws {
        let hub = try await AgentProcess.start(Configuration.hub())
        // A hundred documents a second.
        let limits = "plugin_limits: { watch: { resolver_cpu_ms: 1000, resolver_instructions: 10000000000 } }"
        let edge = try await edge("return { on_documents = function() while true do end end }", to: hub, in: try TemporaryFolder(), more: limits)
        try await edge.isSettled()
        #expect(try await edge.load("many", 8_000) == 8_000)
        try await hub.waits(documents: 8_000)
        try await eventually("something was left out") { try await edge.plugin("watch")["not_asked"]?.asInt64 ?? 0 > 0 }
        let line = try await edge.process.line(containing: "observed_documents is 5000", in: .errors)
        #expect(line.contains("the plugin watch is slower than the replicator"), "\(line)")
        #expect(edge.process.errors.split(separator: "\n").count { $0.contains("observed_documents is") } == 1)
        for agent in [edge, hub] { #expect(try await agent.stop().status == 0) }
    }

    @Test("documents gathered for an observer are passed to it when a reload removes it and when the agent stops")
    func end() async throws {
        let hub = try await AgentProcess.start(Configuration.hub())
        let folder = try TemporaryFolder()
        let edge = try await edge("""
            return { on_documents = function(documents)
              for _, document in ipairs(documents) do nightjar.log.info("heard of " .. document.id) end
            end }
            """, to: hub, in: folder)
        let observed = try folder.text("nightjar.yaml")
        try await edge.isSettled()
        // Each ends within the 200 ms for which documents are gathered.
        for number in 1...3 {
            try await edge.save("reload-\(number)", "{}")
            try await hub.waits(documents: Int64(number))
            try await edge.isSettled()
            for text in [observed.replacing("    observer: watch\n", with: ""), observed] {
                try folder.write("nightjar.yaml", text)
                #expect(try await edge.admin.post("/api/reload").status == 200)
            }
            _ = try await edge.process.line(containing: "heard of reload-\(number)", in: .errors)
            try await edge.isSettled()
        }
        try await edge.save("last", "{}")
        try await hub.waits(documents: 4)
        try await edge.isSettled()
        let outcome = try await edge.stop()
        #expect(outcome.status == 0 && outcome.errors.contains("heard of last"), "\(outcome)")
        #expect(try await hub.stop().status == 0)
    }

    @Test("check names an observer that has none of the hooks")
    func withoutHook() async throws {
        let folder = try TemporaryFolder()
        try folder.write("plugins/watch.lua", "return { push_filter = function() return true end }")
        try folder.write("nightjar.yaml", Configuration.edge(to: 4984, replicator: "observer: watch", plugins: true))
        let check = try await NightjarExecutable.run("check", "--config", folder.path("nightjar.yaml"))
        #expect(check.status == 78, "\(check)")
        for words in ["nightjar.yaml:14:15: replicator hub observer: plugin \"watch\"", "has no on_status and no on_documents; it has push_filter"] {
            #expect((check.output + check.errors).contains(words), "\(words): \(check)")
        }
    }
}

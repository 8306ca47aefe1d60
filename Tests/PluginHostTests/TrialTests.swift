import Documents
import LuaRuntime
import PluginHost
import Testing

@Suite(.timeLimit(.minutes(10)))
struct TrialTests {
    @Test func oneHookIsTriedWithItsLogAndMemory() async throws {
        let folder = Folder()
        folder.write("a.lua", """
            return { params = { n = { type = "integer", required = true } }, push_filter = function(doc, ctx)
              nightjar.log.warn("looked at " .. doc._id, { n = ctx.params.n })
              return doc.n == ctx.params.n
            end }
            """)
        var request = PluginRunner.Request(
            folder: folder.path, plugin: "a", hook: .pushFilter, input: .document(Array("{\"_id\":\"d1\",\"n\":3}".utf8)),
            params: .members([("n", .integer(3))]), times: 3, environment: .system)
        let reports = try await PluginRunner.run(request)
        #expect(reports.count == 3)
        #expect(reports.allSatisfy { $0.result == true && $0.failure == nil && $0.memoryBytes > 0 })
        #expect(reports[0].log == [PluginRunner.LogLine(level: "warn", message: "looked at d1", fields: .members([("n", .integer(3))]))])
        #expect(reports[0].json["error"]?.isNull == true)
        request.params = .missing
        await #expect(throws: PluginError.self) { try await PluginRunner.run(request) }
        request.plugin = "b"
        await #expect(throws: PluginError.self) { try await PluginRunner.run(request) }
    }

    @Test(arguments: [
        ("return { push_filter = function() while true do end end }", "plugin_timeout"),
        ("return { push_filter = function() error('x') end }", "plugin_error"),
        ("return { push_filter = function() end }", "plugin_result"),
        ("return { push_filter = function() local t = {} for i = 1, 1e9 do t[i] = { i } end end }", "plugin_memory"),
        ("return {", "plugin_load"),
    ])
    func failuresHaveTheirKind(source: String, kind: String) async throws {
        let folder = Folder()
        folder.write("a.lua", source)
        let reports = try await PluginRunner.run(PluginRunner.Request(
            folder: folder.path, plugin: "a", hook: .pushFilter, input: .document(Array("{}".utf8)), times: 2, environment: .system))
        #expect(reports.count == (kind == "plugin_load" ? 1 : 2))
        #expect(reports.allSatisfy { $0.json["error"]?["kind"]?.asString == kind })
        #expect(reports[0].json["error"]?["message"]?.asString?.hasPrefix("a.lua") == true)
    }

    @Test func conflictsAndLogins() async throws {
        let folder = Folder()
        folder.write("a.lua", """
            return {
              resolve = function(c) if c.local_doc and c.local_doc.keep then return c.local_doc end return { n = (c.base_doc or {}).n } end,
              authenticate_password = function(name, password) return password == "x" and { read_only = true } end,
            }
            """)
        func run(_ hook: LuaHook, _ input: PluginRunner.Input) async throws -> PluginRunner.Report {
            try #require(try await PluginRunner.run(PluginRunner.Request(folder: folder.path, plugin: "a", hook: hook, input: input, environment: .system)).first)
        }
        let merged = try await run(.resolve, .conflict(Array("{\"local_doc\":{},\"remote_doc\":null,\"base_doc\":{\"n\":1}}".utf8)))
        #expect(merged.result == ["n": 1])
        #expect(merged.decision == "merged")
        let kept = try await run(.resolve, .conflict(Array("{\"local_doc\":{\"keep\":true}}".utf8)))
        #expect(kept.result == ["keep": true])
        #expect(kept.decision == "local")
        #expect(try await run(.authenticatePassword, .login(username: "u", password: "x")).result == ["read_only": true])
        #expect(try await run(.authenticatePassword, .login(username: "u", password: "y")).result == false)
        await #expect(throws: PluginRunner.InputProblem.self) { try await run(.resolve, .document([])) }
        await #expect(throws: PluginRunner.InputProblem.self) { try await run(.resolve, .conflict(Array("{\"local\":1}".utf8))) }
    }
}

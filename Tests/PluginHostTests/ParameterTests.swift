import Interfaces
import LuaRuntime
import PluginHost
import Testing

@Suite(.timeLimit(.minutes(10)))
struct ParameterTests {
    static let declared = """
        return {
          params = {
            name = { type = "string", required = true, doc = "owner to match" },
            minimum = { type = "number", default = 1 },
            count = { type = "integer" },
            strict = { type = "boolean", default = false },
            map = { type = "table" },
            list = { type = "array" },
            mode = { type = "string", enum = { "fast", "safe" }, default = "safe" },
          },
          push_filter = function(doc, ctx)
            local p = ctx.params
            return p.minimum == 1 and p.strict == false and p.mode == "safe" and p.count == nil and p.name == doc.name
          end,
        }
        """

    @Test(arguments: [
        ("{}", "missing parameter \"name\" (string): owner to match", nil),
        ("{\"name\":1}", "parameter \"name\" must be a string, not 1", nil),
        ("{\"name\":\"a\",\"minimun\":2}", "unknown parameter \"minimun\": expected count, list, map, minimum, mode, name, strict", "minimum"),
        ("{\"name\":\"a\",\"minimum\":\"2\"}", "parameter \"minimum\" must be a number, not \"2\"", nil),
        ("{\"name\":\"a\",\"count\":1.5}", "parameter \"count\" must be an integer, not 1.5", nil),
        ("{\"name\":\"a\",\"strict\":\"yes\"}", "parameter \"strict\" must be a boolean, not \"yes\"", nil),
        ("{\"name\":\"a\",\"map\":[1]}", "parameter \"map\" must be an object, not array", nil),
        ("{\"name\":\"a\",\"list\":{\"a\":1}}", "parameter \"list\" must be a list, not object", nil),
        ("{\"name\":\"a\",\"mode\":\"save\"}", "parameter \"mode\" is \"save\"; expected one of \"fast\", \"safe\"", "safe"),
        ("{\"name\":null}", "parameter \"name\" must be a string, not null", nil),
        ("[1]", "params must be an object, not array", nil),
    ] as [(String, String, String?)])
    func wrongParametersAreExplained(params: String, message: String, nearest: String?) async throws {
        let folder = Folder()
        folder.write("a.lua", Self.declared)
        try await withHost(folder.path) { host, _ in
            let value = try #require(LuaValue(json: params.utf8))
            let problems = try host.validate(params: value, forPlugin: "a")
            #expect(problems.map(\.message) == [message])
            #expect(problems.map(\.nearest) == [nearest])
            #expect(throws: PluginError.self) { try host.filter("a", value) }
        }
    }

    @Test func rightParametersReachThePluginWithDefaults() async throws {
        let folder = Folder()
        folder.write("a.lua", Self.declared)
        try await withHost(folder.path) { host, _ in
            let params = try #require(LuaValue(json: "{\"name\":\"anna\",\"list\":[],\"map\":{}}".utf8))
            #expect(try host.validate(params: params, forPlugin: "a").isEmpty)
            do {
                let filter = try host.filter("a", params)
                #expect(await filter.judge("{\"name\":\"anna\"}", "{\"name\":\"ben\"}") == [.pass, .reject])
            }
        }
    }

    static let listed = """
        return { params = { file = { type = "file", required = true } },
          push_filter = function(doc, ctx) return ctx.params.file:find(doc.name, 1, true) ~= nil end }
        """

    @Test func aFileParameterIsItsTextAndIsWatched() async throws {
        let outer = Folder()
        outer.make("plugins")
        outer.make("etc")
        outer.write("plugins/allow.lua", Self.listed)
        outer.write("etc/names.txt", "anna")
        try await withHost(outer("plugins"), configurationFolder: outer("etc")) { host, events in
            let filter = try host.filter("allow", .members([("file", .text("names.txt"))]))
            var versions = filter.versionChanges().makeAsyncIterator()
            let first = filter.version
            #expect(first.hasPrefix((host.status("allow")?.version ?? "?") + "+"))
            #expect(await filter.judge("{\"name\":\"anna\"}", "{\"name\":\"ben\"}") == [.pass, .reject])
            outer.save("etc/names.txt", "ben")
            _ = try await events.wait { $0 == .parameterFileChanged(plugin: "allow", usedBy: "replicator hub push_filter", parameter: "file") }
            #expect(await filter.judge("{\"name\":\"anna\"}", "{\"name\":\"ben\"}") == [.reject, .pass])
            let next = await versions.next()
            #expect(filter.version.hasPrefix(next ?? "none"))
            #expect(filter.version != first)
            outer.write("etc/names.txt", "carl")
            _ = try await events.wait { if case .parameterFileChanged = $0 { true } else { false } }
            #expect(await filter.judge("{\"name\":\"carl\"}") == [.pass])
            outer.remove("etc/names.txt")
            _ = try await events.wait { if case .parameterFileRefused = $0 { true } else { false } }
            #expect(await filter.judge("{\"name\":\"carl\"}") == [.pass])
            #expect(host.status("allow")?.parameterProblems.count == 1)
            outer.write("etc/names.txt", "dora")
            _ = try await events.wait { if case .parameterFileChanged = $0 { true } else { false } }
            #expect(await filter.judge("{\"name\":\"dora\"}") == [.pass])
            #expect(host.status("allow")?.parameterProblems == [])
        }
    }

    @Test(arguments: ["../secret.txt", "link.txt", "absent.txt", "folder", "big.txt", "binary.txt", "", "/etc/hostname"])
    func aFileParameterDoesNotLeaveItsFolders(path: String) async throws {
        let outer = Folder()
        outer.make("plugins")
        outer.make("plugins/folder")
        outer.write("plugins/allow.lua", Self.listed)
        outer.write("secret.txt", "secret")
        outer.link("plugins/link.txt", to: "../secret.txt")
        outer.write("plugins/big.txt", String(repeating: "x", count: 2000))
        outer.write("plugins/binary.txt", "\u{1}")
        outer.write("plugins/binary.txt", String(decoding: [0x41], as: UTF8.self))
        var limits = quick
        limits.parameterFileBytes = 1000
        try await withHost(outer("plugins"), limits: limits) { host, _ in
            let params = LuaValue.members([("file", .text(path))])
            if path == "binary.txt" {
                _ = try host.filter("allow", params)
                return
            }
            do {
                _ = try host.filter("allow", params)
                Issue.record("\(path) must be refused")
            } catch let error as PluginError {
                guard case .parameters(_, _, let problems, _) = error else { throw error }
                #expect(problems.map(\.parameter) == ["file"])
            }
        }
    }

    @Test func otherParametersAreAnotherJudgement() async throws {
        let folder = Folder()
        folder.write("a.lua", "return { params = { n = { type = 'integer', default = 1 } }, push_filter = function() return true end }")
        try await withHost(folder.path) { host, _ in
            func judgement(_ params: LuaValue) throws -> String { try host.pushFilter(plugin: "a", params: params, usedBy: "test").version }
            let two = try judgement(.object([LuaMember(key: "n", value: .integer(2))]))
            let three = try judgement(.object([LuaMember(key: "n", value: .integer(3))]))
            #expect(two != three, "what one threshold kept back must be offered again under another")
            #expect(try judgement(.missing) == judgement(.object([LuaMember(key: "n", value: .integer(1))])), "a default written out changes nothing")
        }
    }
}

import LuaRuntime
import Testing

@Suite("Loading")
struct LoadTests {
    struct Modules: LuaModuleLoader {
        func module(named name: String) -> LuaModule {
            switch name {
            case "lib.geo": .source(Array("nightjar.log.info('once') return { half = function(n) return n / 2 end }".utf8), chunkName: "lib/geo.lua")
            case "broken": .source(Array("x = = 1".utf8), chunkName: "broken.lua")
            case "raises": .source(Array("\nerror('no')".utf8), chunkName: "raises.lua")
            case "me": .source(Array("return require 'me'".utf8), chunkName: "me.lua")
            case "nothing": .source([], chunkName: "nothing.lua")
            default: .refused("no file lib/\(name).lua")
            }
        }
    }

    @Test("what is declared can be read")
    func declarations() throws {
        try onPluginThread {
            let state = try makeState("""
                return { description = "d", params = { name = { type = "string", required = true }, n = { type = "integer", default = 3 } },
                  push_filter = function() return true end, resolve = function() end, sync = function() end,
                  authenticate_certificate = function() end }
                """)
            #expect(state.description == "d")
            #expect(state.hooks == [.pushFilter, .resolve, .sync, .authenticateCertificate])
            #expect(state.parameterDeclarations["name"]["required"] == .bool(true) && state.parameterDeclarations["n"]["default"] == .integer(3))
            #expect(state.memoryBytes < 120_000)
            let bare = try makeState("return { pull_filter = function() return true end }")
            #expect(bare.description == nil && bare.parameterDeclarations == .missing)
        }
    }

    @Test("what is wrong with a plugin is a load error with its file", arguments: [
        ("return { push_fliter = function() end }", "p.lua: unknown key 'push_fliter' in the returned table; did you mean 'push_filter'?"),
        ("return { param = {}, push_filter = function() end }", "p.lua: unknown key 'param' in the returned table; did you mean 'params'?"),
        ("return { zzzzzz = 1, push_filter = function() end }", "known are description, params"),
        ("return { push_filter = 1 }", "p.lua: 'push_filter' must be a function, not a number"), ("return { params = 1, resolve = print }", "'params' must be a table"),
        ("return { description = {}, resolve = print }", "'description' must be a string"), ("return {}", "holds no hook"), ("return", "returns no value"),
        ("return 'x'", "returns a string"), ("return setmetatable({}, { __index = function() while true do end end })", "has a metatable"),
        ("return { [1] = print }", "a key that is a number"), ("local x =\n= 1", "p.lua:2: unexpected symbol near '='"),
        ("\n\nerror('no')", "p.lua:3: no"), ("return require 'x/../y'", "module names are words"), ("return require '../x'", "module names are words"),
        ("return require '/etc/passwd'", "module names are words"), ("return require 'a\\0b'", "module names are words"), ("return require 'x'", "no file lib/x.lua"),
        ("return require 'broken'", "broken.lua:1: unexpected symbol near '='"), ("return require 'raises'", "raises.lua:2: no"), ("return require 'me'", "requires itself"),
        ("\u{1B}Lua", "p.lua:1: this is bytecode"), ("return table.unpack({}, 1, 200000)", ""), ("return { params = { f = print }, resolve = print }", "params: at f: a function"),
    ])
    func loadErrors(_ source: String, _ part: String) throws {
        let failed = try loadFailure(source, modules: Modules())
        #expect(failed.kind == .load && failed.message.contains(part), "\(failed)")
        #expect(!failed.message.contains("\n"))
    }

    @Test("a BOM, a #! line and NUL bytes are fine and lines stay right")
    func sourceForms() throws {
        let failed = try loadFailure("\u{FEFF}#!/usr/bin/lua\nlocal s = 'a\0b'\nerror(#s)")
        #expect(failed.message == "p.lua:3: 3")
    }

    @Test("sources over the limit are refused, and load-time code is under limits")
    func loadLimits() throws {
        var limits = LuaLimits()
        limits.sourceBytes = 1000
        #expect(try loadFailure(String(repeating: " ", count: 1001), limits: limits).message.contains("limit source"))
        limits = LuaLimits()
        limits.load = LuaCallLimits(cpuMilliseconds: 20, instructions: 1_000_000)
        #expect(try loadFailure("while true do end", limits: limits).kind == .timeout)
        limits.load = LuaCallLimits(cpuMilliseconds: 10_000, instructions: 1 << 40)
        #expect(try loadFailure("local t = {} while true do t[#t + 1] = ('x'):rep(1000) .. #t end", limits: limits).kind == .memory)
    }

    @Test("require finds modules once, remembers the outcome, and fails only the call that asked")
    func modules() throws {
        try onPluginThread {
            let state = try makeState("""
                local geo = require "lib.geo"
                return { push_filter = function(doc)
                  assert(require("lib.geo") == geo and require("nothing") == true)
                  local ok, m = pcall(require, "raises")
                  local again, m2 = pcall(require, "raises")
                  return geo.half(doc.n) == 2 and not ok and m == m2 and m == "raises.lua:2: no"
                end }
                """, modules: Modules())
            #expect(state.requiredModules == ["lib.geo"])
            #expect(try state.filter("{\"n\":4}"))
            #expect(state.requiredModules == ["lib.geo", "nothing", "raises"])
        }
    }

    @Test("a hook changed in the table later does not change what was validated")
    func keepsHooks() throws {
        try onPluginThread {
            let state = try makeState("""
                local plugin = {}
                plugin.push_filter = function() plugin.push_filter = function() return false end return true end
                return plugin
                """)
            #expect(try state.filter("{}"))
            #expect(try state.filter("{}"))
        }
    }

    @Test("plugin tests run in the sandbox")
    func pluginTests() throws {
        try onPluginThread {
            let state = try makeState("""
                return {
                  params = { owner = { type = "string" } },
                  push_filter = function(doc, ctx) return doc.type ~= "draft" and (ctx.params.owner == nil or doc.owner == ctx.params.owner) end,
                  resolve = function(c)
                    if c.local_doc == nil then return c.remote_doc end
                    if c.base_doc == nil then return nil end
                    local m = nightjar.copy(c.local_doc) m.price = c.remote_doc.price return m
                  end,
                  authenticate_password = function(u, p) return u == "a" and { name = u } end,
                }
                """)
            let names = try state.loadTests(chunkName: "p.test.lua", source: Array("""
                return {
                  ["drafts stay home"] = function(t) t.reject(t.push_filter({ type = "draft" })) t.accept(t.push_filter{ type = "x", _id = "1" }) end,
                  ["params"] = function(t) t.accept(t.push_filter({ owner = "a" }, { params = { owner = "a" } })) t.reject(t.push_filter({ owner = "b" }, { params = { owner = "a" } })) end,
                  ["remote wins on price"] = function(t)
                    local merged = t.resolve{ base_doc = { price = 1 }, local_doc = { price = 1, note = "x", tags = nightjar.array{} }, remote_doc = { price = 2 } }
                    t.equal(merged, { price = 2, note = "x", tags = {} })
                    t.equal(t.resolve{ remote_doc = { a = { 1, 2 } } }, { a = { 1, 2 } })
                    t.fails(function() t.resolve{ local_doc = {}, remote_doc = {} } end, "returned nil")
                  end,
                  ["users"] = function(t) t.equal(t.authenticate_password("a", "x"), { name = "a" }) t.reject(t.authenticate_password("b", "x")) end,
                  ["wrong"] = function(t)
                    t.equal({ a = 1 }, { a = 2 })
                  end,
                  ["loops"] = function(t) t.fails(function() while true do end end) end,
                  ["absent"] = function(t) t.pull_filter{} end,
                }
                """.utf8))
            #expect(names == ["absent", "drafts stay home", "loops", "params", "remote wins on price", "users", "wrong"])
            for name in ["drafts stay home", "params", "remote wins on price", "users"] { try state.runTest(name, context: makeContext()) }
            #expect(throws: LuaFailure(kind: .error, message: #"p.test.lua:12: got {"a":1}, expected {"a":2}"#)) { try state.runTest("wrong", context: makeContext()) }
            #expect(throws: LuaFailure(kind: .error, message: "p.test.lua:15: the plugin has no pull_filter")) { try state.runTest("absent", context: makeContext()) }
            #expect { try state.runTest("loops", context: makeContext(), limits: LuaCallLimits(cpuMilliseconds: 20)) } throws: { ($0 as? LuaFailure)?.kind == .timeout }
            #expect(throws: LuaFailure.self) { try state.loadTests(chunkName: "p.test.lua", source: Array("return { 1 }".utf8)) }
            #expect(try state.filter("{}"))
        }
    }
}

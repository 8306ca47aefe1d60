import LuaRuntime
import Testing

@Suite("Undefined globals")
struct GlobalTests {
    private static func plugin(_ body: String) -> String { "return { push_filter = function(doc, ctx)\n\(body)\nend }" }

    @Test("reading one is an error with its name, file and line", arguments: [
        ("if docc.type == 'x' then return true end return false", "p.lua:2: the variable 'docc' is not defined; did you mean 'doc'?"),
        ("return dco.type", "p.lua:2: the variable 'dco' is not defined; did you mean 'doc'?"),
        ("\nchanel('a')", "p.lua:3: the variable 'chanel' is not defined; did you mean 'channel'?"),
        ("local function look() return contxt end return look()", "p.lua:2: the variable 'contxt' is not defined: give it a value first (local contxt = ...), or read _G.contxt where it may be absent"),
        ("return zzqq == nil", "p.lua:2: the variable 'zzqq' is not defined: give it a value first"),
        ("return _ENV['zz' .. 'qq']", "p.lua:2: the variable 'zzqq' is not defined"),
        ("return io.open('x')", "p.lua:2: there is no 'io' in plugins; plugins/README.md lists what there is"),
        ("return unpack({ 1 })", "p.lua:2: there is no variable 'unpack' in plugins; Lua 5.4 has table.unpack"),
        ("pcall = nil return pcall == nil", "p.lua:2: the variable 'pcall' is not defined; did you mean 'xpcall'?"),
        ("setmetatable(_G, nil) return zzqq == nil", "the variable 'zzqq' is not defined"),
        ("setmetatable(_G, { __newindex = print }) return zzqq == nil", "the variable 'zzqq' is not defined"),
        ("return coroutine.wrap(function() return zzqq end)()", "the variable 'zzqq' is not defined"),
        ("local x = _ENV[('x'):rep(100000)]", "xxx...' is not defined"),
    ])
    func reading(_ body: String, _ text: String) throws {
        let failed = try failure(body)
        #expect(failed.kind == .error && failed.message.contains(text), "\(failed)")
    }

    @Test("load-time code, modules and tests are held to it as well")
    func elsewhere() throws {
        let failed = try loadFailure("\nlocal limit = limitt or 5\nreturn { push_filter = function() return limit end }")
        #expect(failed.kind == .load && failed.message.hasPrefix("p.lua:2: the variable 'limitt' is not defined"), "\(failed)")
        try onPluginThread {
            let state = try makeState(Self.plugin("return true"))
            let names = try state.loadTests(chunkName: "p.test.lua", source: Array("return { a = function(t)\n tt.accept(true) end }".utf8))
            #expect(throws: LuaFailure(kind: .error, message: "p.test.lua:2: the variable 'tt' is not defined: give it a value first (local tt = ...), or read _G.tt where it may be absent")) {
                try state.runTest(names[0], context: makeContext())
            }
        }
    }

    @Test("a plugin may ask for one, define one, and say itself what is undefined", arguments: [
        "return _G.x == nil and rawget(_G, 'x') == nil and rawget(_ENV, 'x') == nil and not _G['no such']",
        "return _ENV == _G and _G._G == _G and not (_ENV ~= _G) and getmetatable(_G) == nil and _ENV[1] == nil",
        "x = 1 return x == 1 and _G.x == 1 and rawget(_G, 'x') == 1", "_G.x = 1 return x == 1", "rawset(_G, 'x', false) return x == false",
        "if _G.x then return x() end return true", "local n = 0 for k in pairs(_G) do n = n + 1 end return n > 20 and next(_G) ~= nil",
        "x = 1 x = nil return _G.x == nil and not pcall(function() return x end)", "pcall = nil return _G.pcall == nil and rawget(_G, 'pcall') == nil",
        "setmetatable(_G, { __index = function(_, name) return name end }) return zzqq == 'zzqq' and _G.other == 'other'",
        "setmetatable(_G, { __index = { zzqq = 7 } }) pcall = nil return zzqq == 7 and _G.zzqq == 7 and pcall == nil",
        "local _ENV = setmetatable({}, { __index = _G }) return zzqq == nil and type(print) == 'function'",
        "local ok, m = pcall(function() return zzqq end) return not ok and m:find(\"'zzqq'\", 1, true) ~= nil",
    ])
    func allowed(_ body: String) throws {
        #expect(try run(body))
        try onPluginThread {
            let state = try makeState(Self.plugin(body))
            for _ in 0..<2 { #expect(try state.filter("{}")) }
        }
    }

    @Test("one that is caught again and again counts towards the limits")
    func caught() throws {
        #expect(try failure("while true do pcall(function() return zzqq end) end").kind == .timeout)
    }

    private static func undefined(_ sources: [(chunkName: String, source: String, isRead: Bool)], modules: any LuaModuleLoader = LuaNoModules()) throws -> String? {
        try onPluginThread {
            let state = try makeState(sources[0].source, modules: modules)
            do throws(LuaFailure) {
                try state.checkGlobals(sources.map { (chunkName: $0.chunkName, source: Array($0.source.utf8), isRead: $0.isRead) })
                return nil
            } catch {
                #expect(error.kind == .load)
                return error.message
            }
        }
    }

    @Test("they are found before anything is called", arguments: [
        ("if doc.rare then\nreturn docc.type end return true", "p.lua:3: the variable 'docc' is not defined; did you mean 'doc'?"),
        ("return function() return function() return ctxx end end", "p.lua:2: the variable 'ctxx' is not defined; did you mean 'ctx'?"),
        ("nightjar.log.info('x') chanel('a')", "did you mean 'channel'?"), ("for i = 1, 3 do\nprnt(i)\nend\nreturn zzqq", "p.lua:3: the variable 'prnt' is not defined; did you mean 'print'?"),
        ("return io.open(doc.name)", "p.lua:2: there is no 'io' in plugins"), ("if _G.x then return true end return zzqq", "p.lua:2: the variable 'zzqq'"),
    ])
    func found(_ body: String, _ text: String) throws {
        let message = try Self.undefined([("p.lua", Self.plugin(body), true)])
        #expect(message?.contains(text) == true, "\(message ?? "nothing")")
    }

    @Test("a local that is out of sight where it is misspelt is suggested too")
    func nearLocals() throws {
        let source = "local threshold = 5\nreturn { push_filter = function(doc) return doc.n > treshold end }"
        #expect(try Self.undefined([("p.lua", source, true)]) == "p.lua:2: the variable 'treshold' is not defined; did you mean 'threshold'?")
    }

    @Test("the line is right far down, and with many constants nothing is guessed")
    func long() throws {
        let filler = (0..<400).map { "local function f\($0 % 150)() return 'text \($0)' end" }.joined(separator: " end do\n")
        let source = "do\n\(filler)\nend\n" + Self.plugin("return docc")
        #expect(try Self.undefined([("p.lua", source, true)]) == "p.lua:404: the variable 'docc' is not defined; did you mean 'doc'?")
        let table = "local t = {" + (0..<400).map { "'k\($0)'" }.joined(separator: ", ") + "}\nlate = 1\n" + Self.plugin("return late == 1")
        #expect(try Self.undefined([("p.lua", table, true)]) == nil)
    }

    @Test("nothing is found where a variable may be there", arguments: [
        "x = 1 return x == 1", "_G.x = 1 return x", "rawset(_G, 'x', 1) return x", "if _G.x then return x end return true", "local x = 1 return x == 1",
        "setmetatable(_G, { __index = print }) return zzqq", "local _ENV = { y = 1 } return y", "_ENV = { y = 1 } return y", "local function f(...) return ... end return f(1)",
        "local unpack = table.unpack or unpack return unpack ~= nil",
        "if _VERSION == 'Lua 5.1' then local f = print setfenv(1, {}) f(jit) end return true", "goto out ::out:: return true", "for k, v in pairs(doc) do return k, v end", "if rawget(_G, 'x') then return x end return true",
    ])
    func nothing(_ body: String) throws {
        #expect(try Self.undefined([("p.lua", Self.plugin(body), true)]) == nil)
    }

    struct Modules: LuaModuleLoader {
        func module(named name: String) -> LuaModule { .source(Array("shared = 1 return {}".utf8), chunkName: "lib/\(name).lua") }
    }

    @Test("modules define variables, and those that are never run are not looked at")
    func modules() throws {
        let source = Self.plugin("require 'defines' return shared")
        let defines = (chunkName: "lib/defines.lua", source: "shared = 1 return {}", isRead: true)
        #expect(try Self.undefined([("p.lua", source, true)], modules: Modules()) != nil)
        #expect(try Self.undefined([("p.lua", source, true), defines], modules: Modules()) == nil)
        #expect(try Self.undefined([("p.lua", source, true), defines, ("lib/reads.lua", "\nreturn zzqq", true)])?.hasPrefix("lib/reads.lua:2: ") == true)
        #expect(try Self.undefined([("p.lua", source, true), defines, ("notes.lua", "return zzqq", false)]) == nil)
        #expect(try Self.undefined([("p.lua", source, true), defines, ("lib/broken.lua", "x = = 1", true)]) == nil)
    }

    @Test("load-time code that removes its functions has used them before")
    func emptied() throws {
        let source = "for k in pairs(_G) do if k ~= '_G' then _G[k] = nil end end\n" + Self.plugin("return true")
        #expect(try Self.undefined([("p.lua", source, true)]) == nil)
    }
}

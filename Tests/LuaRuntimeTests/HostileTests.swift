import Environment
import LuaRuntime
import TestRandomness
import Testing

/// Every case must end, in a failure of the right kind or in a harmless result, with the process alive and the state
/// of other plugins untouched. Times are bounds against a hang, far above what is expected.
@Suite("Hostile plugins")
struct HostileTests {
    static let short = LuaCallLimits(cpuMilliseconds: 30, instructions: 10_000_000)

    @Test("nothing continues past the time limit", arguments: [
        "while true do end", "repeat until false", "::a:: goto a", "local function f() return f() end return f()",
        "for x = 2^53, 2^53 + 4, 0.5 do end",
        "while true do pcall(function() while true do end end) end",
        "local function f() pcall(f) while true do end end f()",
        "local function swallow(n) if n == 0 then while true do end end while true do pcall(swallow, n - 1) end end swallow(50)",
        "while true do xpcall(function() while true do end end, function() while true do end end) end",
        "xpcall(function() error('x') end, function() while true do end end) while true do end",
        "xpcall(function() while true do end end, function(m) error(m) end) while true do end",
        "local co = coroutine.create(function() while true do end end) while true do coroutine.resume(co) co = coroutine.create(function() while true do end end) end",
        "local f = coroutine.wrap(function() while true do pcall(function() while true do end end) end end) f()",
        "while true do pcall(coroutine.wrap(function() while true do end end)) end",
        "setmetatable(_G, { __index = function() while true do end end }) return undefined_name",
        "local t = setmetatable({}, { __index = function(t, k) while true do end end }) return t.x",
        "local t = setmetatable({}, { __lt = function() while true do end end }) return t < t",
        "local t = setmetatable({}, { __eq = function() while true do end end }) return t == setmetatable({}, getmetatable(t))",
        "local t = setmetatable({}, { __len = function() while true do end end }) return #t",
        "tostring(setmetatable({}, { __tostring = function() while true do end end }))",
        "for k in pairs(setmetatable({}, { __pairs = function() while true do end end })) do end",
        "('x'):gsub('x', function() while true do end end)",
        "('x'):rep(1000):gsub('x', function() pcall(function() while true do end end) end) while true do end",
        "table.sort({1, 2, 3}, function() while true do end end)",
        "local a = ('a'):rep(1000) return a:find('.-.-.-b')", "return ('a'):rep(200):find('a*a*a*a*b')", "return ('a'):rep(5000):find('a*a*b')",
        "return (('a'):rep(28)):find('^' .. ('a?'):rep(28) .. ('a'):rep(28))",
        "return ((' '):rep(200000) .. 'x'):gsub('%s+$', '')", "return ((' '):rep(200000) .. 'x'):match('^(.-)%s*$')",
        "return ('a.'):rep(100000):match('[%w.]+@[%w.]+%.%a+')", "return ('('):rep(400000):find('%b()')",
        "for w in ('a'):rep(5000):gmatch('a*a*b') do end",
        "while true do pcall(string.find, ('a'):rep(2000), 'a*a*a*b') end",
        "local s = ('a'):rep(1000000) while true do s:upper() end", "local s = ('9'):rep(1000000) while true do local x = s + 1 end",
        "local s = ('9'):rep(1000000) while true do local x = tonumber(s) end", "local s = ('9'):rep(1000000) while true do local x = pcall(function() return s | 1 end) end",
        "local s = ('é'):rep(400000) while true do utf8.len(s) end",
        "local s = ('a'):rep(1000000) local t = {} for i = 1, 60000 do t[i] = s end table.sort(t)",
        "local s, r = ('a'):rep(900000), ('a'):rep(900000) while true do local x = s == r end",
        "local t = {} for i = 1, 30000 do t[i] = i end while true do table.insert(t, 1, 1) table.remove(t, 1) end",
        "local t = {} for i = 1, 30000 do t[i] = 'x' end while true do table.concat(t) end",
        "local t = {} for i = 1, 30000 do t[i] = i end while true do select('#', table.unpack(t)) end",
        "local t = {} for i = 1, 30000 do t[i] = false end for i = 1, 30000 do t[i] = nil end while true do next(t) end",
        "local t = {} for i = 1, 2^40 do t[i * 32767] = 1 if i % 8000 == 0 then t = {} end end",
        "while true do nightjar.glob(('*a'):rep(500) .. 'b', ('a'):rep(100000)) end",
        "while true do nightjar.copy(doc) end", "while true do nightjar.json.decode('[1,2,3]') end",
        "while true do for k, v in pairs(doc) do end end", "while true do local x = doc.zzz end", "while true do local x = #doc.list + (doc.list[3000] or 0) + doc.list[1] end",
        "while true do nightjar.log.info('x') end", "while true do print('x') end", "while true do nightjar.base64.encode(('x'):rep(100000)) end",
        "while true do pcall(error, setmetatable({}, { __tostring = function() while true do end end })) end",
        "while true do pcall(require, 'x') end", "while true do setmetatable({}, { __index = {} }) end",
        // Every instruction is a costly one: a hundred take longer than the time between two looks at the clock.
        "local s, r = ('a'):rep(1000000), ('a'):rep(1000000) local t, x = { [s] = 1 } while true do \(String(repeating: "x = t[r] ", count: 400)) end",
        "local s, r = ('a'):rep(1000000), ('a'):rep(1000000) while true do \(String(repeating: "if s ~= r then return end ", count: 200)) end",
        """
        local s, r = ('\\0'):rep(1000000), ('\\0'):rep(1000000)
        coroutine.wrap(function() while true do \(String(repeating: "if s < r then return end ", count: 200)) end end)()
        """,
    ])
    func endless(_ body: String) throws {
        let document = "{\"a\":1,\"list\":[\(String(repeating: "1,", count: 3000))1]}"
        // That it ends is what is tested; a hang is the end of the whole run.
        let failed = try failure(body, on: document, call: Self.short)
        #expect(failed.kind == .timeout, "\(failed)")
        #expect(failed.message.hasPrefix("p.lua:") && failed.message.contains(" stopped after "), "\(failed)")
    }

    /// Moving n keys that collide into another block looks at n² / 2 places, in one instruction: with this bound at 34 million.
    /// Unwinding a longer chain takes time that grows with its square, without a hook in between.
    @Test("protected calls in a coroutine nest no deeper than on the main thread", arguments: [
        "pcall(f, depth + 1)", "xpcall(f, function() end, depth + 1)", "pcall(pcall, f, depth + 1)",
    ])
    func nestedProtectedCalls(_ body: String) throws {
        let text = """
            local tries, deepest = 0, 0
            local function f(depth)
              deepest = math.max(deepest, depth)
              while tries < 3000 do tries = tries + 1 \(body) end
            end
            coroutine.resume(coroutine.create(f), 1)
            if deepest > 250 then error(deepest) end
            return true
            """
        #expect(try run(text, call: LuaCallLimits(cpuMilliseconds: 5_000, instructions: 10_000_000)))
    }

    @Test("a table has at most 8,192 keys besides its sequence", arguments: [
        "k * 32767", "k * 16383", "k * 8191", "k * 65535", "k * 8191 + 0.5", "-k", "'k' .. k", "(1 << 40) + k",
    ])
    func keysOfATable(_ key: String) throws {
        let call = LuaCallLimits(cpuMilliseconds: 20_000, instructions: 1 << 40)
        func fill(_ count: Int) -> String { "local t = {} for k = 1, \(count) do t[\(key)] = true end return true" }
        #expect(try run(fill(8_192), call: call))
        let failed = try failure(fill(8_193), call: call)
        #expect(failed.kind == .memory && failed.message.contains("8192 keys in one table"), "\(failed)")
    }

    @Test("sequences and lists of values are limited in length by their memory block")
    func longSequences() throws {
        #expect(try run(
            """
            local t = {} for k = 1, 60000 do t[k] = k end
            local packed = table.pack(table.unpack(t, 1, 20000))
            return #t == 60000 and packed.n == 20000 and #nightjar.json.decode('[' .. ('1,'):rep(40000) .. '1]') == 40001
            """, call: LuaCallLimits(cpuMilliseconds: 20_000, instructions: 1 << 40)))
    }

    @Test("memory is bounded and pcall cannot catch the error", arguments: [
        "local t = {} while true do t[#t + 1] = ('x'):rep(1000) .. #t end", "local s = 'x' while true do s = s .. s end",
        "local t = {} while true do t = { t } end", "while true do pcall(function() local t = {} while true do t[#t + 1] = {} end end) end",
        "local t = {} while true do pcall(function() while true do t[#t + 1] = ('y'):rep(500) .. #t end end) end",
        "local t = {} for i = 1, 1e9 do t[i] = coroutine.create(function() end) end",
        "local t = {} while true do t[#t + 1] = coroutine.wrap(function() local x = ('z'):rep(5000) .. #t coroutine.yield() end) t[#t]() end",
        "local function f(...) return f(1, ...) end f()", "return ('x'):rep(600000):gsub('x', 'yy')", "table.pack(table.unpack({}, 1, 900000))",
        "local t = {} for i = 1, 1e7 do t[i] = i end", "local t = {} for i = 1, 1e7 do t['k' .. i] = i end",
        "local keep = doc.list while true do local c = nightjar.copy(doc) keep = { c, keep } end",
        "xpcall(function() local t = {} while true do t[#t + 1] = {} end end, function(m) while true do end end) while true do end",
    ])
    func memory(_ body: String) throws {
        let failed = try failure(body, on: "{\"list\":[1,2,3]}", call: LuaCallLimits(cpuMilliseconds: 10_000, instructions: 1 << 40))
        #expect(failed.kind == .memory || (failed.kind == .error && failed.message.contains("too many results")), "\(failed)")
        #expect(!failed.message.contains("\n"))
    }

    @Test("a state that ran out of memory asks to be rebuilt and still refuses cleanly")
    func fullState() throws {
        try onPluginThread {
            let state = try makeState("""
                local keep = {}
                return { push_filter = function(doc)
                  if doc.fill then local n = 1 << 16 while true do if not pcall(function() keep[#keep + 1] = ('x'):rep(n) .. #keep end) then n = n // 2 end end end
                  keep.doc = doc
                  return keep.x == nil
                end, resolve = function(c) return { x = 1 } end }
                """)
            #expect(!state.needsRebuild)
            let long = LuaCallLimits(cpuMilliseconds: 10_000, instructions: 1 << 40)
            #expect { try state.filter("{\"fill\":1}", limits: long) } throws: { ($0 as? LuaFailure)?.kind == .memory }
            #expect(state.needsRebuild)
            for _ in 0..<50 {
                _ = try? state.filter("{\"a\":1}")
                _ = try? state.callResolve(HookTests.conflict(), use: state.makeUse(makeContext()))
            }
            #expect(state.memoryBytes <= 16 << 20 && state.peakMemoryBytes <= 16 << 20)
        }
    }

    @Test("harmless or refused", arguments: [
        "for _, name in ipairs { 'io', 'debug', 'package', 'load', 'loadstring', 'dofile', 'loadfile', 'collectgarbage', 'warn' } do assert(_G[name] == nil) end",
        "assert(string.dump == nil and ('').dump == nil and math.randomseed == nil and string.pack == nil and coroutine.close == nil)",
        "assert(os.execute == nil and os.exit == nil and os.getenv == nil and os.remove == nil and os.rename == nil and os.tmpname == nil and os.setlocale == nil)",
        "assert(getmetatable('') == false and getmetatable(doc) == false and getmetatable(nightjar.null) == false and getmetatable(ctx) == false and getmetatable(nightjar.array{}) == false)",
        "assert(not pcall(setmetatable, '', {}) and not pcall(setmetatable, nightjar.array{}, {}))",
        "for _, k in ipairs{'__gc', '__mode', '__close', '__concat'} do assert(not pcall(setmetatable, {}, { [k] = function() while true do end end })) end",
        "assert(not pcall(setmetatable, {}, { __call = {} }))",
        "local mt = {} local t = setmetatable({}, mt) mt.__gc = function() while true do end end mt.__mode = 'k' mt.__close = mt.__gc mt.__call = t assert(getmetatable(t) == mt and not pcall(t))",
        "local ok = pcall(function() local x <close> = setmetatable({}, {}) end) assert(not ok)",
        "local t = setmetatable({}, { __metatable = 'locked' }) assert(getmetatable(t) == 'locked' and not pcall(setmetatable, t, nil))",
        "local f = 0 local t = setmetatable({ 1, 2 }, { __len = function() return 2^31 - 2 end }) assert(not pcall(table.sort, t, rawequal) and not pcall(table.insert, t, 1, 1) and not pcall(table.remove, t, 1) and not pcall(table.concat, t) and not pcall(table.unpack, t))",
        "local t = {} for k = 0, 62 do t[1 << k] = 1 end assert(not pcall(table.insert, t, 1, 1) or #t < 100)",
        "assert(not pcall(table.move, {}, 1, 10^8 // 1 | 0, 2) and not pcall(table.move, {}, math.mininteger, math.maxinteger, 1))",
        "assert(not pcall(string.rep, 'x', 1 << 40) and (''):rep(1 << 40) == '' and not pcall(string.rep, 'x', math.maxinteger, 'y'))",
        "assert(not pcall(string.format, '%p', {}) and string.format('%s %s', {}, print) == 'table function' and tostring({}) == 'table' and not tostring(print):find('0x'))",
        "assert(not pcall(string.format, '%s', setmetatable({}, { __tostring = function() return {} end })))",
        "assert(math.mininteger // -1 == math.mininteger and not pcall(function() return 1 // 0 end))",
        "local ok, m = pcall(string.rep) assert(not ok)",
        "local co co = coroutine.create(function() return coroutine.resume(co) end) local a, b, c = coroutine.resume(co) assert(a and not b)",
        "local function deep(n) if n == 0 then return end return coroutine.wrap(deep)(n - 1) end assert(not pcall(deep, 500))",
        "local s = 'x' for i = 1, 250 do s = s:gsub('x', function() return 'x' end) end",
        "local function f() return ('x'):gsub('x', f) end assert(not pcall(f))", "local t = setmetatable({}, {}) getmetatable(t).__index = t assert(t.x == nil)",
        "local a = {} for i = 1, 2100 do a = setmetatable({}, { __index = a }) end assert(not pcall(function() return a.x end))",
        "local function r() return tostring(setmetatable({}, { __tostring = r })) end assert(not pcall(r))",
        "local function r() local ok = pcall(r) return ok end r()", "assert(select('#', pcall(coroutine.yield, 1)) == 2)",
        "for w in ('a'):rep(300):gmatch('()a') do end assert(not pcall(string.find, 'a', ('a?'):rep(300)))",
        "string.find = nil assert(string.find == nil and ('x').find) nightjar = nil _G.pcall = nil assert(_G.nightjar == nil and _G.pcall == nil)",
        "assert(not pcall(table.insert, _G, 1)) setmetatable(_G, { __index = function() return 1 end }) assert(nowhere == 1)",
        "assert(not pcall(string.char, -1) and not pcall(utf8.char, 1 << 40) and not pcall(nightjar.json.decode, ('['):rep(100000)))",
        "assert(not pcall(nightjar.json.decode, '{\"a\":1,\"a\":2}') and not pcall(nightjar.json.decode, '[1,]') and not pcall(nightjar.json.decode, '01') and not pcall(nightjar.json.decode, '\"\\xff\"'))",
        "local t = {} t.t = t assert(not pcall(nightjar.json.encode, t) and not pcall(nightjar.copy, t))",
        "assert(not pcall(nightjar.get, 'x') and not pcall(nightjar.sha256, 'x') and not pcall(function() return nightjar.state.x end))",
        "assert(os.date('!%Y', 0) == '1970' and os.date('%H', 0) == '00' and os.time{ year = 1970, month = 1, day = 2, hour = 0 } == 86400 and not pcall(os.date, '%Ez', 0) and not pcall(os.time, { year = 2^60, month = 1, day = 1 }))",
        "assert(nightjar.json.encode(2^63) == '9.223372036854776e+18' and not pcall(nightjar.json.encode, { 0/0 }) and not pcall(nightjar.json.encode, print))",
    ])
    func harmless(_ body: String) throws {
        #expect(try run(body + "\nreturn true", call: LuaCallLimits(cpuMilliseconds: 5000, instructions: 100_000_000)))
    }

    @Test("one plugin's edits of its libraries do not reach another")
    func isolation() throws {
        try onPluginThread {
            let bad = try makeState("string.upper = nil math.pi = 3 _G.x = 1 return { push_filter = function() return ('a').upper == nil end }")
            let good = try makeState("return { push_filter = function() return ('a'):upper() == 'A' and math.pi > 3.1 and _G.x == nil end }")
            #expect(try bad.filter("{}") && good.filter("{}"))
        }
    }

    @Test("a limit spent in one call does not reach the next, also in a kept coroutine")
    func recovers() throws {
        try onPluginThread {
            let state = try makeState("""
                local co = coroutine.wrap(function() while true do coroutine.yield(1) for i = 1, 1e3 do end end end)
                return { push_filter = function(doc)
                  if doc.spin then coroutine.resume(coroutine.create(function() while true do end end)) end
                  local n = 0 for i = 1, 100 do n = n + co() end
                  return n == 100
                end }
                """)
            for _ in 0..<20 {
                #expect(try state.filter("{}"))
                #expect { try state.filter("{\"spin\":true}", limits: Self.short) } throws: { ($0 as? LuaFailure)?.kind == .timeout }
            }
            #expect(!state.needsRebuild)
        }
    }

    @Test("instructions have a limit of their own, and so does load-time code of a module")
    func instructions() throws {
        let failed = try failure("while true do end", call: LuaCallLimits(cpuMilliseconds: 10_000, instructions: 100_000))
        #expect(failed == LuaFailure(kind: .timeout, message: "p.lua:2: stopped after 100000 instructions"))
    }

    @Test("a script cannot fake a limit error with its text")
    func faked() throws {
        for text in ["stopped after 50 ms of CPU time", "error in error handling"] {
            #expect(try failure("error('\(text)', 0)") == LuaFailure(kind: .error, message: "p.lua:2: \(text)"))
        }
        // Lua itself takes this text for a memory error, and then keeps no line.
        #expect(try failure("error('not enough memory', 0)") == LuaFailure(kind: .error, message: "not enough memory"))
        #expect(try run("return not pcall(error, 'not enough memory', 0)"))
    }

    @Test("a host function that calls the same state is refused")
    func reentry() throws {
        final class Reentrant: LuaHost, @unchecked Sendable { // one thread only
            let environment = Environment.system
            weak var state: LuaPluginState?
            var refusal: LuaFailure?
            func uuid() -> String {
                do { _ = try state?.filter("{}") } catch { refusal = error as? LuaFailure }
                return "u"
            }
        }
        try onPluginThread {
            let host = Reentrant()
            let state = try makeState("return { push_filter = function() return nightjar.uuid() == 'u' end }", host: host)
            host.state = state
            #expect(try state.filter("{}"))
            #expect(host.refusal?.message.contains("inside its own call") == true)
        }
    }

    @Test("random programs made of hostile parts never end the process")
    func random() throws {
        let seed = UInt64.random(in: .min ... .max)
        print("seed \(seed)")
        let parts = [
            "pcall(%s)", "local t = setmetatable({}, { __index = %s, __newindex = %s, __len = %s }) pcall(function() return t.x, #t end) t.y = 1",
            "coroutine.wrap(%s)()", "xpcall(%s, %s)", "('ab'):gsub('.', %s)", "pcall(table.sort, {3, 1, 2}, %s)", "keep = coroutine.create(%s) coroutine.resume(keep)",
            "for k, v in pairs(doc) do (%s)(k) end", "keep = nightjar.copy(doc)", "keep = doc.list", "local x = doc.a .. 'x'", "nightjar.log.warn('x', { doc = doc })",
            "keep = ('x'):rep(100000) .. #tostring(keep)", "string.gsub(('a'):rep(100), 'a-b', %s)", "error({})", "return %s", "for i = 1, 100000 do end",
            "pcall(nightjar.json.encode, doc)", "local t = {} for i = 1, 2000 do t[i] = { i } end keep = t", "pcall(next, doc.list, 2)", "coroutine.yield(%s)",
        ]
        try onPluginThread {
            var generator = SeededGenerator(seed: seed)
            func make(_ depth: Int) -> String {
                let count = Int.random(in: 1...3, using: &generator)
                var body = ""
                for _ in 0..<count {
                    var part = parts.randomElement(using: &generator) ?? ""
                    while let range = part.firstRange(of: "%s") {
                        part.replaceSubrange(range, with: depth == 0 ? "print" : make(depth - 1))
                    }
                    body += part.hasPrefix("return") || part.hasPrefix("error") ? "if true then \(part) end\n" : "do \(part) end\n"
                }
                return "function(...) \(body) end"
            }
            for _ in 0..<150 {
                let source = "local keep return { push_filter = function(doc, ctx) (\(make(3)))() return true end }"
                guard let state = try? makeState(source) else {
                    Issue.record("does not load: \(source)")
                    continue
                }
                for _ in 0..<3 {
                    _ = try? state.filter("{\"a\":\"s\",\"list\":[1,{\"x\":2},[3]]}", limits: LuaCallLimits(cpuMilliseconds: 5, instructions: 300_000))
                }
            }
        }
    }
}

import LuaRuntime
import Testing

/// No hook runs inside a library function. So each one that a plugin can call either does no more than go over its texts once, which
/// `block` bounds, or counts what it does in instructions and ends with the budget, or refuses what would take long. Nothing here looks
/// at a clock: what is counted is the work of one call.
@Suite("What one call of a library function may cost")
struct CallCostTests {
    enum Bound: Sendable {
        /// The call ends in the middle, soon after the budget is spent.
        case stops
        /// What it does is counted: so many instructions at least.
        case counts(Int)
        /// An error with this text, before the work.
        case refuses(String)
    }

    struct Case: Sendable, CustomTestStringConvertible {
        var function: String
        var bound: Bound
        var body: String
        /// What the call needs, made before.
        var given: String
        init(_ function: String, _ bound: Bound, _ body: String, given: String = "") {
            (self.function, self.bound, self.body, self.given) = (function, bound, body, given)
        }
        var testDescription: String { "\(function): \(body)" }
    }

    /// As long a text as there can be, one that reads as a number, and lists that hold it often.
    static let values = """
        local text, digits = ('a'):rep(1000000), ('0'):rep(1000000) .. '65'
        local function many(x, n) local t = {} for i = 1, n do t[i] = x end return t end
        """
    static let ones = "local t = many(1, 60000)", rising = "local t = many(1, 30000) for i = 1, 30000 do t[i] = i end"

    static let cases: [Case] = [
        Case("string.find", .stops, "('a'):rep(5000):find('a*a*b')"),
        Case("string.find", .stops, "('('):rep(100000):find('%b()')"),
        Case("string.find", .counts(60_000), "text:find('b', 1, true)"),
        Case("string.find", .counts(60_000), "(''):find(text, 1, true)"),
        Case("string.match", .stops, "((' '):rep(100000) .. 'x'):match('^(.-)%s*$')"),
        Case("string.match", .stops, "(text:sub(1, 1000)):rep(8):match('^' .. ('(.-)%1'):rep(8) .. 'b')"),
        Case("string.gmatch", .stops, "('a'):rep(5000):gmatch('a*a*b')()"),
        Case("string.gsub", .stops, "((' '):rep(100000) .. 'x'):gsub('%s+$', '')"),
        Case("string.gsub", .stops, "text:gsub('', ('%0'):rep(400000))"),
        Case("string.gsub", .stops, "text:gsub('', tostring)"),
        Case("string.rep", .counts(60_000), "('x'):rep(1000000)"),
        Case("string.rep", .refuses("too large"), "('x'):rep(1 << 40)"),
        Case("string.format", .refuses("together"), "string.format(('%d'):rep(1000), table.unpack(t))", given: "local t = many(digits, 1000)"),
        Case("string.format", .refuses("together"), "string.format(('%.1s'):rep(20000), table.unpack(t))", given: "local t = many(text, 20000)"),
        Case("string.format", .counts(80_000), "string.format(('%.0f'):rep(5000), table.unpack(t))", given: "local t = many(1e-300, 5000)"),
        Case("string.char", .refuses("together"), "string.char(table.unpack(t))", given: "local t = many(digits, 1000)"),
        Case("string.char", .counts(500_000), "string.char(digits)"),
        Case("utf8.char", .refuses("together"), "utf8.char(table.unpack(t))", given: "local t = many(digits, 1000)"),
        Case("math.max", .refuses("together"), "math.max(table.unpack(t))", given: "local t = many(digits, 1000)"),
        Case("math.min", .refuses("together"), "math.min(table.unpack(t))", given: "local t = many(digits, 1000)"),
        Case("tonumber", .counts(500_000), "tonumber(digits)"),
        Case("utf8.len", .counts(500_000), "utf8.len(text)"),
        Case("utf8.codepoint", .counts(500_000), "utf8.codepoint(text, 1000000)"),
        Case("utf8.offset", .counts(500_000), "utf8.offset(text, 1000000)"),
        Case("utf8.codes", .counts(250_000), "utf8.codes('a')(('\\x80'):rep(1000000), 0)"),
        Case("table.sort", .stops, "table.sort(t)", given: rising),
        Case("table.sort", .counts(80_000), "table.sort(t, rawequal)", given: rising),
        Case("table.sort", .stops, "table.sort(t)", given: "local t = many(digits, 300)"),
        // Library functions as comparators, and as metamethods: no instruction in between.
        Case("table.sort", .stops, "table.sort(t, math.abs)", given: "local t = many(digits, 300)"),
        Case("table.sort", .counts(500_000), "table.sort({ text, setmetatable({}, { __lt = rawequal }) })"),
        Case("table.concat", .counts(50_000), "table.concat(t)", given: "local t = many('', 60000)"),
        Case("table.concat", .counts(12_000), "table.concat(t)", given: "local t = many(text:sub(1, 100000), 9)"),
        Case("table.unpack", .counts(29_000), "table.unpack(t)", given: "local t = many(1, 30000)"),
        Case("table.unpack", .refuses("too many"), "table.unpack({}, 1, 1 << 40)"),
        Case("table.insert", .counts(50_000), "table.insert(t, 1, 1)", given: ones),
        Case("table.remove", .counts(50_000), "table.remove(t, 1)", given: ones),
        Case("table.move", .counts(1_000_000), "table.move({}, 1, 1000000, 2)"),
        Case("table.move", .refuses("too many"), "table.move({}, 1, 1 << 40, 2)"),
        Case("next", .counts(18_000), "next(doc.members, 'k29999')"),
        Case("os.date", .refuses("format longer"), "os.date(('%c'):rep(501), 0)"),
        Case("print", .counts(60_000), "print(text)"),
        Case("require", .counts(60_000), "require('long')"),
        Case("nightjar.log.debug", .counts(60_000), "nightjar.log.debug(text)"),
        Case("nightjar.log.info", .counts(60_000), "nightjar.log.info('x', { a = text:sub(1, 500000) })"),
        Case("nightjar.log.warn", .counts(60_000), "nightjar.log.warn(text)"),
        Case("nightjar.log.error", .counts(60_000), "nightjar.log.error(text)"),
        Case("nightjar.metrics.count", .counts(60_000), "nightjar.metrics.count('m', 1, { a = text:sub(1, 500000) })"),
        Case("nightjar.metrics.gauge", .counts(60_000), "nightjar.metrics.gauge('m', 1, { a = text:sub(1, 500000) })"),
        Case("nightjar.json.encode", .counts(39_000), "nightjar.json.encode(t)", given: "local t = many(1, 40000)"),
        Case("nightjar.json.encode", .counts(60_000), "nightjar.json.encode(text:sub(1, 500000))"),
        Case("nightjar.json.encode", .refuses("result nodes"), "nightjar.json.encode(t)", given: "local t = many({}, 60000)"),
        Case("nightjar.json.decode", .counts(40_000), "nightjar.json.decode('[' .. ('1,'):rep(40000) .. '1]')"),
        Case("nightjar.json.decode", .counts(120_000), "nightjar.json.decode('\"' .. text .. '\"')"),
        Case("nightjar.json.decode", .refuses("result nodes"), "nightjar.json.decode('[' .. ('1,'):rep(60000) .. '1]')"),
        Case("nightjar.copy", .counts(70_000), "nightjar.copy(t)", given: "local t = many(1, 40000)"),
        Case("nightjar.copy", .counts(30_000), "nightjar.copy(doc.list)"),
        Case("nightjar.copy", .refuses("result nodes"), "nightjar.copy(t)", given: ones),
        Case("nightjar.glob", .stops, "nightjar.glob('*' .. ('a'):rep(5000) .. 'b', ('a'):rep(100000))"),
        Case("nightjar.base64.encode", .counts(170_000), "nightjar.base64.encode(text:sub(1, 700000))"),
        Case("nightjar.base64.decode", .counts(240_000), "nightjar.base64.decode(text)"),
        Case("nightjar.time.parse", .counts(900_000), "nightjar.time.parse('2024-05-01T10:20:30.' .. digits)"),
        Case("nightjar.sha1", .counts(500_000), "nightjar.sha1(text)"),
        Case("nightjar.sha256", .counts(500_000), "nightjar.sha256(text)"),
        Case("nightjar.hmac_sha256", .counts(900_000), "nightjar.hmac_sha256(text, text)"),
        Case("nightjar.get", .refuses("limit lookups"), "for i = 1, 33 do nightjar.get('x') end"),
        // scrypt is meant to take long, on a thread of its own: their number is the bound.
        Case("nightjar.password.hash", .refuses("password operations"), "for i = 1, 5 do nightjar.password.hash('x') end"),
    ]

    /// These do a fixed amount of work, go over a text or over their arguments once, or are told by ``cases`` of another that does the same.
    static let passes: Set = [
        "assert", "error", "ipairs", "pairs", "getmetatable", "setmetatable", "rawequal", "rawget", "rawlen", "rawset", "select", "tostring", "type",
        "pcall", "xpcall", // the function's own cost
        "coroutine.create", "coroutine.isyieldable", "coroutine.resume", "coroutine.running", "coroutine.status", "coroutine.wrap", "coroutine.yield",
        "math.abs", "math.acos", "math.asin", "math.atan", "math.ceil", "math.cos", "math.deg", "math.exp", "math.floor", "math.fmod", "math.log",
        "math.modf", "math.rad", "math.random", "math.sin", "math.sqrt", "math.tan", "math.tointeger", "math.type", "math.ult",
        "string.byte", "string.len", "string.lower", "string.reverse", "string.sub", "string.upper", "table.pack",
        "os.clock", "os.difftime", "os.time", "nightjar.array", "nightjar.object", "nightjar.cidr", "nightjar.uuid", "nightjar.time.now",
        "nightjar.time.format", "nightjar.password.verify",
        // Errors outside of sync; in it their lists have 1,000 names at most (SyncTests).
        "access", "channel", "expiry", "require_access", "require_admin", "require_role", "require_user", "role", "throw",
    ]

    struct LongModule: LuaModuleLoader {
        func module(named name: String) -> LuaModule {
            .source(Array(("--" + String(repeating: "x", count: 125_000)).utf8), chunkName: "\(name).lua")
        }
    }

    /// Below the budgets that are watched by a clock: each instruction counts, from the first on.
    private static let budget = 1_900_000

    private static let document = "{\"members\":{" + (0..<40_000).map { "\"k\($0)\":1" }.joined(separator: ",") + "},\"list\":["
        + (0..<30_000).map { "\($0)" }.joined(separator: ",") + "]}"

    /// How the call ends, and the instructions that it was charged.
    private static func call(_ body: String, instructions: Int = Self.budget) throws -> (failure: LuaFailure?, instructions: Int) {
        return try onPluginThread {
            let source = "return { push_filter = function(doc, ctx)\n\(body)\nreturn true end }"
            let state = try makeState(source, modules: LongModule(), host: HostileHost())
            do {
                _ = try state.filter(document, limits: LuaCallLimits(cpuMilliseconds: 3_600_000, instructions: instructions))
                return (nil, state.lastInstructions)
            } catch let failure as LuaFailure {
                return (failure, state.lastInstructions)
            }
        }
    }

    @Test("it is bounded", arguments: cases)
    func isBounded(_ one: Case) throws {
        let given = "\(Self.values) \(one.given)"
        let before = try Self.call(given).instructions
        let body = "\(given) local x = function() \(one.body.hasPrefix("for ") ? "" : "return ")\(one.body) end x()"
        switch one.bound {
        case .stops:
            let (failure, instructions) = try Self.call(body, instructions: before + 200_000)
            #expect(failure?.kind == .timeout, "\(String(describing: failure))")
            // Two texts of a block at most are charged at once.
            #expect(instructions <= before + 200_000 + 2 << 20, "\(instructions)")
        case .counts(let least):
            #expect(try Self.call(body).instructions - before >= least)
        case .refuses(let text):
            let failure = try Self.call(body).failure
            #expect(failure?.kind == .error && failure?.message.contains(text) == true, "\(String(describing: failure))")
        }
    }

    @Test("no function that a plugin can reach is missing here")
    func isComplete() throws {
        let listed = Self.passes.union(Self.cases.map(\.function))
        let names = listed.map { "['\($0)'] = true" }.joined(separator: ", ")
        #expect(try run("""
            local listed, reached = { \(names) }, {}
            local function walk(t, prefix)
              for k, v in pairs(t) do
                if type(v) == 'function' then reached[prefix .. k] = true
                elseif type(v) == 'table' and k ~= '_G' then walk(v, prefix .. k .. '.') end
              end
            end
            walk(_G, '')
            for name in pairs(reached) do assert(listed[name], name) end
            for name in pairs(listed) do assert(reached[name], name) end
            return true
            """))
    }
}

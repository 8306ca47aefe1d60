import LuaRuntime
import Testing

@Suite("Members that conflict and ctx never have")
struct GuardTests {
    private static let declared = "params = { name = { type = 'string' }, deep = { type = 'table' }, owner = { type = 'string' } }"

    /// The body of a pull_filter that declares `name`, `deep` and `owner` and is given the first two, about a document to which access was removed.
    private static func pull(_ body: String, limits: LuaCallLimits = .filter) throws -> Bool {
        try onPluginThread {
            let state = try makeState("return { \(declared), pull_filter = function(doc, ctx)\n\(body)\nend }")
            let use = try state.makeUse(makeContext(.members([("name", .text("ann")), ("deep", .members([("x", .integer(1))]))])))
            return try state.callFilter(.pullFilter, document: LuaDocument("{}"), use: use, flags: .accessRemoved, limits: limits)
        }
    }

    private static func failure<Value>(_ call: () throws -> Value) -> LuaFailure? {
        do {
            let value = try call()
            Issue.record("it gave \(value)")
            return nil
        } catch {
            return error as? LuaFailure
        }
    }

    @Test("reading one of ctx is an error that names what was probably meant", arguments: [
        ("return ctx.flags.access_removd", "p.lua:2: ctx.flags has no 'access_removd'; did you mean 'access_removed'?"),
        ("return ctx.flags.gone", "p.lua:2: ctx.flags has no 'gone'; it has deleted and access_removed"),
        ("return ctx.flag.deleted", "p.lua:2: ctx has no 'flag'; did you mean 'flags'?"),
        ("return ctx.params_x", "p.lua:2: ctx has no 'params_x'; did you mean 'params'?"),
        ("return ctx.whatever", "p.lua:2: ctx has no 'whatever'; it has params, database, scope, collection, "),
        ("return ctx.params.nam", "p.lua:2: ctx.params has no 'nam'; did you mean 'name'?"),
        ("return ctx.params.limit", "p.lua:2: ctx.params has no 'limit'; the plugin declares no such parameter"),
        ("return ctx['user\\0']", "p.lua:2: ctx has no 'user'"),
        ("return ctx[('x'):rep(100000)]", "xxx...'; it has params"),
        ("return setmetatable({}, { __index = ctx }).usr", "ctx has no 'usr'; did you mean 'user'?"),
        ("return coroutine.wrap(function() return ctx.usr end)()", "p.lua:2: ctx has no 'usr'"),
        ("rawget(ctx, 'usr')", "table expected"), ("setmetatable(ctx.flags, nil)", "table expected"),
        ("ctx.usr = 1", "ctx is read-only: cannot set 'usr'"),
    ])
    func misspelt(_ body: String, _ part: String) throws {
        let failed = Self.failure { try Self.pull(body) }
        #expect(failed?.kind == .error && failed?.message.contains(part) == true, "\(String(describing: failed))")
    }

    @Test("what a use does not have is nil, and ctx is otherwise a table like any other", arguments: [
        "return ctx.flags.access_removed and not ctx.flags.deleted",
        "return ctx.user == nil and ctx.listener == nil and ctx.protocol == nil and ctx[1] == nil and ctx[true] == nil",
        "return ctx.params.owner == nil and ctx.params.deep.y == nil and ctx.params.deep.x == 1 and ctx.params.name == 'ann'",
        "local n = 0 for k in pairs(ctx) do n = n + 1 end for k in pairs(ctx.flags) do n = n + 1 end for _ in ipairs(ctx.params) do n = n + 100 end return n == 12",
        "local c = nightjar.copy(ctx) return c.usr == nil and c.flags.x == nil and c.params.x == nil and getmetatable(c.flags) == nil and c.flags.access_removed",
        #"return nightjar.json.encode(ctx.flags) == '{"access_removed":true,"deleted":false}' and nightjar.json.encode(ctx):find('"params":{"deep":{"x":1},"name":"ann"}', 1, true)"#,
        "for _, v in ipairs { ctx, ctx.flags, ctx.params } do if getmetatable(v) ~= false then return false end end return next(ctx.flags) ~= nil",
        "local ok, message = pcall(function() return ctx.usr end) return not ok and message:find('has no', 1, true) ~= nil",
    ])
    func allowed(_ body: String) throws {
        #expect(try Self.pull(body))
    }

    @Test("a plugin cannot change what it has declared")
    func declarationsAreCopied() throws {
        let failed = Self.failure {
            try onPluginThread {
                let state = try makeState("local p = { name = { type = 'string' } } return { params = p, push_filter = function(doc, ctx)\np.nam = {} return ctx.params.nam end }")
                return try state.filter("{}")
            }
        }
        #expect(failed?.message == "p.lua:2: ctx.params has no 'nam'; did you mean 'name'?")
    }

    @Test("every hook's ctx is held to it")
    func everyHook() throws {
        let arguments: [LuaHook: String] = [
            .token: "ctx", .getSession: "ctx", .sync: "doc, old, ctx", .authenticatePassword: "name, password, ctx",
        ]
        for hook in LuaHook.allCases {
            let failed = Self.failure {
                try onPluginThread {
                    let state = try makeState("return { \(hook.rawValue) = function(\(arguments[hook] ?? "value, ctx"))\nreturn ctx.usr end }")
                    let use = try state.makeUse(makeContext())
                    switch hook {
                    case .pushFilter, .pullFilter: _ = try state.callFilter(hook, document: LuaDocument("{}"), use: use)
                    case .resolve: _ = try state.callResolve(HookTests.conflict(), use: use)
                    case .authenticatePassword: _ = try state.callPassword(username: [], password: [], use: use)
                    case .authenticateCertificate: _ = try state.callCertificate(chain: .array([]), use: use)
                    case .sync: _ = try state.callSync(document: LuaDocument("{}"), old: nil, caller: LuaCaller(), use: use)
                    case .transform: _ = try state.callTransform(document: LuaDocument("{}"), use: use)
                    case .token: _ = try state.callToken(use: use)
                    case .getSession: _ = try state.callSession(use: use)
                    case .onStatus, .onDocuments: try state.callObserver(hook, Array("{}".utf8), use: use)
                    case .selectPeer: _ = try state.callSelectPeer([], use: use)
                    }
                }
            }
            #expect(failed == LuaFailure(kind: .error, message: "p.lua:2: ctx has no 'usr'; did you mean 'user'?"), "\(hook)")
        }
    }

    @Test("one that is caught again and again counts towards the limits", arguments: ["ctx.usr", "ctx.flags.x", "ctx.user"])
    func caught(_ member: String) throws {
        #expect(Self.failure { try Self.pull("while true do pcall(function() return \(member) end) end") }?.kind == .timeout)
        #expect(Self.failure { try HookTests.resolve("while true do pcall(function() return conflict.there end) end", HookTests.conflict()) }?.kind == .timeout)
    }

    @Test("a resolver cannot get past it", arguments: [
        ("return conflict['remote_doc\\0'] or nightjar.delete", "conflict has no 'remote_doc'"),
        ("return setmetatable({}, { __index = conflict }).there or nightjar.delete", "conflict has no 'there'"),
        ("return getmetatable(conflict).__index", "attempt to index a boolean value"),
    ])
    func conflicts(_ body: String, _ part: String) throws {
        let failed = Self.failure { try HookTests.resolve(body, HookTests.conflict()) }
        #expect(failed?.message.contains(part) == true, "\(String(describing: failed))")
    }

    @Test("a plugin's tests are held to it as the agent's calls are", arguments: [
        ("t.pull_filter({ flag = true })", "p.lua:2: ctx.flags has no 'access_removd'; did you mean 'access_removed'?"),
        ("t.pull_filter({ flag = true }, { flags = { deleted = true } })", "ctx.flags has no 'access_removd'"),
        ("t.pull_filter({ param = true })", "p.lua:3: ctx.params has no 'naem'; did you mean 'name'?"),
        ("t.pull_filter({ param = true }, { params = { owner = 'x' } })", "ctx.params has no 'naem'"),
        ("t.resolve({})", "p.lua:5: conflict has no 'remot_doc'"),
        ("t.resolve({}, { user = 'ann' })", "resolve returned the conflict itself"),
        ("t.sync({ admin = true }, nil, { admin = true })", "p.lua:6: ctx has no 'admin'"),
        ("t.accept(t.pull_filter({}, { params = {}, flags = {} })) t.accept(t.sync({}, nil, { admin = true }))", nil),
    ] as [(String, String?)])
    func pluginTests(_ body: String, _ part: String?) throws {
        try onPluginThread {
            let state = try makeState("""
                return { \(Self.declared), pull_filter = function(doc, ctx)
                  if doc.flag then return ctx.flags.access_removd end
                  if doc.param then return ctx.params.naem end
                  return ctx.flags.deleted == nil and ctx.params.name == nil and ctx.listener == nil end,
                  resolve = function(conflict, ctx) if ctx.user then return conflict end return conflict.remot_doc end,
                  sync = function(doc, old, ctx) if doc.admin then return ctx.admin end require_admin() end }
                """)
            try Self.expectTest(of: state, doing: body, toFailWith: part)
        }
    }

    @Test("what a plugin's test gives has only names that there are", arguments: [
        ("t.pull_filter({}, { usr = 'ann' })", "p.test.lua:1: ctx has no 'usr'; did you mean 'user'?"),
        ("t.sync({}, nil, { role = { 'staff' } })", "ctx has no 'role'; did you mean 'roles'?"),
        ("t.pull_filter({}, { zebra = 1, yak = 2 })", "ctx has no 'yak'; it has params, database, scope, collection, "),
        ("t.pull_filter({}, { yak = 2 })", "plugin and version; for t.sync also roles, channels and admin"),
        ("t.pull_filter({}, { flags = { delted = true } })", "ctx.flags has no 'delted'; did you mean 'deleted'?"),
        ("t.pull_filter({}, { params = { nam = 'ann' } })", "ctx.params has no 'nam'; did you mean 'name'?"),
        ("t.pull_filter({}, { params = { minimum = 1 } })", "ctx.params has no 'minimum'; the plugin declares no such parameter"),
        ("t.resolve({ locl_doc = {} })", "conflict has no 'locl_doc'; did you mean 'local_doc'?"),
        ("t.resolve({ base = {} })", "conflict has no 'base'; it has id, local_doc, remote_doc, base_doc, "),
        (
            "t.accept(t.pull_filter({}, { user = 'ann', roles = { 'staff' }, channels = {}, admin = false, params = { owner = 'x' }, flags = { deleted = false } }))",
            nil
        ),
        ("t.fails(function() t.pull_filter({}, { usr = 'ann' }) end, 'usr') t.accept(t.pull_filter({}, nil))", nil),
    ] as [(String, String?)])
    func givenNames(_ body: String, _ part: String?) throws {
        try onPluginThread {
            let state = try makeState("""
                return { \(Self.declared), pull_filter = function(doc, ctx) return true end, resolve = function(conflict, ctx) return nightjar.delete end,
                  sync = function(doc, old, ctx) end }
                """)
            try Self.expectTest(of: state, doing: body, toFailWith: part)
        }
    }

    /// Expects a test of this plugin to fail with a message that contains `part`, or to pass if that is nil.
    private static func expectTest(of state: LuaPluginState, doing body: String, toFailWith part: String?) throws {
        let names = try state.loadTests(chunkName: "p.test.lua", source: Array("return { a = function(t) \(body) end }".utf8))
        var message: String?
        do throws(LuaFailure) {
            try state.runTest(names[0], context: makeContext())
        } catch {
            message = error.message
        }
        guard let part else { return #expect(message == nil) }
        #expect(message?.contains(part) == true, "\(message ?? "it passed")")
    }
}

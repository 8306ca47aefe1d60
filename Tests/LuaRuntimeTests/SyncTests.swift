import LuaRuntime
import Testing

@Suite("sync and its functions")
struct SyncTests {
    private func sync(
        _ body: String, on json: String = "{}", old: String? = nil, isDeleted: Bool = false, caller: LuaCaller = LuaCaller(),
        times: Int = 1, limits: LuaCallLimits = .resolver
    ) throws -> LuaSyncOutcome {
        try onPluginThread {
            let state = try makeState("local kept\nreturn { sync = function(doc, old_doc, ctx)\n\(body)\nend }")
            let use = try state.makeUse(makeContext())
            var outcome = LuaSyncOutcome.rejected(reason: "")
            for _ in 0..<times {
                outcome = try state.callSync(
                    document: LuaDocument(json, isDeleted: isDeleted), old: old.map { LuaDocument($0) }, caller: caller, use: use, limits: limits)
            }
            return outcome
        }
    }

    private func failure(_ body: String, limits: LuaCallLimits = .resolver) throws -> LuaFailure {
        do {
            let outcome = try sync(body, limits: limits)
            Issue.record("expected a failure, got \(outcome)")
            return LuaFailure(kind: .load, message: "")
        } catch let failure as LuaFailure { return failure }
    }

    private func assigned(_ change: (inout LuaAssignment) -> Void) -> LuaSyncOutcome {
        var assignment = LuaAssignment()
        change(&assignment)
        return .accepted(assignment)
    }

    @Test("channels, access and roles are assigned from texts, lists and fields of documents")
    func assigning() throws {
        #expect(try sync("") == .accepted(LuaAssignment()))
        #expect(try sync("channel('a') channel('b', {'c', 'a'}) channel(doc.channels) channel(nil, doc.none, nightjar.null, {}) channel('*')", on: #"{"channels":["x","grüße","x"],"none":null}"#)
            == assigned { $0.channels = ["a", "b", "c", "x", "grüße"] })
        #expect(try sync("""
            access('anna', 'a') access({'anna', 'ben'}, {'a', 'b'}) access('role:staff', '*') access(nil, 'z') access('zoe', nil)
            role('anna', 'role:staff') role(doc.who, 'staff') access('O\\'Brien "x" \\\\', '!')
            """, on: #"{"who":["anna","ben"]}"#) == assigned {
                $0.access = ["anna": ["a", "b"], "ben": ["a", "b"], "role:staff": ["*"], #"O'Brien "x" \"#: ["!"]]
                $0.roles = ["anna": ["staff"], "ben": ["staff"]]
            })
    }

    @Test("names that only look the same are different names", arguments: [
        "channel('caf\\u{E9}', 'cafe\\u{301}')", "access('jos\\u{E9}', 'a') access('jose\\u{301}', 'b')", "role('jos\\u{E9}', 'a') role('jose\\u{301}', 'b')",
    ])
    func ambiguousNames(_ body: String) throws {
        let outcome = try sync(body)
        guard case .rejected(let reason) = outcome else {
            Issue.record("\(outcome)")
            return
        }
        #expect(reason.contains("twice, with its characters composed in different ways"))
    }

    @Test("nothing of one call reaches the next, whatever the plugin keeps")
    func fresh() throws {
        #expect(try sync("kept = (kept or 0) + 1 channel('n' .. kept)", times: 3) == assigned { $0.channels = ["n3"] })
    }

    @Test("old_doc, deletion and ctx are there")
    func arguments() throws {
        #expect(try sync("""
            assert(old_doc.owner == 'anna' and doc.owner == 'ben' and doc._deleted and ctx.flags.deleted and ctx.collection == 'c')
            assert(doc._id == 'doc' and not pcall(function() doc.x = 1 end))
            channel(old_doc.owner)
            """, on: #"{"owner":"ben"}"#, old: #"{"owner":"anna"}"#, isDeleted: true) == assigned { $0.channels = ["anna"] })
        #expect(try sync("assert(old_doc == nil)") == .accepted(LuaAssignment()))
    }

    @Test("the caller's name, roles and channels open the door", arguments: [
        ("require_user('anna')", nil), ("require_user({'x', 'anna'})", nil), ("require_user('Anna')", "wrong user"),
        ("require_user(nil)", "wrong user"), ("require_user(doc.owner)", "wrong user"), ("require_role('staff')", nil),
        ("require_role('role:staff')", nil), ("require_role({'boss'})", "missing role"), ("require_access('a')", nil),
        ("require_access({'z', 'a'})", nil), ("require_access('b')", "missing channel access"),
        ("require_admin()", "only the agent itself may write this"), ("throw('no tea')", "no tea"),
        ("throw{ forbidden = 'nor milk' }", "nor milk"), ("throw('a\\nb')", "a b"),
        ("pcall(throw, 'caught')", "caught"), ("pcall(require_user, 'x') channel('a')", "wrong user"),
        ("pcall(throw, 'first') error('second')", "first"), ("coroutine.wrap(function() throw('deep') end)()", "deep"),
        ("channel('bad name')", "illegal channel name \"bad name\""), ("channel('')", "illegal channel name \"\""),
        ("channel(5)", "illegal channel name (a number)"), ("channel({1})", "illegal channel name (a number)"),
        ("channel({a = 'b'})", "illegal channel name (a table)"), ("channel({a = 5})", "illegal channel name (a table)"), ("channel('a,b')", "illegal channel name \"a,b\""),
        ("channel(('x'):rep(251))", nil), ("access('role:', 'a')", nil), ("role('role:x', 'y')", "illegal user name \"role:x\""),
        ("access('', 'a')", "illegal user name \"\""), ("expiry('soon')", "illegal expiry \"soon\""), ("expiry(-1)", "an expiry lies between now and the year 9999"),
    ] as [(String, String?)])
    func rejecting(_ body: String, _ reason: String?) throws {
        let caller = LuaCaller(name: "anna", roles: ["staff"], channels: ["a", "*"])
        let outcome = try sync(body, caller: caller)
        if body.contains("251") {
            guard case .rejected(let text) = outcome else { return #expect(Bool(false)) }
            #expect(text.hasPrefix("illegal channel name \"xxx"))
        } else if let reason {
            #expect(outcome == .rejected(reason: reason))
        } else {
            guard case .accepted = outcome else { return #expect(Bool(false), "\(outcome)") }
        }
    }

    @Test("the agent itself may write everything")
    func admin() throws {
        #expect(try sync("require_admin() require_user('x') require_role('y') require_access('z')", caller: LuaCaller(isAdmin: true)) == .accepted(LuaAssignment()))
        #expect(try sync("require_user('anna')") == .rejected(reason: "wrong user"))
    }

    @Test("expiry takes seconds from now, a time, or nothing")
    func expiry() throws {
        #expect(try sync("expiry(1893456000)") == assigned { $0.expiry = 1_893_456_000 })
        #expect(try sync("expiry('2030-01-01T00:00:00Z') expiry(nil)") == assigned { $0.expiry = 1_893_456_000 })
        #expect(try sync("expiry('1893456000')") == assigned { $0.expiry = 1_893_456_000 })
        #expect(try sync("expiry(1893456000) expiry(0)") == .accepted(LuaAssignment()))
        guard case .accepted(let assignment) = try sync("local now = nightjar.time.now() expiry(60) access('t', tostring(math.floor(now)))") else {
            return #expect(Bool(false))
        }
        let now = try #require(assignment.access["t"]?.first.flatMap { Int64($0) })
        #expect((now + 60...now + 62).contains(try #require(assignment.expiry)))
    }

    @Test("what is the plugin's own fault is a failure, not a rejection")
    func failures() throws {
        #expect(try failure("return false").message == "p.lua:2: sync returned a boolean; it returns nothing, and rejects a write by throw(reason)")
        #expect(try failure("return {}").kind == .result)
        #expect(try failure("error('broken')") == LuaFailure(kind: .error, message: "p.lua:3: broken"))
        #expect(try failure("throw()").message.contains("throw() needs a reason"))
        #expect(try failure("pcall(throw, 'x') while true do end", limits: LuaCallLimits(cpuMilliseconds: 50)).kind == .timeout)
        #expect(try failure("while true do pcall(throw, 'x') end", limits: LuaCallLimits(cpuMilliseconds: 50)).kind == .timeout)
        #expect(try failure("local t = {} while true do t[#t + 1] = ('x'):rep(1000) end").kind == .memory)
    }

    @Test("the number of a document's channels is limited")
    func bounds() throws {
        #expect(try sync("for i = 1, 1000 do channel('c' .. i) end") != .rejected(reason: ""))
        #expect(try sync("for i = 1, 1001 do channel('c' .. i) end") == .rejected(reason: "the document has more than sync_entries (1000) channels and grants"))
        #expect(try sync("local t = {} for i = 1, 1001 do t[i] = 'x' end channel(t)") == .rejected(reason: "more than sync_entries (1000) names in one list"))
    }

    @Test("outside sync the functions fail with a message")
    func outside() throws {
        for name in ["channel", "access", "role", "require_user", "require_role", "require_access", "require_admin", "expiry", "throw"] {
            #expect(try LuaRuntimeTests.failure("\(name)('x', 'y')").message == "p.lua:2: \(name)() can only be called while sync runs")
        }
        // Nor does a call that has ended leave a door open.
        try onPluginThread {
            let state = try makeState("""
                local later
                return { sync = function() later = coroutine.wrap(function() coroutine.yield() channel('late') end) later() end,
                         push_filter = function() later() return true end }
                """)
            let use = try state.makeUse(makeContext())
            #expect(try state.callSync(document: LuaDocument("{}"), old: nil, caller: LuaCaller(), use: use) == .accepted(LuaAssignment()))
            #expect(throws: LuaFailure.self) { try state.callFilter(.pushFilter, document: LuaDocument("{}"), use: use) }
        }
    }

    @Test("plugin tests reach sync and authenticate_certificate")
    func pluginTests() throws {
        try onPluginThread {
            let state = try makeState("""
                return {
                  params = { role = { type = "string" } },
                  sync = function(doc, old_doc, ctx)
                    if old_doc then require_user(old_doc.owner) end
                    require_role(ctx.params.role)
                    channel(doc.channels) access(doc.owner, "own") expiry(doc.until_)
                  end,
                  authenticate_certificate = function(chain, ctx) return chain[1].common_name == ctx.params.role and { name = chain[1].common_name } end,
                }
                """)
            let names = try state.loadTests(chunkName: "p.test.lua", source: Array("""
                local ctx = { user = "anna", roles = { "staff" }, params = { role = "staff" } }
                return {
                  a = function(t)
                    t.equal(t.sync({ channels = { "x" }, owner = "anna", until_ = 1893456000 }, nil, ctx),
                      { channels = { "x" }, access = { anna = { "own" } }, roles = nightjar.object{}, expiry = 1893456000 })
                  end,
                  b = function(t)
                    t.reject(t.sync({}, { owner = "ben" }, ctx))
                    local ok, reason = t.sync({}, nil, { params = { role = "boss" } })
                    assert(ok == false and reason == "missing role")
                    t.accept(t.sync({}, { owner = "ben" }, { admin = true, params = { role = "boss" } }))
                  end,
                  c = function(t)
                    t.equal(t.authenticate_certificate({ common_name = "staff" }, ctx), { name = "staff" })
                    t.equal(t.authenticate_certificate({ { common_name = "x" }, { common_name = "staff" } }, ctx), false)
                  end,
                  d = function(t) t.fails(function() channel("x") end, "only be called while sync runs") end,
                }
                """.utf8))
            for name in names { try state.runTest(name, context: makeContext()) }
            #expect(names.count == 4)
        }
    }

    @Test("authenticate_certificate sees the chain and answers like a password's")
    func certificates() throws {
        try onPluginThread {
            let state = try makeState("""
                return { authenticate_certificate = function(chain, ctx)
                  if chain[1].common_name == "broken" then return {} , 1 end
                  if chain[1].common_name == "unknown" then return { nam = "x" } end
                  if chain[1].common_name == "silent" then return end
                  chain[1].common_name = "changed"
                  return #chain == 2 and chain[2].dns_names[1] == "ca.example" and { name = chain[1].serial }
                end }
                """)
            let use = try state.makeUse(makeContext())
            func chain(_ name: String) -> LuaValue {
                .array([
                    .members([("common_name", .text(name)), ("serial", .text("0a"))]),
                    .members([("dns_names", .array([.text("ca.example")]))]),
                ])
            }
            #expect(try state.callCertificate(chain: chain("good"), use: use) == .accepted(.members([("name", .text("0a"))])))
            #expect(try state.callCertificate(chain: .array([.members([])]), use: use) == .refused)
            #expect(try state.callCertificate(chain: chain("broken"), use: use) == .accepted(.object([])))
            #expect(throws: LuaFailure(kind: .result, message: "p.lua: authenticate_certificate returned a principal table with the unknown key 'nam' (known: name, read_only, channels, roles, collections)")) {
                try state.callCertificate(chain: chain("unknown"), use: use)
            }
            #expect(throws: LuaFailure(kind: .result, message: "p.lua:1: authenticate_certificate returned no value (a forgotten return?)")) {
                try state.callCertificate(chain: chain("silent"), use: use)
            }
        }
    }
}

import LuaRuntime
import Testing

@Suite("Hooks and ctx")
struct HookTests {
    @Test("ctx holds what the use says and is read-only")
    func context() throws {
        let params = LuaValue.members([("name", .text("ann")), ("list", .array([.integer(1), .integer(2)])), ("none", .array([])), ("deep", .members([("x", .null)]))])
        #expect(try run("""
            assert(ctx.params.name == "ann" and #ctx.params.list == 2 and ctx.params.deep.x == nightjar.null)
            assert(ctx.database == "db" and ctx.scope == "s" and ctx.collection == "c" and ctx.direction == "push")
            assert(ctx.replicator == "up" and ctx.listener == nil and ctx.remote == "wss://x" and ctx.user == nil)
            assert(ctx.plugin == "p" and ctx.version == "v1" and ctx.flags.deleted == false and type(ctx) == "table")
            local n = 0 for k, v in pairs(ctx.params) do n = n + 1 end
            for i, v in ipairs(ctx.params.list) do n = n + v end
            assert(not pcall(rawset, ctx, "user", "root") and not pcall(setmetatable, ctx, {}))
            return n == 7 and nightjar.json.encode(ctx.params) == '{"deep":{"x":null},"list":[1,2],"name":"ann","none":[]}'
            """, params: params))
        for body in ["ctx.user = 'root'", "ctx.params.name = 'x'", "ctx.flags.deleted = true"] {
            let failed = try failure(body)
            #expect(failed.message.hasPrefix("p.lua:2: ctx is read-only: cannot set '"))
        }
    }

    @Test("truthiness decides, and no value at all is a failure with the hook's line")
    func results() throws {
        #expect(try run("return 0"))
        #expect(try run("return doc"))
        #expect(try !run("return nil"))
        #expect(try !run("return false, true"))
        #expect(try failure("") == LuaFailure(kind: .result, message: "p.lua:1: push_filter returned no value (a forgotten return?)"))
    }

    @Test("errors carry file and line whatever is raised", arguments: [
        ("error('boom')", "p.lua:2: boom"), ("error('boom', 0)", "p.lua:2: boom"), ("local x = nil; return x.y", "p.lua:2: attempt to index a nil value (local 'x')"),
        ("error({code = 1})", "p.lua:2: error raised with a table instead of a text"), ("error({message = 'm'})", "p.lua:2: m"),
        ("error()", "p.lua:2: error raised with a nil instead of a text"), ("error(42)", "p.lua:2: 42"),
        ("error(setmetatable({}, {__tostring = function() while true do end end}))", "p.lua:2: error raised with a table instead of a text"),
        ("error('a\\nb\\27[31m\\0\\xff\\u{2028}')", #"p.lua:2: a\nb\x1b[31m\x00\xff\xe2\x80\xa8"#),
        ("return ('x'):rep(-1, 5, 6) .. ('x'):bad()", "p.lua:2: attempt to call a nil value (method 'bad')"),
        ("return string.rep()", "p.lua:2: bad argument #1 to 'rep' (string expected, got no value)"),
        ("return string.format('%d', 'x')", "p.lua:2: bad argument #2 to 'format' (number expected, got string)"),
        ("return utf8.len({})", "p.lua:2: bad argument #1 to 'len' (string expected, got table)"),
        ("return coroutine.wrap(function() error('inside') end)()", "p.lua:2: inside"),
    ])
    func errors(_ body: String, _ message: String) throws {
        #expect(try failure(body) == LuaFailure(kind: .error, message: message))
    }

    @Test("a long error text is cut")
    func longError() throws {
        let failed = try failure("error(('x'):rep(100000))")
        #expect(failed.message.utf8.count <= 2048 && failed.message.hasSuffix("..."))
    }

    @Test("a call on a released use, another state's use, or an absent hook is refused")
    func uses() throws {
        try onPluginThread {
            let state = try makeState("return { push_filter = function(doc, ctx) return ctx.params.n == 2 end }")
            let other = try makeState("return { pull_filter = function() return true end }")
            let one = try state.makeUse(makeContext(.members([("n", .integer(1))])))
            let two = try state.makeUse(makeContext(.members([("n", .integer(2))])))
            #expect(try !state.callFilter(.pushFilter, document: LuaDocument("{}"), use: one))
            #expect(try state.callFilter(.pushFilter, document: LuaDocument("{}"), use: two))
            state.release(one)
            state.release(one)
            #expect(throws: LuaFailure.self) { try state.callFilter(.pushFilter, document: LuaDocument("{}"), use: one) }
            #expect(throws: LuaFailure.self) { try other.callFilter(.pullFilter, document: LuaDocument("{}"), use: two) }
            #expect(throws: LuaFailure(kind: .error, message: "the plugin has no pull_filter")) {
                try state.callFilter(.pullFilter, document: LuaDocument("{}"), use: two)
            }
            #expect(try state.callFilter(.pushFilter, document: LuaDocument("{}"), use: two))
        }
    }

    static func conflict(base: String? = #"{"price":1}"#, local: String? = #"{"price":1,"note":"x"}"#, remote: String? = #"{"price":2,"z":[ ] }"#) -> LuaConflict {
        LuaConflict(
            id: "c1", local: local.map { LuaDocument($0, id: "c1", revision: "2-l") }, remote: remote.map { LuaDocument($0, id: "c1", revision: "2-r") },
            base: base.map { LuaDocument($0, id: "c1", revision: "1-b") }, localRevision: "2-l", remoteRevision: "2-r",
            baseRevision: base == nil ? nil : "1-b")
    }

    static func resolve(_ body: String, _ conflict: LuaConflict) throws -> LuaResolution {
        try onPluginThread {
            let state = try makeState("return { resolve = function(conflict, ctx)\n\(body)\nend }")
            return try state.callResolve(conflict, use: state.makeUse(makeContext()))
        }
    }

    @Test("resolve: one side keeps its bytes, a table is a merge, delete deletes", arguments: [
        ("return conflict.local_doc", LuaResolution.local), ("return conflict.remote_doc", .remote), ("return nightjar.delete", .delete),
        ("return conflict.base_doc", .merged(Array(#"{"price":1}"#.utf8))),
        ("local m = nightjar.copy(conflict.local_doc) m.price = conflict.remote_doc.price m.z = conflict.remote_doc.z m._id = 'c1' return m",
         .merged(Array(#"{"note":"x","price":2,"z":[ ]}"#.utf8))),
        ("return { a = {}, b = nightjar.array{}, c = nightjar.object{}, d = nightjar.null, e = 1.0, f = 1, g = 0.1, h = {1,2}, i = -1e300 }",
         .merged(Array(#"{"a":{},"b":[],"c":{},"d":null,"e":1.0,"f":1,"g":0.1,"h":[1,2],"i":-1e+300}"#.utf8))),
        ("assert(conflict.id == 'c1' and conflict.local_rev == '2-l' and conflict.remote_rev == '2-r' and conflict.base_rev == '1-b' and conflict.local_doc._rev == '2-l') return {}",
         .merged(Array("{}".utf8))),
        (#"return { s = "\0\n\"\\é\127" }"#, .merged(Array("{\"s\":\"\\u0000\\n\\\"\\\\é\u{7F}\"}".utf8))),
    ])
    func resolves(_ body: String, _ expected: LuaResolution) throws {
        #expect(try Self.resolve(body, Self.conflict()) == expected)
    }

    @Test("resolve: the versions of both sides, where they have some")
    func versions() throws {
        var conflict = Self.conflict()
        #expect(try Self.resolve("return conflict.local_version == nil and conflict.remote_version == nil and conflict.remote_doc", conflict) == .remote)
        (conflict.localVersion, conflict.remoteVersion) = ("5@mine", "7@theirs")
        #expect(try Self.resolve("assert(conflict.local_version == '5@mine') return conflict.remote_version == '7@theirs' and conflict.local_doc", conflict) == .local)
    }

    @Test("resolve: a member that no conflict has is an error, and not nil like a side that is deleted", arguments: [
        ("if not conflict.remote_docc then return nightjar.delete end", "p.lua:2: conflict has no 'remote_docc'; did you mean 'remote_doc'?"),
        ("return conflict['there'] or nightjar.delete", "p.lua:2: conflict has no 'there'; it has id, local_doc, remote_doc"),
        ("setmetatable(conflict, {}) return conflict.there or nightjar.delete", "protected metatable"),
    ])
    func misspeltMembers(_ body: String, _ part: String) throws {
        do {
            let result = try Self.resolve(body, Self.conflict())
            Issue.record("\(body) gave \(result)")
        } catch let failure as LuaFailure {
            #expect(failure.message.contains(part), "\(failure)")
        }
    }

    @Test("resolve: the conflict is otherwise a table like any other", arguments: [
        "local n = 0 for _ in pairs(conflict) do n = n + 1 end return n > 5 and conflict[1] == nil and conflict.local_version == nil and conflict.remote_doc",
        "conflict.mine = 1 return conflict.mine == 1 and nightjar.copy(conflict).other == nil and rawget(conflict, 'other') == nil and conflict.remote_doc",
        "return nightjar.json.encode(conflict):find('remote_doc', 1, true) and conflict.remote_doc",
    ])
    func conflictIsATable(_ body: String) throws {
        #expect(try Self.resolve(body, Self.conflict()) == .remote)
    }

    @Test("resolve: absent sides are nil")
    func absentSides() throws {
        #expect(try Self.resolve("return conflict.local_doc == nil and conflict.base_doc == nil and conflict.base_rev == nil and conflict.remote_doc", Self.conflict(base: nil, local: nil)) == .remote)
        #expect(throws: LuaFailure.self) { try Self.resolve("return conflict.local_doc", Self.conflict(local: nil)) }
    }

    @Test("resolve: what is not a document is a result error", arguments: [
        ("", "no value"), ("return nil", "returned nil"), ("return true", "a boolean"), ("return 'x'", "a string"), ("return {1, 2}", "array"),
        ("return nightjar.null", "null"), ("return conflict.remote_doc.z", "array"), ("return { x = function() end }", "at x: a function"),
        ("return { x = { y = { 0/0 } } }", "at x.y[1]: NaN"), ("return { [1] = 1, x = 2 }", "both numbers and strings"),
        ("return { [1.5] = 1 }", "a key that is neither"), ("return { [true] = 1 }", "a key that is neither"),
        ("return { x = { [1] = 1, [2^40 // 1 | 0] = 2 } }", "holes"), ("return { x = nightjar.array{ [2] = 1 } }", "holes"),
        ("return { x = setmetatable({}, {}) }", "metatable"), ("return setmetatable({}, { __index = function() while true do end end })", "metatable"),
        ("local t = {} t.t = t return t", "cycle"), ("local t = {} for i = 1, 200000 do t = { t } end return { t = t }", "deeper than 32"),
        ("local t = 'x' for i = 1, 30 do t = { t, t } end return { t = t }", "result nodes"),
        ("return { s = '\\xff' }", "UTF-8"), ("return { ['\\xff'] = 1 }", "UTF-8"), ("return { _deleted = true }", "nightjar.delete"),
        ("return { x = nightjar.delete }", "nightjar.delete"), ("return { x = nightjar.array{ x = 1 } }", "array with a string"),
        ("return { x = math.huge }", "infinities"), ("return conflict", "the conflict itself"),
    ])
    func badResolutions(_ body: String, _ part: String) throws {
        do {
            let result = try Self.resolve(body, Self.conflict())
            Issue.record("\(body) gave \(result)")
        } catch let failure as LuaFailure {
            #expect(failure.kind == .result && failure.message.hasPrefix("p.lua:1: "), "\(failure)")
            #expect(failure.message.contains(part), "\(failure)")
        }
    }

    static func authenticate(_ body: String) throws -> LuaPrincipal {
        try onPluginThread {
            let state = try makeState("return { authenticate_password = function(username, password, ctx)\n\(body)\nend }")
            return try state.callPassword(username: Array("ann".utf8), password: [0, 0xFF], use: state.makeUse(makeContext()))
        }
    }

    @Test("authenticators")
    func authenticates() throws {
        #expect(try Self.authenticate("return false") == .refused)
        #expect(try Self.authenticate("return nil") == .refused)
        #expect(try Self.authenticate("return username == 'ann' and password == '\\0\\xff'") == .accepted(.missing))
        #expect(try Self.authenticate("return { name = username, read_only = true, roles = { 'r' }, channels = {} }")
            == .accepted(.members([("channels", .object([])), ("name", .text("ann")), ("read_only", .bool(true)), ("roles", .array([.text("r")]))])))
        for (body, part) in [("", "no value"), ("return 1", "a number"), ("return { readonly = true }", "'readonly'"),
            ("return { read_only = 'yes' }", "'read_only' is a string"), ("return { roles = { 1 } }", "'roles'"), ("return { 'x' }", "array"), ("return { name = '' }", "'name'")] {
            #expect { try Self.authenticate(body) } throws: { error in
                (error as? LuaFailure)?.kind == .result && (error as? LuaFailure)?.message.contains(part) == true
            }
        }
    }

    static func token(_ body: String) throws -> LuaToken {
        try onPluginThread {
            let state = try makeState("return { token = function(ctx)\n\(body)\nend }")
            return try state.callToken(use: state.makeUse(makeContext()))
        }
    }

    @Test("tokens")
    func tokens() throws {
        #expect(try Self.token("return ctx.replicator .. '.token'") == LuaToken(text: "up.token"))
        #expect(try Self.token("return { token = 't', expires_in = 60 }") == LuaToken(text: "t", seconds: 60))
        #expect(try Self.token("return { token = 't', expires_in = 0.5 }") == LuaToken(text: "t", seconds: 0.5))
        for (body, part) in [("", "no value"), ("return nil", "a nil"), ("return true", "a boolean"), ("return ''", "is empty"), ("return 'a b'", "a header cannot carry"),
            ("return 'a\\n'", "a header cannot carry"), ("return {}", "without token"), ("return { token = 5 }", "is a number"), ("return { token = 't', expires = 5 }", "'expires'"),
            ("return { token = 't', expires_in = '5' }", "not a number of seconds"), ("return { token = 't', expires_in = 0/0 }", "not a number of seconds"),
            ("return ('x'):rep(8193)", "8192 are the most")] {
            #expect { try Self.token(body) } throws: { error in
                (error as? LuaFailure)?.kind == .result && (error as? LuaFailure)?.message.contains(part) == true
            }
        }
    }

    @Test("observers receive plain values, what is absent is nil, and what they return is ignored")
    func observers() throws {
        func tell(_ hook: LuaHook, _ news: String, _ body: String) throws {
            try onPluginThread {
                let state = try makeState("return { \(hook.rawValue) = function(news, ctx)\n\(body)\nend }")
                try state.callObserver(hook, Array(news.utf8), use: state.makeUse(makeContext()))
            }
        }
        let status = #"{"activity":"idle","progress":{"completed":1,"total":2}}"#
        try tell(.onStatus, status, "assert(news.activity == 'idle' and news.progress.total == 2 and news.error == nil and ctx.replicator == 'up')")
        try tell(.onDocuments, #"[{"id":"a"},{"id":"b"}]"#, "assert(#news == 2 and news[2].id == 'b')\nreturn false, {}")
        for (body, kind) in [("error('no')", LuaFailureKind.error), ("while true do end", .timeout)] {
            #expect { try tell(.onStatus, status, body) } throws: { ($0 as? LuaFailure)?.kind == kind }
        }
    }

    @Test("a peer is chosen by the name of an offered peer, and nil waits")
    func selection() throws {
        func select(_ body: String) throws -> String? {
            try onPluginThread {
                let state = try makeState("return { select_peer = function(peers, ctx)\n\(body)\nend }")
                let peers = try #require(LuaValue(json: Array(#"[{"name":"a","port":1},{"name":"b","port":2,"last_error":"refused"}]"#.utf8)))
                guard case .array(let items) = peers else { return nil }
                return try state.callSelectPeer(items, use: state.makeUse(makeContext()))
            }
        }
        #expect(try select("assert(#peers == 2 and peers[2].last_error == 'refused' and peers[1].last_error == nil and ctx.replicator == 'up')\nreturn peers[1].name") == "a")
        #expect(try select("return nil") == nil)
        #expect(try select("return 'b', 'a'") == "b")
        for (body, part) in [("", "no value"), ("return true", "a boolean"), ("return peers[1]", "a table"), ("return 'c'", "none of the peers has"), ("return ''", "none of the peers has")] {
            #expect { try select(body) } throws: { error in
                (error as? LuaFailure)?.kind == .result && (error as? LuaFailure)?.message.contains(part) == true
            }
        }
    }

    static func session(_ body: String) throws -> LuaSession {
        try onPluginThread {
            let state = try makeState("return { get_session = function(ctx)\n\(body)\nend }")
            return try state.callSession(use: state.makeUse(makeContext()))
        }
    }

    @Test("sessions, with an end in text or in seconds")
    func sessions() throws {
        #expect(try Self.session("return { session_id = ctx.replicator .. '=' }") == LuaSession(id: "up="))
        #expect(try Self.session("return { session_id = 's', cookie_name = 'AuthSession', expires = 1000.5 }") == LuaSession(id: "s", cookie: "AuthSession", end: 1000.5))
        #expect(try Self.session("return { session_id = 's', expires = '1970-01-01T01:00:01-01:00' }") == LuaSession(id: "s", end: 7201))
        for (body, part) in [("", "no value"), ("return nil", "a nil"), ("return 's'", "a string"), ("return {}", "without session_id"), ("return { session_id = 5 }", "is a number"),
            ("return { session_id = '' }", "is empty"), ("return { session_id = 'a; b' }", "a header cannot carry"), ("return { session_id = 'a', cookie_name = 'a=b' }", "a header cannot carry"),
            ("return { session_id = 'a', expires_in = 5 }", "'expires_in'"), ("return { session_id = 'a', expires = 'soon' }", "not a time"), ("return { session_id = 'a', expires = -1 }", "not a time"),
            ("return { session_id = 'a', expires = true }", "not a time")] {
            #expect { try Self.session(body) } throws: { error in
                (error as? LuaFailure)?.kind == .result && (error as? LuaFailure)?.message.contains(part) == true
            }
        }
    }
}

import Interfaces
import LuaRuntime
import PluginHost
import Testing

/// Plugins that do their worst on both workers while a good one serves.
@Suite(.timeLimit(.minutes(10)))
struct HostileLoadTests {
    static let attacks = [
        "loop": "while true do end",
        "pattern": "return ('a'):rep(5000):find('a*a*b')",
        "swallow": "while true do pcall(function() while true do end end) end",
        "memory": "local t = {} while true do t[#t + 1] = ('x'):rep(100000) .. #t end",
        "collide": "while true do local t = {} for k = 1, 8000 do t[k * 32767] = true end end",
        "arguments": "local s, t = ('0'):rep(1000000), {} for i = 1, 20000 do t[i] = s end return string.char(table.unpack(t)) ~= doc.n",
        "sort": "local s, t = ('0'):rep(1000000), {} for i = 1, 2000 do t[i] = s end table.sort(t, math.abs)",
        "coroutine": "while true do pcall(coroutine.wrap(function() while true do end end)) end",
        "flood": "for i = 1, 100000 do nightjar.log.error(('x'):rep(9000), { i = i }) end return true",
        "globals": "string.upper = nil pcall = nil doc_seen = doc error({})",
    ]

    @Test func theGoodOneGoesOn() async throws {
        let folder = Folder()
        folder.write("good.lua", passes("('a'):upper() == 'A' and _G.doc_seen == nil and pcall ~= nil and doc.n > 0"))
        for (name, body) in Self.attacks { folder.write("\(name).lua", "return { push_filter = function(doc)\n\(body)\nend }") }
        try await withHost(folder.path) { host, _ in
            let good = try host.filter("good")
            let verdicts = await withTaskGroup(of: [FilterVerdict]?.self) { group in
                for name in Self.attacks.keys {
                    group.addTask {
                        guard let filter = try? host.filter(name) else { return nil }
                        for round in 0..<3 { _ = await filter.evaluate((0..<4).map { document("{\"n\":\(round * 4 + $0)}") }, push) }
                        return nil
                    }
                }
                group.addTask {
                    var verdicts: [FilterVerdict] = []
                    for round in 0..<40 { verdicts += await good.evaluate((1...25).map { document("{\"n\":\(round + $0)}") }, push) }
                    return verdicts
                }
                var found: [FilterVerdict] = []
                for await part in group { if let part { found = part } }
                return found
            }
            #expect(verdicts.count == 1000 && verdicts.allSatisfy { $0 == .pass })
            for name in Self.attacks.keys {
                let status = try #require(host.status(name))
                #expect(status.calls == 12, "\(name)")
                #expect(name == "flood" || status.errors == 12, "\(name): \(status)")
                #expect((status.lastFailure ?? "").utf8.count < 4096)
            }
            let good2 = try #require(host.status("good"))
            #expect(good2.errors == 0)
            #expect(try #require(host.status("flood")).limitHits.logLinesDropped > 0)
        }
    }

    @Test func resolversAndLoginsGoOnBesideHostileOnes() async throws {
        let folder = Folder()
        folder.write("bad.lua", """
            return {
              resolve = function(conflict) local t = {} t.t = t return t end,
              authenticate_password = function() while true do pcall(function() while true do end end) end end,
            }
            """)
        folder.write("good.lua", """
            return { resolve = function(conflict) return conflict.local_doc end, authenticate_password = function(_, password) return password == "pw" end }
            """)
        try await withHost(folder.path) { host, _ in
            for round in 0..<5 {
                let bad = try host.resolver(plugin: "bad", usedBy: "database \(round)")
                let conflict = PolicyConflict(
                    id: document("{}").id, local: document("{\"a\":1}"), remote: document("{\"a\":2}"), base: nil,
                    localRevision: document("{}").revision, remoteRevision: document("{}").revision, baseRevision: nil)
                guard case .failed(let failure) = await bad.resolve(conflict, push) else {
                    Issue.record("a cycle is no document")
                    return
                }
                #expect(failure.kind == "plugin_result" && failure.message.contains("cycle"))
                #expect(await (try host.resolver(plugin: "good", usedBy: "x \(round)")).resolve(conflict, push) == .local)
                let login = try host.passwordAuthenticator(plugin: "bad", usedBy: "listener \(round)")
                guard case .failed(let refused) = await login.authenticate(username: "a", password: "pw", listener: "edge", remote: "x") else {
                    Issue.record("a loop lets nobody in")
                    return
                }
                #expect(refused.kind == "plugin_timeout")
                let fine = try host.passwordAuthenticator(plugin: "good", usedBy: "y \(round)")
                #expect(await fine.authenticate(username: "a", password: "pw", listener: "edge", remote: "x") == .accepted(Principal(name: "a")))
            }
        }
    }
}

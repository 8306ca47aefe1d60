import Documents
import Interfaces
import LuaRuntime
import PluginHost
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(10)))
struct CallTests {
    @Test func verdictsKeepTheirOrder() async throws {
        let folder = Folder()
        folder.write("even.lua", passes("doc.n % 2 == 0"))
        try await withHost(folder.path) { host, _ in
            let filter = try host.filter("even")
            let verdicts = await filter.evaluate((0..<1000).map { document("{\"n\":\($0)}") }, push)
            #expect(verdicts == (0..<1000).map { $0 % 2 == 0 ? .pass : .reject })
            #expect(await filter.evaluate([], push).isEmpty)
            let status = try #require(host.status("even"))
            #expect(status.calls == 1000)
            #expect(status.rejected == 500)
            #expect(status.errors == 0)
            #expect(status.p99Milliseconds != nil)
            #expect(status.usedBy == ["replicator hub push_filter"])
        }
    }

    @Test func theContextIsTheCalls() async throws {
        let folder = Folder()
        folder.write("ctx.lua", """
            return { params = { n = { type = "integer", default = 7 } }, pull_filter = function(doc, ctx)
              local seen = table.concat({ ctx.database, ctx.scope, ctx.collection, ctx.direction, tostring(ctx.replicator), tostring(ctx.listener),
                ctx.remote, tostring(ctx.user), tostring(ctx.flags.deleted), tostring(ctx.flags.access_removed), ctx.plugin, tostring(ctx.params.n),
                tostring(doc._deleted), doc._id }, " ")
              if seen == doc.expected then return true end
              error(seen)
            end }
            """)
        try await withHost(folder.path) { host, _ in
            let filter = try host.pullFilter(plugin: "ctx", usedBy: "listener edge pull_filter")
            for user in ["anna", "ben", "anna"] {
                let context = PolicyContext(
                    database: "sensors", collection: try CollectionName(parsing: "plant.readings"), direction: .pull, listener: "edge",
                    remote: "10.0.0.7:5000", user: user)
                let expected = "sensors plant readings pull nil edge 10.0.0.7:5000 \(user) true true ctx 7 true d1"
                let plain = "sensors plant readings pull nil edge 10.0.0.7:5000 \(user) false false ctx 7 nil d2"
                let verdicts = await filter.evaluate([
                    document("{\"expected\":\"\(expected)\"}", id: "d1", deleted: true, accessRemoved: true),
                    document("{\"expected\":\"\(plain)\"}", id: "d2"),
                ], context)
                #expect(verdicts[0] == .pass)
                // A document that is not deleted says nil or false.
                if case .failed(let failure) = verdicts[1] { #expect(failure.message.contains("ctx 7 false d2")) }
            }
        }
    }

    /// With auto purge a filter that takes a flag for not set loses the local copy.
    @Test func aMisspeltFlagOrParameterHoldsTheDocument() async throws {
        let folder = Folder()
        folder.write("keep.lua", """
            return { params = { keep = { type = "boolean", default = true } }, pull_filter = function(doc, ctx)
              if doc.parameter then return not ctx.params.kepe end
              return not ctx.flags.access_removd
            end }
            """)
        try await withHost(folder.path) { host, _ in
            let filter = try host.pullFilter(plugin: "keep", usedBy: "replicator hub pull_filter")
            let verdicts = await filter.evaluate([document("{}", accessRemoved: true), document("{\"parameter\":true}")], push)
            let messages = ["keep.lua:3: ctx.flags has no 'access_removd'; did you mean 'access_removed'?", "keep.lua:2: ctx.params has no 'kepe'; did you mean 'keep'?"]
            for (verdict, message) in zip(verdicts, messages) {
                guard case .failed(let failure) = verdict else {
                    Issue.record("\(verdict)")
                    continue
                }
                #expect(failure.message.contains(message), "\(failure)")
            }
        }
    }

    @Test func failuresAreClosedAndOfTheirKind() async throws {
        let folder = Folder()
        folder.write("bad.lua", """
            return { push_filter = function(doc)
              if doc.what == "error" then local x = nil; return x.field end
              if doc.what == "loop" then while true do end end
              if doc.what == "memory" then local t = {} for i = 1, 1e9 do t[i] = { i } end end
              if doc.what == "nothing" then return end
              return true
            end }
            """)
        try await withHost(folder.path) { host, _ in
            let filter = try host.filter("bad")
            let verdicts = await filter.judge(
                "{\"what\":\"error\"}", "{}", "{\"what\":\"loop\"}", "{}", "{\"what\":\"memory\"}", "{}", "{\"what\":\"nothing\"}", "{}")
            let kinds = verdicts.map { verdict -> String in
                guard case .failed(let failure) = verdict else { return "\(verdict)" }
                #expect(failure.plugin == "bad")
                #expect(filter.version.hasPrefix(failure.version))
                #expect(failure.message.hasPrefix("bad.lua:"), "\(failure)")
                return failure.kind
            }
            #expect(kinds == ["plugin_error", "pass", "plugin_timeout", "pass", "plugin_memory", "pass", "plugin_result", "pass"])
            let status = try #require(host.status("bad"))
            #expect(status.errors == 4)
            #expect(status.limitHits.timeouts == 1)
            #expect(status.limitHits.memory == 1)
            #expect(status.limitHits.results == 1)
            #expect(status.limitHits.statesRebuilt >= 1)
            #expect(status.lastFailure?.hasPrefix("plugin_result: ") == true)
        }
    }

    @Test func theSameFailureIsReportedOnce() async throws {
        let folder = Folder()
        folder.write("bad.lua", passes("doc.a.b"))
        folder.write("end.lua", passes("error('last')"))
        try await withHost(folder.path) { host, events in
            let filter = try host.filter("bad")
            for _ in 0..<5 { _ = await filter.judge("{}", "{}") }
            _ = await (try host.filter("end")).judge("{}")
            _ = try await events.wait { if case .failed("end", _, _, _) = $0 { true } else { false } }
            #expect(events.seen.filter { if case .failed("bad", _, _, _) = $0 { true } else { false } }.count == 1)
            #expect(host.status("bad")?.errors == 10)
        }
    }

    @Test func aPluginThatKeepsMemoryIsStartedAnew() async throws {
        let folder = Folder()
        folder.write("hoard.lua", "local kept = {}\n" + passes("(function() kept[#kept + 1] = ('x'):rep(100000) .. doc.n return true end)()"))
        try await withHost(folder.path) { host, _ in
            let filter = try host.filter("hoard")
            var passed = 0
            for number in 0..<500 where await filter.judge("{\"n\":\(number)}") == [.pass] { passed += 1 }
            #expect(passed > 400)
            #expect(try #require(host.status("hoard")).limitHits.statesRebuilt > 0)
        }
    }

    @Test func limitsCanBeSetForAUse() async throws {
        let folder = Folder()
        folder.write("work.lua", passes("(function() for i = 1, 100000 do end return true end)()"))
        try await withHost(folder.path) { host, _ in
            let tight = try host.pushFilter(plugin: "work", usedBy: "a", limits: LuaCallLimits(cpuMilliseconds: 1000, instructions: 10_000))
            let usual = try host.pushFilter(plugin: "work", usedBy: "b")
            #expect(await tight.failure("{}")?.kind == "plugin_timeout")
            #expect(await usual.judge("{}") == [.pass])
        }
    }

    @Test func afterTheEndEveryAnswerIsAFailure() async throws {
        let folder = Folder()
        folder.write("a.lua", passes("true"))
        let filter = try await withHost(folder.path) { host, _ in try host.filter("a") }
        #expect(await filter.failure("{}")?.message == "the plugin host has been stopped")
    }

    @Test func resolversDecide() async throws {
        let folder = Folder()
        folder.write("resolve.lua", """
            return { resolve = function(conflict, ctx)
              local what = (conflict.local_doc or conflict.remote_doc).what
              if what == "local" then return conflict.local_doc end
              if what == "remote" then return conflict.remote_doc end
              if what == "delete" then return nightjar.delete end
              if what == "nothing" then return end
              return { id = conflict.id, revs = conflict.local_rev .. conflict.remote_rev, base = conflict.base_doc and conflict.base_doc.n, direction = ctx.direction }
            end }
            """)
        try await withHost(folder.path) { host, _ in
            let resolver = try host.resolver(plugin: "resolve", usedBy: "database main conflict_resolver")
            func decide(_ local: String?, _ remote: String?) async -> ConflictDecision {
                await resolver.resolve(
                    PolicyConflict(
                        id: DocumentID(stored: "d"), local: local.map { document($0) }, remote: remote.map { document($0) }, base: document("{\"n\":1}"),
                        localRevision: RevisionID(stored: "2-a"), remoteRevision: RevisionID(stored: "2-b"), baseRevision: RevisionID(stored: "1-c")),
                    push)
            }
            #expect(await decide("{\"what\":\"local\"}", "{}") == .local)
            #expect(await decide("{\"what\":\"remote\"}", "{}") == .remote)
            #expect(await decide("{\"what\":\"delete\"}", "{}") == .delete)
            #expect(await decide("{}", "{}") == .merged(Array("{\"base\":1,\"direction\":\"push\",\"id\":\"d\",\"revs\":\"2-a2-b\"}".utf8)))
            for (local, remote) in [("{\"what\":\"nothing\"}", "{}"), (nil, "{\"what\":\"local\"}")] as [(String?, String?)] {
                guard case .failed(let failure) = await decide(local, remote) else {
                    Issue.record("a nil result must fail")
                    continue
                }
                #expect(failure.kind == "plugin_result")
            }
        }
    }

    @Test func authenticatorsDecide() async throws {
        let folder = Folder()
        folder.write("auth.lua", """
            return { authenticate_password = function(username, password, ctx)
              if password ~= "right" then return false end
              if username == "plain" then return true end
              if username == "typo" then return { readonly = true } end
              if username == "nothing" then return end
              return { name = "Anna " .. ctx.listener, read_only = true, channels = { "a", "b" }, roles = {}, collections = { "plant.readings" } }
            end }
            """)
        try await withHost(folder.path) { host, _ in
            let authenticator = try host.passwordAuthenticator(plugin: "auth", usedBy: "listener edge authenticator")
            func ask(_ name: String, _ password: String) async -> AuthenticationVerdict {
                await authenticator.authenticate(username: name, password: password, listener: "edge", remote: "10.0.0.1:1")
            }
            #expect(await ask("plain", "right") == .accepted(Principal(name: "plain")))
            #expect(await ask("anna", "right") == .accepted(Principal(
                name: "Anna edge", isReadOnly: true, channels: ["a", "b"], roles: [], collections: ["plant.readings"])))
            #expect(await ask("anna", "wrong") == .refused)
            for name in ["typo", "nothing"] {
                guard case .failed(let failure) = await ask(name, "right") else {
                    Issue.record("\(name) must fail")
                    continue
                }
                #expect(failure.kind == "plugin_result")
            }
        }
    }

    @Test func servicesReachTheAgent() async throws {
        final class Services: PluginServices {
            let written = Mutex<[String]>([])
            func document(database: String, collection: CollectionName, id: DocumentID) throws(PluginServiceRefusal) -> PolicyDocument? {
                if id.text == "gone" { return nil }
                if id.text == "broken" { throw PluginServiceRefusal("the database is closed") }
                return PolicyDocument(
                    id: id, revision: RevisionID(stored: "1-a"), isDeleted: false, body: Array("{\"from\":\"\(database) \(collection)\"}".utf8))
            }
            func count(plugin: String, name: String, value: Double, labels: [(String, String)]) {
                written.withLock { $0.append("count \(plugin) \(name) \(value) \(labels.map { "\($0.0)=\($0.1)" })") }
            }
            func gauge(plugin: String, name: String, value: Double, labels: [(String, String)]) {
                written.withLock { $0.append("gauge \(plugin) \(name) \(value)") }
            }
        }
        let folder = Folder()
        folder.write("look.lua", """
            return { push_filter = function(doc)
              nightjar.metrics.count("seen", 2, { kind = "x" })
              nightjar.metrics.gauge("level", 1.5)
              local found = doc.collection and nightjar.get(doc.collection, doc.id) or nightjar.get(doc.id)
              return found ~= nil and found.from == doc.expected
            end }
            """)
        folder.write("flood.lua", "return { push_filter = function(doc) for i = 1, 1000 do nightjar.metrics.count('n' .. i, 1) end return true end }")
        let services = Services()
        try await withHost(folder.path, services: services) { host, _ in
            let filter = try host.filter("look")
            #expect(await filter.judge(
                "{\"id\":\"x\",\"expected\":\"main _default._default\"}", "{\"id\":\"x\",\"collection\":\"a.b\",\"expected\":\"main a.b\"}", "{\"id\":\"gone\"}")
                == [.pass, .pass, .reject])
            #expect(await filter.failure("{\"id\":\"broken\"}")?.message.contains("the database is closed") == true)
            #expect(services.written.withLock { Array($0.prefix(2)) } == ["count look seen 2.0 [\"kind=x\"]", "gauge look level 1.5"])
            do {
                let filter = try host.filter("flood")
                #expect(await filter.failure("{}")?.message.contains("metric series") == true)
            }
        }
    }
}

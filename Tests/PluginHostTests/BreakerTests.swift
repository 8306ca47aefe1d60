import Environment
import Interfaces
import LuaRuntime
import PluginHost
import Synchronization
import Testing

/// A plugin that keeps failing is not called any more, and comes back by itself.
@Suite(.timeLimit(.minutes(10)))
struct BreakerTests {
    /// Fails for documents with `bad`, as long as the other database says so.
    private static let source = """
        return { push_filter = function(doc)
          if nightjar.state.broken then error("broken") end
          return true
        end }
        """

    private final class Services: PluginServices {
        let isBroken = Mutex(true)
        let asked = Mutex(0)
        func readState(plugin: String, key: String) throws(PluginServiceRefusal) -> LuaValue {
            asked.withLock { $0 += 1 }
            return isBroken.withLock { $0 } ? .bool(true) : .missing
        }
        /// How often the hook has run since the last look.
        func calls() -> Int { asked.withLock { asked in defer { asked = 0 }; return asked } }
    }

    /// Stands still until it is set on.
    private final class Clock: TimeSource {
        let now = Mutex(UInt64(1_000_000_000))
        func advance(_ seconds: UInt64) { now.withLock { $0 += seconds * 1_000_000_000 } }
        func monotonicNanoseconds() -> UInt64 { now.withLock { $0 } }
        func wallSeconds() -> Int64 { Int64(monotonicNanoseconds() / 1_000_000_000) }
        func sleep(nanoseconds: UInt64) async throws { try await SystemTime().sleep(nanoseconds: nanoseconds) }
    }

    private func withBreaker(_ body: (PluginHost, Services, Clock, any DocumentFilter, Folder, inout Events) async throws -> Void) async throws {
        let folder = Folder()
        folder.write("a.lua", Self.source)
        let services = Services()
        let clock = Clock()
        try await withHost(folder.path, services: services, environment: Environment(time: clock, random: SystemRandom())) { host, events in
            let filter = try host.filter("a")
            try await body(host, services, clock, filter, folder, &events)
        }
    }

    /// A listener's filter that fails for documents with `bad`.
    private func withListenerFilter(_ body: (PluginHost, Clock, any DocumentFilter) async throws -> Void) async throws {
        let folder = Folder()
        folder.write("a.lua", "return { pull_filter = function(doc) if doc.bad then error('broken') end return true end }")
        let clock = Clock()
        try await withHost(folder.path, environment: Environment(time: clock, random: SystemRandom())) { host, _ in
            try await body(host, clock, try host.pullFilter(plugin: "a", params: .missing, usedBy: "listener edge pull_filter"))
        }
    }

    private func failing(_ events: inout Events) async throws -> Int {
        guard case .failing(_, _, _, let failures, let message) = try await events.wait({ if case .failing = $0 { true } else { false } }) else { return 0 }
        #expect(message == "plugin_error: a.lua:2: broken")
        return failures
    }

    @Test func afterFiftyFailuresItIsNotCalled() async throws {
        try await withBreaker { host, services, clock, filter, _, events in
            let batch = (0..<120).map { document("{\"n\":\($0)}") }
            let verdicts = await filter.evaluate(batch, push)
            #expect(services.calls() == 50)
            #expect(try await failing(&events) == 50)
            for verdict in verdicts {
                guard case .failed(let failure) = verdict else {
                    Issue.record("a failing filter must not let anything pass")
                    return
                }
                // Also what was not asked says where it fails.
                #expect(failure.message.hasPrefix("a.lua:2: broken"))
            }
            if case .failed(let last) = verdicts[119] { #expect(last.message.contains("not called: it has failed 50 times in a row"), "\(last)") }
            let status = try #require(host.status("a"))
            #expect(status.state == .failing)
            #expect(status.failing.first?.usedBy == "replicator hub push_filter")
            #expect(status.errors == 50)
            #expect(status.notAsked == 70)
            #expect(status.calls == 50)
            clock.advance(59)
            _ = await filter.evaluate(batch, push)
            #expect(services.calls() == 0)
        }
    }

    @Test func oneCallAMinuteIsTriedAndTellsWhenItWorksAgain() async throws {
        try await withBreaker { host, services, clock, filter, _, events in
            let batch = (0..<60).map { document("{\"n\":\($0)}") }
            _ = await filter.evaluate(batch, push)
            _ = try await failing(&events)
            _ = services.calls()
            // Nobody asks: the host tries the document that opened it by itself, once for each minute.
            for minute in 1...3 {
                clock.advance(60)
                while services.asked.withLock({ $0 }) == 0 { try await Task.sleep(for: .milliseconds(5)) }
                while host.status("a")?.errors != UInt64(50 + minute) { try await Task.sleep(for: .milliseconds(5)) }
                _ = await filter.evaluate(batch, push)
                #expect(services.calls() == 1)
            }
            #expect(host.status("a")?.state == .failing)
            var versions = filter.versionChanges().makeAsyncIterator()
            services.isBroken.withLock { $0 = false }
            clock.advance(60)
            _ = try await events.wait { if case .recovered("a", _, "replicator hub push_filter") = $0 { true } else { false } }
            // Those that hold something are told to ask again.
            #expect(await versions.next() == host.status("a")?.version)
            #expect(host.status("a")?.state == .active)
            #expect(await filter.evaluate(batch, push).allSatisfy { $0 == .pass })
        }
    }

    @Test func successesInBetweenKeepItClosed() async throws {
        try await withBreaker { host, services, _, filter, _, _ in
            for _ in 0..<5 {
                services.isBroken.withLock { $0 = true }
                _ = await filter.evaluate((0..<49).map { document("{\"n\":\($0)}") }, push)
                services.isBroken.withLock { $0 = false }
                #expect(await filter.judge("{}") == [.pass])
            }
            #expect(host.status("a")?.state == .active)
            #expect(host.status("a")?.notAsked == 0)
        }
    }

    @Test func aReloadOrARetryCallsItAgain() async throws {
        try await withBreaker { host, services, _, filter, folder, events in
            let batch = (0..<60).map { document("{\"n\":\($0)}") }
            _ = await filter.evaluate(batch, push)
            #expect(host.status("a")?.state == .failing)
            var versions = filter.versionChanges().makeAsyncIterator()
            #expect(try host.retry("a").map(\.uses) == [1])
            #expect(await versions.next() != nil)
            #expect(host.status("a")?.state == .active)
            _ = await filter.evaluate(batch, push)
            #expect(host.status("a")?.state == .failing)
            _ = await host.reload("a")
            #expect(await versions.next() != nil)
            #expect(host.status("a")?.state == .active)
            _ = await filter.evaluate(batch, push)
            folder.save("a.lua", passes("true"))
            try await events.reloaded("a")
            #expect(host.status("a")?.state == .active)
            #expect(await filter.judge("{}") == [.pass])
            #expect(throws: PluginError.self) { try host.retry("b") }
            _ = services
        }
    }

    @Test func eachUseHasItsOwn() async throws {
        let folder = Folder()
        folder.write("a.lua", """
            return { params = { fails = { type = "boolean", default = false } },
              push_filter = function(doc, ctx) if ctx.params.fails then error("x") end return true end }
            """)
        try await withHost(folder.path) { host, _ in
            let good = try host.filter("a")
            let bad = try host.pushFilter(plugin: "a", params: .members([("fails", .bool(true))]), usedBy: "listener edge push_filter")
            let batch = (0..<60).map { document("{\"n\":\($0)}") }
            _ = await bad.evaluate(batch, push)
            #expect(host.status("a")?.failing.map(\.usedBy) == ["listener edge push_filter"])
            #expect(await good.evaluate(batch, push).allSatisfy { $0 == .pass })
        }
    }

    /// What one peer sends must not hold the documents of the others.
    @Test func onAListenerItOpensForThePeerWhoseDocumentsFail() async throws {
        try await withListenerFilter { host, clock, filter in
            func peer(_ user: String?, _ address: String = "192.0.2.7") -> PolicyContext {
                PolicyContext(database: "main", collection: .default, direction: .pull, listener: "edge", remote: "\(address):50123", user: user)
            }
            let bad = (0..<120).map { document("{\"bad\":true,\"n\":\($0)}") }
            _ = await filter.evaluate(bad, peer("mallory"))
            #expect(host.status("a")?.calls == 50 && host.status("a")?.notAsked == 70)
            #expect(host.status("a")?.failing.map(\.error) == ["plugin_error: a.lua:1: broken"] && host.status("a")?.failing.map(\.peer) == ["user mallory"])
            // Others are served, and their success does not open it for that peer.
            #expect(await filter.evaluate([document("{}")], peer("ada")) == [.pass])
            #expect(await filter.evaluate([document("{}")], peer(nil)) == [.pass])
            _ = await filter.evaluate(bad, peer("mallory"))
            #expect(host.status("a")?.calls == 52)
            // An address counts without its port.
            _ = await filter.evaluate(bad, peer(nil, "192.0.2.8"))
            #expect(host.status("a")?.notAsked ?? 0 > 190)
            var other = peer(nil, "192.0.2.8")
            other.remote = "192.0.2.8:50999"
            guard case .failed(let failure) = await filter.evaluate([document("{}")], other).first else {
                Issue.record("it must not be asked")
                return
            }
            #expect(failure.message.contains("not called"))
            // A quarter of an hour later, whoever has not come back is forgotten.
            var versions = filter.versionChanges().makeAsyncIterator()
            clock.advance(900)
            #expect(await versions.next() != nil)
            while host.status("a")?.state != .active { try await Task.sleep(for: .milliseconds(5)) }
        }
    }

    /// Operators are not told of a peer `local` or `save`, which they would look for in vain.
    @Test(arguments: [PolicyContext.ownSave, PolicyContext.ownRouting])
    func whatNoPeerCausesIsCountedWithNone(_ remote: String) async throws {
        let folder = Folder()
        folder.write("a.lua", "return { pull_filter = function(doc) if doc.bad then error('broken') end return true end }")
        try await withHost(folder.path) { host, events in
            let filter = try host.pullFilter(plugin: "a", params: .missing, usedBy: "listener edge pull_filter")
            var context = PolicyContext(database: "main", collection: .default, direction: .pull, listener: "edge", remote: remote)
            _ = await filter.evaluate((0..<60).map { document("{\"bad\":true,\"n\":\($0)}") }, context)
            let event = try await events.wait { if case .failing = $0 { true } else { false } }
            guard case .failing(_, _, _, 50, "plugin_error: a.lua:1: broken") = event else {
                Issue.record("it names somebody: \(event)")
                return
            }
            #expect(host.status("a")?.failing.map(\.peer) == [nil])
            // What peers send is judged as before.
            context.remote = "192.0.2.7:50123"
            #expect(await filter.evaluate([document("{}")], context) == [.pass])
        }
    }

    @Test func ifItFailsForSeveralPeersInARowNobodyIsServedUntilItWorks() async throws {
        try await withBreaker { host, services, clock, _, _, events in
            let filter = try host.pushFilter(plugin: "a", params: .missing, usedBy: "listener edge push_filter")
            func peer(_ user: String) -> PolicyContext {
                PolicyContext(database: "main", collection: .default, direction: .push, listener: "edge", remote: "192.0.2.7:50123", user: user)
            }
            for number in 0..<60 { _ = await filter.evaluate([document("{\"n\":\(number)}")], peer("user-\(number % 20)")) }
            #expect(services.calls() == 50)
            #expect(host.status("a")?.failing.map(\.error) == ["plugin_error: a.lua:2: broken"])
            services.isBroken.withLock { $0 = false }
            clock.advance(60)
            #expect(await filter.evaluate([document("{}")], peer("somebody else")) == [.pass])
            #expect(host.status("a")?.state == .active)
            #expect(await filter.evaluate([document("{}")], peer("user-1")) == [.pass])
            _ = events
        }
    }

    @Test func aFewPeersCannotKeepItFromAllOthers() async throws {
        try await withListenerFilter { host, clock, filter in
            func judge(_ user: String?, _ text: String, times: Int = 1, at address: String = "192.0.2.7") async -> [FilterVerdict] {
                let peer = PolicyContext(database: "main", collection: .default, direction: .pull, listener: "edge", remote: "\(address):50123", user: user)
                return await filter.evaluate((0..<times).map { _ in document(text) }, peer)
            }
            // One odd document of another peer makes no difference.
            _ = await judge("mallory", "{\"bad\":true}", times: 60)
            _ = await judge("ada", "{\"bad\":true}")
            #expect(await judge("ada", "{}") == [.pass])
            #expect(host.status("a")?.failing.map(\.peer) == ["user mallory"])
            // Several that fail together do, until the first one that does not: each has a call of its own.
            for _ in 0..<60 { for user in ["eve", "trudy"] { _ = await judge(user, "{\"bad\":true}") } }
            #expect(host.status("a")?.failing.map(\.peer) == [nil])
            clock.advance(60)
            for user in ["mallory", "eve", "trudy"] { _ = await judge(user, "{\"bad\":true}") }
            #expect(await judge("ada", "{}") == [.pass])
            #expect(await judge("grace", "{}") == [.pass])
            // Addresses of one IPv6 network count together, and any number of them leaves room for others.
            for number in 0..<60 { _ = await judge(nil, "{\"bad\":true}", at: "[2001:db8::\(number + 1)]") }
            #expect(host.status("a")?.failing.map(\.peer) == ["address 2001:db8:0:0::/64"])
            for number in 0..<1_100 {
                _ = await judge("user-\(number)", "{\"bad\":true}")
                _ = await judge("ada", "{}")
            }
            _ = await judge("mallory", "{\"bad\":true}", times: 60)
            #expect(await judge("somebody new", "{}") == [.pass])
        }
    }

    /// A broken line in a file of users must not become everybody's.
    @Test func anAuthenticatorIsAlwaysAsked() async throws {
        let folder = Folder()
        folder.write("a.lua", "return { authenticate_password = function(name) if name == 'broken' then error('x') end return true end }")
        try await withHost(folder.path) { host, _ in
            let authenticator = try host.passwordAuthenticator(plugin: "a", usedBy: "listener edge authenticator")
            for _ in 0..<60 {
                guard case .failed = await authenticator.authenticate(username: "broken", password: "", listener: "edge", remote: "x") else {
                    Issue.record("it must fail")
                    return
                }
            }
            #expect(await authenticator.authenticate(username: "ada", password: "", listener: "edge", remote: "x") == .accepted(Principal(name: "ada")))
            #expect(host.status("a")?.notAsked == 0)
        }
    }
}

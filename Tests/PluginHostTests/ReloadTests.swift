import Glibc
import Interfaces
import LuaRuntime
import PluginHost
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(10)))
struct ReloadTests {
    @Test func aSavedFileComesIntoForce() async throws {
        let folder = Folder()
        folder.write("a.lua", passes("true"))
        try await withHost(folder.path) { host, events in
            let filter = try host.filter("a")
            var versions = filter.versionChanges().makeAsyncIterator()
            let first = filter.version
            #expect(await filter.judge("{}") == [.pass])

            folder.write("a.lua", passes("false"))
            let second = try await events.reloaded("a")
            #expect(await filter.judge("{}") == [.reject])
            #expect(filter.version.hasPrefix(second) && second != first)
            #expect(await versions.next() == second)

            folder.save("a.lua", passes("doc.x == 1"))
            try await events.reloaded("a")
            #expect(await filter.judge("{\"x\":1}", "{}") == [.pass, .reject])
            #expect(host.status("a")?.generation == 3)
        }
    }

    @Test func aBadVersionIsRefusedAndTheOldOneServes() async throws {
        let folder = Folder()
        folder.write("a.lua", passes("true"))
        try await withHost(folder.path) { host, events in
            let filter = try host.filter("a")
            let good = String(filter.version.prefix { $0 != "~" })
            for (bad, line) in [("return {\n  push_filter = functin() end }", "a.lua:2: "), ("\n\nerror('no')", "a.lua:3: "), ("return 5", "a.lua"), ("", "a.lua")] {
                folder.save("a.lua", bad)
                let problem = try await events.refused("a")
                #expect(problem.description.hasPrefix(line), "\(problem)")
                #expect(await filter.judge("{}") == [.pass])
                let status = try #require(host.status("a"))
                #expect(status.state == .refused)
                #expect(status.version == good)
                #expect(status.refused?.version != good)
                #expect(status.refused?.error == problem.description)
            }
            #expect(await host.reload("a").map(\.generation) == [1])
            folder.save("a.lua", passes("true"))
            _ = try await events.wait { if case .restored("a", good) = $0 { true } else { false } }
            #expect(host.status("a")?.state == .active)
            #expect(host.status("a")?.refused == nil)
        }
    }

    @Test func aVersionThatDoesNotSuitItsUsesIsRefused() async throws {
        let folder = Folder()
        folder.write("a.lua", passes("true"))
        try await withHost(folder.path) { host, events in
            var filter: (any DocumentFilter)? = try host.filter("a", .object([]))
            folder.save("a.lua", "return { pull_filter = function() return true end }")
            #expect(try await events.refused("a").message == "replicator hub push_filter needs push_filter, which this version does not have; it has pull_filter")
            folder.save("a.lua", "return { params = { name = { type = 'string', required = true } }, push_filter = function() return true end }")
            #expect(try await events.refused("a").message.hasPrefix("replicator hub push_filter: missing parameter \"name\" (string); if the configuration is to change"))
            #expect(await filter?.judge("{}") == [.pass])
            // Without the use that stood in its way it comes into force.
            filter = nil
            try await events.reloaded("a")
            #expect(host.status("a")?.state == .active)
        }
    }

    @Test func aVersionComesIntoForceWithTheUsesThatWaitForIt() async throws {
        func plugin(_ name: String) -> String {
            "return { params = { \(name) = { type = 'number', required = true } }, push_filter = function(doc, ctx) return doc.n < ctx.params.\(name) end }"
        }
        let folder = Folder()
        folder.write("a.lua", plugin("most"))
        try await withHost(folder.path) { host, events in
            let old = try host.filter("a", .members([("most", .integer(10))]))
            #expect(throws: PluginError.self) { try host.filter("a", .members([("limit", .integer(5))])) }
            folder.save("a.lua", plugin("limit"))
            _ = try await events.refused("a")
            #expect(throws: PluginError.self) { try host.filter("a", .members([("other", .integer(5))])) }
            let new = try host.filter("a", .members([("limit", .integer(5))]))
            // Until the configuration is in force, the old use goes on, and the new one decides nothing.
            #expect(await old.judge("{\"n\":7}") == [.pass])
            guard case .failed(let failure)? = await new.judge("{\"n\":1}").first else {
                Issue.record("it was judged")
                return
            }
            #expect(failure.resolvesItself)
            await host.promoteSuccessors()
            #expect(await new.judge("{\"n\":1}", "{\"n\":7}") == [.pass, .reject])
            guard case .failed? = await old.judge("{\"n\":7}").first else {
                Issue.record("a version was called with parameters that it does not have")
                return
            }
            #expect(host.status("a")?.state == .active)
        }
    }

    /// The plugin was saved once more after the configuration had been checked with it.
    @Test func aVersionThatSuitsOnlySomeOfTheUsesThatStayDoesNotComeIntoForce() async throws {
        func plugin(_ names: String...) -> String {
            "return { params = { \(names.map { "\($0) = { type = 'number' }" }.joined(separator: ", ")) }, push_filter = function() return true end }"
        }
        let folder = Folder()
        folder.write("a.lua", plugin("old", "keep"))
        try await withHost(folder.path) { host, events in
            func use(_ place: String, _ name: String) throws -> any DocumentFilter {
                try host.pushFilter(plugin: "a", params: .members([(name, .integer(1))]), usedBy: place)
            }
            let (one, other) = (try use("one", "old"), try use("other", "keep"))
            folder.save("a.lua", plugin("new"))
            _ = try await events.refused("a")
            let changed = try use("one", "new")
            await host.promoteSuccessors()
            #expect(await other.judge("{}") == [.pass])
            #expect(await one.judge("{}") == [.pass])
            guard case .failed? = await changed.judge("{}").first else {
                Issue.record("it was judged by a version that does not have its parameter")
                return
            }
            #expect(host.status("a")?.state == .refused)
        }
    }

    @Test func aRemovedPluginInUseKeepsServing() async throws {
        let folder = Folder()
        folder.write("used.lua", passes("true"))
        folder.write("free.lua", passes("true"))
        try await withHost(folder.path) { host, events in
            var filter: (any DocumentFilter)? = try host.filter("used")
            folder.remove("free.lua")
            _ = try await events.wait { $0 == .removed(plugin: "free") }
            #expect(host.status("free") == nil)
            folder.remove("used.lua")
            _ = try await events.wait { if case .missing("used", _) = $0 { true } else { false } }
            #expect(host.status("used")?.state == .missing)
            #expect(await filter?.judge("{}") == [.pass])
            folder.write("used.lua", passes("true"))
            _ = try await events.wait { if case .returned("used", _) = $0 { true } else { false } }
            #expect(host.status("used")?.state == .active)
            folder.remove("used.lua")
            _ = try await events.wait { if case .missing("used", _) = $0 { true } else { false } }
            filter = nil
            _ = try await events.wait { $0 == .removed(plugin: "used") }
            #expect(host.status().isEmpty)
        }
    }

    @Test func aLinkThatFlipsChangesTheWholeFolder() async throws {
        let outer = Folder()
        for number in 1...3 {
            outer.make("release\(number)")
            outer.make("release\(number)/plugins")
            outer.write("release\(number)/plugins/a.lua", passes("doc.n == \(number)"))
            outer.write("release\(number)/plugins/b.lua", passes("doc.n ~= \(number)"))
        }
        outer.link("current", to: "release1")
        try await withHost(outer("current/plugins")) { host, events in
            let filter = try host.filter("a")
            for number in [2, 1, 3] {
                outer.flip("current", to: "release\(number)")
                // In the order of their names.
                try await events.reloaded("a")
                try await events.reloaded("b")
                #expect(await filter.judge("{\"n\":\(number)}") == [.pass])
            }
            // What is saved in the folder behind the link now is noticed too.
            outer.save("release3/plugins/a.lua", passes("doc.n == 33"))
            try await events.reloaded("a")
            #expect(await filter.judge("{\"n\":33}") == [.pass])
        }
    }

    @Test func aFolderThatIsItselfALinkMayFlip() async throws {
        let outer = Folder()
        outer.make("one")
        outer.make("two")
        outer.write("one/a.lua", passes("false"))
        outer.write("two/a.lua", passes("true"))
        outer.link("plugins", to: outer("one"))
        try await withHost(outer("plugins")) { host, events in
            let filter = try host.filter("a")
            outer.flip("plugins", to: outer("two"))
            try await events.reloaded("a")
            #expect(await filter.judge("{}") == [.pass])
            outer.remove("plugins")
            _ = try await events.wait { if case .missing("a", _) = $0 { true } else { false } }
            outer.link("plugins", to: outer("one"))
            try await events.reloaded("a")
            #expect(await filter.judge("{}") == [.reject])
        }
    }

    @Test func subfoldersAreWatchedAlsoNewOnes() async throws {
        let folder = Folder()
        folder.write("a.lua", passes("true"))
        try await withHost(folder.path) { host, events in
            folder.make("site")
            folder.write("site/init.lua", "local h = require 'helper'\n" + passes("h.on"))
            folder.write("site/helper.lua", "return { on = true }")
            _ = try await events.wait { if case .loaded("site", _) = $0 { true } else { false } }
            let filter = try host.filter("site")
            folder.write("site/helper.lua", "return { on = false }")
            try await events.reloaded("site")
            #expect(await filter.judge("{}") == [.reject])
        }
    }

    @Test func aBurstOfSavesEndsWithTheLastOne() async throws {
        let folder = Folder()
        folder.write("a.lua", passes("false"))
        try await withHost(folder.path) { host, events in
            let filter = try host.filter("a")
            for number in 0..<300 { folder.save("a.lua", passes("doc.n == \(number)")) }
            folder.save("a.lua", passes("doc.n == 'last'"))
            folder.write("z.lua", passes("true"))
            _ = try await events.wait { if case .loaded("z", _) = $0 { true } else { false } }
            #expect(await filter.judge("{\"n\":\"last\"}") == [.pass])
        }
    }

    @Test func reloadOnDemandTellsEachVerdict() async throws {
        let folder = Folder()
        folder.write("bad.lua", "return {")
        folder.write("good.lua", passes("true"))
        try await withHost(folder.path) { host, _ in
            var verdicts = await host.reload()
            #expect(verdicts.map(\.plugin) == ["bad", "good"])
            #expect(verdicts[1].outcome == .unchanged)
            guard case .refused(let problem) = verdicts[0].outcome else {
                Issue.record("bad.lua must be refused")
                return
            }
            #expect(problem.file == "bad.lua")
            folder.write("good.lua", passes("false"))
            verdicts = await host.reload("good")
            #expect(verdicts.map(\.generation) == [2])
            #expect(await host.reload("absent").isEmpty)
        }
    }

    /// Each document is judged by exactly one version: versions disagree about every document and agree with themselves.
    @Test func batchesDuringReloadsAreJudgedByOneVersion() async throws {
        let folder = Folder()
        func source(_ number: Int) -> String {
            "local version = \(number)\nreturn { push_filter = function(doc) return (doc.n + version) % 2 == 0 end }"
        }
        folder.write("a.lua", source(0))
        try await withHost(folder.path) { host, events in
            let filters = try (0..<4).map { _ in try host.filter("a") }
            let isDone = Shared(false)
            let mixed = Shared(0)
            let judged = Shared(0)
            try await withThrowingTaskGroup(of: Void.self) { group in
                for filter in filters {
                    group.addTask {
                        let documents = (0..<200).map { document("{\"n\":\($0)}") }
                        let even = (0..<200).map { $0 % 2 == 0 ? FilterVerdict.pass : .reject }
                        let odd = (0..<200).map { $0 % 2 == 1 ? FilterVerdict.pass : .reject }
                        while !isDone.withLock({ $0 }) {
                            let verdicts = await filter.evaluate(documents, push)
                            if verdicts != even && verdicts != odd { mixed.withLock { $0 += 1 } }
                            judged.withLock { $0 += verdicts.count }
                        }
                    }
                }
                for number in 1...30 {
                    folder.save("a.lua", source(number))
                    try await events.reloaded("a")
                }
                isDone.withLock { $0 = true }
                try await group.waitForAll()
            }
            #expect(mixed.withLock { $0 } == 0)
            #expect(judged.withLock { $0 } > 0)
            #expect(host.status("a")?.errors == 0)
            #expect(host.status("a")?.generation == 31)
            #expect(host.status("a")?.usedBy.count == 4)
        }
    }

    @Test func aProofCanRefuse() async throws {
        struct Proof: PluginProof {
            func prove(_ candidate: PluginCandidate) -> PluginProblem? {
                candidate.tests.map { PluginProblem(plugin: candidate.name, file: $0.file, line: 1, message: "does not hold") }
            }
        }
        let folder = Folder()
        folder.write("a.lua", passes("true"))
        try await withHost(folder.path, proof: Proof()) { host, events in
            let filter = try host.filter("a")
            folder.write("a.test.lua", "return {}")
            folder.write("a.lua", passes("false"))
            #expect(try await events.refused("a").description == "a.test.lua:1: does not hold")
            #expect(await filter.judge("{}") == [.pass])
            folder.remove("a.test.lua")
            try await events.reloaded("a")
            #expect(await filter.judge("{}") == [.reject])
        }
    }
}

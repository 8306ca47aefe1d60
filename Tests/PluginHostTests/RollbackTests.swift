import Interfaces
import LuaRuntime
import PluginHost
import Testing

/// Versions that were in force are kept and can come back.
@Suite(.timeLimit(.minutes(10)))
struct RollbackTests {
    private func withVersions<Result: Sendable>(
        _ folder: Folder, _ data: Folder, limits: PluginHostLimits = quick, _ body: (PluginHost, inout Events) async throws -> Result
    ) async throws -> Result {
        try await withHost(folder.path, limits: limits, proof: ProofByTests(), versionsFolder: data("versions"), body)
    }

    @Test func theVersionBeforeComesBackAndHoldsUntilTheFileChanges() async throws {
        let (folder, data) = (Folder(), Folder())
        folder.write("a.lua", passes("doc.n == 1"))
        try await withVersions(folder, data) { host, events in
            let filter = try host.filter("a")
            let first = try #require(host.status("a")?.version)
            folder.save("a.lua", passes("doc.n == 2"))
            let second = try await events.reloaded("a")
            var versions = filter.versionChanges().makeAsyncIterator()
            let verdict = try await host.rollBack("a")
            #expect(verdict.outcome == .rolledBack(PluginRollback(from: second, to: first)))
            #expect(verdict.generation == 3)
            #expect(await versions.next() == first)
            #expect(await filter.judge("{\"n\":1}", "{\"n\":2}") == [.pass, .reject])
            #expect(host.status("a")?.rolledBack == PluginRollback(from: second, to: first))
            #expect(host.status("a")?.state == .active)
            _ = try await events.wait { $0 == .rolledBack(plugin: "a", from: second, to: first) }
            // Looking at the folder changes nothing, nor does touching the file.
            _ = await host.reload()
            folder.save("a.lua", passes("doc.n == 2"))
            _ = await host.reload()
            #expect(host.status("a")?.version == first)
            // Another version in the folder does.
            folder.save("a.lua", passes("doc.n == 3"))
            let third = try await events.reloaded("a")
            #expect(third != first)
            #expect(host.status("a")?.rolledBack == nil)
            // The version before is the one that served before, not the one in the file before.
            #expect(try await host.rollBack("a").version == first)
            // A changed test is a changed file of the plugin, too.
            folder.save("a.test.lua", "return { fine = function(t) t.accept(t.push_filter { n = 3 }) end }")
            _ = try await events.wait { $0 == .reloaded(plugin: "a", from: first, to: third) }
            #expect(host.status("a")?.rolledBack == nil)
        }
    }

    @Test func rollingBackTwiceGoesFurtherBack() async throws {
        let (folder, data) = (Folder(), Folder())
        folder.write("a.lua", passes("doc.n == 0"))
        try await withVersions(folder, data) { host, events in
            var versions = [try #require(host.status("a")?.version)]
            for number in 1...3 {
                folder.save("a.lua", passes("doc.n == \(number)"))
                versions.append(try await events.reloaded("a"))
            }
            for number in [2, 1, 0] {
                #expect(try await host.rollBack("a").version == versions[number])
                // The folder still has the newest version.
                #expect(host.status("a")?.rolledBack == PluginRollback(from: versions[3], to: versions[number]))
            }
            await #expect(throws: PluginError.noVersion(plugin: "a", wanted: nil, kept: versions)) { try await host.rollBack("a") }
            #expect(try await host.rollBack("a", to: String(versions[2].prefix(6))).version == versions[2])
            await #expect(throws: PluginError.noVersion(plugin: "a", wanted: "ffff", kept: versions)) { try await host.rollBack("a", to: "ffff") }
            await #expect(throws: PluginError.self) { try await host.rollBack("b") }
            // A reload by name is the other way out.
            let verdicts = await host.reload("a")
            #expect(verdicts.first?.version == versions[3])
            #expect(verdicts.first?.outcome == .reloaded)
        }
    }

    @Test func aRollbackSurvivesARestart() async throws {
        let (folder, data) = (Folder(), Folder())
        folder.make("a")
        folder.write("a/init.lua", "local h = require 'helper'\n" + passes("doc.n == h"))
        folder.write("a/helper.lua", "return 1")
        folder.write("a/init.test.lua", "return { works = function(t) t.reject(t.push_filter{}) end }")
        let first = try await withVersions(folder, data) { host, events in
            let first = try #require(host.status("a")?.version)
            folder.write("a/helper.lua", "return 2")
            try await events.reloaded("a")
            _ = try await host.rollBack("a")
            return first
        }
        try await withVersions(folder, data) { host, events in
            #expect(host.status("a")?.version == first)
            #expect(host.status("a")?.rolledBack?.to == first)
            #expect(host.status("a")?.keptVersions.count == 2)
            let verdicts1 = try await host.judge("a", "{\"n\":1}")
            #expect(verdicts1 == [.pass])
            // Also a change while nobody looked ends it.
        }
        folder.write("a/helper.lua", "return 3")
        try await withVersions(folder, data) { host, _ in
            #expect(host.status("a")?.rolledBack == nil)
            let verdicts2 = try await host.judge("a", "{\"n\":3}")
            #expect(verdicts2 == [.pass])
        }
    }

    @Test func aRefusedFileAfterARestartLeavesTheLastVersionServing() async throws {
        let (folder, data) = (Folder(), Folder())
        folder.write("a.lua", passes("doc.n == 1"))
        let good = try await withVersions(folder, data) { host, _ in host.status("a")?.version }
        folder.write("a.lua", "return {")
        try await withVersions(folder, data) { host, events in
            let status = try #require(host.status("a"))
            #expect(status.version == good)
            #expect(status.state == .refused)
            #expect(status.refused?.error.hasPrefix("a.lua:1:") == true)
            let verdicts3 = try await host.judge("a", "{\"n\":1}")
            #expect(verdicts3 == [.pass])
            folder.save("a.lua", passes("doc.n == 2"))
            try await events.reloaded("a")
        }
    }

    @Test func tenVersionsAreKeptAndNoMore() async throws {
        let (folder, data) = (Folder(), Folder())
        folder.write("a.lua", passes("doc.n == 0"))
        try await withVersions(folder, data) { host, events in
            for number in 1...14 {
                folder.save("a.lua", passes("doc.n == \(number)"))
                try await events.reloaded("a")
            }
            // The files are written after the version is in force.
            _ = await host.reload()
            #expect(host.status("a")?.keptVersions.count == 10)
            #expect(data.names(in: "versions/a").count == 11)
            #expect(folder.names(in: ".") == ["a.lua"])
            for number in stride(from: 13, through: 5, by: -1) {
                _ = try await host.rollBack("a")
                let verdicts4 = try await host.judge("a", "{\"n\":\(number)}")
                #expect(verdicts4 == [.pass])
            }
            await #expect(throws: PluginError.self) { try await host.rollBack("a") }
        }
    }

    @Test func aKeptVersionThatIsNotWhatItSaysIsNotTaken() async throws {
        let (folder, data) = (Folder(), Folder())
        folder.write("a.lua", passes("doc.n == 1"))
        try await withVersions(folder, data) { host, events in
            let first = try #require(host.status("a")?.version)
            folder.save("a.lua", passes("doc.n == 2"))
            let second = try await events.reloaded("a")
            for damage in ["", "{}", "{\"main\":{\"path\":\"a.lua\",\"base64\":\"cmV0dXJuIHt9\"}}"] {
                data.write("versions/a/\(first).json", damage)
                await #expect(throws: PluginError.self) { try await host.rollBack("a") }
                #expect(host.status("a")?.version == second)
                #expect(host.status("a")?.state == .active)
            }
        }
    }

    @Test func aVersionThatNoLongerSuitsItsUsesIsNotTaken() async throws {
        let (folder, data) = (Folder(), Folder())
        folder.write("a.lua", "return { pull_filter = function() return true end }")
        try await withVersions(folder, data) { host, events in
            folder.save("a.lua", passes("true"))
            let second = try await events.reloaded("a")
            let filter = try host.filter("a")
            do {
                _ = try await host.rollBack("a")
                Issue.record("a version without the hook must not come into force")
            } catch {
                #expect("\(error)".contains("needs push_filter"), "\(error)")
            }
            #expect(await filter.judge("{}") == [.pass])
            #expect(host.status("a")?.version == second)
        }
    }
}

import Digests
import Encodings
import Glibc
import Interfaces
import LuaRuntime
import PluginHost
import Testing

@Suite(.timeLimit(.minutes(10)))
struct LoadingTests {
    @Test func onlyPluginsAreLoaded() async throws {
        let folder = Folder()
        folder.make("site")
        folder.make("lib")
        folder.make("assets")
        for name in ["a.lua", "b-2_x.lua", "site/init.lua"] { folder.write(name, passes("true")) }
        for name in ["a.test.lua", "nightjar.d.lua", ".hidden.lua", "#a.lua#", "a.lua~", "a.lua.bak", ".a.lua.swp", "4913", "lib/geo.lua", "assets/x.lua", "orphan.test.lua"] {
            folder.write(name, "this is no Lua")
        }
        try await withHost(folder.path) { host, _ in
            #expect(host.status().map(\.name) == ["a", "b-2_x", "site"])
            #expect(host.status().allSatisfy { $0.state == .active && $0.hooks == ["push_filter"] })
            #expect(host.list().map(\.file) == ["a.lua", "b-2_x.lua", "site/init.lua"])
            #expect(host.folderProblems().isEmpty)
        }
    }

    /// For a folder that is somebody's own, with more in it than a plugins folder may have.
    @Test func oneAloneIsFoundAmongWhateverElseThereIs() async throws {
        let folder = Folder()
        folder.make("lib")
        for number in 0..<20 { folder.write("a\(number).txt", "") }
        for name in ["other.lua", "no plugin's name.lua", "mine.bak"] { folder.write(name, "this is no Lua") }
        folder.write("lib/words.lua", "return { word = true }\n")
        folder.write("mine.lua", "local words = require('words')\n" + passes("words.word"))
        var limits = quick
        limits.files = 10
        let host = try PluginHost(folder: folder.path, only: "mine", limits: limits, logger: quiet, environment: .system)
        await host.start()
        #expect(host.status().map(\.name) == ["mine"] && host.status("mine")?.state == .active)
        #expect(host.folderProblems().isEmpty)
        await host.shutdown()
    }

    @Test func theVersionOfOneFileIsItsDigest() async throws {
        let folder = Folder()
        let source = passes("true")
        folder.write("a.lua", source)
        try await withHost(folder.path) { host, _ in
            #expect(host.status("a")?.version == Hex.encode(SHA256.hash(Array(source.utf8)).prefix(6)))
        }
    }

    @Test func theVersionCoversModulesThatAreUsed() async throws {
        let folder = Folder()
        folder.make("lib")
        folder.make("lib/deep")
        folder.write("lib/geo.lua", "return { near = require('deep.sea') }")
        folder.write("lib/deep/sea.lua", "return function() return true end")
        folder.write("lib/unused.lua", "return 1")
        folder.write("a.lua", "local geo = require \"geo\"\n" + passes("geo.near()"))
        try await withHost(folder.path) { host, events in
            let filter = try host.filter("a")
            #expect(await filter.judge("{}") == [.pass])
            folder.write("lib/unused.lua", "return 2")
            #expect(await host.reload("a").map(\.outcome) == [.unchanged])
            folder.write("lib/deep/sea.lua", "return function() return false end")
            try await events.reloaded("a")
            #expect(await filter.judge("{}") == [.reject])
        }
    }

    @Test func modulesStandBesideInitOrInLib() async throws {
        let folder = Folder()
        folder.make("site")
        folder.make("lib")
        folder.write("site/helper.lua", "return { answer = 42 }")
        folder.write("lib/helper.lua", "return { answer = 0 }")
        folder.write("site/init.lua", "local h = require 'helper'\n" + passes("h.answer == doc.n"))
        folder.write("flat.lua", "local h = require 'helper'\n" + passes("h.answer == doc.n"))
        try await withHost(folder.path) { host, _ in
            do {
                let filter = try host.filter("site")
                #expect(await filter.judge("{\"n\":42}") == [.pass])
            }
            do {
                let filter = try host.filter("flat")
                #expect(await filter.judge("{\"n\":0}") == [.pass])
            }
        }
    }

    @Test(arguments: ["../secret", "..secret", "/etc/passwd", "a", "site.helper", "lib.geo", "geo/../../secret", ".secret", "", "init\\0", "link", "linked.secret", "x..y"])
    func requireDoesNotLeaveItsFolders(name: String) async throws {
        let outer = Folder()
        outer.make("plugins")
        outer.make("plugins/lib")
        outer.make("plugins/site")
        outer.write("secret.lua", "return { escaped = true }")
        outer.write("plugins/a.lua", passes("true"))
        outer.write("plugins/site/helper.lua", "return {}")
        outer.write("plugins/site/init.lua", passes("true"))
        outer.link("plugins/lib/link.lua", to: outer("secret.lua"))
        outer.link("plugins/lib/linked", to: outer.path)
        outer.write("plugins/try.lua", "local m = require \"\(name)\"\n" + passes("m.escaped"))
        try await withHost(outer("plugins")) { host, _ in
            let status = try #require(host.status("try"))
            #expect(status.state == .refused)
            #expect(status.refused?.error.hasPrefix("try.lua:1: ") == true, "\(status)")
            #expect(host.status("a")?.state == .active)
        }
    }

    @Test func linksInsideTheFolderWorkAndThoseOutOfItAreRefused() async throws {
        let outer = Folder()
        outer.make("plugins")
        outer.make("plugins/..2026")
        outer.write("plugins/..2026/inside.lua", passes("true"))
        outer.link("plugins/..data", to: "..2026")
        outer.link("plugins/inside.lua", to: "..data/inside.lua")
        outer.write("outside.lua", passes("true"))
        outer.link("plugins/outside.lua", to: "../outside.lua")
        mkfifo(outer("plugins/pipe.lua"), 0o600)
        try await withHost(outer("plugins")) { host, _ in
            #expect(host.status("inside")?.state == .active)
            #expect(host.status("outside")?.refused?.error.contains("leads out of its folder") == true)
            #expect(host.status("pipe")?.refused?.error.contains("regular file") == true)
        }
    }

    @Test func mistakesAreNamed() async throws {
        let folder = Folder()
        folder.make("two")
        folder.write("two.lua", passes("true"))
        folder.write("two/init.lua", passes("true"))
        folder.write("Upper.lua", passes("true"))
        folder.write("syntax.lua", "return {\n  push_filter = function(doc)\n    retrun true\n  end\n}")
        folder.write("params.lua", "return {\n  params = {\n    limit = { type = \"numbr\" },\n  },\n  push_filter = function() return true end,\n}")
        folder.write("global.lua", "return {\n  push_filter = function(doc)\n    if doc.rare then return docc.type end\n    return true\n  end,\n}")
        folder.make("lib")
        folder.write("lib/words.lua", "local words = {}\nfunction words.of(text) return txet:gmatch('%a+') end\nreturn words")
        folder.write("module.lua", "local words = require 'words'\n" + passes("words.of(doc.text) ~= nil"))
        folder.write("nothing.lua", "local x = 1")
        folder.write("loop.lua", "while true do end")
        var limits = quick
        limits.plugin.state.load = LuaCallLimits(cpuMilliseconds: 50, instructions: 1_000_000)
        let check = try await PluginCheck.run(folder: folder.path, limits: limits, environment: .system)
        #expect(check.plugins.isEmpty)
        func problem(_ file: String) -> String { check.problems.first { $0.file == file }?.description ?? "none" }
        #expect(problem("two.lua").contains("two/init.lua"))
        #expect(problem("Upper.lua").contains("lower case"))
        #expect(problem("syntax.lua").hasPrefix("syntax.lua:3: "))
        #expect(problem("params.lua") == "params.lua:3: params.limit: type \"numbr\" is not one of string, number, integer, boolean, table, array, file; did you mean number?")
        #expect(problem("global.lua") == "global.lua:3: the variable 'docc' is not defined; did you mean 'doc'?")
        #expect(problem("lib/words.lua") == "lib/words.lua:2: the variable 'txet' is not defined; did you mean 'text'?")
        #expect(problem("nothing.lua") != "none")
        #expect(problem("loop.lua").hasPrefix("loop.lua:1: "))
    }

    @Test func aMissingFolderIsAProblemUntilItAppears() async throws {
        let outer = Folder()
        try await withHost(outer("plugins")) { host, events in
            #expect(host.folderProblems().first?.message.contains("cannot be read") == true)
            #expect(host.status().isEmpty)
            outer.make("new")
            outer.write("new/a.lua", passes("true"))
            rename(outer("new"), outer("plugins"))
            _ = try await events.wait { if case .loaded("a", _) = $0 { true } else { false } }
            #expect(host.folderProblems().isEmpty)
        }
    }

    @Test func aUseThatCannotBeIsExplained() async throws {
        let folder = Folder()
        folder.write("by-owner.lua", "return { params = { name = { type = \"string\", required = true } }, push_filter = function() return true end }")
        folder.write("broken.lua", "return")
        try await withHost(folder.path) { host, _ in
            func reason(_ plugin: String, _ hook: LuaHook, _ params: LuaValue = .missing) -> String {
                do {
                    switch hook {
                    case .pullFilter: _ = try host.pullFilter(plugin: plugin, params: params, usedBy: "replicator hub pull_filter")
                    default: _ = try host.filter(plugin, params)
                    }
                    return "none"
                } catch {
                    return "\(error)"
                }
            }
            #expect(reason("by-ownr", .pushFilter).hasSuffix("did you mean by-owner?"))
            #expect(reason("../x", .pushFilter).contains("cannot be the name"))
            #expect(reason("broken", .pushFilter).contains("broken.lua"))
            #expect(reason("by-owner", .pullFilter) == "replicator hub pull_filter: plugin \"by-owner\" (by-owner.lua) has no pull_filter; it has push_filter")
            #expect(reason("by-owner", .pushFilter) == "replicator hub push_filter: plugin \"by-owner\" (by-owner.lua): missing parameter \"name\" (string)")
            #expect(reason("by-owner", .pushFilter, .members([("name", .text("x"))])) == "none")
            // A use that has gone is not listed.
            #expect(host.status("by-owner")?.usedBy == [])
        }
    }
}

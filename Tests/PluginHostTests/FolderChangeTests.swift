import Glibc
import Interfaces
import LuaRuntime
import PluginHost
import Synchronization
import Testing

/// What people and tools do to a folder of plugins, with the tests of a version in charge of it.
@Suite(.timeLimit(.minutes(10)))
struct FolderChangeTests {
    private static let test = "return { works = function(t) t.accept(t.push_filter{}) end }\n"

    @Test func aVersionThatFailsItsTestsIsRefusedWithTheLine() async throws {
        let folder = Folder()
        folder.write("a.lua", passes("true"))
        folder.write("a.test.lua", "return {\n  works = function(t)\n    t.accept(t.push_filter{})\n  end,\n}\n")
        try await withHost(folder.path, proof: ProofByTests()) { host, events in
            let filter = try host.filter("a")
            folder.save("a.lua", passes("false"))
            #expect(try await events.refused("a").description == "a.test.lua:3: test \"works\" failed: expected to be accepted, was rejected")
            #expect(await filter.judge("{}") == [.pass])
            folder.save("a.lua", passes("doc.x == nil"))
            try await events.reloaded("a")
            #expect(host.status("a")?.state == .active)
        }
    }

    @Test func aChangedTestAloneIsRunOnTheVersionInForce() async throws {
        let folder = Folder()
        folder.write("a.lua", passes("true"))
        folder.write("a.test.lua", Self.test)
        try await withHost(folder.path, proof: ProofByTests()) { host, events in
            let filter = try host.filter("a")
            let version = host.status("a")?.version
            folder.save("a.test.lua", "return { never = function(t) t.reject(t.push_filter{}) end }")
            #expect(try await events.refused("a").file == "a.test.lua")
            #expect(host.status("a")?.state == .refused)
            #expect(host.status("a")?.version == version)
            #expect(await filter.judge("{}") == [.pass])
            folder.save("a.test.lua", Self.test)
            _ = try await events.wait { if case .restored("a", _) = $0 { true } else { false } }
            #expect(host.status("a")?.generation == 1)
        }
    }

    @Test func testsThatTakeTooLongRefuse() async throws {
        let folder = Folder()
        var limits = quick
        limits.testMilliseconds = 50
        folder.write("a.lua", passes("true"))
        folder.write("a.test.lua", "local t = {}\nfor i = 1, 50 do t['case' .. i] = function() for i = 1, 2000000 do end end end\nreturn t")
        try await withHost(folder.path, limits: limits, proof: ProofByTests()) { host, _ in
            let error = host.status("a")?.refused?.error ?? ""
            #expect(error.contains("a.test.lua: its tests take more processor time than tests = 50 ms"), "\(error)")
        }
    }

    @Test func aPullOfManyFilesIsTakenAsAWhole() async throws {
        let folder = Folder()
        folder.make("lib")
        func write(_ number: Int) {
            for index in 0..<40 { folder.write("p\(index).lua", "local lib = require 'shared'\n" + passes("doc.n == lib.n and doc.n == \(number)")) }
            folder.write("lib/shared.lua", "return { n = \(number) }")
        }
        write(1)
        try await withHost(folder.path, proof: ProofByTests()) { host, events in
            let filters = try (0..<40).map { try host.filter("p\($0)") }
            write(2)
            for index in 0..<40 { while host.status("p\(index)")?.generation == 1 { try await events.reloaded("p\(index)") } }
            // A file may have been read between two writes; the last state is what counts, and nothing is lost.
            _ = await host.reload()
            for filter in filters { #expect(await filter.judge("{\"n\":2}", "{\"n\":1}") == [.pass, .reject]) }
            #expect(host.status().allSatisfy { $0.state == .active })
        }
    }

    @Test func aChangedModuleOfLibChangesEveryPluginThatUsesIt() async throws {
        let folder = Folder()
        folder.make("lib")
        folder.write("lib/limit.lua", "return 1")
        folder.write("a.lua", "local limit = require 'limit'\n" + passes("doc.n < limit"))
        folder.write("b.lua", passes("true"))
        try await withHost(folder.path, proof: ProofByTests()) { host, events in
            let filter = try host.filter("a")
            #expect(await filter.judge("{\"n\":5}") == [.reject])
            folder.save("lib/limit.lua", "return 10")
            try await events.reloaded("a")
            #expect(await filter.judge("{\"n\":5}") == [.pass])
            folder.save("lib/limit.lua", "return = 10")
            #expect(try await events.refused("a").file == "lib/limit.lua")
            #expect(await filter.judge("{\"n\":5}") == [.pass])
            #expect(host.status("b")?.generation == 1)
        }
    }

    @Test func filesOfEditorsAreNoPlugins() async throws {
        let folder = Folder()
        folder.write("a.lua", passes("false"))
        try await withHost(folder.path, proof: ProofByTests()) { host, events in
            let filter = try host.filter("a")
            // vim: a probe, a swap file, the old file kept under another name, a new one in its place.
            folder.write("4913", "")
            folder.remove("4913")
            folder.write(".a.lua.swp", "binary")
            folder.move("a.lua", to: "a.lua~")
            folder.write("a.lua", passes("doc.editor == 'vim'"))
            try await events.reloaded("a")
            folder.remove("a.lua~")
            #expect(await filter.judge("{\"editor\":\"vim\"}") == [.pass])
            // Emacs: a lock that is a link to nowhere, an autosave, and the file written in place.
            folder.link(".#a.lua", to: "me@here.123")
            folder.write("#a.lua#", "half")
            folder.write("a.lua", passes("doc.editor == 'emacs'"))
            try await events.reloaded("a")
            #expect(await filter.judge("{\"editor\":\"emacs\"}") == [.pass])
            // Others: a temporary file with a name of its own beside it, renamed over.
            folder.write("a.lua.tmp.4711", passes("doc.editor == 'code'"))
            folder.move("a.lua.tmp.4711", to: "a.lua")
            try await events.reloaded("a")
            #expect(await filter.judge("{\"editor\":\"code\"}") == [.pass])
            #expect(host.status().map(\.name) == ["a"])
            #expect(host.folderProblems().isEmpty, "\(host.folderProblems())")
        }
    }

    @Test func aFolderThatIsDeletedAndMadeAgain() async throws {
        let outer = Folder()
        outer.make("plugins")
        outer.write("plugins/a.lua", passes("doc.n == 1"))
        try await withHost(outer("plugins"), proof: ProofByTests()) { host, events in
            let filter = try host.filter("a")
            outer.removeFolder("plugins")
            _ = try await events.wait { if case .missing("a", _) = $0 { true } else { false } }
            #expect(host.status("a")?.state == .missing)
            #expect(!host.folderProblems().isEmpty)
            #expect(await filter.judge("{\"n\":1}") == [.pass])
            outer.make("plugins")
            outer.write("plugins/a.lua", passes("doc.n == 2"))
            try await events.reloaded("a")
            #expect(await filter.judge("{\"n\":2}") == [.pass])
            outer.save("plugins/a.lua", passes("doc.n == 3"))
            try await events.reloaded("a")
            #expect(host.status("a")?.state == .active)
            #expect(host.folderProblems().isEmpty)
        }
    }

    /// Notices that nobody fetches fill the kernel's queue; what comes after that is lost, and only the overflow tells of it.
    @Test func aLostNoticeIsMadeUpFor() async throws {
        let outer = Folder()
        outer.make("plugins")
        outer.write("plugins/a.lua", passes("false"))
        outer.write("plugins/b.lua", passes("false"))
        let queue = Int(fgetsLine("/proc/sys/fs/inotify/max_queued_events") ?? "") ?? 16_384
        let gate = Gate()
        try await withHost(outer("plugins"), proof: gate) { host, events in
            let filter = try host.filter("b")
            gate.close()
            outer.save("plugins/a.lua", passes("true"))
            await gate.waitUntilReached()
            // The folder above is watched for one name only: none of these matters by itself.
            for number in 0..<(queue / 2 + 1_000) {
                outer.write("noise\(number % 2)", "")
                outer.remove("noise\(number % 2)")
            }
            outer.save("plugins/b.lua", passes("true"))
            gate.open()
            try await events.reloaded("b")
            #expect(await filter.judge("{}") == [.pass])
        }
    }
}

/// A proof that can be made to wait, and with it the thread that reads the folder.
private final class Gate: PluginProof {
    private let state = Mutex((isClosed: false, isReached: false))

    func close() { state.withLock { $0 = (true, false) } }
    func open() { state.withLock { $0.isClosed = false } }
    func waitUntilReached() async { while !state.withLock({ $0.isReached }) { await Task.yield() } }

    func prove(_ candidate: PluginCandidate) -> PluginProblem? {
        state.withLock { $0.isReached = true }
        while state.withLock({ $0.isClosed }) { usleep(1_000) }
        return nil
    }
}

private func fgetsLine(_ path: String) -> String? {
    guard let file = fopen(path, "r") else { return nil }
    defer { fclose(file) }
    var bytes = [CChar](repeating: 0, count: 64)
    guard fgets(&bytes, 64, file) != nil else { return nil }
    return String(decoding: bytes.prefix { $0 != 0 && $0 != 10 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
}

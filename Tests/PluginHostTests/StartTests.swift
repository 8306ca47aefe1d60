import Environment
import Glibc
import Interfaces
import Logging
import LuaRuntime
import PluginHost
import Synchronization
import Testing

/// What a start does about plugins whose files changed while nobody looked.
@Suite(.timeLimit(.minutes(10)))
struct StartTests {
    /// Counts how often it is asked.
    private final class CountingProof: PluginProof {
        let asked = Mutex<[String]>([])
        func prove(_ candidate: PluginCandidate) -> PluginProblem? {
            asked.withLock { $0.append(candidate.name) }
            return ProofByTests().prove(candidate)
        }
    }

    private let tests = "return { fine = function(t) t.accept(t.push_filter { n = 1 }) end }"

    private func host(_ folder: Folder, _ data: Folder, _ proof: any PluginProof) throws -> PluginHost {
        try PluginHost(
            folder: folder.path, limits: quick, proof: proof, versionsFolder: data("versions"),
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }, environment: .system)
    }

    @Test func aPluginInUseWhoseFileIsGoneIsServedAsItWas() async throws {
        let (folder, data) = (Folder(), Folder())
        folder.write("a.lua", passes("doc.n == 1"))
        folder.write("b.lua", passes("true"))
        let first = try host(folder, data, ProofByTests())
        await first.start(using: ["a"])
        let version = first.status("a")?.version
        await first.shutdown()
        folder.remove("a.lua")
        folder.remove("b.lua")
        let second = try host(folder, data, ProofByTests())
        await second.start(using: ["a"])
        // Looking again before it is used does not take it away.
        _ = await second.reload()
        let filter = try second.filter("a")
        #expect(await filter.judge("{\"n\":1}", "{\"n\":2}") == [.pass, .reject])
        #expect(second.status("a")?.state == .missing)
        #expect(second.status("a")?.version == version)
        #expect(second.status("b") == nil, "nobody uses it")
        #expect(throws: PluginError.self) { try second.filter("never") }
        folder.save("a.lua", passes("doc.n == 2"))
        _ = await second.reload()
        #expect(second.status("a")?.state == .active)
        #expect(await filter.judge("{\"n\":1}", "{\"n\":2}") == [.reject, .pass])
        await second.shutdown()
    }

    @Test func testsThatHavePassedAreNotRunAgain() async throws {
        let (folder, data) = (Folder(), Folder())
        folder.write("a.lua", passes("doc.n == 1"))
        folder.write("a.test.lua", tests)
        for start in 1...3 {
            let proof = CountingProof()
            let host = try host(folder, data, proof)
            await host.start(using: ["a"])
            _ = await host.reload()
            #expect(host.status("a")?.state == .active)
            #expect(proof.asked.withLock { $0.count } == (start == 1 ? 1 : 0), "start \(start)")
            await host.shutdown()
        }
        // Other tests are other files.
        folder.write("a.test.lua", tests + " -- changed")
        let proof = CountingProof()
        let last = try host(folder, data, proof)
        await last.start(using: ["a"])
        _ = await last.reload()
        #expect(proof.asked.withLock { $0 } == ["a"])
        await last.shutdown()
    }

    @Test func aCheckBesideAnAgentRunsOnlyTestsThatHaveNotPassedThere() async throws {
        let (folder, data) = (Folder(), Folder())
        folder.write("a.lua", passes("doc.n == 1"))
        folder.write("a.test.lua", tests)
        folder.write("b.lua", passes("doc.n == 1"))
        folder.write("b.test.lua", tests)
        let host = try host(folder, data, ProofByTests())
        await host.start(using: ["a"])
        _ = await host.reload()
        await host.shutdown()
        func asked(_ versions: String?) async throws -> [String] {
            let proof = CountingProof()
            let check = try await PluginCheck.run(folder: folder.path, limits: quick, proof: proof, versionsFolder: versions, environment: .system)
            #expect(check.problems.isEmpty && check.plugins.map(\.name) == ["a", "b"])
            return proof.asked.withLock { $0.sorted() }
        }
        #expect(try await asked(data("versions")).isEmpty)
        #expect(try await asked(nil) == ["a", "b"])
        folder.write("b.test.lua", tests + " -- changed")
        #expect(try await asked(data("versions")) == ["b"])
    }

    @Test func theStartDoesNotWaitForTestsOfWhatNobodyUses() async throws {
        let (folder, data) = (Folder(), Folder())
        folder.write("used.lua", passes("true"))
        folder.write("unused.lua", passes("doc.n == 1"))
        folder.write("unused.test.lua", tests)
        let proof = HeldProof()
        let host = try host(folder, data, proof)
        // Were its tests waited for, this would not return.
        await host.start(using: ["used"])
        #expect(host.status("used")?.state == .active)
        proof.verdict.withLock { $0 = .passed }
        _ = await host.reload()
        #expect(host.status("unused")?.state == .active)
        await host.shutdown()
    }

    /// Holds the tests until they are told how to end.
    private final class HeldProof: PluginProof {
        enum Verdict: Equatable { case passed, failed }
        let verdict = Mutex<Verdict?>(nil)
        let asked = Mutex(0)

        func prove(_ candidate: PluginCandidate) -> PluginProblem? {
            guard let tests = candidate.tests else { return nil }
            asked.withLock { $0 += 1 }
            while !candidate.isStopping() {
                switch verdict.withLock({ $0 }) {
                case .passed: return nil
                case .failed: return PluginProblem(plugin: candidate.name, file: tests.file, line: 3, message: "test \"fine\" failed")
                case nil: sched_yield()
                }
            }
            return PluginProblem(plugin: candidate.name, file: tests.file, message: "stopped")
        }
    }

    /// A filter and an authenticator, with tests that have never run.
    private func untested(_ folder: Folder) {
        folder.write("a.lua", "return { push_filter = function(doc) return doc.n == 1 end, authenticate_password = function() return true end }")
        folder.write("a.test.lua", tests)
    }

    private func login(_ host: PluginHost) async throws -> AuthenticationVerdict {
        try await host.passwordAuthenticator(plugin: "a", usedBy: "test login").authenticate(
            username: "ada", password: "x", listener: "edge", remote: "here")
    }

    @Test func documentsWaitForTestsThatHaveNotRunBeforeAndLoginsComeAgain() async throws {
        let (folder, data) = (Folder(), Folder())
        untested(folder)
        let proof = HeldProof()
        let host = try host(folder, data, proof)
        await host.start(using: ["a"])
        let filter = try host.filter("a")
        #expect(host.status("a")?.state == .testing)
        guard case .failed(let failure) = try await login(host) else { return #expect(Bool(false), "nobody is let in yet, or refused") }
        #expect(failure.kind == "plugin_load" && failure.message.contains("its tests are running") && failure.resolvesItself)
        async let verdicts = filter.judge("{\"n\":1}", "{\"n\":2}")
        while proof.asked.withLock({ $0 }) == 0 { await Task.yield() }
        #expect(host.status("a")?.calls == 0)
        proof.verdict.withLock { $0 = .passed }
        #expect(await verdicts == [.pass, .reject])
        #expect(try await login(host) == .accepted(Principal(name: "ada")))
        _ = await host.reload()
        #expect(host.status("a")?.state == .active)
        #expect(proof.asked.withLock { $0 } == 1)
        await host.shutdown()
    }

    @Test func aPluginWhoseFirstTestsFailHoldsEverythingUntilItIsMended() async throws {
        let (folder, data) = (Folder(), Folder())
        untested(folder)
        let proof = HeldProof()
        let host = try host(folder, data, proof)
        await host.start(using: ["a"])
        let filter = try host.filter("a")
        var changes = filter.versionChanges().makeAsyncIterator()
        async let verdicts = filter.judge("{\"n\":1}")
        proof.verdict.withLock { $0 = .failed }
        guard case .failed(let failure)? = await verdicts.first else { return #expect(Bool(false), "not asked") }
        #expect(failure.message.contains("a.test.lua:3") && failure.message.contains("test \"fine\" failed"))
        _ = await host.reload()
        #expect(host.status("a")?.state == .refused && host.status("a")?.version == nil)
        guard case .failed = try await login(host) else { return #expect(Bool(false), "nobody is let in") }
        // Only its tests are mended.
        proof.verdict.withLock { $0 = .passed }
        folder.write("a.test.lua", tests + " -- mended")
        _ = await host.reload()
        #expect(await changes.next() != nil, "what is held is asked about again")
        #expect(await filter.judge("{\"n\":1}") == [.pass])
        #expect(host.status("a")?.state == .active)
        await host.shutdown()
    }

    @Test func theVersionBeforeServesWhereTheFirstTestsOfAnotherFail() async throws {
        let (folder, data) = (Folder(), Folder())
        untested(folder)
        let first = try host(folder, data, NoPluginProof())
        await first.start(using: ["a"])
        _ = await first.reload()
        let version = first.status("a")?.version
        await first.shutdown()
        folder.write("a.lua", passes("false"))
        let proof = HeldProof()
        let second = try host(folder, data, proof)
        await second.start(using: ["a"])
        let filter = try second.filter("a")
        async let verdicts = filter.judge("{\"n\":1}")
        proof.verdict.withLock { $0 = .failed }
        #expect(await verdicts == [.pass])
        _ = await second.reload()
        #expect(second.status("a")?.state == .refused && second.status("a")?.version == version)
        await second.shutdown()
    }

    @Test func aStopDoesNotWaitForTests() async throws {
        let (folder, data) = (Folder(), Folder())
        untested(folder)
        let proof = HeldProof()
        let host = try host(folder, data, proof)
        await host.start(using: ["a"])
        let filter = try host.filter("a")
        async let verdicts = filter.judge("{\"n\":1}")
        while proof.asked.withLock({ $0 }) == 0 { await Task.yield() }
        await host.shutdown()
        guard case .failed = await verdicts.first else { return #expect(Bool(false), "not asked") }
    }
}

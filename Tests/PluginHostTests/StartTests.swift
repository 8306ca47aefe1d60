import Environment
import Logging
import LuaRuntime
import PluginHost
import Synchronization
import Testing

/// What a start does about plugins whose files changed while nobody looked.
@Suite(.timeLimit(.minutes(1)))
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
            #expect(host.status("a")?.state == .active)
            _ = await host.reload()
            #expect(proof.asked.withLock { $0.count } == (start == 1 ? 1 : 0), "start \(start)")
            await host.shutdown()
        }
        // Other tests are other files.
        folder.write("a.test.lua", tests + " -- changed")
        let proof = CountingProof()
        let last = try host(folder, data, proof)
        await last.start(using: ["a"])
        #expect(proof.asked.withLock { $0 } == ["a"])
        await last.shutdown()
    }

    @Test func theStartDoesNotWaitForTestsOfWhatNobodyUses() async throws {
        let (folder, data) = (Folder(), Folder())
        folder.write("used.lua", passes("true"))
        folder.write("unused.lua", passes("doc.n == 1"))
        folder.write("unused.test.lua", tests)
        /// Holds the tests until the start is over.
        final class HeldProof: PluginProof {
            let started = Mutex(false)
            func prove(_ candidate: PluginCandidate) -> PluginProblem? {
                while candidate.tests != nil, !started.withLock({ $0 }) {}
                return nil
            }
        }
        let proof = HeldProof()
        let host = try host(folder, data, proof)
        // Were its tests waited for, this would not return.
        await host.start(using: ["used"])
        #expect(host.status("used")?.state == .active)
        proof.started.withLock { $0 = true }
        _ = await host.reload()
        #expect(host.status("unused")?.state == .active)
        await host.shutdown()
    }
}

import Interfaces
import LuaRuntime
import Testing

@testable import PluginHost

/// With require_signed, versions serve only with a signature, wherever they come from.
@Suite(.timeLimit(.minutes(10)))
struct SealTests {
    /// The signer whose signatures count; nil if none is needed. In these tests a signature is the signer's name.
    private let signer = Shared<String?>(nil)

    private func withSeal<Result: Sendable>(
        _ folder: Folder, _ data: Folder, _ body: (PluginHost, inout Events) async throws -> Result
    ) async throws -> Result {
        try await withHost(
            folder.path, proof: ProofByTests(), versionsFolder: data("versions"),
            seal: { [signer] in
                guard let name = signer.withLock({ $0 }) else { return nil }
                @Sendable func problem(_ signature: [UInt8]) -> String? {
                    signature == Array(name.utf8) ? nil : "is by \(String(decoding: signature, as: UTF8.self))"
                }
                return PluginSeal(problem: { signature, _ in problem(signature) }, suppliedProblem: { document, _ in problem(document) })
            }, body)
    }

    private func require(_ name: String?) { signer.withLock { $0 = name } }

    @Test func anUnsignedVersionThatIsKeptDoesNotServeAtAStart() async throws {
        let (folder, data) = (Folder(), Folder())
        folder.write("a.lua", passes("true"))
        let version = try await withSeal(folder, data) { host, _ in host.status("a")?.version ?? "" }
        require("ada")
        for change in [{ folder.write("a.lua", passes("doc.n == 2")) }, { folder.remove("a.lua") }] {
            change()
            let host = try PluginHost(
                folder: folder.path, limits: quick, versionsFolder: data("versions"),
                seal: { PluginSeal(problem: { _, _ in nil }, suppliedProblem: { _, _ in nil }) }, logger: quiet, environment: .system)
            await host.start(using: ["a"])
            _ = await host.reload()
            #expect(host.status("a")?.version == nil)
            do {
                _ = try host.filter("a")
                Issue.record("an unsigned version must not serve")
            } catch {
                for words in ["a.lua.sig", "version \(version)", "has no signature", "nightjar plugin sign a"] { #expect("\(error)".contains(words), "\(error)") }
            }
            await host.shutdown()
        }
    }

    @Test func aSignedVersionIsKeptWithItsSignatureAsLongAsThatCounts() async throws {
        let (folder, data) = (Folder(), Folder())
        // Signed before signatures are required.
        folder.write("a.lua", passes("doc.n == 1"))
        folder.write("a.lua.sig", "ada")
        let version = try await withSeal(folder, data) { host, _ in host.status("a")?.version }
        require("ada")
        folder.write("a.lua", passes("true"))
        folder.remove("a.lua.sig")
        try await withSeal(folder, data) { host, _ in
            let status = try #require(host.status("a"))
            #expect(status.version == version && status.state == .refused)
            let verdicts = try await host.judge("a", "{\"n\":1}", "{\"n\":2}")
            #expect(verdicts == [.pass, .reject])
            // Its key is not trusted any more.
            require("bob")
            let verdict = await host.reload("a").first
            guard case .refused = verdict?.outcome else {
                Issue.record("\(String(describing: verdict))")
                return
            }
            #expect(host.status("a")?.version == nil && host.status("a")?.refused?.error.contains("its signature is by ada") == true)
            #expect(try await host.filter("a").failure("{\"n\":1}")?.message.contains("its signature is by ada") == true)
        }
    }

    @Test func aSignatureThatComesLaterIsKeptToo() async throws {
        let (folder, data) = (Folder(), Folder())
        folder.write("a.lua", passes("doc.n == 1"))
        let version = try await withSeal(folder, data) { host, _ in
            folder.write("a.lua.sig", "ada")
            _ = await host.reload()
            return host.status("a")?.version
        }
        require("ada")
        folder.write("a.lua", passes("true"))
        folder.remove("a.lua.sig")
        try await withSeal(folder, data) { host, _ in #expect(host.status("a")?.version == version) }
    }

    /// A start does not run the tests of a kept version again, so a signature that comes with failing tests must not be kept.
    @Test func aSignatureThatComesWithTestsThatFailIsNotKept() async throws {
        let (folder, data) = (Folder(), Folder())
        folder.write("a.lua", passes("doc.n == 1"))
        try await withSeal(folder, data) { host, _ in
            folder.write("a.test.lua", "return { never = function(t) t.reject(t.push_filter{ n = 1 }) end }\n")
            folder.write("a.lua.sig", "ada")
            _ = await host.reload()
            #expect(host.status("a")?.state == .refused)
        }
        try await withSeal(folder, data) { host, _ in #expect(host.status("a")?.state == .refused) }
    }

    /// Kept versions are files, and modules may have been added to one.
    @Test func aDocumentOfTheFleetSpeaksForNoModules() {
        let seal = PluginSeal(problem: { _, _ in "is a document" }, suppliedProblem: { _, _ in nil })
        let signed = SuppliedPlugin(name: "a", main: Array(passes("true").utf8), tests: nil, document: Array("{}".utf8)).source
        #expect(seal.refusal(of: signed) == nil)
        let added = PluginSource(
            name: "a", main: signed.main, own: ["b": .init(path: "a/b.lua", bytes: [])], library: [:], tests: nil, signature: signed.signature)
        #expect(seal.refusal(of: added)?.message.contains("its signature is a document") == true)
    }

    @Test func aRollbackToAnUnsignedVersionIsRefusedAndOneThatHoldsEnds() async throws {
        let (folder, data) = (Folder(), Folder())
        folder.write("a.lua", passes("doc.n == 1"))
        try await withSeal(folder, data) { host, events in
            let filter = try host.filter("a")
            let first = try #require(host.status("a")?.version)
            folder.save("a.lua", passes("doc.n == 2"))
            let second = try await events.reloaded("a")
            folder.write("a.lua.sig", "ada")
            _ = await host.reload()
            _ = try await host.rollBack("a")
            #expect(await filter.judge("{\"n\":1}") == [.pass])
            require("ada")
            _ = await host.reload()
            #expect(host.status("a")?.version == second && host.status("a")?.rolledBack == nil)
            #expect(await filter.judge("{\"n\":1}", "{\"n\":2}") == [.reject, .pass])
            do {
                _ = try await host.rollBack("a", to: first)
                Issue.record("an unsigned version must not come into force")
            } catch {
                for words in ["a.lua.sig", "version \(first)", "has no signature", "nightjar plugin sign a"] { #expect("\(error)".contains(words), "\(error)") }
            }
            #expect(host.status("a")?.version == second && host.status("a")?.state == .active)
        }
    }

    @Test func whatServesUnsignedWhenASignatureIsAskedForHoldsUntilThereIsOne() async throws {
        let (folder, data) = (Folder(), Folder())
        folder.write("a.lua", passes("true"))
        try await withSeal(folder, data) { host, _ in
            let filter = try host.filter("a")
            let version = host.status("a")?.version
            #expect(await filter.judge("{}") == [.pass])
            var changes = filter.versionChanges().makeAsyncIterator()
            require("ada")
            _ = await host.reload()
            #expect(await changes.next() != nil, "what was let through is judged again")
            let status = try #require(host.status("a"))
            #expect(status.version == nil && status.state == .refused && status.refused?.error.contains("a.lua.sig") == true, "\(status)")
            let failure = try #require(await filter.failure("{}"))
            #expect(failure.message.contains("has no signature"), "\(failure)")
            folder.write("a.lua.sig", "ada")
            _ = await host.reload()
            #expect(await changes.next() != nil, "what is held is asked about again")
            #expect(await filter.judge("{}") == [.pass])
            #expect(host.status("a")?.version == version && host.status("a")?.state == .active)
            // Signatures are not required any more.
            folder.remove("a.lua.sig")
            require("bob")
            _ = await host.reload()
            #expect(await filter.failure("{}") != nil)
            require(nil)
            _ = await host.reload()
            #expect(await filter.judge("{}") == [.pass])
        }
    }
}

import Interfaces
import LuaRuntime
import PluginHost
import Testing

@Suite(.timeLimit(.minutes(10)))
struct ShippedPluginTests {
    static let folder = #filePath.split(separator: "/").dropLast(3).reduce("") { $0 + "/" + $1 } + "/plugins"

    @Test func allLoad() async throws {
        let check = try await PluginCheck.run(folder: Self.folder, environment: .system)
        #expect(check.problems == [])
        #expect(check.plugins.map(\.name) == [
            "by-owner", "by-type", "certificate-names", "latest-wins", "local-wins", "merge-fields", "no-deletes", "password-file", "redact", "remote-wins",
            "skip-drafts", "threshold",
        ])
        #expect(check.plugins.allSatisfy { $0.description != nil })
    }

    @Test func theirTestsHold() async throws {
        let suites = try await PluginTests.run(folder: Self.folder, environment: .system)
        #expect(suites.allSatisfy { $0.problem == nil })
        let outcomes = suites.flatMap(\.outcomes)
        for outcome in outcomes where outcome.failure != nil {
            Issue.record("\(outcome.plugin): \(outcome.name): \(outcome.failure?.message ?? "")")
        }
        #expect(Set(outcomes.map(\.plugin)).count == 12)
    }

    @Test func passwordFileWorksInTheHost() async throws {
        let etc = Folder()
        let folder = Folder()
        folder.write("make.lua", "return { push_filter = function() nightjar.log.info(nightjar.password.hash('right')) return true end }")
        let made = try await PluginRunner.run(PluginRunner.Request(
            folder: folder.path, plugin: "make", hook: .pushFilter, input: .document(Array("{}".utf8)), environment: .system))
        let hash = try #require(made.first?.log.first?.message)
        etc.write("users.txt", "anna:\(hash)\nben:\(hash):read_only\n")
        try await withHost(Self.folder, configurationFolder: etc.path) { host, _ in
            let authenticator = try host.passwordAuthenticator(
                plugin: "password-file", params: .members([("file", .text("users.txt"))]), usedBy: "listener edge authenticator")
            func ask(_ name: String, _ password: String) async -> AuthenticationVerdict {
                await authenticator.authenticate(username: name, password: password, listener: "edge", remote: "[::1]:5")
            }
            #expect(await ask("anna", "right") == .accepted(Principal(name: "anna")))
            #expect(await ask("ben", "right") == .accepted(Principal(name: "ben", isReadOnly: true)))
            #expect(await ask("anna", "wrong") == .refused)
            #expect(await ask("nobody", "right") == .refused)
            for _ in 0..<6 { #expect(await ask("anna", "right") == .accepted(Principal(name: "anna"))) }
        }
    }

    /// Peers write members in their own order; that is no change.
    @Test func mergeFieldsSeesThroughTheOrderOfMembers() async throws {
        try await withHost(Self.folder) { host, _ in
            let resolver = try host.resolver(plugin: "merge-fields", usedBy: "database main conflict_resolver")
            let decision = await resolver.resolve(
                PolicyConflict(
                    id: document("{}").id, local: document(#"{"list":[{"a":1,"b":2},{"a":3}],"o":{"x":1,"y":2}}"#),
                    remote: document(#"{ "o" : {"y":2,"x":1}, "n":1, "list" : [ {"b":2, "a":1} ] }"#),
                    base: document(#"{"list":[{"a":1,"b":2}],"o":{"x":1,"y":2}}"#), localRevision: document("{}").revision,
                    remoteRevision: document("{}").revision, baseRevision: document("{}").revision), push)
            #expect(decision == .merged(Array(#"{"list":[{"a":1,"b":2},{"a":3}],"n":1,"o":{"x":1,"y":2}}"#.utf8)))
        }
    }

    @Test func certificateNamesWorksInTheHost() async throws {
        try await withHost(Self.folder) { host, _ in
            let authenticator = try host.certificateAuthenticator(
                plugin: "certificate-names", params: .members([("names", .array([.text("*.fleet.example")])), ("read_only", .array([.text("truck-*")]))]),
                usedBy: "listener edge authenticator")
            func ask(_ names: [String], until notAfter: Int64 = 4_102_444_800) async -> AuthenticationVerdict {
                await authenticator.authenticate(
                    chain: [
                        PeerCertificate(
                            subject: "CN=x", commonName: "x", dnsNames: names, serial: "01", sha256: "aa", spkiSHA256: "bb", notBefore: 0,
                            notAfter: notAfter, der: [0x30, 0xFF])
                    ], listener: "edge", remote: "[::1]:5")
            }
            #expect(await ask(["bus.fleet.example"]) == .accepted(Principal(name: "bus.fleet.example")))
            #expect(await ask(["a", "truck-1.fleet.example"]) == .accepted(Principal(name: "truck-1.fleet.example", isReadOnly: true)))
            #expect(await ask(["bus.fleet.example.org"]) == .refused)
            #expect(await ask(["bus.fleet.example"], until: 1000) == .refused)
            #expect(await authenticator.authenticate(chain: [], listener: "edge", remote: "x") == .refused)
        }
    }

    @Test func resolversWorkInTheHost() async throws {
        try await withHost(Self.folder) { host, _ in
            let resolver = try host.resolver(plugin: "merge-fields", usedBy: "database main conflict_resolver")
            let decision = await resolver.resolve(
                PolicyConflict(
                    id: document("{}").id, local: document("{\"price\":1,\"note\":\"x\"}"), remote: document("{\"price\":2}"), base: document("{\"price\":1}"),
                    localRevision: document("{}").revision, remoteRevision: document("{}").revision, baseRevision: nil),
                push)
            #expect(decision == .merged(Array("{\"note\":\"x\",\"price\":2}".utf8)))
        }
    }
}

@Suite(.timeLimit(.minutes(10)))
struct ProofTests {
    @Test func aVersionWhoseTestsFailIsRefused() async throws {
        let folder = Folder()
        folder.write("a.test.lua", "return { ['x passes'] = function(t) t.accept(t.push_filter({ x = 1 })) end }")
        folder.write("a.lua", passes("doc.x == 1"))
        try await withHost(folder.path, proof: ProofByTests()) { host, events in
            let filter = try host.filter("a")
            folder.save("a.lua", passes("doc.x == 2"))
            let problem = try await events.refused("a")
            #expect(problem.file == "a.test.lua")
            #expect(problem.line == 1)
            #expect(problem.message.hasPrefix("test \"x passes\" failed: "))
            #expect(await filter.judge("{\"x\":1}") == [.pass])
        }
    }
}

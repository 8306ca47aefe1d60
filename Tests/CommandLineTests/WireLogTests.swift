import Documents
import TestSupport
import Testing

@Suite struct WireLogTests {
    private static let password = "pa55-w0rd-of-ann"
    private static let adminToken = "t0ken-of-the-operator"

    /// Two agents that replicate with a password; what both wrote to their logs, and the document between them.
    private func logs(_ log: String) async throws -> (hub: [String], edge: [String]) {
        let folder = try TemporaryFolder()
        try folder.copy("\(NightjarExecutable.package())/plugins/password-file.lua", to: "plugins/password-file.lua")
        let hash = try await NightjarExecutable.run("password", input: .text(Self.password + "\n")).output
        try folder.write("users.txt", "ann:\(hash)")
        let hub = try await AgentProcess.start(
            Configuration.plain.replacing(
                "disable_tls: true", with: "disable_tls: true, authenticator: { plugin: password-file, params: { file: users.txt } }")
                + "log: \(log)\n", in: folder)
        let target = "ws://127.0.0.1:\(try hub.port("edge"))/main"
        let edge = try await AgentProcess.start(
            Configuration.plain.replacing("admin: { port: 0, open: true }", with: "admin: { port: 0, token: \(Self.adminToken) }")
                + "log: \(log)\nreplicators:\n"
                + Configuration.replicator("hub", to: target, more: "authenticator: { username: ann, password: \(Self.password) }"))
        #expect(try await edge.command("doc", "put", "main", "visible", #"{"body":"inside of the document"}"#).status == 0)
        try await eventually("it arrives") { try await hub.get("main", "visible").status == 200 }
        let (one, other) = (try await edge.stop(), try await hub.stop())
        return (other.errors.split(separator: "\n").map(String.init), one.errors.split(separator: "\n").map(String.init))
    }

    @Test func debugTellsWhatCrossesTheWireAndTraceShowsIt() async throws {
        let quiet = try await logs("{ level: info, domains: { network: debug, sync: debug } }")
        #expect(quiet.edge.contains { $0.contains(" debug network: sent rev ") && $0.contains("bytes=33") && $0.contains("replicator=hub") })
        #expect(quiet.hub.contains { $0.contains(" debug network: received rev ") && $0.contains("listener=edge") })
        #expect(quiet.edge.contains { $0.contains(" debug sync: pushed visible") })
        #expect(!quiet.edge.contains { $0.contains("properties=") || $0.contains("inside of the document") })
        let whole = try await logs("{ level: trace }")
        #expect(whole.edge.contains { $0.contains(" trace network: sent rev ") && $0.contains("id: visible") })
        #expect(!(whole.edge + whole.hub).contains { $0.contains("inside of the document") })
        let bodies = try await logs("{ level: trace, bodies: true }")
        #expect(bodies.edge.contains { $0.contains(" trace network: sent rev ") && $0.contains("inside of the document") })
        for lines in [quiet, whole, bodies] {
            for line in lines.edge + lines.hub {
                let hasSecret = [Self.password, Self.adminToken, "YW5uOnBhNTUtdzByZC1vZi1hbm4="].contains { line.contains($0) }
                #expect(!hasSecret, "\(line)")
            }
        }
    }
}

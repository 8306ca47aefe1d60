import Documents
import Interfaces
import LuaRuntime
import PluginHost
import Testing

@Suite(.timeLimit(.minutes(10)))
struct SyncTests {
    private let plugin = """
        return {
          params = { prefix = { type = "string", default = "" } },
          sync = function(doc, old_doc, ctx)
            if doc.broken then error("broken") end
            if doc.loop then while true do end end
            if old_doc then require_user(old_doc.owner) end
            channel(ctx.params.prefix .. doc.channel)
            access(doc.owner, doc.channel)
            role(doc.owner, "writer")
            expiry(doc.expires)
          end,
          authenticate_certificate = function(chain, ctx)
            if chain[1].common_name == "broken" then error("broken") end
            return { channels = { nightjar.base64.decode(chain[1].der), ctx.listener, ctx.remote } }
          end,
        }
        """

    private func request(_ json: String, old: String? = nil, by user: String? = nil) -> SyncRequest {
        SyncRequest(document: document(json), old: old.map { document($0) }, caller: user.map { SyncCaller(name: $0) } ?? .admin)
    }

    @Test func verdictsKeepTheirOrderAndKind() async throws {
        let folder = Folder()
        folder.write("route.lua", plugin)
        try await withHost(folder.path) { host, _ in
            let function = try host.syncFunction(plugin: "route", params: .members([("prefix", .text("p-"))]), usedBy: "listener edge sync")
            let verdicts = await function.assign([
                request(#"{"channel":"a","owner":"anna","expires":1893456000}"#), request(#"{"broken":true}"#),
                request(#"{"channel":"b"}"#, old: #"{"owner":"ben"}"#, by: "anna"), request(#"{"loop":true}"#),
                request(#"{"channel":"b"}"#, old: #"{"owner":"anna"}"#, by: "anna"), request(#"{"channel":"x y"}"#),
            ], push)
            #expect(verdicts.count == 6)
            #expect(verdicts[0] == .accepted(SyncAssignment(channels: ["p-a"], access: ["anna": ["a"]], roles: ["anna": ["writer"]], expiry: 1_893_456_000)))
            #expect(verdicts[2] == .rejected(reason: "wrong user"))
            #expect(verdicts[4] == .accepted(SyncAssignment(channels: ["p-b"])))
            #expect(verdicts[5] == .rejected(reason: "illegal channel name \"p-x y\""))
            for (index, kind) in [(1, "plugin_error"), (3, "plugin_timeout")] {
                guard case .failed(let failure) = verdicts[index] else { return #expect(Bool(false), "\(verdicts[index])") }
                #expect(failure.kind == kind && failure.message.hasPrefix("route.lua:"))
            }
            let status = try #require(host.status("route"))
            #expect(status.calls == 6 && status.errors == 2 && status.rejected == 2 && status.usedBy == ["listener edge sync"])
            let many = await function.assign((0..<500).map { request(#"{"channel":"\#($0)"}"#) }, push)
            #expect(many == (0..<500).map { .accepted(SyncAssignment(channels: ["p-\($0)"])) })
        }
    }

    @Test func certificatesReachThePlugin() async throws {
        let folder = Folder()
        folder.write("route.lua", plugin)
        try await withHost(folder.path) { host, _ in
            let authenticator = try host.certificateAuthenticator(plugin: "route", usedBy: "listener edge authenticator")
            func ask(_ name: String) async -> AuthenticationVerdict {
                let certificate = PeerCertificate(
                    subject: "CN=\(name)", commonName: name, serial: "01", sha256: "aa", spkiSHA256: "bb", notBefore: 0, notAfter: 1, der: Array("der".utf8))
                return await authenticator.authenticate(chain: [certificate], listener: "edge", remote: "[::1]:5")
            }
            #expect(await ask("anna") == .accepted(Principal(name: "anna", channels: ["der", "edge", "[::1]:5"])))
            guard case .failed(let failure) = await ask("broken") else { return #expect(Bool(false)) }
            #expect(failure.kind == "plugin_error")
        }
    }

    @Test func bothAreTriedByHand() async throws {
        let folder = Folder()
        folder.write("route.lua", plugin)
        func run(_ hook: LuaHook, _ input: PluginRunner.Input, as user: String? = nil) async throws -> PluginRunner.Report {
            var request = PluginRunner.Request(folder: folder.path, plugin: "route", hook: hook, input: input, environment: .system)
            request.user = user
            return try #require(try await PluginRunner.run(request).first)
        }
        var report = try await run(.sync, .document(Array(#"{"channel":"a","owner":"anna"}"#.utf8)))
        #expect(report.result?.text == #"{"channels":["a"],"access":{"anna":["a"]},"roles":{"anna":["writer"]},"expiry":null}"# && report.decision == "accepted")
        report = try await run(.sync, .document(Array(#"{"channel":"a"}"#.utf8), old: Array(#"{"owner":"ben"}"#.utf8)), as: "anna")
        #expect(report.result?.text == #"{"rejected":"wrong user"}"# && report.decision == "rejected" && report.failure == nil)
        report = try await run(.authenticateCertificate, .chain(Array(#"[{"common_name":"x","der":"YQ=="}]"#.utf8)))
        #expect(report.result?.text == #"{"channels":["a","trial","trial"]}"#)
        report = try await run(.authenticateCertificate, .chain(Array(#"{"common_name":"broken"}"#.utf8)))
        #expect(report.failure?.kind == .error)
        await #expect(throws: PluginRunner.InputProblem.self) { try await run(.authenticateCertificate, .chain(Array("[1]".utf8))) }
        await #expect(throws: PluginRunner.InputProblem.self) { try await run(.pushFilter, .document(Array("{}".utf8), old: Array("{}".utf8))) }
    }
}

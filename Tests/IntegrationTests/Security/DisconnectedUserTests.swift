import Documents
import TestSupport
import Testing

/// Users who may no longer log in.
@Suite("Peers are disconnected")
struct DisconnectedUserTests {
    private let plugin = """
        return { params = { file = { type = "file", required = true } },
          authenticate_password = function(name, password, ctx)
            local kind = ctx.params.file:match(name .. "=(%a+)")
            return kind and { name = name, read_only = kind == "reader" } or false
          end }
        """

    private func agent(_ users: String) async throws -> AgentProcess {
        let folder = try TemporaryFolder()
        folder.makeFolder("plugins")
        try folder.write("plugins/users.lua", plugin)
        try folder.write("users.txt", users)
        return try await AgentProcess.start(
            Configuration.hub(listener: "authenticator: { plugin: users, params: { file: users.txt } }", plugins: true), in: folder)
    }

    /// `ada:x`, `bob:x` and `eve:x`.
    private let logins = ["ada": "YWRhOng=", "bob": "Ym9iOng=", "eve": "ZXZlOng="]

    private func peer(_ agent: AgentProcess, _ user: String) async throws -> Peer {
        try await Peer.connect(agent, login: logins[user])
    }

    @Test("a user who is removed from the file, or loses rights, is disconnected; the others are not")
    func fileChanges() async throws {
        let agent = try await agent("ada=writer bob=writer eve=writer")
        let (ada, bob, eve) = (try await peer(agent, "ada"), try await peer(agent, "bob"), try await peer(agent, "eve"))
        for (name, peer) in [("ada", ada), ("bob", bob), ("eve", eve)] { try await peer.push("before-\(name)") }
        try agent.folder.write("users.txt", "ada=writer bob=reader")
        #expect(try await bob.socket.closeCode() == 4001)
        #expect(try await eve.socket.closeCode() == 4001)
        try await ada.push("after-ada")
        await #expect(throws: WebSocketProbe.Refused.self) { try await peer(agent, "eve") }
        let again = try await peer(agent, "bob")
        await #expect(throws: (any Error).self) { try await again.push("after-bob") }
        #expect(try await agent.stop().status == 0)
    }

    @Test("a new version of the plugin also checks users who are already connected")
    func versionChanges() async throws {
        let agent = try await agent("ada=writer bob=writer")
        let (ada, bob) = (try await peer(agent, "ada"), try await peer(agent, "bob"))
        try agent.folder.write("plugins/users.lua", plugin.replacing("local kind =", with: "if name == 'bob' then return false end local kind ="))
        #expect(try await bob.socket.closeCode() == 4001)
        try await ada.push("after-ada")
        #expect(try await agent.stop().status == 0)
    }

    @Test("a login is checked again once, however many connections used it")
    func once() async throws {
        let agent = try await agent("ada=writer eve=writer")
        func calls() async throws -> Int64 { try await agent.plugin("users")["calls"]?.asInt64 ?? -1 }
        var peers: [String: [Peer]] = [:]
        for user in ["ada", "eve"] {
            for _ in 0..<10 { peers[user, default: []].append(try await peer(agent, user)) }
        }
        let before = try await calls()
        try agent.folder.write("users.txt", "ada=writer")
        for peer in peers["eve"] ?? [] { #expect(try await peer.socket.closeCode() == 4001) }
        // Of those who came first one was asked about as well; a look at the file while it was written may have come on top.
        let asked = try await calls() - before
        #expect(asked >= 1 && asked <= 4, "\(asked)")
        for (index, peer) in (peers["ada"] ?? []).enumerated() { try await peer.push("after-\(index)") }
        #expect(try await agent.stop().status == 0)
    }

    @Test("users whose line in users.txt has changed are checked first: the others may be many")
    func first() async throws {
        let folder = try TemporaryFolder()
        // In the place of the one whose file is known, and it says whom it is asked about.
        try folder.write(
            "plugins/password-file.lua",
            """
            return { params = { file = { type = "file", required = true } },
              authenticate_password = function(name, password, ctx)
                nightjar.log.info("asked about " .. name)
                return ctx.params.file:find(name .. ":", 1, true) ~= nil and { name = name }
              end }
            """)
        try folder.write("users.txt", "ada:x\nbob:x\neve:x\n")
        let agent = try await AgentProcess.start(
            Configuration.hub(listener: "authenticator: { plugin: password-file, params: { file: users.txt } }", plugins: true), in: folder)
        @Sendable func asked() -> [String] {
            agent.process.errors.split(separator: "\n").compactMap { line in
                ["ada", "bob", "eve"].first { line.contains("asked about \($0)") }
            }
        }
        let (ada, bob, eve) = (try await peer(agent, "ada"), try await peer(agent, "bob"), try await peer(agent, "eve"))
        try folder.write("users.txt", "ada:x\nbob:x\n")
        #expect(try await eve.socket.closeCode() == 4001)
        try await eventually("all are judged") { asked().count >= 6 }
        #expect(asked().prefix(6) == ["ada", "bob", "eve", "eve", "ada", "bob"], "\(asked())")
        for (name, peer) in [("ada", ada), ("bob", bob)] { try await peer.push("after-\(name)") }
        #expect(try await agent.stop().status == 0)
    }

    @Test("the operator ends connections by user and by address")
    func command() async throws {
        let agent = try await agent("ada=writer bob=writer")
        let (ada, bob) = (try await peer(agent, "ada"), try await peer(agent, "bob"))
        try await bob.push("before-bob")
        let first = try await agent.command("disconnect", "ada")
        #expect(first.status == 0 && first.output == "ada: 1 connection ended\n", "\(first)")
        #expect(try await ada.socket.closeCode() == 4001)
        try await bob.push("after-bob")
        let second = try await agent.command("disconnect", "127.0.0.1", "--json")
        #expect(second.status == 0 && second.output.contains("\"disconnected\":1"), "\(second)")
        #expect(try await bob.socket.closeCode() == 4001)
        try await eventually("nobody is there") { try await agent.listener("edge")["connections"]?.asInt64 == 0 }
        let none = try await agent.command("disconnect", "ada")
        #expect(none.status == 1 && none.errors.contains("no peer is connected"), "\(none)")
        let there = try await agent.command("listener", "edge", "disconnect", "ada")
        #expect(there.status == 1 && there.errors.contains("no peer of listener edge is connected as user or from address \"ada\""), "\(there)")
        // A user without a session or connection has nothing to revoke, and that is what was wanted.
        let revoked = try await agent.command("listener", "edge", "revoke", "ada")
        #expect(revoked.status == 0 && revoked.output == "ada: 0 sessions and 0 connections ended\n", "\(revoked)")
        #expect(try await agent.stop().status == 0)
    }
}

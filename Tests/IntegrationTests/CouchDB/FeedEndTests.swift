import TestSupport
import Testing

/// Feeds over HTTP of users who may no longer have them. They are quiet: only the end of their user's access would end them within an hour.
@Suite("Feeds are disconnected")
struct FeedEndTests {
    private static let plugin = """
        return { params = { file = { type = "file", required = true } },
          authenticate_password = function(name, password, ctx)
            local kind = ctx.params.file:match(name .. "=(%a+)")
            return kind and password == "x" and { name = name, read_only = kind == "reader" } or false
          end }
        """

    private func agent(_ users: String) async throws -> AgentProcess {
        let folder = try TemporaryFolder()
        try folder.write("plugins/users.lua", Self.plugin)
        try folder.write("users.txt", users)
        let agent = try await AgentProcess.start(
            Configuration.hub(listener: "couchdb: true\n    authenticator: { plugin: users, params: { file: users.txt } }", plugins: true), in: folder)
        try await agent.put("main", "before", "{}")
        return agent
    }

    /// How curl logs in with a new session.
    private func cookie(_ agent: AgentProcess, _ user: String) async throws -> [String] {
        let answer = try await CouchHTTP(agent).send("POST", "/_session", "{\"name\":\"\(user)\",\"password\":\"x\"}")
        let cookie = try #require(answer.header("Set-Cookie")?.prefix { $0 != ";" }, "\(answer)")
        return ["-H", "Cookie: \(cookie)"]
    }

    /// Opens a feed that has told all there is.
    private func feed(_ agent: AgentProcess, _ login: [String], _ kind: String = "continuous") async throws -> Subprocess {
        let since = kind == "longpoll" ? "now" : "0"
        let target = "http://127.0.0.1:\(try agent.port("edge"))/main/_changes?feed=\(kind)&include_docs=true&heartbeat=3600000&since=\(since)"
        let feed = try Subprocess("/usr/bin/curl", ["-sS", "-N", "--noproxy", "*"] + login + [target])
        try await eventually("the feed is open") { feed.output.contains(kind == "longpoll" ? "{\"results\":[" : "\"id\":\"before\"") }
        return feed
    }

    /// Four of ada's and one of bob's, wherever an operator looks.
    private func isShown(_ agent: AgentProcess) async throws {
        let feeds = try await agent.listener("edge")["feeds"]?.asArray ?? []
        #expect(feeds.map { $0["feed"]?.asString } == ["continuous", "continuous", "eventsource", "longpoll", "continuous"], "\(feeds)")
        #expect(feeds.map { $0["user"]?.asString } == ["ada", "ada", "ada", "ada", "bob"], "\(feeds)")
        for feed in feeds {
            #expect(feed["database"] == "main" && feed["collection"] == "_default._default" && feed["protocol"] == "CouchDB", "\(feed.text)")
            #expect(feed["address"]?.asString?.hasPrefix("127.0.0.1:") == true && feed["since"]?.asString?.hasPrefix("20") == true, "\(feed.text)")
        }
        let all = try await agent.admin.get("/api/listeners/edge/peers").json.asArray ?? []
        #expect(all.map { $0["address"] } == feeds.map { $0["address"] } && all.allSatisfy { $0["all_channels"] == true }, "\(all)")
        #expect(try await agent.listener("edge")["connections"] == 0)
        let peers = try await agent.command("listener", "edge", "peers")
        let shown = peers.output.split(separator: "\n").filter { $0.contains("  ada  ") && $0.contains("  CouchDB  ") }
        #expect(peers.status == 0 && peers.output.contains("  FEED") && shown.count == 4, "\(peers)")
        let status = try await agent.command("status")
        #expect(status.output.contains("CouchDB, longpoll") && status.output.contains("CouchDB, eventsource"), "\(status)")
    }

    @Test(
        "an operator ends a user's feeds at once, whether they came by a password or by a cookie",
        arguments: [
            (["listener", "edge", "revoke", "ada"], "ada: 1 session and 4 connections ended\n"),
            (["listener", "edge", "disconnect", "ada"], "ada: 4 connections ended\n"),
            (["disconnect", "ada"], "ada: 4 connections ended\n"),
        ])
    func command(_ words: [String], _ output: String) async throws {
        let agent = try await agent("ada=writer bob=writer")
        let (password, cookie) = (["-u", "ada:x"], try await cookie(agent, "ada"))
        let feeds = [
            try await feed(agent, password), try await feed(agent, cookie), try await feed(agent, cookie, "eventsource"),
            try await feed(agent, password, "longpoll"),
        ]
        let other = try await feed(agent, ["-u", "bob:x"])
        try await isShown(agent)
        let outcome = try await Subprocess.run(
            try NightjarExecutable.path(), words + ["--config", agent.configuration], folder: agent.folder.path)
        #expect(outcome.status == 0 && outcome.output == output, "\(outcome)")
        try await agent.put("main", "after", "{}")
        for feed in feeds {
            let end = try await feed.wait()
            // In good order: the client knows what it has.
            #expect(end.status == 0 && !end.output.contains("after"), "\(end)")
        }
        _ = try await other.line(containing: "\"id\":\"after\"")
        #expect(try await CouchHTTP(agent).send("GET", "/main", nil, [("Cookie", String(cookie[1].dropFirst(8)))]).status == (words.contains("revoke") ? 401 : 200))
        #expect(try await agent.stop().status == 0)
    }

    @Test("a feed ends when its user loses access; those of others continue")
    func users() async throws {
        let agent = try await agent("ada=writer bob=writer eve=writer")
        let (ada, session) = (try await feed(agent, ["-u", "ada:x"]), try await feed(agent, try await cookie(agent, "ada")))
        let ended = [try await feed(agent, ["-u", "bob:x"]), try await feed(agent, ["-u", "eve:x"]), try await feed(agent, try await cookie(agent, "eve"))]
        try agent.folder.write("users.txt", "ada=writer bob=reader")
        for feed in ended {
            let end = try await feed.wait()
            #expect(end.status == 0 && end.output.contains("\"last_seq\""), "\(end)")
        }
        try await agent.put("main", "after", "{}")
        for feed in [ada, session] { _ = try await feed.line(containing: "\"id\":\"after\"") }
        #expect(try await agent.stop().status == 0)
    }

    @Test("a logout ends the feeds of that session, and no others")
    func logout() async throws {
        let agent = try await agent("ada=writer")
        let (first, second) = (try await cookie(agent, "ada"), try await cookie(agent, "ada"))
        let (gone, stays) = (try await feed(agent, first), try await feed(agent, second))
        try await CouchHTTP(agent).ok("DELETE", "/_session", nil, [("Cookie", String(first[1].dropFirst(8)))])
        #expect(try await gone.wait().status == 0)
        try await agent.put("main", "after", "{}")
        _ = try await stays.line(containing: "\"id\":\"after\"")
        #expect(try await agent.stop().status == 0)
    }
}

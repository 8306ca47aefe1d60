import Documents
import Glibc
import TestSupport
import Testing

/// Debian's names of Chromium.
private enum Browser {
    static let path: String? = ["/usr/bin/chromium-headless-shell", "/usr/bin/chromium"].first { TemporaryFolder.isThere($0) }
}

/// The page that the agent serves at its admin port, and what it asks the agent for.
@Suite(
    "The dashboard", .serialized,
    .agent(
        """
        data: data
        plugins: plugins
        admin: { port: 0, open: true }
        databases: { main: { conflict_resolver: newest }, copy: {} }
        listeners: [ { name: edge, databases: [ main ], port: 0, interface: 127.0.0.1, disable_tls: true, authenticator: none } ]
        replicators: [ { name: local, database: main, target: "local:copy", type: push, continuous: true } ]
        """, files: ["plugins/newest.lua": "return { resolve = function(c) return c.local_doc end }\n"]))
struct DashboardTests {
    private func probe() throws -> HTTPProbe { .tcp(port: try sharedAgent().port("admin")) }

    /// The page and everything that it and its parts name, by path.
    private func files(_ probe: HTTPProbe) async throws -> [String: HTTPProbe.Answer] {
        var found = ["/": try await probe.get("/")]
        var unread = ["/"]
        while let path = unread.popLast() {
            guard let answer = found[path] else { continue }
            #expect(answer.status == 200, "\(path): \(answer)")
            let here = path == "/" ? "/" : "/dashboard/"
            for reference in answer.text.matches(of: /(?:href|src|from)[= ]"([^"#:]+)"/) {
                let name = String(reference.1)
                guard !name.hasPrefix("$") else { continue }
                let next = here + (name.hasPrefix("./") ? String(name.dropFirst(2)) : name)
                guard found[next] == nil else { continue }
                found[next] = try await probe.get(next)
                unread.append(next)
            }
        }
        return found
    }

    @Test("it is small, whole, and asks for nothing from elsewhere and nothing inline")
    func page() async throws {
        let files = try await files(try probe())
        #expect(files.count >= 10)
        #expect(files.values.reduce(0) { $0 + $1.body.count } <= 150 * 1024)
        for (path, file) in files {
            let policy = try #require(file.header("content-security-policy"))
            #expect(policy.hasPrefix("default-src 'none'; script-src 'self'; style-src 'self';"), "\(path)")
            #expect(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe") && !policy.contains("http"), "\(path)")
            #expect(file.header("x-content-type-options") == "nosniff")
            // Names of namespaces are no addresses.
            let text = file.text.replacing("http://www.w3.org/2000/svg", with: "")
            #expect(!text.contains("http://") && !text.contains("https://") && !text.contains("//cdn"), "\(path)")
            #expect(!text.contains("innerHTML") && !text.contains("outerHTML") && !text.contains("insertAdjacent") && !text.contains("eval("), "\(path)")
        }
        let html = try #require(files["/"]).text
        #expect(!html.contains("<style") && !html.contains(" style=") && html.matches(of: /<script(?![^>]*src=)/).isEmpty)
        #expect(html.matches(of: /\son[a-z]+=/).isEmpty)
        #expect(try await probe().post("/").status == 405)
    }

    @Test("everything that the scripts ask for is there")
    func endpoints() async throws {
        let probe = try probe()
        let samples = ["databases": "main", "replicators": "local", "plugins": "newest", "conflicts": "1"]
        var asked: Set<String> = []
        for (path, file) in try await files(probe) where path.hasSuffix(".js") {
            for match in file.text.matches(of: /["`](api\/[a-z\/]+)/) { asked.insert("/\(match.1)") }
            // What verbs stand for, where the path is made in one place.
            let verbs = file.text.matches(of: /(?:path|tell)\("([a-z]+)"/).map { String($0.1) }
            for match in file.text.matches(of: /[^a-z]at\(("[^)]*)\)/) {
                let parts = match.1.split(separator: ",").map { String($0.trimmingPrefix(" ")) }
                let kind = parts[0].replacing("\"", with: "")
                let sample = try #require(samples[kind], "what is \(match.1) in \(path)?")
                var paths = ["/api/\(kind)/\(sample)"]
                for part in parts.dropFirst(2) {
                    let values = part.hasPrefix("\"") ? [part.replacing("\"", with: "")] : part == "verb" ? verbs : ["x"]
                    paths = paths.flatMap { path in values.map { "\(path)/\($0)" } }
                }
                asked.formUnion(paths)
            }
        }
        #expect(asked.count >= 20)
        for path in asked.sorted() where !path.hasPrefix("/api/events") && path != "/api/" {
            let answer = try await probe.get(path)
            #expect(answer.status != 500 && !answer.text.contains("there is nothing at"), "\(path): \(answer)")
        }
    }

    @Test("its stream shows the agent's status and log, and the number of streams is limited")
    func stream() async throws {
        let probe = try probe()
        #expect(try await probe.get("/api/events?status=0").status == 400)
        let agent = try sharedAgent()
        let events = try await EventProbe(agent, query: "?status=1&log=true")
        _ = try await agent.admin.post("/api/replicators/local/suspend")
        _ = try await agent.admin.post("/api/replicators/local/resume")
        try await events.wait("the status as a whole, and a line of the log") {
            $0.contains("event: agent\ndata: {\"version\"") && $0.contains("event: log\ndata: {\"number\"")
        }
        try await eventually("the log's tail tells of the suspension") {
            try await agent.admin.get("/api/log").json.asArray?.contains { $0["message"]?.asString == "suspended" && $0["replicator"]?.asString == "local" } == true
        }
        var held: [HeldConnection] = []
        // The head alone: a stream that is taken does not end.
        let ask = Array("HEAD /api/events HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".utf8)
        var isFull = false
        while !isFull, held.count < 100 {
            held.append(try await probe.begin(Array("GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n".utf8)))
            isFull = String(decoding: try await probe.raw(ask), as: UTF8.self).hasPrefix("HTTP/1.1 503")
        }
        #expect(isFull && held.count >= 60)
        #expect(try await probe.get("/api/status").status == 200)
        held.removeAll()
        try await eventually("the places are free again") { String(decoding: try await probe.raw(ask), as: UTF8.self).hasPrefix("HTTP/1.1 200") }
    }

    @Test("documents are found by the beginning of their ids, part by part")
    func find() async throws {
        let agent = try sharedAgent()
        for n in 0..<30 { try await agent.put("main", "find-\(n < 25 ? "a" : "b")-\(n)", "{}") }
        func ids(_ answer: JSONValue) -> [String] { (answer["rows"]?.asArray ?? []).compactMap { $0["id"]?.asString } }
        let first = try await agent.admin.get("/api/databases/main/find?prefix=find-a&limit=20").json
        let next = try #require(first["next"]?.asInt64)
        let second = try await agent.admin.get("/api/databases/main/find?prefix=find-a&limit=20&since=\(next)").json
        #expect(ids(first) + ids(second) == (0..<25).map { "find-a-\($0)" })
        #expect(second["next"]?.isNull == true)
        #expect(try await ids(agent.admin.get("/api/databases/main/find?newest=true&limit=2").json) == ["find-b-29", "find-b-28"])
        #expect(try await agent.admin.get("/api/databases/main/find?limit=0").status == 400)
        #expect(try await agent.admin.get("/api/plugins/newest/source").json["files"]?.asArray?.first?["text"]?.asString?.contains("c.local_doc") == true)
        #expect(try await agent.admin.get("/api/history").json["samples"]?.asArray?.isEmpty == false)
    }

    @Test("a resolver that is sent is tried on what was decided, and leaves nothing behind")
    func rehearsal() async throws {
        let agent = try sharedAgent()
        let first = try await agent.put("main", "both", "{\"n\": 1}")
        let parent = try #require(try first.json["rev"]?.asString)
        try await agent.put("main", "both", "{\"n\": 2, \"_rev\": \"\(parent)\"}")
        try await agent.put("main", "both", "{\"n\": 3, \"_rev\": \"\(parent)\"}")
        let before = try await agent.get("main", "both").text
        let answer = try await agent.admin.post("/api/rehearsal?db=main", "return { resolve = function(c) return c.remote_doc end }")
        let outcome = try #require(try answer.json["conflicts"]?.asArray?.first { $0["id"]?.asString == "both" }, "\(answer)")
        #expect(outcome["outcome"]?.asString == "differs" && outcome["decision"]?.asString == "remote", "\(answer)")
        #expect(outcome["differences"]?.asArray?.first?["field"]?.asString == "n")
        #expect(try await agent.get("main", "both").text == before)
        let refused = try await agent.admin.post("/api/rehearsal", "return {")
        #expect(refused.status == 409 && refused.text.contains("candidate.lua:1"), "\(refused)")
        #expect(try await agent.admin.get("/api/rehearsal").status == 405)
        #expect(try await !Subprocess.run("/bin/ls", [agent.folder.path("data")]).output.contains("rehearsal-"))
    }

    /// What the page has become in a real browser, as soon as it holds something: the browser ends when it likes.
    private func rendered(_ port: Int, _ view: String, with words: String) async throws -> String {
        try await eventually("the page shows \(words)") {
            let page = try await rendered(port, view)
            return page.contains(words) ? page : nil
        }
    }

    private func rendered(_ port: Int, _ view: String) async throws -> String {
        let folder = try TemporaryFolder()
        let outcome = try await Subprocess.run(
            try #require(Browser.path),
            [
                "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir=\(folder.path)", "--virtual-time-budget=5000", "--dump-dom",
                "http://127.0.0.1:\(port)/#/\(view)",
            ], folder: folder.path)
        #expect(outcome.status == 0, "\(outcome)")
        return outcome.output
    }

    @Test("a browser shows what the API says, and text of documents as text", .enabled(if: Browser.path != nil, "there is no chromium in /usr/bin"))
    func shows() async throws {
        let agent = try sharedAgent()
        let port = try agent.port("admin")
        let evil = "<img src=x onerror=document.title='broken'>"
        try await agent.put("main", "%3Cimg%20src=x%20onerror=document.title='broken'%3E", "{}")
        try await eventually("the replicator is idle") { try await agent.replicator("local")["activity"]?.asString == "idle" }
        let page = try await rendered(port, "", with: "figure-documents")
        func figure(_ name: String) -> String? { page.split(separator: "id=\"figure-\(name)\">", maxSplits: 1).dropFirst().first?.split(separator: "<").first.map(String.init) }
        let documents = try await agent.documents("main") + agent.documents("copy")
        #expect(figure("documents") == "\(documents)", "\(page)")
        #expect(figure("peers") == "0" && figure("held") == "0" && figure("refused") == "0" && figure("conflicts") == "0")
        #expect(page.contains("Nothing needs attention") && page.contains("All is well"))
        #expect(page.contains(">edge<") && page.contains(">local<"))
        let replicators = try await rendered(port, "replicators", with: "<dt>Pushed</dt>")
        let pushed = try #require(try await agent.replicator("local")["pushed"]?.asInt64)
        #expect(replicators.contains("<dt>Pushed</dt><dd>\(pushed)</dd>"), "\(replicators)")
        let peer = try await Peer.connect(agent)
        try await peer.push("from-the-peer")
        let listeners = try await rendered(port, "listeners", with: "Peers of edge")
        let listener = try await agent.listener("edge")
        let row = try #require(listener["peers"]?.asArray?.first)
        #expect(listeners.contains("<dt>Connected</dt><dd>1 of 1,000</dd>") && listeners.contains("<dt>Pushed by them</dt><dd>1 document</dd>"), "\(listeners)")
        #expect(listeners.contains(">\(row["address"]?.asString ?? "?")</code>") && listeners.contains(">guest</th>"), "\(listeners)")
        #expect(listeners.contains("<dt>Received from them</dt><dd>\(row["received_bytes"]?.asInt64 ?? -1) bytes</dd>"), "\(row.text) \(listeners)")
        let figures = try await rendered(port, "", with: "id=\"figure-peers\">1<")
        #expect(figures.contains("1 of 1,000 connections") && figures.contains("#/listeners/edge"), "\(figures)")
        try await peer.close()
        let list = try await rendered(port, "documents/main", with: "&lt;img src=x onerror")
        #expect(!list.contains(">\(evil)") && !list.contains("<title>broken"), "\(list)")
    }

    @Test("a browser shows which plugin is the fleet's, and its version", .enabled(if: Browser.path != nil, "there is no chromium in /usr/bin"))
    func fleet() async throws {
        let fleet = try await TestFleet.make()
        let gateway = try await fleet.gateway("north")
        #expect(try await fleet.publish(TestFleet.passing(1), "--plugin-version", "21").status == 0)
        try await fleet.waits("north", runs: 21)
        _ = try await rendered(try gateway.port("admin"), "plugins", with: ">fleet, version 21</span>")
    }

    @Test("a browser shows until when a schedule suspends, and the key that is to follow", .enabled(if: Browser.path != nil, "there is no chromium in /usr/bin"))
    func ahead() async throws {
        let folder = try TemporaryFolder()
        var now = time(nil)
        var parts = tm()
        localtime_r(&now, &parts)
        let hours = [2, 3].map { (Int(parts.tm_hour) + $0) % 24 }.map { "\($0 < 10 ? "0" : "")\($0):00" }
        let configuration = Configuration.secureHub([("edge", "identity: gateway")])
            + "replicators: [ { name: hub, database: main, target: \"ws://127.0.0.1:9/main\", continuous: true, schedule: [ \(hours[0])-\(hours[1]) ] } ]\n"
        try folder.write("nightjar.yaml", configuration)
        for more in [[], ["--next"]] {
            let made = try await Subprocess.run(
                try NightjarExecutable.path(), ["identity", "create", "gateway", "--ip", "127.0.0.1", "--config", folder.path("nightjar.yaml")] + more, folder: folder.path)
            #expect(made.status == 0, "\(made)")
        }
        let agent = try await AgentProcess.start(configuration, in: folder)
        let port = try agent.port("admin")
        _ = try await rendered(port, "replicators", with: "Suspended by its schedule until</dt><dd>\(hours[0]):00</dd>")
        let pin = try await eventually("the next key is known") { try await agent.listener("edge")["tls"]?["next_pin"]?.asString }
        _ = try await rendered(port, "", with: "which peers should pin too: <code>\(pin)</code>")
    }

    @Test("a browser shows how far a blob has come", .enabled(if: Browser.path != nil, "there is no chromium in /usr/bin"))
    func blobs() async throws {
        let size = 64 << 20
        let hub = try await AgentProcess.start(Configuration.hub())
        let stored = try await hub.admin.request("POST", "/api/databases/main/blobs", body: [UInt8](repeating: 7, count: size))
        let digest = try stored.json["digest"]?.asString ?? ""
        try await hub.save("film", "{\"film\":{\"@type\":\"blob\",\"digest\":\"\(digest)\",\"length\":\(size)}}")
        let edge = try await AgentProcess.start(Configuration.edge(to: try hub.port("edge"), type: "pull"))
        try await edge.waits("a part of it is there") { ($0["blobs_under_way"]?.asArray?.first?["bytes"]?.asInt64 ?? 0) > 0 }
        // It stands still while somebody looks.
        hub.process.send(SIGSTOP)
        let page = try await rendered(try edge.port("admin"), "replicators", with: "1 blob under way")
        let blob = try #require(try await edge.replicator("hub")["blobs_under_way"]?.asArray?.first)
        let bytes = try #require(blob["bytes"]?.asInt64)
        #expect(bytes > 0 && bytes < size && blob["size"]?.asInt64 == Int64(size), "\(blob.text)")
        #expect(page.contains("of 64 MiB") && page.contains("received with film") && page.contains("Progress of the blob \(digest)"), "\(page)")
        let share = page.split(separator: "Progress of the blob", maxSplits: 1).first?.matches(of: /value="([0-9.]+)"/).last.flatMap { Double($0.1) }
        #expect(try #require(share) > 0 && #require(share) < 1)
        hub.process.send(SIGCONT)
        try await edge.waits(documents: 1)
        #expect(try await rendered(try edge.port("admin"), "replicators", with: "Blobs sent, received</dt><dd>0 bytes, 64 MiB").contains("under way") == false)
    }
}

/// The page needs no token, and nothing else is had without it.
@Suite("The dashboard of a port with a token", .serialized, .agent("data: data\nadmin: { port: 0, token: secret }\nlisteners: []\ndatabases: { main: {} }\n"))
struct DashboardLoginTests {
    @Test("the page is served to clients without a token, and reveals nothing about the agent")
    func login() async throws {
        let probe = HTTPProbe.tcp(port: try sharedAgent().port("admin"))
        for path in ["/", "/dashboard/main.js", "/dashboard/style.css"] { #expect(try await probe.get(path).status == 200) }
        for path in ["/api/status", "/api/events", "/api/log", "/api/history", "/dashboard", "/dashboardx", "//"] {
            #expect(try await probe.get(path).status == 401, "\(path)")
        }
        #expect(try await probe.get("/dashboard/nothing").status == 404)
        #expect(try await probe.post("/").status == 401)
        #expect(try await probe.get("/", headers: [("Origin", "http://evil.example")]).status == 403)
        #expect(try await probe.get("/api/log", headers: [("Authorization", "Bearer secret")]).status == 200)
    }
}

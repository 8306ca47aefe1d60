import Documents
import TestSupport
import Testing

extension Attack {
    /// Servers that our replicator pulls from and takes for CouchDB.
    static let servers: [Attack] = [
        lying("a feed whose line never ends", requests: 15, memory: 64 << 20) { request in
            request.target.hasPrefix("/lies/_changes") ? .endless("{\"results\":[{\"seq\":\"", String(repeating: "9", count: 64_000)) : nil
        },
        lying("answers that never end and claim to be compressed", requests: 15, memory: 64 << 20) { request in
            request.target.hasPrefix("/lies/_changes")
                ? .endless("\u{1F}\u{8}", String(repeating: "\0", count: 64_000), headers: "Content-Encoding: gzip\r\n") : nil
        },
        lying("answers of nothing but empty lists, to several replicators", replicators: 4, requests: 60, memory: 64 << 20) { request in
            if request.target.hasPrefix("/lies/_changes") { return .json(200, changes(Array(1...400), last: 400)) }
            guard request.target.hasPrefix("/lies/_bulk_get") else { return nil }
            // Every other one is small enough to be parsed.
            let count = request.number % 2 == 0 ? 3_000_000 : 75_000
            return .json(200, "{\"results\":[\(String(repeating: "[],", count: count))[]]}")
        },
        lying("rows with sequences of 8,000 bytes, to several replicators", replicators: 8, requests: 60, memory: 64 << 20) { request in
            guard request.target.hasPrefix("/lies/_changes") else { return nil }
            let tail = String(repeating: "9", count: 8_000)
            let rows = (1...400).map { "{\"seq\":\"\(request.number)\($0)-\(tail)\",\"id\":\"lie-\($0)\",\"changes\":[{\"rev\":\"1-aa\"}]}" }
            return .json(200, "{\"results\":[\(rows.joined(separator: ","))],\"last_seq\":\"\(request.number)-\(tail)\",\"pending\":70000}")
        },
        lying("a feed that ends where it begins", requests: 6) { request in
            guard request.target.hasPrefix("/lies/_changes") else { return nil }
            let asked = request.target.split(separator: "&").first { $0.hasPrefix("since=") }.flatMap { Int($0.dropFirst(6)) } ?? 0
            return .json(200, changes(Array(1...20), last: asked))
        },
        lying("a last_seq of 2 MB", requests: 30) { request in
            request.target.hasPrefix("/lies/_changes") ? .json(200, "{\"results\":[],\"last_seq\":\"\(String(repeating: "9", count: 2_000_000))\",\"pending\":0}") : nil
        },
        lying("a feed that goes backwards", requests: 300) { request in
            if request.target.hasPrefix("/lies/_bulk_get") { return .json(200, bodies(asked(request))) }
            guard request.target.hasPrefix("/lies/_changes") else { return nil }
            let asked = request.target.split(separator: "&").first { $0.hasPrefix("since=") }.flatMap { Int($0.dropFirst(6)) } ?? 0
            let since = asked > 0 ? asked : 1_000_000
            return .json(200, changes((1...20).map { since - $0 }, last: since - 20))
        },
        lying("documents that were not asked for", requests: 60) { request in
            if request.target.hasPrefix("/lies/_changes") { return .json(200, changes(Array(1...100), last: 100)) }
            guard request.target.hasPrefix("/lies/_bulk_get") else { return nil }
            return .json(200, bodies(asked(request).enumerated().map { index, name in
                switch index % 4 {
                case 0: ("evil-\(index)", name.revision)
                case 1: (name.id, "9-ee")
                case 2: ("_design/evil", "1-ee")
                default: (name.id, "no revision")
                }
            }))
        } check: { hub in
            // Only what the two sides of the companion wrote is there.
            let listed = try await hub.admin.get("/api/databases/main/documents").text
            #expect(listed.contains("up-before-0") && !listed.contains("evil") && !listed.contains("lie-"), "\(listed)")
        },
    ]

    /// - Parameters:
    ///   - replicators: how many replicators the agent has, each for a server of its own.
    ///   - requests: how many requests the servers answer together before they fall silent.
    ///   - lie: returns nil where the server is to answer as CouchDB does.
    private static func lying(
        _ description: String, replicators: Int = 1, requests: Int, memory: Int = 48 << 20, _ lie: @escaping @Sendable (TestServer.Request) -> TestServer.Answer?,
        check: @escaping @Sendable (AgentProcess) async throws -> Void = { _ in }
    ) -> Attack {
        Attack(testDescription: description, bounds: Bounds(milliseconds: 6_000, perRequest: 50, memory: memory)) { hub in
            let servers = try (0..<replicators).map { _ in try TestServer { $0.number > requests / replicators ? .silence : lie($0) ?? honest($0) } }
            let names = servers.indices.map { "liar-\($0)" }
            let lines = zip(names, servers).map { name, server in
                "  - { name: \(name), database: main, target: \"http://127.0.0.1:\(server.port)/lies\", type: pull, continuous: true, max_attempt_wait_time: 1 }"
            }
            try hub.folder.write("nightjar.yaml", "\(try hub.folder.text("nightjar.yaml"))\nreplicators:\n\(lines.joined(separator: "\n"))\n")
            let reloaded = try await hub.admin.post("/api/reload")
            guard reloaded.status < 300 else { throw SupportError("the replicator was not accepted: \(reloaded)") }
            try await eventually("the liar is asked again and again") {
                if servers.allSatisfy({ $0.requests > requests / replicators }) { return true }
                try await Task.sleep(for: .milliseconds(50))
                // Left alone, the replicator would wait longer before each attempt.
                for name in names where try await hub.replicator(name)["activity"]?.asString == "offline" {
                    _ = try await hub.admin.post("/api/replicators/\(name)/start")
                }
                return false
            }
            return Sent(requests: servers.reduce(0) { $0 + $1.requests }, bytes: servers.reduce(0) { $0 + $1.bytes }, held: servers)
        } check: { try await check($0) }
    }

    private static func honest(_ request: TestServer.Request) -> TestServer.Answer {
        if request.target.hasPrefix("/lies/_local/") {
            return request.method == "PUT" ? .json(201, "{\"ok\":true,\"id\":\"_local/x\",\"rev\":\"0-1\"}") : .json(404, "{\"error\":\"not_found\"}")
        }
        if request.target.hasPrefix("/lies/_changes") { return .json(200, changes([], last: 1)) }
        return .json(200, "{\"db_name\":\"lies\",\"update_seq\":1,\"instance_start_time\":\"0\"}")
    }

    private static func changes(_ sequences: [Int], last: Int) -> String {
        let rows = sequences.map { "{\"seq\":\($0),\"id\":\"lie-\($0)\",\"changes\":[{\"rev\":\"1-aa\"}]}" }
        return "{\"results\":[\(rows.joined(separator: ","))],\"last_seq\":\(last),\"pending\":7}"
    }

    /// The revisions that a `_bulk_get` asks for.
    private static func asked(_ request: TestServer.Request) -> [(id: String, revision: String)] {
        let names = (try? JSONValue(parsing: request.body))?["docs"]?.asArray ?? []
        return names.map { ($0["id"]?.asString ?? "", $0["rev"]?.asString ?? "") }
    }

    private static func bodies(_ names: [(id: String, revision: String)]) -> String {
        let results = names.map { name in
            let body = "{\"_id\":\"\(name.id)\",\"_rev\":\"\(name.revision)\",\"_revisions\":{\"start\":1,\"ids\":[\"\(name.revision.dropFirst(2))\"]},\"a\":1}"
            return "{\"id\":\"\(name.id)\",\"docs\":[{\"ok\":\(body)}]}"
        }
        return "{\"results\":[\(results.joined(separator: ","))]}"
    }
}

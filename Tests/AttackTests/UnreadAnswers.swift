import Documents
import TestSupport
import Testing

extension Attack {
    /// Requests to CouchDB's API whose answers the attacker does not read.
    static let couch: [Attack] = [
        Attack(
            testDescription: "GET of a document of 4 MB, on each of 64 connections", bounds: Bounds(milliseconds: 12_000, memory: 120 << 20),
            prepare: { try await large($0, "large", 4 << 20) }
        ) { try await get($0, "/main/large", connections: 64) },
        Attack(
            testDescription: "_changes with include_docs over 16 MB, on each of 64 connections", bounds: Bounds(milliseconds: 12_000, memory: 120 << 20),
            prepare: { hub in for number in 0..<32 { try await large(hub, "large-\(number)", 512 << 10) } }
        ) { try await get($0, "/main/_changes?include_docs=true", connections: 64) },
        Attack(
            testDescription: "_find over 8 MB without an index, sorted, on each of 8 connections", bounds: Bounds(milliseconds: 12_000, memory: 60 << 20),
            prepare: { hub in for number in 0..<32 { try await large(hub, "large-\(number)", 256 << 10) } }
        ) { try await post($0, "/main/_find", "{\"selector\":{\"text\":{\"$gt\":null}},\"sort\":[\"text\"],\"limit\":1000000}", connections: 8) },
        Attack(
            testDescription: "_all_docs for 150,000 keys, on each of 24 connections", bounds: Bounds(milliseconds: 30_000, memory: 120 << 20)
        ) { try await post($0, "/main/_all_docs", "{\"keys\":[\(Array(repeating: "1", count: 150_000).joined(separator: ","))]}", connections: 24) },
        Attack(
            testDescription: "_bulk_get as multipart of documents with attachments of 4 MB, on each of 64 connections",
            bounds: Bounds(milliseconds: 12_000, memory: 120 << 20), prepare: { hub in for number in 0..<8 { try await attached(hub, "film-\(number)", 4 << 20) } }
        ) {
            let asked = (0..<8).map { "{\"id\":\"film-\($0)\"}" }.joined(separator: ",")
            return try await post($0, "/main/_bulk_get", "{\"docs\":[\(asked)]}", accepting: "multipart/mixed", connections: 64)
        },
        Attack(
            testDescription: "_local_docs with include_docs over 8 MB, on each of 64 connections", bounds: Bounds(milliseconds: 12_000, memory: 120 << 20),
            prepare: { hub in for number in 0..<8 { try await local(hub, "large-\(number)", 1_000_000) } }
        ) { try await get($0, "/main/_local_docs?include_docs=true", connections: 64) },
        Attack(
            testDescription: "16 pipelined requests for _all_docs with include_docs, on each of 100 connections",
            bounds: Bounds(milliseconds: 30_000, memory: 100 << 20),
            prepare: { hub in for number in 0..<64 { try await large(hub, "large-\(number)", 32 << 10) } }
        ) { try await get($0, "/main/_all_docs?include_docs=true", connections: 100, ahead: 16) },
        Attack(
            testDescription: "_all_docs over 8,000 documents with long names, on each of 60 connections", bounds: Bounds(milliseconds: 60_000, memory: 120 << 20),
            prepare: { try await named($0, 8_000) }
        ) { try await get($0, "/main/_all_docs", connections: 60) },
        Attack(
            testDescription: "a batch of 20 MB that is compressed to 20 KB, on each of 100 connections", bounds: Bounds(milliseconds: 120_000, memory: 100 << 20)
        ) { hub in
            let folder = try TemporaryFolder()
            let text = "{\"docs\":[{\"_id\":\"packed\",\"text\":\"\(String(repeating: "x", count: 20_000_000))\"}]}"
            let outcome = try await Subprocess.run("/bin/gzip", ["-9", try folder.write("body", bytes: Array(text.utf8))])
            guard outcome.status == 0 else { throw SupportError("gzip: \(outcome)") }
            let body = try folder.read("body.gz")
            let head = "POST /main/_bulk_docs HTTP/1.1\r\nHost: hub\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\n"
                + "Content-Length: \(body.count)\r\n\r\n"
            let probe = try Door.listener.probe(hub)
            var sent = Sent(requests: 100)
            for _ in 0..<100 { sent.flows.append(try await probe.pour(Array(head.utf8) + body)) }
            return sent
        },
        Attack(testDescription: "200 feeds with the shortest heartbeat", bounds: Bounds(memory: 40 << 20)) {
            try await get($0, "/main/_changes?feed=continuous&since=now&heartbeat=1", connections: 200)
        },
    ]

    private static func large(_ hub: AgentProcess, _ id: String, _ bytes: Int) async throws {
        let answer = try await hub.put("main", id, "{\"text\":\"\(String(repeating: "x", count: bytes))\"}")
        guard answer.status < 300 else { throw SupportError("\(id): \(answer)") }
    }

    private static func attached(_ hub: AgentProcess, _ id: String, _ bytes: Int) async throws {
        let answer = try await Door.listener.probe(hub).request(
            "PUT", "/main/\(id)/reel", headers: [("Content-Type", "video/mp4")], body: [UInt8](repeating: 0x78, count: bytes) + Array(id.utf8))
        guard answer.status == 201 else { throw SupportError("\(id): \(answer)") }
    }

    private static func local(_ hub: AgentProcess, _ id: String, _ bytes: Int) async throws {
        let body = "{\"text\":\"\(String(repeating: "x", count: bytes))\"}"
        let answer = try await Door.listener.probe(hub).request("PUT", "/main/_local/\(id)", body: Array(body.utf8))
        guard answer.status == 201 else { throw SupportError("\(id): \(answer)") }
    }

    /// Stores documents whose ids, sorted in memory, would take three megabytes on each connection.
    private static func named(_ hub: AgentProcess, _ count: Int) async throws {
        let name = String(repeating: "n", count: 200)
        let body = "{\"docs\":[\((0..<count).map { "{\"_id\":\"\(name)\($0)\"}" }.joined(separator: ","))]}"
        let head = "POST /main/_bulk_docs HTTP/1.1\r\nHost: hub\r\nContent-Type: application/json\r\nContent-Length: \(body.utf8.count)\r\n\r\n"
        let flow = try await Door.listener.probe(hub).pour(Array((head + body).utf8))
        try await eventually("the last one is stored") { try await hub.get("main", "\(name)\(count - 1)").status == 200 }
        withExtendedLifetime(flow) {}
    }

    private static func get(_ hub: AgentProcess, _ target: String, connections: Int, ahead: Int = 1) async throws -> Sent {
        let probe = try Door.listener.probe(hub)
        let requests = Array(String(repeating: "GET \(target) HTTP/1.1\r\nHost: hub\r\n\r\n", count: ahead).utf8)
        var sent = Sent(requests: connections * ahead)
        for _ in 0..<connections { sent.flows.append(try await probe.pour(requests)) }
        return sent
    }

    private static func post(_ hub: AgentProcess, _ target: String, _ body: String, accepting accepted: String = "*/*", connections: Int) async throws -> Sent {
        let head = "POST \(target) HTTP/1.1\r\nHost: hub\r\nAccept: \(accepted)\r\nContent-Type: application/json\r\n"
        let request = Array("\(head)Content-Length: \(body.utf8.count)\r\n\r\n\(body)".utf8)
        let probe = try Door.listener.probe(hub)
        var sent = Sent(requests: connections)
        for _ in 0..<connections { sent.flows.append(try await probe.pour(request)) }
        return sent
    }
}

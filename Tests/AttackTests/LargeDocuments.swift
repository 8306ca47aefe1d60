import TestSupport
import Testing

extension Attack {
    /// Small messages about documents that are expensive to read.
    static let documents: [Attack] = [
        Attack(
            testDescription: "15 deltas of a document of 1 MB, on each of 4 connections", bounds: Bounds(perRequest: 300, memory: 64 << 20),
            prepare: { try await Peer.connect($0).push("large", "1-aa", "{\"a\":[\(String(repeating: "1,", count: 480_000))1]}") }
        ) { hub in
            try await poured(hub, connections: 4) { connection in
                (0..<15).map { number in
                    let block = HandmadeFrames.properties(
                        ("Profile", "rev"), ("id", "large"), ("rev", "2-\(connection)\(String(number, radix: 16))"), ("history", "1-aa"), ("deltaSrc", "1-aa"),
                        ("sequence", "\(number + 1)"))
                    return (block, "{\"b\":\(number)}")
                }
            }
        } check: { hub in
            let found = try await hub.get("main", "large").text
            #expect(found.contains("\"b\":"), "no delta was applied: \(found.prefix(200))")
        },
        Attack(
            testDescription: "20 lists of changes to a document with 32 branches and 999 ancestors each, on each of 4 connections",
            bounds: Bounds(perRequest: 50), prepare: { try await branched($0) }
        ) { hub in
            let rows = (0..<1_000).map { "[\($0),\"branched\",\"2000-\(String($0 + 16, radix: 16))\"]" }.joined(separator: ",")
            let block = HandmadeFrames.properties(("Profile", "changes"))
            return try await poured(hub, connections: 4) { _ in Array(repeating: (block, "[\(rows)]"), count: 20) }
        },
        Attack(
            testDescription: "4 lists of proposals for a document with 32 branches and 999 ancestors each, on each of 3 connections",
            bounds: Bounds(perRequest: 600), prepare: { try await branched($0) }
        ) { hub in
            let rows = (0..<1_000).map { "[\"branched\",\"2000-\(String($0 + 16, radix: 16))\",\"999-\(String($0 + 16, radix: 16))\"]" }.joined(separator: ",")
            let block = HandmadeFrames.properties(("Profile", "proposeChanges"))
            return try await poured(hub, connections: 3) { _ in Array(repeating: (block, "[\(rows)]"), count: 4) }
        },
        Attack(
            testDescription: "answers that name 90 ancestors for each of 200 changes, on each of 20 connections", bounds: Bounds(perRequest: 200),
            prepare: { hub in _ = try await Peer.connect(hub).ask((0..<200).map { Peer.revision("small-\($0)", "100-aa") }) }
        ) { hub in
            let ancestors = (1...90).map { "\"\($0)-aa\"" }.joined(separator: ",")
            let block = HandmadeFrames.properties(("maxHistory", "1000"))
            let body = "[\(Array(repeating: "[\(ancestors)]", count: 200).joined(separator: ","))]"
            var sent = Sent(requests: 20)
            for _ in 0..<20 {
                var frames = HandmadeFrames()
                let socket = try await WebSocketProbe.connect(port: try hub.port("edge"), path: "/main/_blipsync")
                let subscription = HandmadeFrames.properties(("Profile", "subChanges"), ("continuous", "true"), ("batch", "200"))
                try await socket.send(frames.request(properties: subscription))
                // The agent's first request is its first list of changes.
                while true {
                    guard let frame = try await socket.receive() else { throw SupportError("the attacker was disconnected") }
                    if frame.opcode == 2, frame.payload.count > 6, frame.payload[1] & 7 == 0 { break }
                }
                let reply = frames.frame(1, 1, HandmadeFrames.varint(UInt64(block.count)) + block + Array(body.utf8))
                sent.flows.append(socket.pour(WebSocketFrame.binary(reply)))
            }
            return sent
        },
    ]

    /// Stores a document with as many branches as are allowed, each with as many ancestors as are allowed.
    private static func branched(_ hub: AgentProcess) async throws {
        let documents = (16..<48).map { branch in
            let digits = String(branch, radix: 16)
            let ids = Array(repeating: "\"\(digits)\"", count: 1_000).joined(separator: ",")
            return "{\"_id\":\"branched\",\"_rev\":\"1000-\(digits)\",\"_revisions\":{\"start\":1000,\"ids\":[\(ids)]}}"
        }
        let body = "{\"new_edits\":false,\"docs\":[\(documents.joined(separator: ","))]}"
        let stored = try await Door.listener.probe(hub).post("/main/_bulk_docs", body, headers: [("Content-Type", "application/json")])
        guard stored.status == 201, stored.text.filter({ $0 != "\n" }) == "[]" else { throw SupportError("a branch was refused: \(stored)") }
    }

    /// Pours requests into several connections.
    private static func poured(
        _ hub: AgentProcess, connections: Int, _ requests: (_ connection: Int) -> [(properties: [UInt8], body: String)]
    ) async throws -> Sent {
        var sent = Sent(requests: 0)
        for connection in 0..<connections {
            var frames = HandmadeFrames()
            let all = requests(connection)
            let bytes = all.flatMap { WebSocketFrame.binary(frames.request(properties: $0.properties, body: Array($0.body.utf8))) }
            sent.requests += all.count
            sent.flows.append(try await WebSocketProbe.connect(port: try hub.port("edge"), path: "/main/_blipsync").pour(bytes))
        }
        return sent
    }
}

import BLIP
import NIOCore
import TestSupport

extension Attack {
    /// Requests whose replies the attacker does not read.
    static let unread: [Attack] = [
        Attack(
            testDescription: "2,000 requests for a checkpoint of 120 KB, on each of 4 connections", bounds: Bounds(memory: 40 << 20), prepare: largeCheckpoint
        ) { try await asked($0, 2_000, connections: 4, [("Profile", "getCheckpoint"), ("client", "large")]) },
        Attack(
            testDescription: "getCollections with 1,000 names, on each of 20 connections", bounds: Bounds(memory: 64 << 20), prepare: largeCheckpoint
        ) { hub in
            let names = (0..<1_000).map { _ in "\"_default\"" }.joined(separator: ",")
            let body = "{\"checkpoint_ids\":[\(names.replacing("_default", with: "large"))],\"collections\":[\(names)]}"
            return try await asked(hub, 1, connections: 20, [("Profile", "getCollections")], body)
        },
        Attack(testDescription: "getCollections with 1,000 names that are all different, on each of 20 connections") { hub in
            let ids = (0..<1_000).map { "\"cp\($0)\"" }.joined(separator: ",")
            let names = (0..<1_000).map { "\"c\($0)\"" }.joined(separator: ",")
            return try await asked(hub, 1, connections: 20, [("Profile", "getCollections")], "{\"checkpoint_ids\":[\(ids)],\"collections\":[\(names)]}")
        },
        Attack(testDescription: "20,000 requests with an unknown profile") { try await asked($0, 20_000, [("Profile", "makeCoffee")]) },
        Attack(testDescription: "2,000 subscriptions") { try await asked($0, 2_000, [("Profile", "subChanges"), ("continuous", "true")]) },
        Attack(testDescription: "proposeChanges with 2,000 rows, 50 times", bounds: Bounds(perRequest: 20)) { hub in
            let rows = (0..<2_000).map { "[\"document-\($0)\",\"1-aa\"]" }.joined(separator: ",")
            return try await asked(hub, 50, [("Profile", "proposeChanges")], "[\(rows)]")
        },
        Attack(testDescription: "20,000 pings", bounds: Bounds(perRequest: 0.1)) { hub in
            let ping = WebSocketFrame.binary([UInt8](repeating: 1, count: 125), opcode: 9)
            let socket = try await WebSocketProbe.connect(port: try hub.port("edge"), path: "/main/_blipsync")
            return Sent(requests: 20_000, flows: [socket.pour([UInt8]((0..<20_000).map { _ in ping }.joined()))])
        },
    ]

    private static let largeCheckpoint: @Sendable (AgentProcess) async throws -> Void = { hub in
        let peer = try await Peer.connect(hub)
        let body = ByteBuffer(string: "{\"text\":\"\(String(repeating: "x", count: 120_000))\"}")
        let reply = try await peer.ask(OutgoingRequest(profile: "setCheckpoint", properties: ["client": "large"], body: body))
        if let error = reply.error { throw SupportError("the checkpoint was refused: \(error)") }
        try await peer.close()
    }

    /// Sends one request again and again.
    private static func asked(
        _ hub: AgentProcess, _ count: Int, connections: Int = 1, _ properties: [(String, String)], _ body: String = ""
    ) async throws -> Sent {
        var frames = HandmadeFrames()
        let block = properties.flatMap { HandmadeFrames.properties($0) }
        var bytes: [UInt8] = []
        for _ in 0..<count { bytes += WebSocketFrame.binary(frames.request(properties: block, body: Array(body.utf8))) }
        var sent = Sent(requests: count * connections)
        for _ in 0..<connections {
            sent.flows.append(try await WebSocketProbe.connect(port: try hub.port("edge"), path: "/main/_blipsync").pour(bytes))
        }
        return sent
    }
}

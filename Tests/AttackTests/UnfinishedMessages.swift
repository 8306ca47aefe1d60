import BLIP
import Digests
import Encodings
import NIOCore
import TestSupport
import Testing

extension Attack {
    /// Messages whose end never comes.
    static let unfinished: [Attack] = [
        Attack(
            testDescription: "8 messages of 15 MB that are compressed to 15 KB, on each of 8 connections", bounds: Bounds(milliseconds: 6_000, memory: 160 << 20)
        ) { hub in
            let blip = deflated(8, megabytes: 15)
            return try await poured(hub, connections: 8, blip, requests: 8)
        },
        Attack(testDescription: "300 requests of 100 KB, on each of 4 connections", bounds: Bounds(memory: 96 << 20)) { hub in
            var frames = HandmadeFrames()
            let part = beginning + [UInt8](repeating: 0x20, count: 100_000)
            return try await poured(hub, connections: 4, (0..<300).map { _ in frames.message(part, flags: moreComing) })
        } check: { try await tellsOfEvictions($0) },
        Attack(
            testDescription: "400 one-byte frames that continue a large reply to getAttachment"
        ) { try await attachment($0, megabytes: 24, smallFrames: 400) } check: { try await isHeld($0) },
        Attack(
            testDescription: "a reply to getAttachment in 20,000 one-byte frames", bounds: Bounds(perRequest: 0.2)
        ) { try await attachment($0, megabytes: 1, smallFrames: 20_000) } check: { try await isHeld($0) },
        Attack(
            testDescription: "20 documents that name 1,000 missing blobs each, on each of 20 connections",
            bounds: Bounds(perRequest: 150, memory: 71 << 20)
        ) { try await nameBlobs($0, connections: 20, documents: 20, blobs: 1_000) },
        Attack(
            testDescription: "6 documents that name 9,990 missing blobs each, on each of 4 connections",
            bounds: Bounds(perRequest: 600, memory: 71 << 20)
        ) { try await nameBlobs($0, connections: 4, documents: 6, blobs: 9_990) },
        Attack(testDescription: "a request in 20,000 one-byte frames", bounds: Bounds(perRequest: 0.2)) { hub in
            var frames = HandmadeFrames()
            let first = frames.message(beginning, flags: moreComing)
            return try await poured(hub, connections: 1, [first] + (0..<20_000).map { _ in frames.frame(1, moreComing, [0x20]) })
        },
        Attack(testDescription: "a request with 40,000 empty frames", bounds: Bounds(perRequest: 0.1)) { hub in
            var frames = HandmadeFrames()
            let first = frames.message(beginning, flags: moreComing)
            return try await poured(hub, connections: 1, [first] + (0..<40_000).map { _ in frames.frame(1, moreComing, []) })
        } check: { try await isHeld($0) },
        Attack(testDescription: "40,000 acknowledgements of messages that do not exist", bounds: Bounds(perRequest: 0.1)) { hub in
            let kinds: [UInt8] = [0x34, 0x35]
            return try await poured(hub, connections: 1, (1...40_000).map { number in
                HandmadeFrames.varint(UInt64(number) << (number % 40)) + [kinds[number % 2]] + HandmadeFrames.varint(UInt64(number))
            })
        } check: { try await isHeld($0) },
    ]

    private static let moreComing: UInt8 = 0x40
    private static let beginning: [UInt8] = {
        let block = HandmadeFrames.properties(("Profile", "proposeChanges"))
        return HandmadeFrames.varint(UInt64(block.count)) + block
    }()

    /// Pushes documents with blobs that the agent asks for and never gets.
    private static func nameBlobs(_ hub: AgentProcess, connections: Int, documents: Int, blobs: Int) async throws -> Sent {
        var sent = Sent(requests: connections * documents)
        for connection in 0..<connections {
            var frames = HandmadeFrames()
            var bytes: [UInt8] = []
            for document in 0..<documents {
                let id = "names-\(connection)-\(document)"
                let names = (0..<blobs).map { blob in
                    let digest = Base64.encode(SHA1.hash(Array("\(id)-\(blob)".utf8)))
                    return "\"b\(blob)\":{\"@type\":\"blob\",\"digest\":\"sha1-\(digest)\",\"length\":100000}"
                }
                let properties = HandmadeFrames.properties(("Profile", "rev"), ("id", id), ("rev", "1-aa"), ("sequence", "\(document + 1)"))
                bytes += WebSocketFrame.binary(frames.request(properties: properties, body: Array("{\(names.joined(separator: ","))}".utf8)))
            }
            sent.flows.append(try await WebSocketProbe.connect(port: try hub.port("edge"), path: "/main/_blipsync").pour(bytes))
        }
        return sent
    }

    private static func poured(_ hub: AgentProcess, connections: Int, _ frames: [[UInt8]], requests: Int? = nil) async throws -> Sent {
        let bytes = frames.flatMap { WebSocketFrame.binary($0) }
        var sent = Sent(requests: (requests ?? frames.count) * connections)
        for _ in 0..<connections {
            sent.flows.append(try await WebSocketProbe.connect(port: try hub.port("edge"), path: "/main/_blipsync").pour(bytes))
        }
        return sent
    }

    /// Frames of compressed requests, each of which says that more is to come.
    private static func deflated(_ count: Int, megabytes: Int) -> [[UInt8]] {
        var blip = BLIPConnection()
        let body = ByteBuffer(repeating: 0x20, count: megabytes * 1_000_000)
        for _ in 0..<count {
            var request = OutgoingRequest(profile: "proposeChanges", body: body)
            request.isCompressed = true
            blip.send(request)
        }
        var frames: [[UInt8]] = []
        while let frame = blip.nextFrame() {
            var bytes = Array(frame.readableBytesView)
            bytes[1] |= moreComing
            frames.append(bytes)
        }
        return frames
    }

    /// The attacker was not disconnected, so that what it sent really was processed.
    private static func isHeld(_ hub: AgentProcess) async throws {
        let listener = try await hub.status()["listeners"]?.asArray?.first
        #expect(listener?["connections"]?.asInt64 == 2, "\(listener?.text ?? "")\n\(hub.process.errors.suffix(2000))")
    }

    /// The operator is told that peers were put off.
    private static func tellsOfEvictions(_ hub: AgentProcess) async throws {
        let health = try await hub.admin.get("/health").json
        let told = health["attention"]?.asArray?.first { $0["kind"] == "connections_evicted" }?["text"]?.asString
        #expect(told?.contains("limits.memory was used up, the last one from 127.0.0.1") == true, "\(health.text)")
        #expect(!(try await hub.admin.get("/metrics").text.contains("nightjar_listener_evictions_total{listener=\"edge\"} 0\n")))
    }

    /// Pushes a document with a blob, and sends the blob so that it never ends: a large part first, then byte by byte.
    private static func attachment(_ hub: AgentProcess, megabytes: Int, smallFrames: Int) async throws -> Sent {
        let socket = try await WebSocketProbe.connect(port: try hub.port("edge"), path: "/main/_blipsync")
        var frames = HandmadeFrames()
        let digest = "sha1-\(Base64.encode(SHA1.hash(Array("\(megabytes)".utf8))))"
        let body = "{\"file\":{\"@type\":\"blob\",\"digest\":\"\(digest)\",\"length\":\(megabytes * 1_000_000 + 1_000_000)}}"
        let properties = HandmadeFrames.properties(("Profile", "rev"), ("id", "blob"), ("rev", "1-aa"), ("sequence", "1"))
        try await socket.send(frames.request(properties: properties, body: Array(body.utf8)))
        var number: UInt64 = 0
        while number == 0 {
            guard let frame = try await socket.receive() else { throw SupportError("the connection was closed") }
            if frame.opcode == 2, let message = HandmadeFrames.reply(frame.payload), message.properties.contains("getAttachment") {
                number = UInt64(frame.payload[0])
            }
        }
        // Follows the flow control: a peer that ignores it would be disconnected before it costs anything.
        let part = [UInt8](repeating: 0x78, count: 32_000)
        let large = megabytes * 1_000_000 / part.count
        var sent = Sent(requests: large + smallFrames)
        var acknowledged = 0
        for count in 0..<large {
            let frame = frames.frame(number, 0x01 | moreComing, count == 0 ? [0] + part : part)
            sent.bytes += frame.count
            try await socket.send(frame)
            while (count + 1) * part.count - acknowledged > 256_000 {
                guard let answer = try await socket.receive(), answer.opcode == 2 else { throw SupportError("the attacker was disconnected") }
                acknowledged = acknowledgement(answer.payload) ?? acknowledged
            }
        }
        sent.flows = [socket.pour((0..<smallFrames).flatMap { _ in WebSocketFrame.binary(frames.frame(number, 0x01 | moreComing, [0x78])) })]
        return sent
    }

    /// How many bytes of our reply the frame acknowledges, if it is an acknowledgement.
    private static func acknowledgement(_ frame: [UInt8]) -> Int? {
        guard frame.count > 2, frame[0] < 0x80, frame[1] & 7 == 5 else { return nil }
        return frame[2...].enumerated().reduce(0) { $0 | Int($1.element & 0x7F) << (7 * $1.offset) }
    }
}

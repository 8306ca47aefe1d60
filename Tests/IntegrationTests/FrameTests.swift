import TestRandomness
import TestSupport
import Testing

/// What a peer gets that breaks the framing: a close code that says so, and nobody else notices.
@Suite("Frames that break the rules", .serialized, .agent(Configuration.hub()))
struct FrameTests {
    struct Case: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let code: UInt16?
        let bytes: @Sendable () -> [UInt8]

        /// The bytes as one binary WebSocket message.
        static func blip(_ what: String, _ frame: @escaping @Sendable (inout HandmadeFrames) -> [UInt8]) -> Case {
            Case(testDescription: what, code: 1011) {
                var frames = HandmadeFrames()
                // A good request before it, so that there is a state to break.
                let first = frames.request(properties: Self.getCheckpoint)
                return WebSocketFrame.binary(first) + WebSocketFrame.binary(frame(&frames))
            }
        }

        static func webSocket(_ what: String, _ code: UInt16?, _ bytes: @escaping @Sendable () -> [UInt8]) -> Case {
            Case(testDescription: what, code: code, bytes: bytes)
        }

        static let getCheckpoint = HandmadeFrames.properties(("Profile", "getCheckpoint"), ("client", "frames"))
    }

    static let cases: [Case] = [
        .blip("a frame that ends inside its number") { _ in [0x81] },
        .blip("a frame that ends before its flags") { _ in [0x02] },
        .blip("an empty message") { _ in [] },
        .blip("a number that is too large") { _ in Array(repeating: 0xFF, count: 11) + [0, 0, 0, 0] },
        .blip("a frame shorter than its checksum") { _ in [0x02, 0x00, 0x01, 0x02] },
        .blip("a wrong checksum") { frames in
            var frame = frames.request(properties: Case.getCheckpoint)
            frame[frame.count - 1] ^= 1
            return frame
        },
        .blip("a flipped bit in the data") { frames in
            var frame = frames.request(properties: Case.getCheckpoint)
            frame[12] ^= 0x20
            return frame
        },
        .blip("a checksum that begins anew with each frame") { _ in
            var fresh = HandmadeFrames()
            var frame = fresh.request(properties: Case.getCheckpoint)
            frame[0] = 2
            return frame
        },
        .blip("a cut frame") { frames in Array(frames.request(properties: Case.getCheckpoint).dropLast(7)) },
        .blip("compressed data that is none") { frames in frames.message([0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x12], flags: 0x08) },
        .blip("a skipped message number") { frames in frames.frame(3, 0, [0]) },
        .blip("a repeated message number") { frames in frames.frame(1, 0, [0]) },
        .blip("a reply to nothing") { frames in frames.frame(1, 1, [0]) },
        .blip("an error reply to a request far ahead") { frames in frames.frame(5000, 2, [0]) },
        .blip("properties longer than the message") { frames in frames.message([100, 0x61, 0, 0x62, 0]) },
        .blip("properties without a final NUL") { frames in frames.request(properties: Array("Profile\u{0}getCheckpoint".utf8)) },
        .blip("a property without a value") { frames in frames.request(properties: Array("Profile\u{0}getCheckpoint\u{0}client\u{0}".utf8)) },
        .blip("a message without even the length of its properties") { frames in frames.message([]) },
        .blip("properties of 100 KiB and more") { frames in
            frames.request(properties: HandmadeFrames.properties(("Profile", "getCheckpoint"), ("client", String(repeating: "x", count: 102_400))))
        },
        .blip("a length of properties beyond 32 bits") { frames in frames.message(HandmadeFrames.varint(1 << 40) + [0]) },
        .blip("an acknowledgement without a count") { _ in [0x01, 0x34] },

        .webSocket("a text message", 1003) { WebSocketFrame.binary(Array("hello".utf8), opcode: 1) },
        .webSocket("a frame that is not masked", 1002) { [0x82, 0x01, 0x00] },
        .webSocket("a frame with reserved bits, as of an agreed compression", 1002) { [0xC2, 0x80, 0, 0, 0, 0] },
        .webSocket("an unknown opcode", 1002) { WebSocketFrame.binary([1], opcode: 3) },
        .webSocket("a ping that is too long", 1002) { WebSocketFrame.binary(Array(repeating: 1, count: 126), opcode: 9) },
        .webSocket("a ping in fragments", 1002) { WebSocketFrame.binary([1], opcode: 9, isFinal: false) },
        .webSocket("a continuation of nothing", 1002) { WebSocketFrame.binary([1], opcode: 0) },
        .webSocket("a message inside a fragmented one", 1002) {
            WebSocketFrame.binary([1], isFinal: false) + WebSocketFrame.binary([1])
        },
        .webSocket("a message of more than 1 MiB", 1009) { WebSocketFrame.binary(Array(repeating: 1, count: 1_048_577)) },
        .webSocket("a message of 2^62 bytes", 1009) { [0x82, 0xFF, 0x40, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0] },
        .webSocket("more than 1 MiB in fragments", 1009) {
            let part = [UInt8](repeating: 1, count: 300_000)
            return WebSocketFrame.binary(part, isFinal: false) + WebSocketFrame.binary(part, opcode: 0, isFinal: false)
                + WebSocketFrame.binary(part, opcode: 0, isFinal: false) + WebSocketFrame.binary(part, opcode: 0)
        },
    ]

    @Test("close with the code that fits", arguments: cases)
    func closes(_ wrong: Case) async throws {
        let agent = try sharedAgent()
        let bystander = try await Bystander(agent)
        let socket = try await WebSocketProbe.connect(port: try agent.port("edge"), path: "/main/_blipsync")
        try? await socket.sendRaw(wrong.bytes())
        #expect(try await socket.closeCode() == wrong.code)
        try await bystander.leave()
    }

    @Test("a request above the limit of BLIP is refused, even if it is small when compressed, and the connection goes on")
    func tooLargeMessage() async throws {
        let agent = try sharedAgent()
        let bystander = try await Bystander(agent)
        let peer = try await Peer.connect(agent)
        // 26 MiB, compressed to some kilobytes: the bound is on what it grows to.
        var request = Peer.revision("big", bytes: Array("{\"a\":\"".utf8) + Array(repeating: 0x78, count: 26 << 20) + Array("\"}".utf8))
        request.isCompressed = true
        let refused = try await peer.ask(request)
        #expect(refused.error?.domain == "HTTP")
        #expect(refused.error?.code == 413)
        #expect(refused.error?.message.contains("max_document_bytes") == true, "\(String(describing: refused.error))")
        try await peer.push("behind-big")
        try await bystander.leave()
    }

    @Test("unknown frame types and acknowledgements of nothing are ignored")
    func ignored() async throws {
        let agent = try sharedAgent()
        let socket = try await WebSocketProbe.connect(port: try agent.port("edge"), path: "/main/_blipsync")
        var frames = HandmadeFrames()
        try await socket.send([0x07, 0x03, 0x01, 0x02, 0x03, 0x04, 0x05])
        try await socket.send([0x09, 0x34, 0x80, 0x08])
        try await socket.send(frames.request(properties: Case.getCheckpoint))
        let reply = HandmadeFrames.reply(try #require(try await socket.receive()).payload)
        #expect(reply?.type == 2)
        #expect(reply?.properties.contains("Error-Code|404|") == true, "\(String(describing: reply))")
    }

    @Test("an unknown message is answered, and the connection goes on")
    func unknownMessage() async throws {
        let peer = try await Peer.connect(try sharedAgent())
        let reply = try await peer.ask(.init(profile: "makeCoffee"))
        #expect(reply.error?.domain == "BLIP")
        #expect(reply.error?.code == 404)
        #expect(reply.error?.message == "no handler for message")
        try await peer.push("after-coffee")
    }

    @Test("bits flipped anywhere")
    func flippedBits() async throws {
        let agent = try sharedAgent()
        let bystander = try await Bystander(agent)
        let seed = UInt64.random(in: 0 ... .max)
        var random = SeededGenerator(seed: seed)
        for round in 0..<60 {
            let socket = try await WebSocketProbe.connect(port: try agent.port("edge"), path: "/main/_blipsync")
            var frames = HandmadeFrames()
            var bytes: [UInt8] = []
            let rev = HandmadeFrames.properties(("Profile", "rev"), ("id", "flipped"), ("rev", "1-abcd"), ("sequence", "1"))
            for frame in [
                frames.request(properties: Case.getCheckpoint), frames.request(properties: rev, body: Array("{\"x\":[1,2,3]}".utf8)),
                frames.request(properties: HandmadeFrames.properties(("Profile", "proposeChanges")), body: Array("[[\"p\",\"1-ab\"]]".utf8)),
            ] {
                bytes += WebSocketFrame.binary(frame)
            }
            for _ in 0...Int(random.next() % 3) { bytes[Int(random.next() % UInt64(bytes.count))] ^= 1 << UInt8(random.next() % 8) }
            if random.next() % 4 == 0 { bytes.removeLast(Int(random.next() % 40)) }
            try? await socket.sendRaw(bytes)
            // A length may have been flipped too: the agent then waits for what never comes, and dropping the socket must do.
            if round % 2 == 0 {
                try? await socket.sendRaw(WebSocketFrame.binary([0x03, 0xE8], opcode: 8))
                _ = try? await socket.receive()
            }
        }
        try await bystander.leave()
        #expect(try await agent.isWell(), "seed \(seed)")
        try await eventually("the broken connections are gone") { try await agent.listener("edge")["connections"]?.asInt64 == 0 }
    }

    @Test("connections cut in the middle of a frame")
    func cutConnections() async throws {
        let agent = try sharedAgent()
        let bystander = try await Bystander(agent)
        var frames = HandmadeFrames()
        let bytes = WebSocketFrame.binary(frames.request(properties: Case.getCheckpoint))
        for length in stride(from: 1, to: bytes.count, by: 5) {
            let socket = try await WebSocketProbe.connect(port: try agent.port("edge"), path: "/main/_blipsync")
            try await socket.sendRaw(Array(bytes.prefix(length)))
        }
        try await bystander.leave()
        try await eventually("the cut connections are gone") { try await agent.listener("edge")["connections"]?.asInt64 == 0 }
    }
}

import Encodings
import NIOCore
import Testing

@testable import BLIP

/// Every vector of Vectors/blip-vectors.json.
struct VectorTests {
    struct Vector: CustomTestStringConvertible, Sendable {
        var name: String
        var kind: String
        var frames: [ByteBuffer]
        var decoded: JSON

        var testDescription: String { name }
        var awaiting: [UInt64] { (decoded["awaiting"]?.array ?? []).compactMap { $0.integer.map(UInt64.init) } }
    }

    static let all: [Vector] = {
        guard let bytes = try? Vectors.read("blip-vectors.json"), let json = try? JSON.parse(bytes[...]) else { return [] }
        return (json["vectors"]?.array ?? []).map { vector in
            Vector(
                name: vector["name"]?.string ?? "", kind: vector["kind"]?.string ?? "",
                frames: (vector["hex"]?.array ?? []).compactMap { $0.string.map { buffer(hex: $0) } },
                decoded: vector["decoded"] ?? .null
            )
        }
    }()

    static func kind(_ kind: String) -> [Vector] { all.filter { $0.kind == kind } }

    @Test func theFileIsThere() {
        #expect(Self.all.count > 40)
        #expect(Set(Self.all.map(\.kind)) == ["varint", "properties", "handshake", "frames", "reject"])
    }

    @Test(arguments: kind("varint"))
    func varint(_ vector: Vector) throws {
        let reading = vector.frames[0].withUnsafeReadableBytes { Varint.read($0, at: 0) }
        #expect(String(reading.value) == vector.decoded["value"]?.string)
        #expect(reading.length == vector.decoded["length"]?.integer)
        #expect(Varint.length(reading.value) == reading.length)
        var written = ByteBuffer()
        written.writeVarint(reading.value)
        #expect(written == vector.frames[0])
    }

    @Test(arguments: kind("properties"))
    func properties(_ vector: Vector) throws {
        let parsed = try ParsedMessage(vector.frames[0], number: 1, wantsProfile: false, limits: .init())
        #expect(parsed.properties.list == expectedProperties(vector.decoded))
        #expect(parsed.properties.byteCount == vector.decoded["byte_count"]?.integer)
        var built = BLIPProperties()
        for pair in parsed.properties.list { built.append(pair[0], pair[1]) }
        #expect(built == parsed.properties)
    }

    @Test(arguments: kind("frames"))
    func frames(_ vector: Vector) throws {
        let connection = Peer()
        for number in vector.awaiting { connection.pretendSent(number) }
        // A vector may start in the middle of a connection.
        let expected = vector.decoded["events"]?.array ?? []
        var ackCounts: [UInt64: Int] = [:]
        var events: [BLIPEvent] = []
        for frame in vector.frames {
            try connection.receive(frame, into: &events)
            let header = try FrameHeader(frame)
            if header.type <= 2 { ackCounts[header.number, default: 0] += frame.readableBytes - header.length }
        }
        let messages = events.filter { if case .replyProgress = $0 { false } else { true } }
        let wanted = expected.filter { ["MSG", "RPY", "ERR"].contains($0["message"]?.string) }
        try #require(messages.count == wanted.count)
        for (event, expected) in zip(messages, wanted) {
            let number = UInt64(expected["number"]?.integer ?? 0)
            #expect(ackCounts[number] == expected["ackable_bytes"]?.integer)
            switch event {
            case .request(let request):
                #expect(expected["message"]?.string == "MSG")
                #expect(request.number == number)
                #expect((request.profile.isEmpty ? [] : [["Profile", request.profile]]) + request.properties.list == expectedProperties(expected))
                #expect(String(buffer: request.body) == expected["body"]?.string)
                #expect(request.isUrgent == expected["urgent"]?.bool)
                #expect(request.isNoReply == expected["noreply"]?.bool)
                #expect(request.isCompressed == expected["compressed"]?.bool)
            case .reply(let token, let reply):
                #expect(token == RequestToken(serial: number))
                #expect((reply.error != nil) == (expected["message"]?.string == "ERR"))
                #expect(reply.properties.list == expectedProperties(expected))
                if let hex = expected["body_hex"]?.string {
                    #expect(reply.body == buffer(hex: hex))
                } else {
                    #expect(String(buffer: reply.body) == expected["body"]?.string)
                }
                if let error = reply.error {
                    #expect(error.domain == reply.properties["Error-Domain"])
                    #expect(String(error.code) == reply.properties["Error-Code"])
                    #expect(error.message == expected["body"]?.string)
                }
            default: Issue.record("unexpected \(event)")
            }
        }
        let checksum = vector.decoded["crc_after"]?.string.map { UInt32($0, radix: 16) }
        #expect(connection.checksumIn == checksum)
    }

    /// Plain messages of one frame come out byte for byte; the others by round trip in `CaptureTests` and `RoundTripTests`.
    @Test(arguments: kind("frames"))
    func encoding(_ vector: Vector) throws {
        let decoder = Peer()
        for number in vector.awaiting { decoder.pretendSent(number) }
        let headers = try vector.frames.map { try FrameHeader($0) }
        guard headers.allSatisfy({ $0.type <= 2 && $0.bits & 0x48 == 0 && $0.length == 2 }) else {
            // Split, compressed, not ours to send: decode what we make of it instead.
            return try roundTrip(try decoder.receive(vector.frames))
        }
        let encoder = Peer()
        for event in try decoder.receive(vector.frames) {
            switch event {
            case .request(let request): encoder.send(OutgoingRequest(request))
            case .reply(let token, let reply):
                encoder.pretendReceived(token.serial)
                #expect(encoder.reply(to: token.serial, OutgoingReply(reply)))
            default: break
            }
        }
        #expect(encoder.drain().map { hex($0) } == vector.frames.map { hex($0) })
        #expect(encoder.checksumOut == decoder.checksumIn)
    }

    @Test(arguments: kind("reject"))
    func rejects(_ vector: Vector) throws {
        if vector.decoded["what"]?.string == "varint" {
            let reading = vector.frames[0].withUnsafeReadableBytes { Varint.read($0, at: 0) }
            #expect(throws: BLIPError.self) { try reading.checked() }
            return
        }
        let connection = Peer()
        for number in vector.awaiting { connection.pretendSent(number) }
        var found: BLIPError?
        var events: [BLIPEvent] = []
        for (index, frame) in vector.frames.enumerated() {
            do throws(BLIPError) {
                try connection.receive(frame, into: &events)
            } catch {
                #expect(index == vector.frames.count - 1)
                found = error
            }
        }
        let expected: (BLIPError) -> Bool = { error in
            switch (vector.name, error) {
            case ("bad-crc", .checksumMismatch), ("request-number-gap", .requestNumber(found: 3, expected: 2)),
                ("request-number-reused", .requestNumber(found: 1, expected: 2)), ("reply-without-request", .unexpectedReply(number: 1)),
                ("second-reply", .unexpectedReply(number: 1)), ("short-frame", .frameTooShort(length: 2)), ("missing-flags", .truncatedNumber),
                ("props-no-nul", .properties(reason: .unterminated, message: 1)),
                ("props-odd", .properties(reason: .oddStrings, message: 1)),
                ("props-longer-than-message", .properties(reason: .longerThanMessage, message: 1)),
                ("compressed-frame-lost-context", .compression):
                true
            default: false
            }
        }
        let error = try #require(found)
        #expect(expected(error), "\(error)")
        #expect(error.closeCode == 1011)
        #expect(throws: BLIPError.connectionFailed) { try connection.receive(vector.frames[0], into: &events) }
        #expect(connection.nextFrame() == nil)
    }

    private func roundTrip(_ events: [BLIPEvent]) throws {
        let pair = Pair()
        for request in events.requests {
            pair.a.send(OutgoingRequest(request))
            let again = try #require(try pair.settle().atB.requests.first)
            #expect(again.profile == request.profile)
            #expect(again.properties == request.properties)
            #expect(again.body == request.body)
            #expect(again.isCompressed == request.isCompressed && again.isUrgent == request.isUrgent && again.isNoReply == request.isNoReply)
        }
        for (_, reply) in events.replies {
            pair.a.send(OutgoingRequest(profile: "x"))
            let number = try #require(try pair.settle().atB.requests.first).number
            pair.b.reply(to: number, OutgoingReply(reply))
            let again = try #require(try pair.settle().atA.replies.first).reply
            #expect(again.properties == reply.properties)
            #expect(again.body == reply.body)
            #expect(again.error == reply.error)
        }
    }

    private func expectedProperties(_ json: JSON) -> [[String]] {
        (json["properties"]?.array ?? []).map { ($0.array ?? []).compactMap(\.string) }
    }
}

extension OutgoingRequest {
    init(_ request: IncomingRequest) {
        self.init(
            profile: request.profile, properties: request.properties, body: request.body,
            isCompressed: request.isCompressed, isUrgent: request.isUrgent, isNoReply: request.isNoReply
        )
    }
}

extension OutgoingReply {
    init(_ reply: IncomingReply, isCompressed: Bool = false) {
        self.init(properties: reply.properties, body: reply.body, isCompressed: isCompressed)
        error = reply.error
    }
}

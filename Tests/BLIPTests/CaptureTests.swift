import Encodings
import NIOCore
import Testing

@testable import BLIP

/// The traffic of real peers in Vectors/captures: decodes as their own notes say, and again after our encoder had it.
struct CaptureTests {
    static let files = (try? Vectors.captures()) ?? []

    @Test func theFilesAreThere() {
        #expect(Self.files.count > 200)
    }

    @Test(arguments: files)
    func capture(_ name: String) throws {
        var connections: [Int: Replay] = [:]
        for line in try Vectors.read(name).split(separator: UInt8(ascii: "\n")) {
            let entry = try JSON.parse(line)
            guard entry["op"]?.string == "binary" else { continue }
            let id = entry["conn"]?.integer ?? 0
            let replay = connections.removeValue(forKey: id) ?? Replay()
            try replay.take(entry, name)
            connections[id] = replay
        }
    }
}

/// One captured connection. A class because dictionaries do not hold what cannot be copied.
private final class Replay {
    /// What client and server receive.
    private let atClient = Peer()
    private let atServer = Peer()
    /// The same messages once more, through our encoder: `a` is the client.
    private let again = Pair()
    private var numbers: [Direction: [UInt64: UInt64]] = [:]
    private var rawBytes: [MessageName: Int] = [:]
    private var ended: Set<Direction> = []

    enum Direction { case toServer, toClient }
    struct MessageName: Hashable {
        var direction: Direction
        var isReply: Bool
        var number: UInt64
    }

    func take(_ entry: JSON, _ file: String) throws {
        let direction: Direction = entry["dir"]?.string == "c2s" ? .toServer : .toClient
        guard !ended.contains(direction), let hex = entry["hex"]?.string, let blip = entry["blip"] else { return }
        let frame = buffer(hex: hex)
        let place = Comment(rawValue: "\(file) line \(entry["n"]?.integer ?? -1)")
        let header = try FrameHeader(frame)
        #expect(header.number == UInt64(blip["msgno"]?.integer ?? -1), place)
        let types: [String: UInt8] = ["MSG": 0, "RPY": 1, "ERR": 2, "ACKMSG": 4, "ACKRPY": 5]
        #expect(header.type == types[blip["type"]?.string ?? ""], place)
        if let wire = blip["wire"]?.integer { #expect(frame.readableBytes == wire, place) }
        if let acknowledged = blip["ackBytes"]?.integer {
            let count = frame.withUnsafeReadableBytes { Varint.read($0, at: header.length) }
            #expect(count.value == UInt64(acknowledged), place)
        }

        var events: [BLIPEvent] = []
        do throws(BLIPError) {
            if direction == .toServer { try atServer.receive(frame, into: &events) } else { try atClient.receive(frame, into: &events) }
        } catch {
            try refused(error, file, blip, place)
            ended.insert(direction)
            return
        }
        #expect(blip["crcOK"]?.bool != false, place)
        let message = MessageName(direction: direction, isReply: header.type != 0, number: header.number)
        if header.type <= 2 { rawBytes[message, default: 0] += blip["raw"]?.integer ?? 0 }

        events.removeAll { if case .replyProgress = $0 { true } else { false } }
        guard let properties = entry["props"]?.members else {
            #expect(events.isEmpty, place)
            return
        }
        try #require(events.count == 1, place)
        let flags = (blip["flags"]?.array ?? []).compactMap(\.string)
        let expected = properties.map { [$0.key, $0.value.string ?? ""] }
        switch events[0] {
        case .request(let request):
            let list = (request.profile.isEmpty ? [] : [["Profile", request.profile]]) + request.properties.list
            #expect(request.number == header.number && header.type == 0, place)
            #expect(list.sorted { $0[0] < $1[0] } == expected.sorted { $0[0] < $1[0] }, place)
            #expect(request.isUrgent == flags.contains("urgent") && request.isNoReply == flags.contains("noreply"), place)
            expectBody(request.body, entry, place)
            expectRaw(list, request.body, rawBytes[message], place)
            if !request.isNoReply {
                if direction == .toServer { atClient.pretendSent(request.number) } else { atServer.pretendSent(request.number) }
            }
            try repeatRequest(request, direction, flags.contains("compressed"), place)
        case .reply(let token, let reply):
            #expect(token.serial == header.number && header.type != 0, place)
            #expect(reply.properties.list.sorted { $0[0] < $1[0] } == expected.sorted { $0[0] < $1[0] }, place)
            #expect((reply.error != nil) == (blip["type"]?.string == "ERR"), place)
            expectBody(reply.body, entry, place)
            expectRaw(reply.properties.list, reply.body, rawBytes[message], place)
            try repeatReply(reply, header.number, direction, flags.contains("compressed"), place)
        default:
            Issue.record("unexpected event", sourceLocation: #_sourceLocation)
        }
    }

    /// Three captures misbehave on purpose.
    private func refused(_ error: BLIPError, _ file: String, _ blip: JSON, _ place: Comment) throws {
        switch error {
        case .checksumMismatch: #expect(file.hasSuffix("vv-probe-badcrc.jsonl") && blip["crcOK"]?.bool == false, place)
        case .requestNumber: #expect(file.hasSuffix("vv-probe-skipped-msgno.jsonl"), place)
        default: Issue.record("\(place): \(error)")
        }
    }

    private func expectBody(_ body: ByteBuffer, _ entry: JSON, _ place: Comment) {
        let expected = entry["body"]?.string ?? ""
        guard expected.hasPrefix("<"), expected.contains(" bytes: ") else {
            #expect(String(buffer: body) == expected, place)
            return
        }
        // "<40000 bytes: c7cc…>": the length and the first bytes.
        let words = expected.dropFirst().split(separator: " ")
        #expect(Int(words[0]) == body.readableBytes, place)
        let shown = words[2].prefix { $0.isHexDigit }
        #expect(hex(body).hasPrefix(shown), place)
    }

    private func expectRaw(_ properties: [[String]], _ body: ByteBuffer, _ raw: Int?, _ place: Comment) {
        let count = properties.reduce(0) { $0 + $1[0].utf8.count + $1[1].utf8.count + 2 }
        #expect(raw == Varint.length(UInt64(count)) + count + body.readableBytes, place)
    }

    private func repeatRequest(_ request: IncomingRequest, _ direction: Direction, _ compressed: Bool, _ place: Comment) throws {
        var outgoing = OutgoingRequest(request)
        outgoing.isCompressed = compressed
        if direction == .toServer { again.a.send(outgoing) } else { again.b.send(outgoing) }
        let (atA, atB) = try again.settle()
        let repeated = try #require(direction == .toServer ? atB.requests.first : atA.requests.first, place)
        numbers[direction, default: [:]][request.number] = repeated.number
        #expect(repeated.profile == request.profile && repeated.properties == request.properties, place)
        #expect(repeated.body == request.body, place)
        #expect(repeated.isNoReply == request.isNoReply && repeated.isUrgent == request.isUrgent, place)
    }

    private func repeatReply(_ reply: IncomingReply, _ number: UInt64, _ direction: Direction, _ compressed: Bool, _ place: Comment) throws {
        // A reply to the client answers what went to the server.
        let asked: Direction = direction == .toClient ? .toServer : .toClient
        let mapped = try #require(numbers[asked]?[number], place)
        let outgoing = OutgoingReply(reply, isCompressed: compressed)
        let accepted = direction == .toClient ? again.b.reply(to: mapped, outgoing) : again.a.reply(to: mapped, outgoing)
        #expect(accepted, place)
        let (atA, atB) = try again.settle()
        let repeated = try #require(direction == .toClient ? atA.replies.first : atB.replies.first, place).reply
        #expect(repeated.properties == reply.properties && repeated.error == reply.error, place)
        #expect(repeated.body == reply.body, place)
    }
}

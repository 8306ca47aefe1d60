import NIOCore
import TestRandomness
import Testing

@testable import BLIP

/// Random traffic between two connections.
struct RoundTripTests {
    private struct Sent {
        var request: OutgoingRequest
        var token: RequestToken?
    }

    @Test(arguments: 0..<8)
    func traffic(round: Int) throws {
        let seed = UInt64.random(in: 0...UInt64.max)
        let place = Comment(rawValue: "seed \(seed)")
        var random = SeededGenerator(seed: seed)
        var limits = BLIPLimits()
        limits.maximumFrame = [64, 300, 4096, 16_384][round % 4]
        limits.maximumFrameBeforeUrgent = limits.maximumFrame / 4
        limits.ackThreshold = 500 + random.below(50_000)
        limits.sendWindow = limits.ackThreshold * 2 + random.below(50_000)
        let pair = Pair(limits: limits, level: Int32(random.below(10)))
        var sent: [Bool: [String: Sent]] = [false: [:], true: [:]]
        var replies: [Bool: [RequestToken: OutgoingReply]] = [false: [:], true: [:]]
        var toAnswer: [(fromA: Bool, request: IncomingRequest)] = []
        var answered = 0
        var expectedAnswers = 0
        var received = 0
        let total = 100

        func check(_ events: [BLIPEvent], atA: Bool) throws {
            for event in events {
                switch event {
                case .request(let request):
                    received += 1
                    let original = try #require(sent[!atA]?[request.properties["id"] ?? ""]?.request, place)
                    #expect(request.profile == original.profile && request.properties == original.properties, place)
                    #expect(request.body == original.body, place)
                    #expect(request.isNoReply == original.isNoReply && request.isUrgent == original.isUrgent, place)
                    if !request.isNoReply { toAnswer.append((!atA, request)) }
                case .reply(let token, let reply):
                    answered += 1
                    let expected = replies[atA]?.removeValue(forKey: token)
                    let original = try #require(expected, place)
                    #expect(reply.error == original.error, place)
                    if reply.error == nil { #expect(reply.properties == original.properties && reply.body == original.body, place) }
                default: break
                }
            }
        }

        var serial = 0
        while serial < total || !toAnswer.isEmpty || pair.a.hasPendingOutput || pair.b.hasPendingOutput {
            if serial < total, random.below(3) == 0 {
                serial += 1
                let fromA = Bool.random(using: &random)
                var properties: BLIPProperties = ["id": "\(serial)"]
                for index in 0..<random.below(5) { properties.append("p\(index)", String(repeating: "x", count: random.below(100))) }
                let size = min([0, 10, 400, 5_000, 200_000][random.below(5)], 200 * limits.maximumFrame)
                let request = OutgoingRequest(
                    profile: "profile", properties: properties, body: random.body(size == 0 ? 0 : random.below(size)),
                    isCompressed: Bool.random(using: &random), isUrgent: random.below(4) == 0, isNoReply: random.below(4) == 0
                )
                let token = fromA ? pair.a.send(request) : pair.b.send(request)
                #expect((token == nil) == request.isNoReply, place)
                if token != nil { expectedAnswers += 1 }
                sent[fromA]?["\(serial)"] = Sent(request: request, token: token)
            }
            if !toAnswer.isEmpty, random.below(2) == 0 {
                let (fromA, request) = toAnswer.remove(at: random.below(toAnswer.count))
                let token = try #require(sent[fromA]?[request.properties["id"] ?? ""]?.token, place)
                var reply = OutgoingReply(properties: ["r": "1"], body: random.body(random.below(min(30_000, 200 * limits.maximumFrame))), isCompressed: Bool.random(using: &random))
                if random.below(5) == 0 { reply = OutgoingReply(error: BLIPErrorReply(domain: "HTTP", code: 503, message: "later")) }
                replies[fromA]?[token] = reply
                #expect(fromA ? pair.b.reply(to: request.number, reply) : pair.a.reply(to: request.number, reply), place)
            }
            for _ in 0..<random.below(4) {
                var events: [BLIPEvent] = []
                if Bool.random(using: &random) {
                    guard let frame = pair.a.nextFrame() else { continue }
                    try pair.b.receive(frame, into: &events)
                    try check(events, atA: false)
                } else {
                    guard let frame = pair.b.nextFrame() else { continue }
                    try pair.a.receive(frame, into: &events)
                    try check(events, atA: true)
                }
            }
        }
        #expect(received == total, place)
        #expect(answered == expectedAnswers, place)
        for connection in [pair.a.fail(), pair.b.fail()] { #expect(connection.isEmpty, place) }
    }

    /// Whatever happens to a frame, the receiver says so or the change was in bits that mean nothing; it never crashes.
    @Test func damagedFrames() throws {
        let seed = UInt64.random(in: 0...UInt64.max)
        let place = Comment(rawValue: "seed \(seed)")
        var random = SeededGenerator(seed: seed)
        var detected = 0
        for _ in 0..<1_200 {
            var limits = BLIPLimits()
            limits.maximumFrame = 64 + random.below(400)
            let sender = Peer(limits: limits)
            let receiver = Peer()
            receiver.pretendSent(1)
            receiver.pretendSent(2)
            sender.pretendReceived(1)
            var bodies: [ByteBuffer] = []
            for index in 0..<3 {
                bodies.append(random.body(random.below(800)))
                sender.send(OutgoingRequest(profile: "rev", properties: ["id": "\(index)"], body: bodies[index], isCompressed: random.below(3) > 0))
            }
            sender.reply(to: 1, OutgoingReply(properties: ["a": "b"], body: random.body(50), isCompressed: true))
            var frames = sender.drain()
            let victim = random.below(frames.count)
            var bytes = Array(frames[victim].readableBytesView)
            let bit = random.below(bytes.count * 8)
            // Number and flags are under no checksum.
            var mayPass = false
            switch random.below(4) {
            case 0: bytes.removeLast(1 + random.below(bytes.count))
            case 1:
                let position = random.below(bytes.count)
                bytes.insert(UInt8(truncatingIfNeeded: random.next()), at: position)
                mayPass = position <= 1
            case 2: for index in bytes.indices { bytes[index] = UInt8(truncatingIfNeeded: random.next()) }
            default:
                bytes[bit / 8] ^= 1 << UInt8(bit % 8)
                mayPass = bit / 8 <= 1
            }
            frames[victim] = ByteBuffer(bytes: bytes)
            var events: [BLIPEvent] = []
            do throws(BLIPError) {
                for frame in frames { try receiver.receive(frame, into: &events) }
            } catch {
                detected += 1
                continue
            }
            // A frame can turn into one of an ignored type; the next checksum tells, unless it was the last frame. And
            // deflate has bits that mean nothing.
            if mayPass || victim == frames.count - 1 { continue }
            #expect(events.requests.sorted { $0.number < $1.number }.map(\.body) == bodies, "damage passed unseen, \(place)")
        }
        #expect(detected > 800, place)
    }

    /// Bytes of any kind.
    @Test func noise() {
        let seed = UInt64.random(in: 0...UInt64.max)
        var random = SeededGenerator(seed: seed)
        for _ in 0..<5_000 {
            let receiver = Peer()
            receiver.pretendSent(1)
            var events: [BLIPEvent] = []
            for _ in 0..<4 {
                var bytes = (0..<random.below(60)).map { _ in UInt8(truncatingIfNeeded: random.next()) }
                if bytes.count > 1, Bool.random(using: &random) {
                    bytes[0] = 1
                    bytes[1] &= 0x7f
                }
                guard (try? receiver.receive(ByteBuffer(bytes: bytes), into: &events)) != nil else { break }
            }
            _ = receiver.drain()
            _ = receiver.fail()
        }
    }
}

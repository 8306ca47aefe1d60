import NIOCore
import SimulationSupport
import Testing

@testable import MessageEndpoints

/// Two links, a line between them, and a clock that the test moves.
private struct Line {
    var active: ByteStreamLink
    var passive: ByteStreamLink
    var now: UInt64 = 1_000_000_000
    var heard: (active: [[UInt8]], passive: [[UInt8]]) = ([], [])
    var ended: [(code: UInt16, reason: String, byPeer: Bool)] = []
    var offers: [EndpointOffer] = []
    /// Changes what is on its way.
    var noise: ([UInt8]) -> [UInt8] = { $0 }

    init(_ limits: MessageEndpointLimits = .line(speed: 115_200)) {
        active = ByteStreamLink(limits: limits, offer: EndpointOffer(database: "main"), session: 0x1234_5678, now: now)
        passive = ByteStreamLink(limits: limits, offer: nil, session: 0, now: now)
    }

    /// One turn: what both have to say goes over, and 5 ms pass.
    mutating func turn() {
        var events: [ByteStreamLink.Event] = []
        for _ in 0..<2 {
            if let bytes = active.output(now) {
                passive.received(ByteBuffer(bytes: noise(Array(bytes.readableBytesView))), now, &events)
                take(events, isActive: false)
                events = []
            }
            if let bytes = passive.output(now) {
                active.received(ByteBuffer(bytes: noise(Array(bytes.readableBytesView))), now, &events)
                take(events, isActive: true)
                events = []
            }
        }
        now += 5_000_000
        active.elapsed(now, &events)
        take(events, isActive: true)
        events = []
        passive.elapsed(now, &events)
        take(events, isActive: false)
    }

    mutating func turns(_ limit: Int = 200_000, until isDone: (Line) -> Bool) -> Bool {
        for _ in 0..<limit {
            if isDone(self) { return true }
            turn()
        }
        return isDone(self)
    }

    private mutating func take(_ events: [ByteStreamLink.Event], isActive: Bool) {
        for event in events {
            switch event {
            case .offered(let offer):
                offers.append(offer)
                passive.accept("BLIP_3+CBMobile_3")
            case .messages(let messages):
                let bytes = messages.map { Array($0.readableBytesView) }
                if isActive { heard.active += bytes } else { heard.passive += bytes }
            case .ended(let code, let reason, let byPeer): ended.append((code, reason, byPeer))
            case .opened, .refused: break
            }
        }
    }

    /// Until both may send.
    mutating func connect() -> Bool {
        turns(2000) { line in
            if line.offers.isEmpty { return false }
            var probe = line.active
            probe.send(ByteBuffer(string: "?"))
            return probe.waitingBytes > 0
        }
    }
}

/// Spoils bytes: each may be lost, changed, doubled, or get company.
private func noisy(_ random: SeededRandom, oneIn rate: Int) -> ([UInt8]) -> [UInt8] {
    { bytes in
        var result: [UInt8] = []
        result.reserveCapacity(bytes.count)
        for byte in bytes {
            guard random.below(rate) == 0 else {
                result.append(byte)
                continue
            }
            switch random.below(4) {
            case 0: break
            case 1: result.append(byte ^ UInt8(1 << random.below(8)))
            case 2: result += [byte, byte]
            default: result += [byte] + (0..<(1 + random.below(40))).map { _ in UInt8(random.below(256)) }
            }
        }
        return result
    }
}

@Suite struct LinkTests {
    @Test("Every message arrives once and in order, whatever the line does to single bytes", arguments: 1...12 as ClosedRange<UInt64>)
    func noisyLine(seed: UInt64) {
        let random = SeededRandom(seed: seed)
        var line = Line()
        line.noise = noisy(random, oneIn: 600)
        let done1 = line.connect()
        #expect(done1)
        var sent: (active: [[UInt8]], passive: [[UInt8]]) = ([], [])
        for _ in 0..<40 {
            let message = (0..<random.below(4000)).map { _ in UInt8(random.below(256)) }
            if random.chance(0.5) {
                sent.active.append(message)
                line.active.send(ByteBuffer(bytes: message))
            } else {
                sent.passive.append(message)
                line.passive.send(ByteBuffer(bytes: message))
            }
        }
        let arrived = line.turns { $0.heard.passive.count >= sent.active.count && $0.heard.active.count >= sent.passive.count || !$0.ended.isEmpty }
        #expect(arrived && line.ended.isEmpty, "seed \(seed): \(line.ended)")
        #expect(line.heard.passive == sent.active, "seed \(seed)")
        #expect(line.heard.active == sent.passive, "seed \(seed)")
        // The line was as bad as that.
        #expect(line.passive.damage.spoilt + line.active.damage.spoilt > 0)
        #expect(line.active.damage.resent + line.passive.damage.resent > 0)
    }

    @Test("A stream without any frame is given up after unsynchronised_bytes")
    func garbage() {
        var line = Line()
        let random = SeededRandom(seed: 7)
        var events: [ByteStreamLink.Event] = []
        var fed = 0
        while fed < 1_000_000, !events.contains(where: { if case .ended = $0 { true } else { false } }) {
            line.passive.received(ByteBuffer(bytes: (0..<1000).map { _ in UInt8(random.below(256)) }), 0, &events)
            fed += 1000
        }
        guard case .ended(let code, let reason, false)? = events.last else {
            Issue.record("\(fed) bytes, and no end: \(events)")
            return
        }
        #expect(code == 1002 && reason.contains("unsynchronised_bytes is 262144"), "\(reason)")
        #expect(fed < 270_000)
    }

    @Test("Headers that promise payloads and bring none are not checked at more than a few times their bytes")
    func promises() {
        var frame = ByteBuffer()
        LinkFrame(kind: .data, session: 9, payload: ByteBuffer(repeating: 7, count: 16_384)).write(to: &frame)
        let header = Array(frame.readableBytesView.prefix(LinkFrame.headerBytes))
        var decoder = LinkDecoder(maximumPayload: 16_384)
        let piece = ByteBuffer(bytes: (0..<100).flatMap { _ in header })
        var fed = 0
        for _ in 0..<400 {
            decoder.append(piece)
            fed += piece.readableBytes
            #expect(decoder.next() == nil)
        }
        #expect(decoder.checkedBytes <= 3 * fed + 5 * 16_384, "\(decoder.checkedBytes) of \(fed)")
        // What is sound is found behind it: at the latest when those promises are past.
        var found: [Int] = []
        for _ in 0..<3 {
            decoder.append(frame)
            while let sound = decoder.next() { found.append(sound.payload.readableBytes) }
        }
        #expect(found.contains(16_384) && found.allSatisfy { $0 == 16_384 })
    }

    @Test("The author of a document cannot inject frames into the stream")
    func scrambling() {
        var inner = ByteBuffer()
        LinkFrame(kind: .open, session: 99, payload: EndpointOffer(database: "other").payload(segmentBytes: 512)).write(to: &inner)
        var outer = ByteBuffer()
        LinkFrame(kind: .data, session: 0x1234_5678, sequence: 5, payload: inner).write(to: &outer)
        // The outer frame is spoilt: the receiver looks for one inside.
        var bytes = Array(outer.readableBytesView)
        bytes[bytes.count - 1] ^= 1
        var decoder = LinkDecoder(maximumPayload: 512)
        decoder.append(ByteBuffer(bytes: bytes))
        #expect(decoder.next() == nil)
        #expect(decoder.damaged > 0)
    }

    @Test("A receiver that does not read gets a window of segments and no more, and the rest once it reads again")
    func window() {
        var line = Line()
        let done2 = line.connect()
        #expect(done2)
        line.passive.setReading(false)
        let message = [UInt8](repeating: 7, count: 1000)
        for _ in 0..<50 { line.active.send(ByteBuffer(bytes: message)) }
        // A minute, in which it is asked again and again.
        for _ in 0..<12_000 { line.turn() }
        #expect(line.heard.passive.isEmpty && line.ended.isEmpty)
        #expect(line.active.waitingBytes >= 50_000 - 16 * 512)
        line.passive.setReading(true)
        var events: [ByteStreamLink.Event] = []
        line.passive.received(ByteBuffer(), line.now, &events)
        for case .messages(let messages) in events { line.heard.passive += messages.map { Array($0.readableBytesView) } }
        let done3 = line.turns { $0.heard.passive.count == 50 }
        #expect(done3)
        #expect(line.heard.passive.allSatisfy { $0 == message })
    }

    @Test("A peer that disappears is noticed, so is one that closes, and a message that is too long is refused")
    func ends() {
        var gone = Line()
        let done4 = gone.connect()
        #expect(done4)
        gone.noise = { _ in [] }
        gone.active.send(ByteBuffer(string: "anybody there?"))
        let done5 = gone.turns { !$0.ended.isEmpty }
        #expect(done5)
        #expect(gone.ended.first?.code == 1006 && gone.ended.first?.reason.contains("resends is 10") == true, "\(gone.ended)")

        var closed = Line()
        let done6 = closed.connect()
        #expect(done6)
        closed.active.send(ByteBuffer(string: "last words"))
        closed.active.close(code: 4001, reason: "bye", closed.now)
        let done7 = closed.turns { $0.ended.count == 2 }
        #expect(done7)
        #expect(closed.heard.passive == [Array("last words".utf8)])
        #expect(closed.ended.allSatisfy { $0.code == 4001 && $0.reason == "bye" } && Set(closed.ended.map(\.byPeer)) == [true, false], "\(closed.ended)")

        var long = Line()
        let done8 = long.connect()
        #expect(done8)
        long.active.send(ByteBuffer(repeating: 1, count: 1024 * 1024 + 1))
        let done9 = long.turns { !$0.ended.isEmpty }
        #expect(done9)
        #expect(long.ended.first?.code == 1009 && long.ended.first?.reason.contains("message_bytes (1048576)") == true, "\(long.ended)")
    }
}

import NIOCore

@testable import MessageEndpoints

extension FuzzTarget {
    /// Frames on a stream of bytes. Whatever noise is between them, and however it is cut, all sound frames are found; and two sides of a line that loses,
    /// spoils, repeats and invents bytes give each other the messages that were sent, in order and once.
    static let endpointFrames = FuzzTarget("endpoint-frames", longestInput: 2_048) { bytes in
        var input = FuzzInput(bytes)
        if input.flag() { try frames(&input) } else { try line(&input) }
    }

    private static func frames(_ input: inout FuzzInput) throws {
        var stream = ByteBuffer()
        var sent: [LinkFrame] = []
        while !input.isEmpty {
            if input.flag() {
                stream.writeBytes(input.piece())
            } else {
                let kind = LinkFrame.Kind(rawValue: UInt8(1 + input.below(8))) ?? .data
                let frame = LinkFrame(
                    kind: kind, flags: input.byte(), session: UInt32(input.short()), sequence: UInt32(input.byte()), acknowledged: UInt32(input.byte()),
                    window: UInt16(input.byte()), payload: ByteBuffer(bytes: input.piece()))
                frame.write(to: &stream)
                sent.append(frame)
            }
        }
        // What the input says by itself may be a frame as well.
        for size in [1, 7, 1_000_000] {
            var decoder = LinkDecoder(maximumPayload: 300)
            var found: [LinkFrame] = []
            var rest = stream
            while let piece = rest.readSlice(length: min(size, rest.readableBytes)), piece.readableBytes > 0 {
                decoder.append(piece)
                while let frame = decoder.next() { found.append(frame) }
                try hold(decoder.heldBytes <= 4 * (stream.readableBytes + 1_024), "\(decoder.heldBytes) bytes are held")
            }
            guard decoder.damaged == 0 || decoder.checkedBytes <= 300 else { continue }
            var wanted = sent[...]
            for frame in found where frame == wanted.first { wanted = wanted.dropFirst() }
            try hold(wanted.isEmpty, "\(wanted.count) of \(sent.count) frames are not found in pieces of \(size) bytes")
        }
        if let last = sent.last { _ = (EndpointOffer.decode(last.payload), EndpointOffer.read(last.payload)) }
    }

    private static func line(_ input: inout FuzzInput) throws {
        var line = FuzzedLine(segmentBytes: [16, 50, 400][input.below(3)], window: 1 + input.below(6))
        var steps = 0
        while !input.isEmpty, steps < 600 {
            steps += 1
            try line.step(&input)
        }
        try line.settle()
    }
}

/// Two links and what is on the way between them.
private struct FuzzedLine {
    private struct Side {
        var link: ByteStreamLink
        var isOpen = false
        var isOver = false
        /// What was sent and what came, in order.
        var sent: [[UInt8]] = []
        var got: [[UInt8]] = []
        /// Bytes on their way to the other side, and those that went last.
        var out: [UInt8] = []
        var before: [UInt8] = []
    }

    private var sides: [Side]
    private var now: UInt64 = 1

    init(segmentBytes: Int, window: Int) {
        var limits = MessageEndpointLimits()
        (limits.segmentBytes, limits.windowSegments, limits.messageBytes) = (segmentBytes, window, 3_000)
        limits.resendTime = 2_000_000_000
        limits.resends = 1_000_000
        sides = [
            Side(link: ByteStreamLink(limits: limits, offer: EndpointOffer(database: "main"), session: 0x1234_5678, now: 1)),
            Side(link: ByteStreamLink(limits: limits, offer: nil, session: 0, now: 1)),
        ]
    }

    mutating func step(_ input: inout FuzzInput) throws {
        let side = input.below(2)
        switch input.below(9) {
        case 0: send(side, input.short() % 2_000)
        case 1: try carry(side)
        case 2:
            fill(side)
            for _ in 0...input.below(4) where !sides[side].out.isEmpty { sides[side].out[input.short() % sides[side].out.count] ^= max(1, input.byte()) }
            try carry(side)
        case 3:
            fill(side)
            let keep = input.short() % (sides[side].out.count + 1)
            sides[side].out.removeSubrange(keep..<min(sides[side].out.count, keep + 1 + Int(input.byte())))
        case 4: sides[side].out = sides[side].before + sides[side].out
        case 5: sides[side].out += input.piece()
        case 6: try pass(UInt64(input.byte()) * 100_000_000)
        case 7: sides[side].link.setReading(input.flag())
        default: sides[side].link.setCrowded(input.flag())
        }
    }

    private mutating func send(_ side: Int, _ count: Int) {
        guard sides[side].isOpen, !sides[side].isOver, sides[side].sent.count < 40 else { return }
        let number = UInt8(truncatingIfNeeded: sides[side].sent.count)
        let message = (0..<count).map { UInt8(truncatingIfNeeded: $0) ^ number }
        sides[side].sent.append(message)
        sides[side].link.send(ByteBuffer(bytes: message))
    }

    private mutating func fill(_ side: Int) {
        while sides[side].out.count < 20_000, let bytes = sides[side].link.output(now) { sides[side].out += Array(bytes.readableBytesView) }
    }

    private mutating func carry(_ side: Int) throws {
        fill(side)
        let bytes = sides[side].out
        sides[side].before = Array(bytes.suffix(2_000))
        sides[side].out = []
        var events: [ByteStreamLink.Event] = []
        sides[1 - side].link.received(ByteBuffer(bytes: bytes), now, &events)
        try see(1 - side, events)
    }

    private mutating func pass(_ time: UInt64) throws {
        now += time
        for side in 0...1 {
            var events: [ByteStreamLink.Event] = []
            sides[side].link.elapsed(now, &events)
            try see(side, events)
        }
    }

    private mutating func see(_ side: Int, _ events: [ByteStreamLink.Event]) throws {
        for event in events {
            switch event {
            case .offered(let offer):
                try hold(offer.database == "main", "another offer than was made")
                sides[side].link.accept("BLIP")
                sides[side].isOpen = true
            case .opened(let name):
                try hold(name == "BLIP", "another protocol than was accepted")
                sides[side].isOpen = true
            case .refused: throw FuzzFinding(description: "an offer that nobody refused is refused")
            case .messages(let messages):
                for message in messages {
                    let place = sides[side].got.count
                    let bytes = Array(message.readableBytesView)
                    try hold(place < sides[1 - side].sent.count && sides[1 - side].sent[place] == bytes, "message \(place) is not what was sent")
                    sides[side].got.append(bytes)
                }
            case .ended: sides[side].isOver = true
            }
        }
        try hold(sides[side].link.heldBytes < 300_000, "\(sides[side].link.heldBytes) bytes are held")
    }

    /// The line is sound from now on: what was sent arrives.
    mutating func settle() throws {
        for side in 0...1 {
            sides[side].link.setReading(true)
            sides[side].link.setCrowded(false)
        }
        var rounds = 0
        while !sides.contains(where: \.isOver), !isDone {
            rounds += 1
            try hold(rounds < 5_000, "messages do not arrive on a sound line: \(sides[0].got.count) of \(sides[1].sent.count), \(sides[1].got.count) of \(sides[0].sent.count)")
            for side in 0...1 { try carry(side) }
            try pass(500_000_000)
        }
    }

    private var isDone: Bool {
        sides[0].got.count == sides[1].sent.count && sides[1].got.count == sides[0].sent.count && sides[0].isOpen && sides[1].isOpen
    }
}

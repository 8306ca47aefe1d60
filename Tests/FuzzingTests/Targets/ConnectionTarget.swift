import NIOCore

@testable import BLIP

extension FuzzTarget {
    /// Two connections that do as an input says, over a link that may change a frame. Without a changed frame nothing fails, every
    /// reply is the one that was given, and at the end nothing is left.
    static let connection = FuzzTarget("blip-connection", longestInput: 1_024) { bytes in
        var input = FuzzInput(bytes)
        var link = FuzzedLink(&input)
        var steps = 0
        while !input.isEmpty {
            try link.step(&input)
            steps += 1
        }
        try link.settle(steps: steps)
    }
}

private struct FuzzedLink: ~Copyable {
    private struct Asked {
        var isStreamed: Bool
        var body: [UInt8]?
        var got: [UInt8] = []
        var isOver = false
        var isAbandoned = false
        var isCut = false
    }

    private var a: BLIPConnection
    private var b: BLIPConnection
    private var asked: [RequestToken: Asked] = [:]
    private var order: [RequestToken] = []
    private var waiting: [IncomingRequest] = []
    private var sources: [StreamID: [UInt8]] = [:]
    private var wanting: [StreamID] = []
    private var unconsumed: [RequestToken: Int] = [:]
    private var isChanged = false
    private var isOver = false

    init(_ input: inout FuzzInput) {
        func limits(_ choice: UInt8) -> BLIPLimits {
            var limits = BLIPLimits()
            limits.maximumFrame = [64, 200, 4_096, 16_384][Int(choice & 3)]
            limits.maximumFrameBeforeUrgent = 64
            limits.ackThreshold = 300 + Int(choice >> 2 & 3) * 500
            // Above the other side's threshold and one frame, or both wait for ever.
            limits.sendWindow = 40_000
            limits.streamWindow = 500 << Int(choice >> 4 & 3)
            limits.streamLowWater = 1 + Int(choice >> 6) * 300
            return limits
        }
        a = BLIPConnection(limits: limits(input.byte()), compressionLevel: Int32(input.below(10)))
        b = BLIPConnection(limits: limits(input.byte()), compressionLevel: Int32(input.below(10)))
    }

    mutating func step(_ input: inout FuzzInput) throws {
        guard !isOver else {
            _ = input.byte()
            return
        }
        let choice = input.byte()
        switch choice & 0x0F {
        case 0...2:
            let isStreamed = choice & 0x10 != 0
            let request = OutgoingRequest(
                profile: "get", properties: ["id": String(order.count)], body: ByteBuffer(bytes: input.piece()), isCompressed: choice & 0x20 != 0,
                isUrgent: choice & 0x40 != 0)
            guard let token = a.send(request, streamsReply: isStreamed) else { throw FuzzFinding(description: "an open connection takes no request") }
            asked[token] = Asked(isStreamed: isStreamed)
            order.append(token)
        case 3, 4:
            guard !waiting.isEmpty else { return }
            try answer(waiting.remove(at: input.below(waiting.count)), choice, &input)
        case 5:
            guard !wanting.isEmpty else { return }
            supply(wanting.remove(at: input.below(wanting.count)), Int(input.byte()) * 40, isCut: choice & 0x70 == 0x70)
        case 6:
            guard let token = order.dropFirst(input.below(16)).first, let rest = unconsumed[token] else { return }
            let part = min(rest, 1 + Int(input.byte()) * 16)
            a.consumed(token, bytes: part)
            unconsumed[token] = rest == part ? nil : rest - part
        case 7:
            guard let token = order.dropFirst(input.below(16)).first, asked[token]?.isStreamed == true, asked[token]?.isOver == false else { return }
            a.abandon(token)
            asked[token]?.isAbandoned = true
            unconsumed[token] = nil
        case 8:
            b.acknowledgesReceived = choice & 0x10 != 0
        case 9:
            guard choice & 0xF0 == 0xF0 else { return }
            try carry(toB: choice & 0x10 != 0, changing: (input.short(), input.byte()))
        case let way:
            try carry(toB: way & 1 == 0, changing: nil)
        }
        try hold(a.unconsumedBytes == unconsumed.values.reduce(0, +), "unconsumed bytes are miscounted")
    }

    private mutating func answer(_ request: IncomingRequest, _ choice: UInt8, _ input: inout FuzzInput) throws {
        guard let text = request.properties["id"], let index = Int(text), order.indices.contains(index) else {
            return try hold(isChanged, "a request that nobody sent")
        }
        let token = order[index]
        let seed = input.piece()
        let body = Array(repeatElement(seed, count: 1 + input.below(choice & 0x20 != 0 ? 128 : 2)).joined())
        asked[token]?.body = body
        // No checksum covers the flags: a changed frame may say that no reply is wanted.
        guard choice & 0x10 != 0 else {
            let isTaken = b.reply(to: request.number, OutgoingReply(body: ByteBuffer(bytes: body), isCompressed: choice & 0x40 != 0))
            return try hold(isTaken || isChanged, "no way to answer")
        }
        let first = Array(body.prefix(input.below(200)))
        let reply = OutgoingReply(body: ByteBuffer(bytes: first), isCompressed: choice & 0x40 != 0)
        guard let stream = b.reply(to: request.number, streaming: reply) else { return try hold(isChanged, "no way to answer with a stream") }
        sources[stream] = Array(body.dropFirst(first.count))
    }

    private mutating func supply(_ stream: StreamID, _ count: Int, isCut: Bool) {
        guard let rest = sources[stream] else { return }
        if isCut, b.cut(stream) {
            sources[stream] = nil
            for (token, ask) in asked where ask.body != nil && !ask.isOver { asked[token]?.isCut = true }
            return
        }
        let piece = Array(rest.prefix(max(count, 1)))
        let isLast = piece.count == rest.count
        b.supply(stream, ByteBuffer(bytes: piece), isLast: isLast)
        sources[stream] = isLast ? nil : Array(rest.dropFirst(piece.count))
    }

    /// Carries one frame; true if there was one.
    @discardableResult
    private mutating func carry(toB: Bool, changing: (at: Int, by: UInt8)?) throws -> Bool {
        var own: [BLIPEvent] = []
        guard var frame = toB ? a.nextFrame(into: &own) : b.nextFrame(into: &own) else {
            try see(own)
            return false
        }
        try see(own)
        if let changing, changing.by != 0, frame.readableBytes > 0 {
            let at = frame.readerIndex + changing.at % frame.readableBytes
            frame.setInteger((frame.getInteger(at: at, as: UInt8.self) ?? 0) ^ changing.by, at: at)
            isChanged = true
        }
        var events: [BLIPEvent] = []
        do throws(BLIPError) {
            if toB { try b.receive(frame, into: &events) } else { try a.receive(frame, into: &events) }
        } catch {
            isOver = true
            try hold(isChanged, "an error without a cause: \(error)")
        }
        try see(events)
        return true
    }

    private mutating func see(_ events: [BLIPEvent]) throws {
        for event in events {
            switch event {
            case .request(let request): waiting.append(request)
            case .wantsMore(let stream): wanting.append(stream)
            case .reply(let token, let reply):
                asked[token]?.got = Array(reply.body.readableBytesView)
                try over(token)
            case .replyBytes(let token, let piece):
                try hold(asked[token]?.isAbandoned == false || isChanged, "bytes of an abandoned stream")
                asked[token]?.got += Array(piece.readableBytesView)
                unconsumed[token, default: 0] += piece.readableBytes
            case .replyEnded(let token): try over(token)
            default: break
            }
        }
    }

    private mutating func over(_ token: RequestToken) throws {
        guard let ask = asked[token] else { throw FuzzFinding(description: "a reply to nothing") }
        asked[token]?.isOver = true
        guard !isChanged else { return }
        try hold(!ask.isOver && !ask.isAbandoned, "two ends of one reply")
        guard let body = ask.body else { throw FuzzFinding(description: "a reply that nobody gave") }
        if ask.isCut { try hold(body.starts(with: ask.got), "wrong bytes of a cut reply") } else { try hold(body == ask.got, "another reply than was given") }
    }

    /// Lets everything come to its end and looks at what is left.
    mutating func settle(steps: Int) throws {
        guard !isOver, !isChanged else {
            _ = (a.fail(), b.fail())
            return
        }
        b.acknowledgesReceived = true
        var rounds = 0
        var isMoving = true
        while isMoving {
            rounds += 1
            try hold(rounds < 10_000 + 2_000 * steps, "it does not come to an end")
            isMoving = false
            for request in waiting {
                var none = FuzzInput([])
                try answer(request, 0, &none)
                isMoving = true
            }
            waiting = []
            for stream in wanting { supply(stream, 20_000, isCut: false) }
            wanting = []
            for (token, rest) in unconsumed { a.consumed(token, bytes: rest) }
            unconsumed = [:]
            if try carry(toB: true, changing: nil) { isMoving = true }
            if try carry(toB: false, changing: nil) { isMoving = true }
            if isOver { return }
        }
        for token in order {
            guard let ask = asked[token] else { continue }
            try hold(ask.isOver || ask.isAbandoned, "request \(token) got no reply")
        }
        try hold(a.unfinishedBytes == 0 && a.unconsumedBytes == 0 && a.awaitedReplies == 0 && a.queuedBytes == 0, "the asking side holds something")
        try hold(b.queuedBytes == 0 && b.queuedReplyBytes == 0 && b.unansweredRequests == 0, "the answering side holds something")
        try hold(a.fail().isEmpty && b.fail().isEmpty, "a token is left")
    }
}

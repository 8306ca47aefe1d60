import CZlib
import Encodings
import NIOCore

@testable import BLIP

extension FuzzTarget {
    /// What one peer may send in frames: the machine that takes them holds no more than its limits, counts what it holds, and gives
    /// messages as they were sent.
    static let frames = FuzzTarget("blip-frames", longestInput: 4_096) { bytes in
        var input = FuzzInput(bytes)
        var sender = FrameSender(input: input.byte())
        while !input.isEmpty {
            guard try sender.step(&input) else { break }
            try sender.check()
        }
        try sender.end()
    }
}

/// Sends frames as an input says, most of them well made, so that what is behind the checksum is reached.
private struct FrameSender: ~Copyable {
    private var receiver: BLIPConnection
    private var deflater = Deflater(level: 6)
    private var checksum = RunningChecksum()
    private var limits: BLIPLimits
    private var nextNumber: UInt64 = 1
    /// All bytes of requests under way, uncompressed; nil: it was sent with an unlikely frame.
    private var sent: [UInt64: [UInt8]] = [:]
    private var asked: [RequestToken] = []
    private var streamed: [RequestToken: Int] = [:]
    private var hasFailed = false

    init(input: UInt8) {
        var limits = BLIPLimits()
        if input & 1 == 1 {
            limits.maximumMessage = 2_000
            limits.maximumReply = 1_500
            limits.maximumErrorReply = 700
            limits.maximumUnfinishedBytes = 6_000
            limits.maximumUnfinishedMessages = 6
            limits.maximumInflatedFrame = 4_000
            limits.maximumProperties = 300
            limits.maximumOpenRequests = 20
            limits.ackThreshold = 400
            limits.streamWindow = 600
            limits.maximumStreamUnacknowledged = 3_000
            limits.maximumStreamUnconsumed = 2_500
            limits.maximumMessageByProfile = ["small": 200]
        }
        self.limits = limits
        receiver = BLIPConnection(limits: limits)
        for index in 0..<Int(input >> 4) {
            if let token = receiver.send(OutgoingRequest(profile: "ask"), streamsReply: index & 1 == 1) { asked.append(token) }
        }
        while receiver.nextFrame() != nil {}
    }

    /// Sends one frame; false when the connection is over.
    mutating func step(_ input: inout FuzzInput) throws -> Bool {
        let choice = input.byte()
        var frame = ByteBuffer()
        var plain: [UInt8]?
        var number: UInt64 = 0
        var isLast = false
        if choice & 0x0F == 0x0F {
            frame.writeBytes(input.bytes(input.short() & 0x3FF))
        } else {
            let type = [FrameType.request, FrameType.request, FrameType.request, FrameType.reply, FrameType.errorReply][Int(choice & 0x0F) % 5]
            let flags = input.byte() & 0x78
            number = type == FrameType.request ? nextNumber : UInt64(1 + input.below(18))
            if type == FrameType.request, choice & 0x80 != 0, let known = sent.keys.sorted().dropFirst(input.below(4)).first { number = known }
            if type == FrameType.request, number == nextNumber { nextNumber += 1 }
            isLast = flags & BLIPFlags.moreComing.rawValue == 0
            let repeats = choice & 0x40 != 0 ? 1 + input.below(200) : 1
            let body = input.piece()
            let data = Array(repeatElement(body, count: repeats).joined())
            Varint.write(number) { frame.writeInteger($0) }
            Varint.write(UInt64(type | flags)) { frame.writeInteger($0) }
            if type == FrameType.request { plain = data }
            if flags & BLIPFlags.compressed.rawValue != 0 {
                if !data.isEmpty { _ = deflater.deflate(ByteBuffer(bytes: data), nil, into: &frame) }
            } else {
                frame.writeBytes(data)
            }
            let source = ByteBuffer(bytes: data)
            checksum.add(source, 0, data.count)
            frame.writeInteger(checksum.value ^ (choice & 0x20 != 0 && input.byte() == 7 ? 1 : 0))
        }
        if let plain { sent[number, default: []] += plain }
        var events: [BLIPEvent] = []
        do throws(BLIPError) {
            try receiver.receive(frame, into: &events)
        } catch {
            hasFailed = true
            try hold(error.closeCode == 1011 && !"\(error)".isEmpty, "an error without words: \(error)")
        }
        // A frame tells of one message, and of the pieces of a stream.
        try hold(events.count <= 4 + limits.maximumInflatedFrame / PartialMessage.pieceLength, "\(events.count) events of one frame")
        for event in events { try see(event) }
        if isLast { sent[number] = nil }
        if choice & 0x10 != 0 { while receiver.nextFrame() != nil {} }
        return !hasFailed
    }

    private mutating func see(_ event: BLIPEvent) throws {
        switch event {
        case .request(let request):
            guard let expected = sent[request.number] else { return }
            try hold(request.totalBytes == expected.count, "request \(request.number) counts \(request.totalBytes) of \(expected.count) bytes")
            if request.isTruncated {
                try hold(request.body.readableBytes == 0 && request.totalBytes > limits.maximumMessage(of: request.profile), "cut without need")
            } else {
                try hold(expected.suffix(request.body.readableBytes).elementsEqual(request.body.readableBytesView), "another body than was sent")
                try hold(request.totalBytes <= limits.maximumMessage(of: request.profile), "a message beyond its limit")
            }
            var copy = BLIPProperties()
            for pair in request.properties.pairs { copy.append(pair.key, pair.value) }
            for pair in copy.pairs { try hold(copy[pair.key] != nil, "a property that cannot be found") }
            if !request.isNoReply, request.number & 1 == 1 { receiver.reply(to: request.number, OutgoingReply(body: request.body)) }
        case .replyBytes(let token, let piece):
            streamed[token, default: 0] += piece.readableBytes
            if token.serial & 2 == 0 {
                receiver.consumed(token, bytes: piece.readableBytes)
                streamed[token] = nil
            }
        case .reply(_, let reply):
            try hold((reply.error?.message.utf8.count ?? 0) <= 3 * limits.maximumErrorText, "an error text beyond its limit")
        default: break
        }
    }

    /// What the connection says it holds is what it holds, and no more than its limits.
    func check() throws {
        let unfinished = receiver.unfinishedRequests.merging(receiver.unfinishedReplies.map { ($0.key &+ 1 << 62, $0.value) }) { $1 }.values
        if !hasFailed {
            try hold(unfinished.reduce(0) { $0 + $1.bytes.readableBytes } == receiver.unfinishedBytes, "unfinished bytes are miscounted")
            try hold(unfinished.reduce(0) { $0 + $1.memory } == receiver.unfinishedMemory, "their memory is miscounted")
            try hold(receiver.unfinishedBytes <= limits.maximumUnfinishedBytes, "more unfinished than allowed")
            try hold(unfinished.count <= limits.maximumUnfinishedMessages, "more messages than allowed")
            try hold(receiver.unansweredRequests <= limits.maximumOpenRequests, "more requests than allowed")
        }
        try hold(receiver.unconsumedBytes == streamed.values.reduce(0, +), "unconsumed bytes are miscounted")
        try hold(receiver.queuedBytes >= receiver.queuedReplyBytes && receiver.queuedReplyBytes >= 0, "queued bytes are miscounted")
        try hold(receiver.unconsumedBytes <= asked.count * (limits.maximumStreamUnconsumed + limits.maximumInflatedFrame), "streams are not bounded")
    }

    mutating func end() throws {
        if hasFailed {
            var events: [BLIPEvent] = []
            var answer: BLIPError?
            do throws(BLIPError) { try receiver.receive(ByteBuffer(bytes: [1, 0]), into: &events) } catch { answer = error }
            try hold(answer == .connectionFailed && events.isEmpty, "a failed connection takes frames")
            try hold(receiver.nextFrame() == nil, "a failed connection sends")
        }
        let left = receiver.fail()
        try hold(Set(left).count == left.count && left.count <= asked.count, "tokens were given back twice")
        try hold(receiver.bufferedBytes < 1 << 20 || limits.maximumMessage > 2_000, "a connection that ended holds \(receiver.bufferedBytes) bytes")
    }
}

import Encodings
import NIOCore

// Frames in.
extension BLIPConnection {
    mutating func accept(_ frame: ByteBuffer, _ events: inout [BLIPEvent]) throws(BLIPError) {
        guard frame.readableBytes <= limits.maximumIncomingFrame else {
            throw .limitExceeded("maximumIncomingFrame", value: frame.readableBytes, maximum: limits.maximumIncomingFrame)
        }
        let header = try FrameHeader(frame)
        switch header.type {
        case FrameType.request:
            try acceptRequest(frame, header, &events)
        case FrameType.reply, FrameType.errorReply:
            try acceptReply(frame, header, &events)
        case FrameType.acknowledgeRequest, FrameType.acknowledgeReply:
            let count = frame.withUnsafeReadableBytes { Varint.read($0, at: header.length) }
            let key = MessageKey(number: header.number, isReply: header.type == FrameType.acknowledgeReply)
            acknowledged(key, try count.checked().value)
        default:
            break
        }
    }

    private mutating func acceptRequest(_ frame: ByteBuffer, _ header: FrameHeader, _ events: inout [BLIPEvent]) throws(BLIPError) {
        let number = header.number
        let bound = Bound(name: "maximumMessage", bytes: limits.maximumMessage)
        if lastRequestNumber < .max, number == lastRequestNumber + 1 {
            if header.isLast {
                let message = try wholeMessage(frame, header, bound)
                lastRequestNumber = number
                try finishRequest(message, number, header.bits, &events)
                return
            }
            try checkUnfinishedCount()
            lastRequestNumber = number
            unfinishedRequests[number] = PartialMessage(bits: header.bits)
        }
        guard var partial = unfinishedRequests.removeValue(forKey: number) else {
            throw .requestNumber(found: number, expected: lastRequestNumber &+ 1)
        }
        try extend(&partial, MessageKey(number: number, isReply: false), frame, header, bound)
        if header.isLast {
            try finishRequest(partial.bytes, number, partial.bits, &events)
        } else {
            unfinishedRequests[number] = partial
        }
    }

    private mutating func finishRequest(
        _ message: ByteBuffer, _ number: UInt64, _ bits: UInt8, _ events: inout [BLIPEvent]
    ) throws(BLIPError) {
        let parsed = try ParsedMessage(message, number: number, wantsProfile: true, limits: limits)
        let flags = BLIPFlags(rawValue: bits)
        if !flags.contains(.noReply) {
            guard unanswered.count < limits.maximumOpenRequests else {
                throw .limitExceeded("maximumOpenRequests", value: unanswered.count + 1, maximum: limits.maximumOpenRequests)
            }
            unanswered[number] = flags.contains(.urgent)
        }
        events.append(.request(IncomingRequest(
            number: number, profile: parsed.profile, properties: parsed.properties, body: parsed.body,
            isNoReply: flags.contains(.noReply), isUrgent: flags.contains(.urgent), isCompressed: flags.contains(.compressed)
        )))
    }

    private mutating func acceptReply(_ frame: ByteBuffer, _ header: FrameHeader, _ events: inout [BLIPEvent]) throws(BLIPError) {
        let number = header.number
        let bound = Bound(name: "maximumReply", bytes: limits.maximumReply)
        // The token stays here until its reply is complete: if that fails, fail() still owes it to the owner.
        guard let token = awaited[number] else { throw .unexpectedReply(number: number) }
        let begun = unfinishedReplies.isEmpty ? nil : unfinishedReplies.removeValue(forKey: number)
        if begun == nil && header.isLast {
            let reply = try finishReply(try wholeMessage(frame, header, bound), number, header.bits)
            awaited[number] = nil
            events.append(.reply(token, reply))
            return
        }
        if begun == nil { try checkUnfinishedCount() }
        var partial = begun ?? PartialMessage(bits: header.bits)
        try extend(&partial, MessageKey(number: number, isReply: true), frame, header, bound)
        if header.isLast {
            let reply = try finishReply(partial.bytes, number, partial.bits)
            awaited[number] = nil
            events.append(.reply(token, reply))
        } else {
            events.append(.replyProgress(token, receivedBytes: partial.bytes.readableBytes))
            unfinishedReplies[number] = partial
        }
    }

    private func finishReply(_ message: ByteBuffer, _ number: UInt64, _ bits: UInt8) throws(BLIPError) -> IncomingReply {
        let parsed = try ParsedMessage(message, number: number, wantsProfile: false, limits: limits)
        var reply = IncomingReply(properties: parsed.properties, body: parsed.body)
        if bits & FrameType.mask == FrameType.errorReply {
            let text = parsed.body.slice(0, min(parsed.body.readableBytes, limits.maximumErrorText))
            reply.error = BLIPErrorReply(
                domain: parsed.properties["Error-Domain"] ?? "BLIP",
                code: parsed.properties["Error-Code"].flatMap { Int($0) } ?? 0,
                message: String(buffer: text)
            )
        }
        return reply
    }

    // MARK: Payloads

    private struct Bound {
        var name: String
        var bytes: Int
    }

    /// Length of the data in a frame, which has a checksum behind it.
    private func dataLength(_ frame: ByteBuffer, _ header: FrameHeader) throws(BLIPError) -> Int {
        let length = frame.readableBytes - header.length
        guard length >= FrameType.checksumLength else { throw .frameTooShort(length: length) }
        return length - FrameType.checksumLength
    }

    private func checkSum(_ frame: ByteBuffer, _ header: FrameHeader) throws(BLIPError) {
        let found: UInt32 = frame.getInteger(at: frame.writerIndex - FrameType.checksumLength) ?? 0
        guard found == checksumIn.value else {
            throw .checksumMismatch(expected: checksumIn.value, found: found, message: header.number)
        }
    }

    /// A message that is one frame. It shares the frame's memory if that holds little else.
    private mutating func wholeMessage(_ frame: ByteBuffer, _ header: FrameHeader, _ bound: Bound) throws(BLIPError) -> ByteBuffer {
        let length = try dataLength(frame, header)
        if !header.flags.contains(.compressed) {
            guard length <= bound.bytes else { throw .limitExceeded(bound.name, value: length, maximum: bound.bytes) }
            checksumIn.add(frame, header.length, length)
            try checkSum(frame, header)
            let data = frame.slice(header.length, length)
            return frame.storageCapacity <= 2 * length + 1024 ? data : data.compacted()
        }
        var message = ByteBuffer()
        swap(&message, &inflatedScratch)
        message.clear()
        try inflate(frame, header, length, into: &message, bound)
        checksumIn.add(message, 0, message.readableBytes)
        try checkSum(frame, header)
        // A large message takes the memory along; small ones are copied to memory of their size.
        guard message.readableBytes <= 8192 else { return message }
        let copy = message.compacted()
        swap(&message, &inflatedScratch)
        return copy
    }

    /// Adds a frame's data to a message.
    private mutating func extend(
        _ partial: inout PartialMessage, _ key: MessageKey, _ frame: ByteBuffer, _ header: FrameHeader, _ bound: Bound
    ) throws(BLIPError) {
        let length = try dataLength(frame, header)
        let old = partial.bytes.readableBytes
        let ceiling = limits.maximumUnfinishedBytes - unfinishedBytes + old
        let bound = bound.bytes <= ceiling ? bound : Bound(name: "maximumUnfinishedBytes", bytes: ceiling)
        if header.flags.contains(.compressed) {
            try inflate(frame, header, length, into: &partial.bytes, bound)
        } else {
            guard old + length <= bound.bytes else {
                throw exceeded(bound, old + length)
            }
            partial.bytes.writeImmutableBuffer(frame.slice(header.length, length))
        }
        let new = partial.bytes.readableBytes
        checksumIn.add(partial.bytes, old, new - old)
        try checkSum(frame, header)
        if !partial.startIsChecked { partial.startIsChecked = try ParsedMessage.checkStart(partial.bytes, limits: limits) }

        partial.received += length + FrameType.checksumLength
        unfinishedBytes += header.isLast ? -old : new - old
        if header.isLast {
            if partial.acknowledgementIsDue { dueAcknowledgements.removeAll { $0 == key } }
        } else if acknowledgesReceived && partial.isDue(limits.ackThreshold) {
            partial.acknowledgementIsDue = true
            dueAcknowledgements.append(key)
        }
    }

    private mutating func inflate(
        _ frame: ByteBuffer, _ header: FrameHeader, _ length: Int, into output: inout ByteBuffer, _ bound: Bound
    ) throws(BLIPError) {
        // LiteCore ends a streamed message so. The bare tail would ruin the stream.
        guard length > 0 else { return }
        switch inflater.inflate(frame, header.length, length, into: &output, maximum: bound.bytes) {
        case .done: break
        case .tooLong: throw exceeded(bound, output.readableBytes)
        case .failed(let reason): throw .compression(reason: reason, message: header.number)
        }
    }

    private func exceeded(_ bound: Bound, _ value: Int) -> BLIPError {
        guard bound.name == "maximumUnfinishedBytes" else { return .limitExceeded(bound.name, value: value, maximum: bound.bytes) }
        let maximum = limits.maximumUnfinishedBytes
        return .limitExceeded(bound.name, value: maximum - bound.bytes + value, maximum: maximum)
    }

    private func checkUnfinishedCount() throws(BLIPError) {
        let count = unfinishedRequests.count + unfinishedReplies.count
        guard count < limits.maximumUnfinishedMessages else {
            throw .limitExceeded("maximumUnfinishedMessages", value: count + 1, maximum: limits.maximumUnfinishedMessages)
        }
    }

    // MARK: Acknowledgements

    /// Queues the acknowledgements that were withheld.
    mutating func collectDueAcknowledgements() {
        let threshold = limits.ackThreshold
        let requests = unfinishedRequests.filter { $0.value.isDue(threshold) }.keys.sorted()
        for number in requests {
            unfinishedRequests[number]?.acknowledgementIsDue = true
            dueAcknowledgements.append(MessageKey(number: number, isReply: false))
        }
        let replies = unfinishedReplies.filter { $0.value.isDue(threshold) }.keys.sorted()
        for number in replies {
            unfinishedReplies[number]?.acknowledgementIsDue = true
            dueAcknowledgements.append(MessageKey(number: number, isReply: true))
        }
    }
}

extension ByteBuffer {
    /// A copy in memory of its size.
    fileprivate func compacted() -> ByteBuffer {
        var copy = ByteBuffer()
        copy.reserveCapacity(readableBytes)
        copy.writeImmutableBuffer(self)
        return copy
    }
}

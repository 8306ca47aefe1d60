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
        case FrameType.request: try acceptRequest(frame, header, &events)
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
        guard lastRequestNumber < .max, number == lastRequestNumber + 1 else {
            guard var partial = unfinishedRequests.removeValue(forKey: number) else {
                throw .requestNumber(found: number, expected: lastRequestNumber &+ 1)
            }
            return try extendRequest(&partial, frame, header, &events)
        }
        if header.isLast, let message = try plainMessage(frame, header, .max) {
            lastRequestNumber = number
            return try finishRequest(message, number, header.bits, message.readableBytes, isTruncated: false, &events)
        }
        if !header.isLast { try checkUnfinishedCount() }
        lastRequestNumber = number
        // A message that arrives in one piece needs no early look at its profile.
        let bound = header.isLast ? max(smallestMessageLimit, PartialMessage.pieceLength) : smallestMessageLimit
        var partial = PartialMessage(header, "maximumMessage", min(bound, limits.maximumMessage))
        try extendRequest(&partial, frame, header, &events)
    }

    private mutating func extendRequest(
        _ partial: inout PartialMessage, _ frame: ByteBuffer, _ header: FrameHeader, _ events: inout [BLIPEvent]
    ) throws(BLIPError) {
        let key = MessageKey(number: header.number, isReply: false)
        let wasDropping = partial.phase == .dropping
        guard let message = try extend(&partial, key, frame, header, &events), header.isLast else {
            unfinishedRequests[header.number] = partial
            if !wasDropping, partial.phase == .dropping { passTurn(from: header.number) }
            return
        }
        passTurn(from: header.number)
        let isTruncated = partial.phase == .dropping
        try finishRequest(message, header.number, partial.bits, partial.totalBytes, isTruncated: isTruncated, &events)
    }

    private mutating func finishRequest(
        _ message: ByteBuffer, _ number: UInt64, _ bits: UInt8, _ totalBytes: Int, isTruncated: Bool, _ events: inout [BLIPEvent]
    ) throws(BLIPError) {
        var parsed = try ParsedMessage(message, number: number, wantsProfile: true, limits: limits)
        var isTruncated = isTruncated
        if message.readableBytes > smallestMessageLimit, message.readableBytes > limits.maximumMessage(of: parsed.profile) {
            isTruncated = true
            parsed.body = ByteBuffer()
            // The properties must not keep the body's memory alive.
            parsed.properties = BLIPProperties(checkedBlock: parsed.properties.block.compacted())
        }
        let flags = BLIPFlags(rawValue: bits)
        if !flags.contains(.noReply) {
            guard unanswered.count < limits.maximumOpenRequests else {
                throw .limitExceeded("maximumOpenRequests", value: unanswered.count + 1, maximum: limits.maximumOpenRequests)
            }
            unanswered[number] = flags.contains(.urgent)
        }
        events.append(.request(IncomingRequest(
            number: number, profile: parsed.profile, properties: parsed.properties, body: parsed.body,
            isNoReply: flags.contains(.noReply), isUrgent: flags.contains(.urgent), isCompressed: flags.contains(.compressed),
            isTruncated: isTruncated, totalBytes: totalBytes
        )))
    }

    private mutating func acceptReply(_ frame: ByteBuffer, _ header: FrameHeader, _ events: inout [BLIPEvent]) throws(BLIPError) {
        let number = header.number
        // The token stays in `awaited` until its reply is complete: should that fail, fail() still owes it to the owner.
        guard let token = awaited[number] else { throw .unexpectedReply(number: number) }
        // Nothing else may hold a reference to the message: its bytes would be copied with each frame.
        #if DEBUG
        if limits.copiesReplies, let held = unfinishedReplies[number] {
            var partial = held
            return try extendReply(&partial, token, frame, header, &events)
        }
        #endif
        if !unfinishedReplies.isEmpty, var partial = unfinishedReplies.removeValue(forKey: number) {
            try extendReply(&partial, token, frame, header, &events)
            return
        }
        let state = incomingStreams.isEmpty ? nil : incomingStreams.state(token)
        if state == nil, header.isLast, let message = try plainMessage(frame, header, limits.maximumReply) {
            let reply = try IncomingReply(message, number: number, bits: header.bits, limits: limits)
            awaited[number] = nil
            events.append(.reply(token, reply))
            return
        }
        if !header.isLast { try checkUnfinishedCount() }
        var partial: PartialMessage
        switch state {
        case nil:
            partial = PartialMessage(header, "maximumReply", limits.maximumReply)
        case .abandoned?:
            partial = PartialMessage(header, "maximumReply", 0, isDropped: true)
            incomingStreams.begin(token, number: number)
        case .open? where header.type == FrameType.errorReply:
            partial = PartialMessage(header, "maximumErrorReply", limits.maximumErrorReply)
            incomingStreams.begin(token, number: number)
        case .open?:
            partial = PartialMessage(header, "maximumProperties", .max, stream: token)
            incomingStreams.begin(token, number: number)
        }
        try extendReply(&partial, token, frame, header, &events)
    }

    private mutating func extendReply(
        _ partial: inout PartialMessage, _ token: RequestToken, _ frame: ByteBuffer, _ header: FrameHeader,
        _ events: inout [BLIPEvent]
    ) throws(BLIPError) {
        let number = header.number
        guard let message = try extend(&partial, MessageKey(number: number, isReply: true), frame, header, &events) else {
            unfinishedReplies[number] = partial
            return
        }
        guard header.isLast else {
            if partial.phase == .gathering, partial.stream == nil {
                events.append(.replyProgress(token, receivedBytes: partial.bytes.readableBytes))
            }
            unfinishedReplies[number] = partial
            return
        }
        switch partial.phase {
        case .gathering:
            // A stream that ends before its properties are complete fails here.
            let reply = try IncomingReply(message, number: number, bits: partial.bits, limits: limits)
            if !incomingStreams.isEmpty { incomingStreams.remove(token) }
            events.append(.reply(token, reply))
        case .passing:
            incomingStreams.end(token)
            events.append(.replyEnded(token))
        case .dropping:
            incomingStreams.remove(token)
        }
        awaited[number] = nil
    }

    // MARK: Payloads

    /// Length of the data in a frame, without the checksum at the end.
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

    /// Fast path for almost all messages: a message that is one uncompressed frame. It shares the frame's memory if it makes up most of it. Returns
    /// nil, without side effects, if the frame is compressed or longer than `maximum`.
    private mutating func plainMessage(_ frame: ByteBuffer, _ header: FrameHeader, _ maximum: Int) throws(BLIPError) -> ByteBuffer? {
        if header.flags.contains(.compressed) { return nil }
        let length = try dataLength(frame, header)
        guard length <= maximum else { return nil }
        takenBytes += length
        checksumIn.add(frame, header.length, length)
        try checkSum(frame, header)
        return frame.slice(header.length, length).sharedIfDense()
    }

    /// Processes a frame's data. Returns the message's collected bytes if this is its last frame; nil if the frame was suspended.
    private mutating func extend(
        _ partial: inout PartialMessage, _ key: MessageKey, _ frame: ByteBuffer, _ header: FrameHeader, _ events: inout [BLIPEvent]
    ) throws(BLIPError) -> ByteBuffer? {
        let length = try dataLength(frame, header)
        let transmitted = length + FrameType.checksumLength
        let resumed = resumedFrame.take()
        if partial.stream != nil, resumed == nil { try checkWindow(partial, transmitted) }
        let isAlone = header.isLast && partial.received == 0 && partial.stream == nil && resumed == nil
        if isAlone {
            // Most messages are one small frame: inflated into the scratch buffer, they need no memory that grows.
            swap(&partial.bytes, &inflatedScratch)
            partial.bytes.clear()
        }
        let told = events.count
        #if DEBUG
        let before = partial.place
        #endif
        do throws(BLIPError) {
            if header.flags.contains(.compressed) {
                guard try inflate(&partial, frame, header, length, resumed, &events) else {
                    count(&partial)
                    return nil
                }
                try checkSum(frame, header)
            } else {
                checksumIn.add(frame, header.length, length)
                try checkSum(frame, header)
                try add(frame.slice(header.length, length), to: &partial, header, &events)
            }
        } catch {
            events.removeLast(events.count - told)
            throw error
        }
        partial.received += transmitted
        #if DEBUG
        if partial.place.address != before.address, partial.place.length > before.length { copiedBytes += before.length }
        #endif

        var message = ByteBuffer()
        if header.isLast {
            swap(&message, &partial.bytes)
            if isAlone, message.readableBytes <= Self.smallMessage {
                // A large message takes over the buffer; small ones are copied to memory of their size.
                let copy = message.compacted()
                if message.storageCapacity <= 4 * Self.smallMessage { swap(&message, &inflatedScratch) }
                message = copy
            }
            if partial.acknowledgementIsDue { dueAcknowledgements.removeAll { $0 == key } }
        } else {
            noteAcknowledgement(&partial, key)
        }
        count(&partial)
        return message
    }

    /// Updates the totals with the current size of a message.
    private mutating func count(_ partial: inout PartialMessage) {
        unfinishedBytes += partial.bytes.readableBytes - partial.countedBytes
        let memory = partial.memory
        unfinishedMemory += memory - partial.countedMemory
        partial.countedBytes = partial.bytes.readableBytes
        partial.countedMemory = memory
    }

    /// Adds uncompressed data, whose checksum is already verified.
    private mutating func add(
        _ data: ByteBuffer, to partial: inout PartialMessage, _ header: FrameHeader, _ events: inout [BLIPEvent]
    ) throws(BLIPError) {
        var rest = data
        took(data.readableBytes, &partial)
        while rest.readableBytes > 0 {
            switch partial.phase {
            case .gathering:
                let room = roomToGather(partial)
                guard let piece = rest.readSlice(length: min(rest.readableBytes, room)) else { return }
                partial.bytes.writeImmutableBuffer(piece)
                try look(at: &partial, header, &events)
            case .passing:
                if let token = partial.stream { tell(token, rest, &events) }
                return
            case .dropping:
                return
            }
        }
    }

    /// - Returns: false if there is no room for the rest, and the frame is suspended.
    private mutating func inflate(
        _ partial: inout PartialMessage, _ frame: ByteBuffer, _ header: FrameHeader, _ length: Int, _ resumed: SuspendedFrame?, _ events: inout [BLIPEvent]
    ) throws(BLIPError) -> Bool {
        // LiteCore ends a streamed message with an empty frame. Inflating the bare tail would corrupt the stream.
        guard length > 0 else { return true }
        var input = resumed?.input ?? Inflater.Input(frame, header.length, length)
        var produced = resumed?.produced ?? 0
        while true {
            guard inflationLeft > 0 else {
                suspendedFrame = SuspendedFrame(frame: frame, input: input, produced: produced)
                return false
            }
            let allowed = min(limits.maximumInflatedFrame - produced + 1, inflationLeft)
            let outcome: Inflater.Outcome
            let new: Int
            switch partial.phase {
            case .gathering:
                let old = partial.bytes.readableBytes
                outcome = inflater.inflate(&input, into: &partial.bytes, room: min(allowed, roomToGather(partial)))
                new = partial.bytes.readableBytes - old
                checksumIn.add(partial.bytes, old, new)
            case .passing:
                var piece = ByteBuffer()
                piece.reserveCapacity(min(4 * input.remaining + 64, PartialMessage.pieceLength))
                outcome = inflater.inflate(&input, into: &piece, room: min(allowed, PartialMessage.pieceLength))
                new = piece.readableBytes
                checksumIn.add(piece, 0, new)
                if let token = partial.stream, new > 0 { tell(token, piece, &events) }
            case .dropping:
                inflatedScratch.clear()
                outcome = inflater.inflate(&input, into: &inflatedScratch, room: min(allowed, Self.smallMessage))
                new = inflatedScratch.readableBytes
                checksumIn.add(inflatedScratch, 0, new)
            }
            produced += new
            inflationLeft -= new
            took(new, &partial)
            if case .failed(let reason) = outcome { throw .compression(reason: reason, message: header.number) }
            guard produced <= limits.maximumInflatedFrame else {
                throw .limitExceeded("maximumInflatedFrame", value: produced, maximum: limits.maximumInflatedFrame)
            }
            if partial.phase == .gathering { try look(at: &partial, header, &events) }
            if case .done = outcome { return true }
        }
    }

    /// The part of `maximumUnfinishedBytes` that is left by all other messages.
    private func ceiling(_ partial: PartialMessage) -> Int {
        limits.maximumUnfinishedBytes - unfinishedBytes + partial.countedBytes
    }

    /// One byte more than is allowed, to tell "full" from "too long".
    private func roomToGather(_ partial: PartialMessage) -> Int {
        max(min(partial.room, ceiling(partial) - partial.bytes.readableBytes + 1), 1)
    }

    /// Decides how to continue with a message of which more was collected.
    private mutating func look(
        at partial: inout PartialMessage, _ header: FrameHeader, _ events: inout [BLIPEvent]
    ) throws(BLIPError) {
        try partial.readStart(limits)
        let length = partial.bytes.readableBytes
        if length > ceiling(partial) {
            let others = unfinishedBytes - partial.countedBytes
            throw .limitExceeded("maximumUnfinishedBytes", value: others + length, maximum: limits.maximumUnfinishedBytes)
        }
        #if DEBUG
        if limits.copiesReplies, !header.isLast, partial.stream != nil { return }
        #endif
        if let token = partial.stream, partial.startIsComplete {
            let start = partial.bytes.slice(0, partial.startLength).compacted()
            let parsed = try ParsedMessage(start, number: header.number, wantsProfile: false, limits: limits)
            events.append(.replyBegan(token, parsed.properties))
            tell(token, partial.passBody(), &events)
            return
        }
        guard partial.exceedsBound else { return }
        guard partial.isRequest else { throw .limitExceeded(partial.boundName, value: length, maximum: partial.bound) }
        guard partial.startIsComplete else { return }
        if !limits.maximumMessageByProfile.isEmpty {
            let start = partial.bytes.slice(0, partial.startLength)
            let profile = try ParsedMessage(start, number: header.number, wantsProfile: true, limits: limits).profile
            partial.raiseBound(limits.maximumMessage(of: profile))
        }
        if partial.exceedsBound { partial.dropBody() }
    }

    private func checkUnfinishedCount() throws(BLIPError) {
        let count = unfinishedRequests.count + unfinishedReplies.count
        guard count < limits.maximumUnfinishedMessages else {
            throw .limitExceeded("maximumUnfinishedMessages", value: count + 1, maximum: limits.maximumUnfinishedMessages)
        }
    }

    // MARK: Streams

    private mutating func tell(_ token: RequestToken, _ piece: ByteBuffer, _ events: inout [BLIPEvent]) {
        guard piece.readableBytes > 0 else { return }
        incomingStreams.told(token, bytes: piece.readableBytes)
        events.append(.replyBytes(token, piece.sharedIfDense()))
    }

    /// Refuses a frame of a streamed reply that the peer should not have sent, or the owner should not have read.
    private func checkWindow(_ partial: PartialMessage, _ transmitted: Int) throws(BLIPError) {
        guard let token = partial.stream, partial.phase != .dropping else { return }
        let unacknowledged = partial.received - partial.acknowledged + transmitted
        guard unacknowledged <= limits.maximumStreamUnacknowledged else {
            throw .limitExceeded("maximumStreamUnacknowledged", value: unacknowledged, maximum: limits.maximumStreamUnacknowledged)
        }
        let unconsumed = incomingStreams.unconsumed(token)
        guard unconsumed <= limits.maximumStreamUnconsumed else {
            throw .limitExceeded("maximumStreamUnconsumed", value: unconsumed, maximum: limits.maximumStreamUnconsumed)
        }
    }

    /// The owner abandoned a reply that had already begun.
    mutating func dropUnfinishedReply(_ number: UInt64) {
        guard var partial = unfinishedReplies.removeValue(forKey: number) else { return }
        partial.dropBody()
        count(&partial)
        unfinishedReplies[number] = partial
    }
}

import Encodings
import NIOCore

// Frames out.
extension BLIPConnection {
    mutating func produceFrame(_ allocator: ByteBufferAllocator, _ completed: inout RequestToken?) -> ByteBuffer? {
        guard !isFailed else { return nil }
        while let key = dueAcknowledgements.popFirst() {
            if let frame = acknowledgement(of: key, allocator) { return frame }
        }
        guard var message = outbox.dequeue() else { return nil }
        spentBytes -= message.spentBytes
        if message.isStream { outgoingStreams.lend(to: &message) }
        let maximum = message.isUrgent || !outbox.headIsUrgent ? limits.maximumFrame : limits.maximumFrameBeforeUrgent

        let before = message.remainingBytes
        let isFirst = !message.hasBegun
        if isFirst && !allowsCompression && !deflater.exists { message.flags.remove(.compressed) }
        if isFirst && message.isRequest {
            // Not earlier: the peer requires that request numbers increase in the order of first frames.
            message.number = nextRequestNumber
            nextRequestNumber += 1
        }
        let headerLength = Varint.length(message.number) + 1
        let room = maximum - headerLength - FrameType.checksumLength
            - (message.flags.contains(.compressed) ? Deflater.maximumGrowth : 0)

        let frame: ByteBuffer
        if isFirst && !message.isOpen && message.startLength + message.body.readableBytes <= room {
            frame = wholeFrame(message, allocator)
            message.head.clear()
            message.body.clear()
            message.hasBegun = true
        } else {
            if isFirst { begin(&message, allocator) }
            frame = partialFrame(&message, room, allocator)
        }

        let after = message.remainingBytes
        queued(after - before, isReply: !message.isRequest)
        if after == 0 && !message.isOpen {
            if !isFirst { flows[message.key] = nil }
            if message.isStream { outgoingStreams.remove(StreamID(number: message.number)) }
            if message.isRequest {
                completed = message.token
                requestEnded(message)
            }
        } else {
            keep(message, sent: frame.readableBytes - headerLength)
        }
        return frame
    }

    /// Encodes the properties of a multi-frame message as they are transmitted.
    private func begin(_ message: inout OutgoingMessage, _ allocator: ByteBufferAllocator) {
        var head = allocator.buffer(capacity: message.startLength)
        message.writeStart(to: &head)
        message.head = head
        message.hasBegun = true
    }

    private mutating func wholeFrame(_ message: OutgoingMessage, _ allocator: ByteBufferAllocator) -> ByteBuffer {
        guard message.flags.contains(.compressed) else {
            let length = message.startLength + message.body.readableBytes
            var frame = startFrame(message, .init(), payload: length, allocator)
            let start = frame.writerIndex
            message.writeStart(to: &frame)
            frame.writeImmutableBuffer(message.body)
            checksumOut.add(frame, start, frame.writerIndex - start)
            frame.writeInteger(checksumOut.value)
            return frame
        }
        plainScratch.clear()
        message.writeStart(to: &plainScratch)
        plainScratch.writeImmutableBuffer(message.body)
        return compressedFrame(message, .init(), plainScratch, nil, allocator)
    }

    private mutating func partialFrame(
        _ message: inout OutgoingMessage, _ room: Int, _ allocator: ByteBufferAllocator
    ) -> ByteBuffer {
        var first = message.head.readSlice(length: min(room, message.head.readableBytes)) ?? ByteBuffer()
        var second = message.body.readSlice(length: min(room - first.readableBytes, message.body.readableBytes)) ?? ByteBuffer()
        if first.readableBytes == 0 { swap(&first, &second) }
        let extra: BLIPFlags = message.remainingBytes > 0 || message.isOpen ? .moreComing : []
        // A stream may end with an empty frame.
        if first.readableBytes == 0 { return plainFrame(message, extra, first, second, allocator) }
        if message.flags.contains(.compressed) { return compressedFrame(message, extra, first, second, allocator) }

        var frame = startFrame(message, extra, payload: first.readableBytes + second.readableBytes, allocator)
        let start = frame.writerIndex
        frame.writeImmutableBuffer(first)
        frame.writeImmutableBuffer(second)
        checksumOut.add(frame, start, frame.writerIndex - start)
        frame.writeInteger(checksumOut.value)
        return frame
    }

    /// `first` is not empty: a compressed frame without data breaks LiteCore's inflater.
    private mutating func compressedFrame(
        _ message: OutgoingMessage, _ extra: BLIPFlags, _ first: ByteBuffer, _ second: ByteBuffer?, _ allocator: ByteBufferAllocator
    ) -> ByteBuffer {
        checksumOut.add(first, 0, first.readableBytes)
        if let second { checksumOut.add(second, 0, second.readableBytes) }
        let length = first.readableBytes + (second?.readableBytes ?? 0)
        var frame = startFrame(message, extra, payload: length + Deflater.maximumGrowth, allocator)
        if !deflater.deflate(first, second, into: &frame) {
            return plainFrame(message, extra, first, second, allocator)
        }
        frame.writeInteger(checksumOut.value)
        return frame
    }

    /// An uncompressed frame, even of a compressed message: compression is a property of each frame, so this is always allowed. The checksum already
    /// includes the data.
    private func plainFrame(
        _ message: OutgoingMessage, _ extra: BLIPFlags, _ first: ByteBuffer, _ second: ByteBuffer?, _ allocator: ByteBufferAllocator
    ) -> ByteBuffer {
        var plain = message
        plain.flags.remove(.compressed)
        let length = first.readableBytes + (second?.readableBytes ?? 0)
        var frame = startFrame(plain, extra, payload: length, allocator)
        frame.writeImmutableBuffer(first)
        if let second { frame.writeImmutableBuffer(second) }
        frame.writeInteger(checksumOut.value)
        return frame
    }

    private func startFrame(
        _ message: OutgoingMessage, _ extra: BLIPFlags, payload: Int, _ allocator: ByteBufferAllocator
    ) -> ByteBuffer {
        var frame = allocator.buffer(capacity: Varint.length(message.number) + 1 + payload + FrameType.checksumLength)
        frame.writeVarint(message.number)
        frame.writeInteger(message.type | message.flags.union(extra).rawValue)
        return frame
    }

    /// Puts back a message that has more to send or may still be supplied.
    private mutating func keep(_ message: OutgoingMessage, sent: Int) {
        var message = message
        let isIdle = message.isStream && outgoingStreams.reclaim(from: &message)
        var flow = flows.removeValue(forKey: message.key) ?? Flow()
        flow.sent += sent
        if !isIdle { place(message, &flow) }
        flows[message.key] = flow
    }

    /// A streamed message has something to send again.
    mutating func resume(_ message: OutgoingMessage) {
        var flow = flows.removeValue(forKey: message.key) ?? Flow()
        place(message, &flow)
        flows[message.key] = flow
    }

    /// Puts the message into the queue, or aside if the peer has not acknowledged enough.
    private mutating func place(_ message: OutgoingMessage, _ flow: inout Flow) {
        var message = message
        // The message may wait indefinitely, and the rest of it must not keep the memory of what is already sent. A long one is copied again each
        // time half of it is gone.
        if message.spentBytes > message.remainingBytes {
            message.body = message.body.sharedIfDense()
            message.head = message.head.sharedIfDense()
        }
        spentBytes += message.spentBytes
        if flow.sent - flow.acknowledged >= limits.sendWindow {
            flow.stopped = message
        } else {
            outbox.enqueue(message)
        }
    }

    /// The peer has received `count` bytes of a message of ours. Ignored for messages that are unknown or complete, and for counts that decrease or
    /// exceed what was sent.
    mutating func acknowledged(_ key: MessageKey, _ count: UInt64) {
        guard var flow = flows.removeValue(forKey: key) else { return }
        flow.acknowledged = max(flow.acknowledged, Int(min(count, UInt64(flow.sent))))
        if flow.sent - flow.acknowledged < limits.sendWindow, let message = flow.stopped.take() {
            outbox.enqueue(message)
        }
        flows[key] = flow
    }

    private mutating func acknowledgement(of key: MessageKey, _ allocator: ByteBufferAllocator) -> ByteBuffer? {
        let count: Int
        if key.isReply {
            guard let received = unfinishedReplies[key.number]?.received else { return nil }
            unfinishedReplies[key.number]?.acknowledged = received
            unfinishedReplies[key.number]?.acknowledgementIsDue = false
            count = received
        } else {
            guard let received = unfinishedRequests[key.number]?.received else { return nil }
            unfinishedRequests[key.number]?.acknowledged = received
            unfinishedRequests[key.number]?.acknowledgementIsDue = false
            count = received
        }
        let type = key.isReply ? FrameType.acknowledgeReply : FrameType.acknowledgeRequest
        var frame = allocator.buffer(capacity: 21)
        frame.writeVarint(key.number)
        frame.writeInteger(type | BLIPFlags([.urgent, .noReply]).rawValue)
        frame.writeVarint(UInt64(count))
        return frame
    }
}

/// How far the peer has acknowledged a message of ours. Bytes as transmitted, including checksums, without headers.
struct Flow {
    var sent = 0
    var acknowledged = 0
    /// The message if it waits for acknowledgements; otherwise it is in the outbox, or parked until it is supplied.
    var stopped: OutgoingMessage?
}

import NIOCore

/// The sending half of a link: messages cut into segments, kept until they are acknowledged, sent again when they got lost.
struct LinkSender {
    private struct Segment {
        var sequence: UInt32
        var isLast: Bool
        var payload: ByteBuffer
        var sentAt: UInt64
        var isResent = false
    }

    /// Sent and not acknowledged, in order.
    private var inFlight: [Segment] = []
    /// Of ``inFlight``, those from here on are to be sent (again).
    private var cursor = 0
    private var queue: [ByteBuffer] = []
    private var head = 0
    private var nextSequence: UInt32 = 0
    /// Segments beyond the first unacknowledged one that the peer takes.
    private var peerWindow = 1
    private(set) var queuedBytes = 0
    private(set) var resent = 0

    let windowSegments: Int
    var segmentBytes: Int
    private let resendTime: UInt64
    // Jacobson's estimate of the round trip.
    private var smoothed: UInt64?
    private var variation: UInt64 = 0
    /// When the wait for an answer began.
    private var waitingSince: UInt64 = 0
    /// Waits in a row that nothing ended.
    private(set) var timeouts = 0

    init(limits: MessageEndpointLimits) {
        windowSegments = limits.windowSegments
        segmentBytes = limits.segmentBytes
        resendTime = limits.resendTime
    }

    var isEmpty: Bool { inFlight.isEmpty && head == queue.count }
    private var hasMore: Bool { head < queue.count }

    mutating func append(_ message: ByteBuffer) {
        queue.append(message)
        queuedBytes += message.readableBytes
    }

    // MARK: - Sending

    /// The next segment that may go now.
    mutating func next(_ now: UInt64) -> (sequence: UInt32, isLast: Bool, payload: ByteBuffer)? {
        if cursor == inFlight.count {
            guard hasMore, inFlight.count < min(max(peerWindow, 0), windowSegments) else { return nil }
            cut(now)
        } else {
            resent += 1
            inFlight[cursor].isResent = true
        }
        inFlight[cursor].sentAt = now
        if cursor == 0 { waitingSince = now }
        let segment = inFlight[cursor]
        cursor += 1
        return (segment.sequence, segment.isLast, segment.payload)
    }

    private mutating func cut(_ now: UInt64) {
        let payload = queue[head].readSlice(length: min(segmentBytes, queue[head].readableBytes)) ?? ByteBuffer()
        let isLast = queue[head].readableBytes == 0
        if isLast {
            queue[head] = ByteBuffer()
            head += 1
            if head == queue.count || head > 256 {
                queue.removeFirst(head)
                head = 0
            }
        }
        inFlight.append(Segment(sequence: nextSequence, isLast: isLast, payload: payload, sentAt: now))
        nextSequence &+= 1
    }

    // MARK: - Answers

    /// Any sound frame of the peer: it is there.
    mutating func heard() { timeouts = 0 }

    /// The peer expects this segment next and can take so many from there.
    mutating func acknowledged(_ sequence: UInt32, window: Int, asksAgain: Bool, _ now: UInt64) {
        guard let first = inFlight.first?.sequence else {
            if sequence == nextSequence { (peerWindow, waitingSince) = (window, now) }
            return
        }
        let count = Int(Int32(bitPattern: sequence &- first))
        // Older than what we know, or of the future.
        guard (0...inFlight.count).contains(count) else { return }
        peerWindow = window
        if count > 0 {
            if !inFlight[count - 1].isResent { measured(now &- inFlight[count - 1].sentAt) }
            for segment in inFlight.prefix(count) { queuedBytes -= segment.payload.readableBytes }
            inFlight.removeFirst(count)
            cursor = max(0, cursor - count)
            waitingSince = now
        }
        if asksAgain { cursor = 0 }
    }

    private mutating func measured(_ time: UInt64) {
        guard let old = smoothed else {
            smoothed = time
            variation = time / 2
            return
        }
        variation = (variation * 3 + (old > time ? old - time : time - old)) / 4
        smoothed = (old * 7 + time) / 8
    }

    // MARK: - Time

    /// How long an answer may take: twice as long after each that did not come, at most 30 seconds longer.
    private var patience: UInt64 {
        let measured = smoothed.map { $0 + 4 * variation } ?? resendTime
        let first = max(resendTime, measured)
        return min(first << UInt64(min(timeouts, 8)), first + 30_000_000_000)
    }

    /// Something was sent to which there has to be an answer, or the peer's window is closed.
    var deadline: UInt64? { cursor > 0 || (hasMore && peerWindow <= 0) ? waitingSince &+ patience : nil }

    /// The deadline has passed: everything goes again; or the peer is asked, if there is nothing that may go.
    ///
    /// - Returns: whether to ask.
    mutating func elapsed(_ now: UInt64) -> Bool {
        timeouts += 1
        waitingSince = now
        cursor = 0
        return inFlight.isEmpty
    }
}

/// The receiving half of a link: segments put in order, and messages put together.
struct LinkReceiver {
    /// The next segment that is wanted.
    private(set) var expected: UInt32 = 0
    /// What came before its time.
    private var early: [UInt32: (isLast: Bool, payload: ByteBuffer)] = [:]
    /// Whole segments in order that nobody has taken, because reading is off.
    private var waiting: [(isLast: Bool, payload: ByteBuffer)] = []
    private var partial = ByteBuffer()
    private var hasAsked = false
    /// Of segments in ``early`` and ``waiting``.
    private var segmentBytes = 0
    let windowSegments: Int
    let messageBytes: Int

    var isReading = true
    /// The peer is to send less ahead.
    var isCrowded = false

    init(limits: MessageEndpointLimits) {
        windowSegments = limits.windowSegments
        messageBytes = limits.messageBytes
    }

    var window: UInt16 { UInt16(clamping: max(0, (isCrowded ? max(1, windowSegments / 8) : windowSegments) - waiting.count)) }
    var unfinishedBytes: Int { partial.readableBytes }
    /// What is kept for the peer, in bytes.
    var heldBytes: Int { segmentBytes + (early.count + waiting.count) * Self.bytesPerSegment + (partial.readableBytes > 0 ? partial.storageCapacity : 0) }

    /// What a segment costs beside its bytes.
    private static let bytesPerSegment = 128

    enum Verdict { case taken, ignored, missing }

    mutating func receive(_ frame: LinkFrame) -> Verdict {
        let ahead = Int(Int32(bitPattern: frame.sequence &- expected))
        guard ahead >= 0, ahead < Int(window) else { return .ignored }
        let segment = (frame.flags & LinkFrame.isLast != 0, frame.payload)
        if ahead > 0 {
            // Seen before: the one that is missing was sent again and got lost again.
            let before = early.updateValue(segment, forKey: frame.sequence)
            segmentBytes += frame.payload.readableBytes - (before?.payload.readableBytes ?? 0)
            return before != nil || asks() ? .missing : .taken
        }
        segmentBytes += frame.payload.readableBytes
        waiting.append(segment)
        expected &+= 1
        while let next = early.removeValue(forKey: expected) {
            waiting.append(next)
            expected &+= 1
        }
        hasAsked = false
        return .taken
    }

    /// True once for each gap.
    mutating func asks() -> Bool {
        defer { hasAsked = true }
        return !hasAsked
    }

    /// Messages that are complete, while reading is on. Nil: one is longer than `message_bytes`.
    mutating func messages() -> [ByteBuffer]? {
        guard isReading else { return [] }
        var messages: [ByteBuffer] = []
        for segment in waiting {
            segmentBytes -= segment.payload.readableBytes
            guard partial.readableBytes + segment.payload.readableBytes <= messageBytes else { return nil }
            if partial.readableBytes == 0 { partial = segment.payload } else { partial.writeImmutableBuffer(segment.payload) }
            if segment.isLast {
                messages.append(partial)
                partial = ByteBuffer()
            }
        }
        waiting.removeAll(keepingCapacity: true)
        return messages
    }
}

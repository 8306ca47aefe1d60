import NIOCore

/// The sending half of a link: splits messages into segments, keeps these until they are acknowledged, and retransmits lost ones.
struct LinkSender {
    private struct Segment {
        var sequence: UInt32
        var isLast: Bool
        var payload: ByteBuffer
        var sentAt: UInt64
        var isResent = false
    }

    /// Segments sent and not acknowledged, in order.
    private var inFlight: [Segment] = []
    /// Index in ``inFlight`` of the first segment to be sent (again).
    private var cursor = 0
    private var queue: [ByteBuffer] = []
    private var head = 0
    private var nextSequence: UInt32 = 0
    /// How many segments after the first unacknowledged one the peer accepts.
    private var peerWindow = 1
    private(set) var queuedBytes = 0
    private(set) var resent = 0

    let windowSegments: Int
    var segmentBytes: Int
    private let resendTime: UInt64
    // Jacobson's estimate of the round-trip time.
    private var smoothed: UInt64?
    private var variation: UInt64 = 0
    /// When the current wait for an answer began.
    private var waitingSince: UInt64 = 0
    /// Number of consecutive timeouts.
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

    /// The next segment that may be sent.
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

    // MARK: - Acknowledgements

    /// A valid frame of any kind arrived from the peer: it is alive.
    mutating func heard() { timeouts = 0 }

    /// The peer expects this segment next, and accepts `window` segments from there.
    mutating func acknowledged(_ sequence: UInt32, window: Int, asksAgain: Bool, _ now: UInt64) {
        guard let first = inFlight.first?.sequence else {
            if sequence == nextSequence { (peerWindow, waitingSince) = (window, now) }
            return
        }
        let count = Int(Int32(bitPattern: sequence &- first))
        // Outdated, or for segments that were never sent.
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

    /// How long to wait for an answer: doubles with each timeout, up to an additional 30 seconds.
    private var patience: UInt64 {
        let measured = smoothed.map { $0 + 4 * variation } ?? resendTime
        let first = max(resendTime, measured)
        return min(first << UInt64(min(timeouts, 8)), first + 30_000_000_000)
    }

    /// Set while an answer is outstanding, or while the peer's window is closed.
    var deadline: UInt64? { cursor > 0 || (hasMore && peerWindow <= 0) ? waitingSince &+ patience : nil }

    /// The deadline has passed: everything is retransmitted, or the peer is probed if nothing may be sent.
    ///
    /// - Returns: whether to send a probe.
    mutating func elapsed(_ now: UInt64) -> Bool {
        timeouts += 1
        waitingSince = now
        cursor = 0
        return inFlight.isEmpty
    }
}

/// The receiving half of a link: reorders segments, and reassembles messages.
struct LinkReceiver {
    /// The sequence number of the next segment wanted.
    private(set) var expected: UInt32 = 0
    /// Segments that arrived out of order.
    private var early: [UInt32: (isLast: Bool, payload: ByteBuffer)] = [:]
    /// Segments in order that have not been taken, because reading is off.
    private var waiting: [(isLast: Bool, payload: ByteBuffer)] = []
    private var partial = ByteBuffer()
    private var hasAsked = false
    /// Total size of the segments in ``early`` and ``waiting``.
    private var segmentBytes = 0
    let windowSegments: Int
    let messageBytes: Int

    var isReading = true
    /// The peer should reduce its window.
    var isCrowded = false

    init(limits: MessageEndpointLimits) {
        windowSegments = limits.windowSegments
        messageBytes = limits.messageBytes
    }

    var window: UInt16 { UInt16(clamping: max(0, (isCrowded ? max(1, windowSegments / 8) : windowSegments) - waiting.count)) }
    var unfinishedBytes: Int { partial.readableBytes }
    /// Memory held for the peer, in bytes.
    var heldBytes: Int { segmentBytes + (early.count + waiting.count) * Self.bytesPerSegment + (partial.readableBytes > 0 ? partial.storageCapacity : 0) }

    /// Memory of a segment beyond its bytes.
    private static let bytesPerSegment = 128

    enum Verdict { case taken, ignored, missing }

    mutating func receive(_ frame: LinkFrame) -> Verdict {
        let ahead = Int(Int32(bitPattern: frame.sequence &- expected))
        guard ahead >= 0, ahead < Int(window) else { return .ignored }
        let segment = (frame.flags & LinkFrame.isLast != 0, frame.payload)
        if ahead > 0 {
            // A repetition: the missing segment was retransmitted and lost again.
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

    /// Returns true once for each gap.
    mutating func asks() -> Bool {
        defer { hasAsked = true }
        return !hasAsked
    }

    /// The complete messages, while reading is on. Nil if one is longer than `message_bytes`.
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

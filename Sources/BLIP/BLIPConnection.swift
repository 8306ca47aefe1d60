public import NIOCore

/// One BLIP 3 connection without its socket: frames in and events out, messages in and frames out. It never acts on its own and has no clock; the
/// owner calls it from a single place (an event loop).
///
/// After ``receive(_:inflationLimit:into:)`` and after sending, call ``nextFrame(_:)`` until it returns nil. After an error, close the WebSocket with the
/// error's `closeCode` and call ``fail()``.
///
/// Only long messages are subject to flow control by acknowledgements (``acknowledgesReceived``); short ones are not. An owner that has too
/// many queued reply bytes (``queuedReplyBytes``) or too much buffered (``bufferedBytes``) must stop reading from its socket.
public struct BLIPConnection: ~Copyable, Sendable {
    let limits: BLIPLimits
    var isFailed = false

    // Sending.
    var outbox = Outbox()
    var deflater: Deflater
    var checksumOut = RunningChecksum()
    var nextRequestNumber: UInt64 = 1
    var nextToken: UInt64 = 0
    /// Messages that are partly sent, and how much of each the peer has acknowledged.
    var flows: [MessageKey: Flow] = [:]
    /// Messages from the peer that are due an acknowledgement. Each is unfinished, and none appears twice.
    var dueAcknowledgements = CircularBuffer<MessageKey>()
    /// Scratch buffer for uncompressed frame data, kept to save allocations.
    var plainScratch = ByteBuffer()
    var outgoingStreams: OutgoingStreams

    // Receiving.
    var inflater = Inflater()
    var checksumIn = RunningChecksum()
    var lastRequestNumber: UInt64 = 0
    var unfinishedRequests: [UInt64: PartialMessage] = [:]
    var unfinishedReplies: [UInt64: PartialMessage] = [:]
    /// Bytes in all unfinished messages.
    var unfinishedBytes = 0
    /// The request that is acknowledged while long ones arrive one after the other; nil if none waits.
    var turn: UInt64?
    /// Memory that the unfinished messages take, in bytes.
    var unfinishedMemory = 0
    /// Shortest limit of any profile: a request up to this length is accepted without looking at its profile.
    let smallestMessageLimit: Int
    /// Replies delivered to the owner as they arrive, from the moment their request is queued.
    var incomingStreams: IncomingStreams
    /// Requests that are sent completely and whose reply is not complete yet, by number.
    var awaited: [UInt64: RequestToken] = [:]
    /// Complete requests from the peer that expect a reply; the value says whether the request is urgent.
    var unanswered: [UInt64: Bool] = [:]
    /// Scratch buffer for inflated frame data, kept to save allocations.
    var inflatedScratch = ByteBuffer()
    /// Bytes to which the current frame may still inflate.
    var inflationLeft = Int.max
    var suspendedFrame: SuspendedFrame?
    /// The suspended frame that is being resumed at the moment.
    var resumedFrame: SuspendedFrame?

    /// Bytes of queued messages that are not in a frame yet, before compression, including messages that wait for acknowledgements.
    public internal(set) var queuedBytes = 0
    /// Memory that those messages take beyond ``queuedBytes``.
    public internal(set) var spentBytes = 0
    /// Bytes of frame data processed so far, after inflation.
    public internal(set) var takenBytes = 0
    #if DEBUG
    /// Bytes of unfinished messages copied so far because their memory had to grow or was shared. For tests: it stays below twice ``takenBytes``,
    /// however many frames a message has.
    package internal(set) var copiedBytes = 0
    #endif
    /// The part of ``queuedBytes`` that is replies: what the peer has requested and not read yet.
    public internal(set) var queuedReplyBytes = 0
    /// Queued requests whose last frame has not been produced yet.
    public internal(set) var queuedRequests = 0
    private var queuedTokens = 0

    /// Whether incoming data is acknowledged. While false, acknowledgements are withheld and the peer stops each long message at its window (128 kB).
    /// Setting it to true sends the acknowledgements that are due.
    public var acknowledgesReceived = true {
        didSet {
            if acknowledgesReceived && !oldValue { collectDueAcknowledgements() }
        }
    }

    /// While false, new messages are sent uncompressed even if they ask for compression, unless the memory for it is already allocated.
    public var allowsCompression = true

    /// Memory that the first compressed frame will allocate, in bytes; 0 once it is allocated.
    public var compressionBytes: Int { deflater.exists ? 0 : deflater.bytes }

    /// How much memory compression takes. Changes have no effect after the first compressed frame has allocated it.
    public var deflaterSize: DeflaterSize {
        get { deflater.size }
        set { deflater.size = newValue }
    }

    /// - Parameter compressionLevel: 1 to 9; levels 1 to 3 are equivalent and much faster. 0 sends everything uncompressed, whatever messages ask
    ///   for.
    public init(limits: BLIPLimits = .init(), compressionLevel: Int32 = 6) {
        var limits = limits
        limits.maximumFrame = min(max(limits.maximumFrame, BLIPLimits.smallestFrame), BLIPLimits.largestFrame)
        limits.maximumFrameBeforeUrgent = min(max(limits.maximumFrameBeforeUrgent, BLIPLimits.smallestFrame), limits.maximumFrame)
        limits.maximumProperties = min(max(limits.maximumProperties, 0), Int(UInt32.max))
        limits.sendWindow = max(limits.sendWindow, 1)
        // Keeps sums of these limits from overflowing.
        limits.maximumInflatedFrame = min(max(limits.maximumInflatedFrame, 0), Int.max >> 1)
        limits.maximumUnfinishedBytes = min(max(limits.maximumUnfinishedBytes, 0), Int.max >> 1)
        self.limits = limits
        smallestMessageLimit = limits.smallestMessageLimit
        incomingStreams = IncomingStreams(window: max(limits.streamWindow, 0))
        outgoingStreams = OutgoingStreams(lowWater: max(limits.streamLowWater, 1))
        deflater = Deflater(level: compressionLevel)
    }

    /// Whether ``nextFrame(_:)`` would return a frame.
    public var hasPendingOutput: Bool { !isFailed && !(dueAcknowledgements.isEmpty && outbox.isEmpty) }

    /// Our requests that await a reply, including those still queued.
    public var awaitedReplies: Int { awaited.count + queuedTokens }

    /// Complete requests from the peer that have not been answered yet.
    public var unansweredRequests: Int { unanswered.count }

    /// Memory held on behalf of the peer, in bytes: unfinished messages, streamed bytes not consumed, queued messages, table entries, and zlib's
    /// state once compression has been used. Messages delivered to the owner are not included.
    public var bufferedBytes: Int { messageBytes + inflater.heldBytes + spareBytes }

    /// The part of ``bufferedBytes`` that goes away when messages are completed, read or answered: messages and table entries.
    public var messageBytes: Int {
        let entries = unfinishedRequests.count + unfinishedReplies.count + outbox.count + flows.count
        return unfinishedMemory + incomingStreams.unconsumedBytes + queuedBytes + spentBytes
            + entries * Self.bytesPerEntry + (unanswered.count + awaited.count) * Self.bytesPerNumber
    }

    /// The part of ``bufferedBytes`` that ``trim()`` releases.
    public var spareBytes: Int { deflater.heldBytes + inflatedScratch.storageCapacity + plainScratch.storageCapacity }

    /// Releases zlib's state for sending and the scratch buffers. The next compressed frame starts with a fresh state. It refers to nothing that was
    /// sent before, so any receiver can continue.
    public mutating func trim() {
        deflater.release()
        (inflatedScratch, plainScratch) = (ByteBuffer(), ByteBuffer())
    }

    /// Cost of a message under way beyond its bytes.
    private static let bytesPerEntry = 256
    private static let bytesPerNumber = 32

    /// Bytes delivered as `.replyBytes` and not consumed yet.
    public var unconsumedBytes: Int { incomingStreams.unconsumedBytes }

    /// Whether the owner should stop reading, and pass no more frames to ``receive(_:inflationLimit:into:)``, until it has consumed some data: a streamed reply
    /// has more than four times `BLIPLimits.streamWindow` unconsumed. Acknowledgements count bytes as transmitted, so they slow down highly
    /// compressible data too late. Check after each frame, because one frame can inflate to `maximumInflatedFrame`.
    public var shouldPauseReading: Bool { incomingStreams.isCrowded }

    /// Queues a request. The token comes back with `.reply`; it is nil if no reply is wanted or the connection has failed.
    ///
    /// With `streamsReply`, a successful reply of any length is delivered as `.replyBegan`, `.replyBytes` (zero or more) and `.replyEnded`; an error
    /// is delivered as one `.reply` of at most `BLIPLimits.maximumErrorReply`. The length of a streamed reply is not limited. The owner reports what
    /// it has consumed (``consumed(_:bytes:)``). For a peer that follows the protocol, at most `streamWindow` plus the inflated size of 128,000
    /// transmitted bytes and one frame is held: 275 KiB if uncompressed. For any other peer, at most `maximumStreamUnconsumed` and
    /// `maximumInflatedFrame`.
    @discardableResult
    public mutating func send(_ request: OutgoingRequest, streamsReply: Bool = false) -> RequestToken? {
        guard !isFailed else { return nil }
        var flags: BLIPFlags = []
        if request.isCompressed { flags.insert(.compressed) }
        if request.isUrgent { flags.insert(.urgent) }
        if request.isNoReply { flags.insert(.noReply) }
        var token: RequestToken?
        if !request.isNoReply {
            token = RequestToken(serial: nextToken)
            nextToken += 1
            queuedTokens += 1
        }
        if streamsReply, let token { incomingStreams.add(token) }
        var properties = request.properties
        if properties.find("Profile") != nil { properties["Profile"] = nil }
        var profile = request.profile
        if let end = profile.utf8.firstIndex(of: 0) { profile = String(profile[..<end]) }
        queuedRequests += 1
        enqueue(OutgoingMessage(
            type: FrameType.request, number: 0, flags: flags, profile: profile,
            head: properties.block, body: request.body, token: token
        ))
        return token
    }

    /// Queues the reply to request `number`. Ignored (false) if that request is unknown, incomplete, wants no reply or is already answered: the peer
    /// would close the connection in each case. `isUrgent` nil means the request's own urgency.
    @discardableResult
    public mutating func reply(to number: UInt64, isUrgent: Bool? = nil, _ reply: OutgoingReply) -> Bool {
        guard !isFailed, let requestWasUrgent = unanswered.removeValue(forKey: number) else { return false }
        var flags: BLIPFlags = []
        if reply.isCompressed { flags.insert(.compressed) }
        if isUrgent ?? requestWasUrgent { flags.insert(.urgent) }
        var message = OutgoingMessage(
            type: FrameType.reply, number: number, flags: flags, profile: "",
            head: reply.properties.block, body: reply.body, token: nil
        )
        if let error = reply.error {
            var properties: BLIPProperties = ["Error-Domain": error.domain, "Error-Code": String(error.code)]
            for (key, value) in reply.properties.pairs { properties.append(key, value) }
            message.type = FrameType.errorReply
            message.head = properties.block
            message.body = ByteBuffer(string: error.message)
        }
        enqueue(message)
        return true
    }

    /// Starts a streamed reply to request `number`. Its body is `reply.body`, which may be empty, followed by what is supplied later.
    /// ``nextFrame(_:into:)`` emits `.wantsMore` when more is needed. Nil where ``reply(to:isUrgent:_:)`` would return false, and for an error reply,
    /// which is sent whole.
    public mutating func reply(to number: UInt64, isUrgent: Bool? = nil, streaming reply: OutgoingReply) -> StreamID? {
        guard !isFailed, reply.error == nil else {
            self.reply(to: number, isUrgent: isUrgent, reply)
            return nil
        }
        guard let requestWasUrgent = unanswered.removeValue(forKey: number) else { return nil }
        var flags: BLIPFlags = []
        if reply.isCompressed { flags.insert(.compressed) }
        if isUrgent ?? requestWasUrgent { flags.insert(.urgent) }
        let id = StreamID(number: number)
        outgoingStreams.add(id, reply.body)
        queued(reply.body.readableBytes, isReply: true)
        enqueue(OutgoingMessage(
            type: FrameType.reply, number: number, flags: flags, profile: "",
            head: reply.properties.block, body: ByteBuffer(), token: nil, isStream: true
        ))
        return id
    }

    /// Appends to a reply started with ``reply(to:isUrgent:streaming:)``; `isLast` completes it. To bound memory, answer each `.wantsMore` with one
    /// piece: then no more than that piece and `BLIPLimits.streamLowWater` is queued. Ignored (false) if the stream has ended or the connection has
    /// failed.
    @discardableResult
    public mutating func supply(_ stream: StreamID, _ bytes: ByteBuffer, isLast: Bool) -> Bool {
        guard !isFailed, outgoingStreams.isOpen(stream) else { return false }
        queued(bytes.readableBytes, isReply: true)
        if let message = outgoingStreams.supply(stream, bytes, isLast: isLast) { resume(message) }
        return true
    }

    /// Call this when the source of a streamed reply fails midway. BLIP cannot abort a reply: its first frame determines the type of a reply, and a
    /// reply that never ends would leave the peer waiting forever. So the reply is truncated here, as in LiteCore when its source fails, and whatever
    /// was supplied and not sent is dropped. The receiver of a blob notices the wrong digest and fails the document. LiteCore treats that failure as
    /// permanent, though: its checkpoint advances past the document, which is not requested again until it changes. An owner that may be able to
    /// serve the blob later should instead close the connection with 4001 (or drop it): the peer treats that as transient and requests the document
    /// again. Ignored (false) if the stream has ended.
    @discardableResult
    public mutating func cut(_ stream: StreamID) -> Bool {
        guard !isFailed, outgoingStreams.isOpen(stream) else { return false }
        let (forgotten, message) = outgoingStreams.cut(stream)
        queued(-forgotten, isReply: true)
        if let message { resume(message) }
        return true
    }

    /// The owner has consumed `bytes` bytes of a streamed reply. Send what ``nextFrame(_:into:)`` returns afterwards: a withheld acknowledgement may
    /// be due.
    public mutating func consumed(_ token: RequestToken, bytes: Int) {
        guard !isFailed, let number = incomingStreams.consumed(token, bytes: bytes) else { return }
        acknowledgeIfDue(replyTo: number)
    }

    /// The owner does not want the rest of a streamed reply, whether it has begun or not. Nothing more of it is delivered, not even an error, and
    /// ``fail()`` does not return its token. The peer still sends all of it, so it is received, acknowledged and dropped.
    public mutating func abandon(_ token: RequestToken) {
        guard !isFailed, let number = incomingStreams.abandon(token) else { return }
        dropUnfinishedReply(number)
        acknowledgeIfDue(replyTo: number)
    }

    /// Processes one WebSocket binary message, which is one frame, with `accept` in `Receiving.swift`. Once the last frame of a message has arrived,
    /// an event brings the whole message. Events are appended in order; events appended before an error are valid.
    ///
    /// - Parameter inflationLimit: the number of bytes to which the frame's data may inflate. A frame that would exceed it is suspended and must be completed
    ///   with ``resume(inflationLimit:into:)`` before the next frame is passed in.
    public mutating func receive(_ frame: ByteBuffer, inflationLimit: Int = .max, into events: inout [BLIPEvent]) throws(BLIPError) {
        guard !isFailed, suspendedFrame == nil else { throw .connectionFailed }
        inflationLeft = inflationLimit
        do {
            try accept(frame, &events)
        } catch {
            isFailed = true
            throw error
        }
    }

    /// Whether a partly inflated frame waits for ``resume(inflationLimit:into:)``.
    public var isSuspended: Bool { suspendedFrame != nil }

    /// Continues with the suspended frame.
    public mutating func resume(inflationLimit: Int, into events: inout [BLIPEvent]) throws(BLIPError) {
        guard let suspended = suspendedFrame.take() else { return }
        resumedFrame = suspended
        defer { resumedFrame = nil }
        try receive(suspended.frame, inflationLimit: inflationLimit, into: &events)
    }

    /// The next frame to put on the wire. Nil when nothing may be sent at the moment: nothing is queued, everything queued waits for
    /// acknowledgements, or the connection has failed.
    public mutating func nextFrame(_ allocator: ByteBufferAllocator = ByteBufferAllocator()) -> ByteBuffer? {
        var completed: RequestToken?
        return produceFrame(allocator, &completed)
    }

    /// Like ``nextFrame(_:)``, and appends `.sent` for a request whose last frame this is and `.wantsMore` for streams to supply.
    public mutating func nextFrame(
        _ allocator: ByteBufferAllocator = ByteBufferAllocator(), into events: inout [BLIPEvent]
    ) -> ByteBuffer? {
        var completed: RequestToken?
        let frame = produceFrame(allocator, &completed)
        if let completed { events.append(.sent(completed)) }
        if outgoingStreams.wantsAny {
            for stream in outgoingStreams.takeWanting() { events.append(.wantsMore(stream)) }
        }
        return frame
    }

    /// The connection is gone. Returns, in sending order, all tokens that will never get a reply, and drops everything that it holds: its owner may have
    /// to wait for the end of the transport. The connection is unusable afterwards.
    public mutating func fail() -> [RequestToken] {
        isFailed = true
        var tokens: [RequestToken] = Array(awaited.values)
        while let message = outbox.dequeue() {
            if let token = message.token { tokens.append(token) }
        }
        for flow in flows.values {
            if let token = flow.stopped?.token { tokens.append(token) }
        }
        tokens.removeAll { incomingStreams.state($0) == .abandoned }
        incomingStreams = IncomingStreams(window: limits.streamWindow)
        outgoingStreams = OutgoingStreams(lowWater: limits.streamLowWater)
        flows = [:]
        awaited = [:]
        unanswered = [:]
        unfinishedRequests = [:]
        dueAcknowledgements.removeAll()
        unfinishedReplies = [:]
        (suspendedFrame, resumedFrame) = (nil, nil)
        unfinishedBytes = 0
        (unfinishedMemory, turn) = (0, nil)
        queuedBytes = 0
        spentBytes = 0
        queuedReplyBytes = 0
        queuedRequests = 0
        queuedTokens = 0
        trim()
        inflater = Inflater()
        tokens.sort { $0.serial < $1.serial }
        return tokens
    }

    private mutating func enqueue(_ message: OutgoingMessage) {
        queued(message.remainingBytes, isReply: !message.isRequest)
        spentBytes += message.spentBytes
        outbox.enqueue(message)
    }

    mutating func queued(_ bytes: Int, isReply: Bool) {
        queuedBytes += bytes
        if isReply { queuedReplyBytes += bytes }
    }

    /// The last frame of a request was produced.
    mutating func requestEnded(_ message: OutgoingMessage) {
        queuedRequests -= 1
        guard let token = message.token else { return }
        queuedTokens -= 1
        awaited[message.number] = token
    }
}

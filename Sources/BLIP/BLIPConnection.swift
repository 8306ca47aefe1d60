public import NIOCore

/// One BLIP 3 connection, without its socket: frames in, events out; messages in, frames out. It does nothing by itself
/// and knows no clock; the owner calls it from one place (an event loop).
///
/// After ``receive(_:room:into:)`` and after sending, take frames with ``nextFrame(_:)`` until it gives nil. After an error close
/// the WebSocket with the error's `closeCode` and call ``fail()``.
///
/// Long messages are held back by acknowledgements (``acknowledgesReceived``), short ones are not: an owner that gets too
/// many requests (``unansweredRequests``), owes too much (``queuedReplyBytes``) or holds too much (``bufferedBytes``) must stop
/// reading from its socket.
public struct BLIPConnection: ~Copyable, Sendable {
    let limits: BLIPLimits
    var isFailed = false

    // Sending.
    var outbox = Outbox()
    var deflater: Deflater
    var checksumOut = RunningChecksum()
    var nextRequestNumber: UInt64 = 1
    var nextToken: UInt64 = 0
    /// Messages that have begun and not ended, and what the peer has of them.
    var flows: [MessageKey: Flow] = [:]
    /// Messages of the peer to acknowledge; each is unfinished, and none is here twice.
    var dueAcknowledgements = CircularBuffer<MessageKey>()
    /// What a frame is compressed from; kept to save allocations.
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
    /// Memory taken for them.
    var unfinishedCapacity = 0
    /// Requests up to this length need no look at their profile.
    let smallestMessageLimit: Int
    /// Replies that are told as they come, their requests included.
    var incomingStreams: IncomingStreams
    /// Requests sent completely, by number, until their reply is complete.
    var awaited: [UInt64: RequestToken] = [:]
    /// Complete requests of the peer that want a reply; the value tells whether they are urgent.
    var unanswered: [UInt64: Bool] = [:]
    /// Where a compressed frame is inflated to; kept to save allocations.
    var inflatedScratch = ByteBuffer()
    /// Bytes that the frame at hand may still become.
    var inflateRoom = Int.max
    var suspendedFrame: SuspendedFrame?
    /// It is gone on with just now.
    var resumedFrame: SuspendedFrame?

    /// Bytes of messages queued and not yet put into frames, before compression; those that wait for acknowledgements count.
    public internal(set) var queuedBytes = 0
    /// What those messages take beside these bytes.
    var spentBytes = 0
    /// Bytes of frames taken so far, after inflation.
    public internal(set) var takenBytes = 0
    #if DEBUG
    /// Bytes of unfinished messages that were copied so far, because their memory had to grow or was shared. For tests: it stays below
    /// twice ``takenBytes``, however many frames a message has.
    package internal(set) var copiedBytes = 0
    #endif
    /// Those of them that are replies: what the peer has asked for and not taken.
    public internal(set) var queuedReplyBytes = 0
    /// Requests queued whose last frame was not produced yet.
    public internal(set) var queuedRequests = 0
    private var queuedTokens = 0

    /// Whether incoming data is acknowledged. While false, acknowledgements are withheld and the peer stops each long message
    /// at its window (128 kB); setting it true sends those due.
    public var acknowledgesReceived = true {
        didSet {
            if acknowledgesReceived && !oldValue { collectDueAcknowledgements() }
        }
    }

    /// While false, new messages are sent plain even if they ask for compression, unless the memory for it is taken already.
    public var allowsCompression = true

    /// What the first compressed frame will take, in bytes; 0 once it is taken.
    public var compressionBytes: Int { deflater.exists ? 0 : deflater.bytes }

    /// How much memory compression takes. Changes have no effect once it is taken, with the first compressed frame.
    public var deflaterSize: DeflaterSize {
        get { deflater.size }
        set { deflater.size = newValue }
    }

    /// - Parameter compressionLevel: 1 to 9, 1 to 3 the same and much faster; 0 sends everything plain, whatever messages ask for.
    public init(limits: BLIPLimits = .init(), compressionLevel: Int32 = 6) {
        var limits = limits
        limits.maximumFrame = min(max(limits.maximumFrame, BLIPLimits.smallestFrame), BLIPLimits.largestFrame)
        limits.maximumFrameBeforeUrgent = min(max(limits.maximumFrameBeforeUrgent, BLIPLimits.smallestFrame), limits.maximumFrame)
        limits.maximumProperties = min(max(limits.maximumProperties, 0), Int(UInt32.max))
        limits.sendWindow = max(limits.sendWindow, 1)
        // Room for sums.
        limits.maximumInflatedFrame = min(max(limits.maximumInflatedFrame, 0), Int.max >> 1)
        limits.maximumUnfinishedBytes = min(max(limits.maximumUnfinishedBytes, 0), Int.max >> 1)
        self.limits = limits
        smallestMessageLimit = limits.smallestMessageLimit
        incomingStreams = IncomingStreams(window: max(limits.streamWindow, 0))
        outgoingStreams = OutgoingStreams(lowWater: max(limits.streamLowWater, 1))
        deflater = Deflater(level: compressionLevel)
    }

    /// Whether ``nextFrame(_:)`` would give a frame.
    public var hasPendingOutput: Bool { !isFailed && !(dueAcknowledgements.isEmpty && outbox.isEmpty) }

    /// Requests of ours that await a reply, those still queued included.
    public var awaitedReplies: Int { awaited.count + queuedTokens }

    /// Complete requests of the peer that were not answered yet.
    public var unansweredRequests: Int { unanswered.count }

    /// Memory held for the peer, in bytes: messages unfinished, streamed bytes not consumed, messages queued, table entries, and
    /// zlib's state once there was something compressed. Messages told to the owner are its own.
    public var bufferedBytes: Int { messageBytes + inflater.heldBytes + spareBytes }

    /// Of ``bufferedBytes``, messages and table entries: what goes away when messages are ended, read or answered.
    public var messageBytes: Int {
        let entries = unfinishedRequests.count + unfinishedReplies.count + outbox.count + flows.count
        return unfinishedCapacity + incomingStreams.unconsumedBytes + queuedBytes + spentBytes
            + entries * Self.bytesPerEntry + (unanswered.count + awaited.count) * Self.bytesPerNumber
    }

    /// Of ``bufferedBytes``, what ``trim()`` gives back.
    public var spareBytes: Int { deflater.heldBytes + inflatedScratch.storageCapacity + plainScratch.storageCapacity }

    /// Lets go of zlib's state for sending and of what was used in between. The next compressed frame begins it anew: it refers to nothing
    /// that was sent before, and any receiver can read on.
    public mutating func trim() {
        deflater.release()
        (inflatedScratch, plainScratch) = (ByteBuffer(), ByteBuffer())
    }

    /// What a message under way costs beside its bytes.
    private static let bytesPerEntry = 256
    private static let bytesPerNumber = 32

    /// Bytes told as `.replyBytes` that were not consumed.
    public var unconsumedBytes: Int { incomingStreams.unconsumedBytes }

    /// Whether the owner should give no more frames to ``receive(_:room:into:)``, and not read, until it has consumed some: a streamed
    /// reply has more than four times `BLIPLimits.streamWindow` unconsumed. Acknowledgements count bytes as transmitted, so they
    /// hold back data that compresses well only late. Check after each frame: one may grow to `maximumInflatedFrame`.
    public var shouldPauseReading: Bool { incomingStreams.isCrowded }

    /// Queues a request. The token comes back with `.reply`. Nil if no reply is wanted, or if the connection has failed.
    ///
    /// With `streamsReply` a success, however short, is told as `.replyBegan`, `.replyBytes` (none or more) and `.replyEnded`;
    /// an error is one `.reply`, at most `BLIPLimits.maximumErrorReply` long. There is no bound on the length of a streamed
    /// reply. The owner says what it has consumed (``consumed(_:bytes:)``). Of a peer that keeps to the protocol no more is
    /// ever held than `streamWindow` and what 128,000 bytes and one frame, as transmitted, become: 275 KiB if plain. Of any
    /// other no more than `maximumStreamUnconsumed` and `maximumInflatedFrame`.
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

    /// Queues the reply to request `number`. Ignored (false) if that request is unknown, not complete, wants no reply or was
    /// answered: each would end the connection at the peer. `isUrgent` nil: as the request was.
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

    /// Begins the reply to request `number`; its body is `reply.body`, which may be empty, and what is supplied after. Ask for
    /// more with ``nextFrame(_:into:)``, which gives `.wantsMore`. Nil where ``reply(to:isUrgent:_:)`` would give false, and for
    /// an error reply, which is sent whole.
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

    /// Adds to a reply begun with ``reply(to:isUrgent:streaming:)``. `isLast` ends it. To keep memory in bounds, answer one
    /// `.wantsMore` with one piece: then the piece and `BLIPLimits.streamLowWater` is all that waits. Ignored (false) if the
    /// stream has ended or the connection has failed.
    @discardableResult
    public mutating func supply(_ stream: StreamID, _ bytes: ByteBuffer, isLast: Bool) -> Bool {
        guard !isFailed, outgoingStreams.isOpen(stream) else { return false }
        queued(bytes.readableBytes, isReply: true)
        if let message = outgoingStreams.supply(stream, bytes, isLast: isLast) { resume(message) }
        return true
    }

    /// The source of a streamed reply failed in the middle. BLIP cannot abort a reply: the type of a reply is that of its first
    /// frame, and a reply that never ends keeps the peer waiting for ever. So it ends here, short, as LiteCore's own does when
    /// its source fails; what was supplied and not sent is dropped. A receiver of a blob notices by the digest, and fails the
    /// document. But LiteCore takes that failure for final: its checkpoint passes the document, which is not asked for again
    /// until it changes. An owner that may serve the blob later should close the connection with 4001 instead (or drop it): that
    /// is transient to the peer, and the document comes again. Ignored (false) if the stream has ended.
    @discardableResult
    public mutating func cut(_ stream: StreamID) -> Bool {
        guard !isFailed, outgoingStreams.isOpen(stream) else { return false }
        let (forgotten, message) = outgoingStreams.cut(stream)
        queued(-forgotten, isReply: true)
        if let message { resume(message) }
        return true
    }

    /// The owner is done with `bytes` bytes of a streamed reply. Send what ``nextFrame(_:into:)`` gives after: an acknowledgement
    /// that was withheld may be due.
    public mutating func consumed(_ token: RequestToken, bytes: Int) {
        guard !isFailed, let number = incomingStreams.consumed(token, bytes: bytes) else { return }
        acknowledgeIfDue(replyTo: number)
    }

    /// The owner wants no more of a streamed reply, begun or not: nothing of it is told from now on, an error neither, and
    /// ``fail()`` does not give its token. The peer sends it all the same, so it is received, acknowledged and dropped.
    public mutating func abandon(_ token: RequestToken) {
        guard !isFailed, let number = incomingStreams.abandon(token) else { return }
        dropUnfinishedReply(number)
        acknowledgeIfDue(replyTo: number)
    }

    /// Takes one WebSocket binary message. Events are appended in order; those appended before an error stand.
    ///
    /// - Parameter room: bytes that its data may become when it is inflated. Where that is more, the frame is suspended: ``resume(room:into:)``
    ///   goes on with it, and has to before the next one is taken.
    public mutating func receive(_ frame: ByteBuffer, room: Int = .max, into events: inout [BLIPEvent]) throws(BLIPError) {
        guard !isFailed, suspendedFrame == nil else { throw .connectionFailed }
        inflateRoom = room
        do {
            try accept(frame, &events)
        } catch {
            isFailed = true
            throw error
        }
    }

    /// A frame of which not everything is inflated yet waits for ``resume(room:into:)``.
    public var isSuspended: Bool { suspendedFrame != nil }

    /// Goes on with the frame that was suspended.
    public mutating func resume(room: Int, into events: inout [BLIPEvent]) throws(BLIPError) {
        guard let suspended = suspendedFrame.take() else { return }
        resumedFrame = suspended
        defer { resumedFrame = nil }
        try receive(suspended.frame, room: room, into: &events)
    }

    /// The next frame to put on the wire; nil when nothing may be sent now: nothing is queued, all of it waits for
    /// acknowledgements, or the connection has failed.
    public mutating func nextFrame(_ allocator: ByteBufferAllocator = ByteBufferAllocator()) -> ByteBuffer? {
        var completed: RequestToken?
        return produceFrame(allocator, &completed)
    }

    /// The same, and tells of a request whose last frame this is (`.sent`) and of streams to supply (`.wantsMore`).
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

    /// The connection is gone: gives all tokens that will never get a reply, in order of sending, and lets go of everything
    /// queued. Nothing works afterwards.
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
        unfinishedCapacity = 0
        queuedBytes = 0
        spentBytes = 0
        queuedReplyBytes = 0
        queuedRequests = 0
        queuedTokens = 0
        (inflatedScratch, plainScratch) = (ByteBuffer(), ByteBuffer())
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

    /// A request's last frame was produced.
    mutating func requestEnded(_ message: OutgoingMessage) {
        queuedRequests -= 1
        guard let token = message.token else { return }
        queuedTokens -= 1
        awaited[message.number] = token
    }
}

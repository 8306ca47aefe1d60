public import NIOCore

/// One BLIP 3 connection, without its socket: frames in, events out; messages in, frames out. It does nothing by itself
/// and knows no clock; the owner calls it from one place (an event loop).
///
/// After ``receive(_:into:)`` and after sending, take frames with ``nextFrame(_:)`` until it gives nil. After an error close
/// the WebSocket with the error's `closeCode` and call ``fail()``.
///
/// Long messages are held back by acknowledgements (``acknowledgesReceived``), short ones are not: an owner that gets too
/// many requests (``unansweredRequests``) must stop reading from its socket.
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

    // Receiving.
    var inflater = Inflater()
    var checksumIn = RunningChecksum()
    var lastRequestNumber: UInt64 = 0
    var unfinishedRequests: [UInt64: PartialMessage] = [:]
    var unfinishedReplies: [UInt64: PartialMessage] = [:]
    /// Bytes in all unfinished messages.
    var unfinishedBytes = 0
    /// Requests sent completely, by number, until their reply is complete.
    var awaited: [UInt64: RequestToken] = [:]
    /// Complete requests of the peer that want a reply; the value tells whether they are urgent.
    var unanswered: [UInt64: Bool] = [:]
    /// Where a compressed frame is inflated to; kept to save allocations.
    var inflatedScratch = ByteBuffer()

    /// Bytes of messages queued and not yet put into frames, before compression; those that wait for acknowledgements count.
    public internal(set) var queuedBytes = 0
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

    /// - Parameter compressionLevel: 1 (fast) to 9; 0 sends everything plain, whatever messages ask for.
    public init(limits: BLIPLimits = .init(), compressionLevel: Int32 = 6) {
        var limits = limits
        limits.maximumFrame = min(max(limits.maximumFrame, BLIPLimits.smallestFrame), BLIPLimits.largestFrame)
        limits.maximumFrameBeforeUrgent = min(max(limits.maximumFrameBeforeUrgent, BLIPLimits.smallestFrame), limits.maximumFrame)
        limits.maximumProperties = min(max(limits.maximumProperties, 0), Int(UInt32.max))
        self.limits = limits
        deflater = Deflater(level: compressionLevel)
    }

    /// Whether ``nextFrame(_:)`` would give a frame.
    public var hasPendingOutput: Bool { !isFailed && !(dueAcknowledgements.isEmpty && outbox.isEmpty) }

    /// Requests of ours that await a reply, those still queued included.
    public var awaitedReplies: Int { awaited.count + queuedTokens }

    /// Complete requests of the peer that were not answered yet.
    public var unansweredRequests: Int { unanswered.count }

    /// Queues a request. The token comes back with `.reply`. Nil if no reply is wanted, or if the connection has failed.
    @discardableResult
    public mutating func send(_ request: OutgoingRequest) -> RequestToken? {
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

    /// Takes one WebSocket binary message. Events are appended in order; those appended before an error stand.
    public mutating func receive(_ frame: ByteBuffer, into events: inout [BLIPEvent]) throws(BLIPError) {
        guard !isFailed else { throw .connectionFailed }
        do {
            try accept(frame, &events)
        } catch {
            isFailed = true
            throw error
        }
    }

    /// The next frame to put on the wire; nil when nothing may be sent now: nothing is queued, all of it waits for
    /// acknowledgements, or the connection has failed.
    public mutating func nextFrame(_ allocator: ByteBufferAllocator = ByteBufferAllocator()) -> ByteBuffer? {
        var completed: RequestToken?
        return produceFrame(allocator, &completed)
    }

    /// The same, and tells of a request whose last frame this is (`.sent`).
    public mutating func nextFrame(
        _ allocator: ByteBufferAllocator = ByteBufferAllocator(), into events: inout [BLIPEvent]
    ) -> ByteBuffer? {
        var completed: RequestToken?
        let frame = produceFrame(allocator, &completed)
        if let completed { events.append(.sent(completed)) }
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
        flows = [:]
        awaited = [:]
        unanswered = [:]
        unfinishedRequests = [:]
        dueAcknowledgements.removeAll()
        unfinishedReplies = [:]
        unfinishedBytes = 0
        queuedBytes = 0
        queuedRequests = 0
        queuedTokens = 0
        tokens.sort { $0.serial < $1.serial }
        return tokens
    }

    private mutating func enqueue(_ message: OutgoingMessage) {
        queuedBytes += message.remainingBytes
        outbox.enqueue(message)
    }

    /// A request's last frame was produced.
    mutating func requestEnded(_ message: OutgoingMessage) {
        queuedRequests -= 1
        guard let token = message.token else { return }
        queuedTokens -= 1
        awaited[message.number] = token
    }
}

/// What the peer has of a message of ours. Bytes as transmitted, checksums included, headers not.
struct Flow {
    var sent = 0
    var acknowledged = 0
    /// The message, if it waits for acknowledgements; else it is in the outbox.
    var stopped: OutgoingMessage?
}

/// A message of the peer that has begun.
struct PartialMessage {
    /// From its first frame.
    var bits: UInt8
    var bytes = ByteBuffer()
    /// Whether the length of its properties has arrived and is allowed.
    var startIsChecked = false
    /// Bytes as transmitted, checksums included, headers not.
    var received = 0
    var acknowledged = 0
    var acknowledgementIsDue = false

    /// Whether an acknowledgement is to be queued.
    func isDue(_ threshold: Int) -> Bool {
        !acknowledgementIsDue && received - acknowledged >= threshold
    }
}

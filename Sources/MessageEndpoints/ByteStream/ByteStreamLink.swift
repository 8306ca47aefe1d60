import NIOCore

/// A message connection over a stream of bytes that may lose, corrupt, insert and repeat some: the protocol logic only. Time and bytes are passed in;
/// bytes to send are fetched with ``output(_:)`` whenever the stream can take more.
struct ByteStreamLink {
    enum Event {
        /// Listening side: answer with ``accept(_:)`` or ``refuse(status:reason:)``.
        case offered(EndpointOffer)
        case opened(protocol: String)
        case refused(status: Int, reason: String)
        case messages([ByteBuffer])
        /// Nothing follows. What ``output(_:)`` still returns may be sent.
        case ended(code: UInt16, reason: String, byPeer: Bool)
    }

    private enum State {
        /// Connecting side, until it gets an answer.
        case offering(EndpointOffer)
        /// Listening side, until it gets an offer.
        case listening
        case deciding
        case open
        case closing(code: UInt16, reason: String, until: UInt64)
        case over
    }

    /// Maximum number of bytes written at once, unless a single frame is longer.
    static let burstBytes = 4096
    private static let offerInterval: UInt64 = 1_000_000_000

    private let limits: MessageEndpointLimits
    private var state: State
    private var session: UInt32 = 0
    private var decoder: LinkDecoder
    private var sender: LinkSender
    private var receiver: LinkReceiver
    /// Frames without sequence numbers, to be sent next.
    private var control: [LinkFrame] = []
    /// The answer to the offer, in case the offer is repeated.
    private var answer: LinkFrame?
    private var owesAcknowledgement = false
    private var asksAgain = false
    private var lastHeard: UInt64
    private var nextOffer: UInt64 = 0

    /// - Parameters:
    ///   - offer: on the connecting side; nil on the listening side.
    ///   - session: a random number, on the connecting side.
    init(limits: MessageEndpointLimits, offer: EndpointOffer?, session: UInt32, now: UInt64) {
        var limits = limits
        limits.segmentBytes = min(max(16, limits.segmentBytes), 32_768)
        limits.windowSegments = min(max(1, limits.windowSegments), 4096)
        self.limits = limits
        decoder = LinkDecoder(maximumPayload: max(limits.segmentBytes, 4096))
        sender = LinkSender(limits: limits)
        receiver = LinkReceiver(limits: limits)
        lastHeard = now
        state = offer.map { .offering($0) } ?? .listening
        self.session = offer == nil ? 0 : session
        nextOffer = now
    }

    /// Bytes of messages that are not acknowledged.
    var waitingBytes: Int { sender.queuedBytes }
    /// Received bytes that are kept, including an incomplete frame.
    var heldBytes: Int { receiver.heldBytes + decoder.heldBytes }
    /// Number of corrupted frames and of retransmitted segments: for status and tests.
    var damage: (spoilt: Int, resent: Int) { (decoder.damaged, sender.resent) }

    private var isOver: Bool { if case .over = state { true } else { false } }

    // MARK: - Calls by the owner

    mutating func accept(_ protocolName: String) {
        guard case .deciding = state else { return }
        state = .open
        reply(.accept, [String(sender.segmentBytes), protocolName])
    }

    mutating func refuse(status: Int, reason: String) {
        guard case .deciding = state else { return }
        state = .over
        reply(.refuse, ["\(status)", reason])
    }

    private mutating func reply(_ kind: LinkFrame.Kind, _ fields: [String]) {
        let frame = LinkFrame(kind: kind, session: session, window: receiver.window, payload: EndpointOffer.encode(fields))
        answer = frame
        control.append(frame)
    }

    mutating func send(_ message: ByteBuffer) {
        guard case .open = state else { return }
        sender.append(message)
    }

    /// Messages received while reading was off are delivered by calling ``received(_:_:_:)`` with no bytes.
    mutating func setReading(_ enabled: Bool) {
        guard enabled != receiver.isReading else { return }
        receiver.isReading = enabled
        owesAcknowledgement = true
    }

    /// Asks the peer to reduce its window, or to use the full window again.
    mutating func setCrowded(_ isCrowded: Bool) {
        guard isCrowded != receiver.isCrowded else { return }
        receiver.isCrowded = isCrowded
        owesAcknowledgement = true
    }

    /// Ends once everything is acknowledged, at the latest after `close_time`.
    mutating func close(code: UInt16, reason: String, _ now: UInt64) {
        switch state {
        case .open: state = .closing(code: code, reason: reason, until: now &+ limits.closeTime)
        case .closing, .over: return
        case .offering, .listening, .deciding: state = .over
        }
        if sender.isEmpty { sendClose() }
    }

    private mutating func sendClose() {
        guard case .closing(let code, let reason, _) = state else { return }
        control.append(closeFrame(code, reason))
    }

    private func closeFrame(_ code: UInt16, _ reason: String) -> LinkFrame {
        LinkFrame(kind: .close, session: session, payload: EndpointOffer.encode(["\(code)", String(reason.prefix(100))]))
    }

    /// Nothing more will be sent or received: drops the messages, even if somebody still holds the connection.
    mutating func letGo() {
        state = .over
        decoder = LinkDecoder(maximumPayload: 0)
        sender = LinkSender(limits: limits)
        receiver = LinkReceiver(limits: limits)
        (control, answer) = ([], nil)
    }

    // MARK: - Input

    mutating func received(_ bytes: ByteBuffer, _ now: UInt64, _ events: inout [Event]) {
        let damaged = decoder.damaged
        decoder.append(bytes)
        while !isOver, let frame = decoder.next() { take(frame, now, &events) }
        guard !isOver else { return }
        if decoder.damaged > damaged, receiver.asks() { (owesAcknowledgement, asksAgain) = (true, true) }
        deliver(&events)
        if decoder.unsynchronised > limits.unsynchronisedBytes {
            end(
                1002, "\(decoder.unsynchronised) bytes without a frame, unsynchronised_bytes is \(limits.unsynchronisedBytes): "
                    + "is the speed right, and is there a Nightjar on the other side?", byPeer: false, &events)
        }
    }

    private mutating func deliver(_ events: inout [Event]) {
        switch state {
        case .open, .closing: break
        default: return
        }
        let window = receiver.window
        guard let messages = receiver.messages() else {
            return end(1009, "a message is longer than message_bytes (\(limits.messageBytes))", byPeer: false, &events)
        }
        if !messages.isEmpty { events.append(.messages(messages)) }
        if receiver.window > window { owesAcknowledgement = true }
    }

    private mutating func take(_ frame: LinkFrame, _ now: UInt64, _ events: inout [Event]) {
        if case .listening = state, frame.kind == .open { return offered(frame, &events) }
        guard frame.session == session, session != 0 else { return stranger(frame, &events) }
        lastHeard = now
        sender.heard()
        switch (frame.kind, state) {
        case (.open, _): if let answer { control = [answer] }
        case (.accept, .offering): accepted(frame, &events)
        case (.refuse, .offering):
            let fields = EndpointOffer.decode(frame.payload) ?? []
            state = .over
            events.append(.refused(status: fields.first.flatMap { Int($0) } ?? 500, reason: fields.dropFirst().first ?? ""))
        case (.data, .open), (.data, .closing): takeSegment(frame, now)
        case (.acknowledge, .open), (.acknowledge, .closing): acknowledged(frame, now)
        case (.probe, .open), (.probe, .closing):
            acknowledged(frame, now)
            owesAcknowledgement = true
        case (.close, .closing(let code, let reason, _)): end(code, reason, byPeer: false, &events)
        case (.close, _):
            let fields = EndpointOffer.decode(frame.payload) ?? []
            let code = fields.first.flatMap { UInt16($0) } ?? 1006
            // Messages received before it are delivered first.
            deliver(&events)
            guard !isOver else { return }
            control.append(closeFrame(code, ""))
            end(code, fields.dropFirst().first ?? "", byPeer: true, &events)
        case (.reset, _): end(1006, "the peer no longer knows this connection", byPeer: true, &events)
        default: break
        }
    }

    private mutating func offered(_ frame: LinkFrame, _ events: inout [Event]) {
        guard frame.session != 0, let (offer, segmentBytes) = EndpointOffer.read(frame.payload) else { return }
        session = frame.session
        sender.segmentBytes = min(sender.segmentBytes, segmentBytes)
        acknowledgedWindow(frame)
        state = .deciding
        events.append(.offered(offer))
    }

    private mutating func accepted(_ frame: LinkFrame, _ events: inout [Event]) {
        guard let fields = EndpointOffer.decode(frame.payload), fields.count == 2, let segmentBytes = Int(fields[0]), segmentBytes >= 16 else { return }
        sender.segmentBytes = min(sender.segmentBytes, segmentBytes)
        acknowledgedWindow(frame)
        state = .open
        events.append(.opened(protocol: fields[1]))
    }

    private mutating func acknowledgedWindow(_ frame: LinkFrame) {
        sender.acknowledged(0, window: Int(frame.window), asksAgain: false, lastHeard)
    }

    /// A frame of another session. If the peer continues a session that is unknown here, that session ends; an offer has to wait until this
    /// connection is over.
    private mutating func stranger(_ frame: LinkFrame, _ events: inout [Event]) {
        switch (frame.kind, state) {
        case (.data, .listening), (.probe, .listening):
            control = [LinkFrame(kind: .reset, session: frame.session)]
        case (.open, .open), (.open, .closing): end(1006, "the peer began another connection", byPeer: true, &events)
        default: break
        }
    }

    private mutating func takeSegment(_ frame: LinkFrame, _ now: UInt64) {
        acknowledged(frame, now)
        owesAcknowledgement = true
        if receiver.receive(frame) == .missing { asksAgain = true }
    }

    private mutating func acknowledged(_ frame: LinkFrame, _ now: UInt64) {
        sender.acknowledged(
            frame.acknowledged, window: Int(frame.window), asksAgain: frame.kind == .acknowledge && frame.flags & LinkFrame.asksAgain != 0, now)
        if case .closing = state, sender.isEmpty { sendClose() }
    }

    private mutating func end(_ code: UInt16, _ reason: String, byPeer: Bool, _ events: inout [Event]) {
        guard !isOver else { return }
        state = .over
        events.append(.ended(code: code, reason: reason, byPeer: byPeer))
    }

    // MARK: - Output

    /// The next frames for the stream; nil if there are none at the moment.
    mutating func output(_ now: UInt64) -> ByteBuffer? {
        if case .offering(let offer) = state, now >= nextOffer {
            nextOffer = now &+ Self.offerInterval
            control = [
                LinkFrame(kind: .open, session: session, window: receiver.window, payload: offer.payload(segmentBytes: limits.segmentBytes))
            ]
        }
        var buffer = ByteBuffer()
        while !control.isEmpty { control.removeFirst().write(to: &buffer) }
        switch state {
        case .open, .closing: break
        default: return buffer.readableBytes > 0 ? buffer : nil
        }
        if asksAgain { writeAcknowledgement(&buffer) }
        while buffer.readableBytes < Self.burstBytes, let segment = sender.next(now) {
            LinkFrame(
                kind: .data, flags: segment.isLast ? LinkFrame.isLast : 0, session: session, sequence: segment.sequence,
                acknowledged: receiver.expected, window: receiver.window, payload: segment.payload
            ).write(to: &buffer)
            owesAcknowledgement = false
        }
        if owesAcknowledgement { writeAcknowledgement(&buffer) }
        return buffer.readableBytes > 0 ? buffer : nil
    }

    private mutating func writeAcknowledgement(_ buffer: inout ByteBuffer) {
        LinkFrame(
            kind: .acknowledge, flags: asksAgain ? LinkFrame.asksAgain : 0, session: session, acknowledged: receiver.expected, window: receiver.window
        ).write(to: &buffer)
        (owesAcknowledgement, asksAgain) = (false, false)
    }

    // MARK: - Time

    /// When ``elapsed(_:_:)`` has to be called; nil if no timer is running.
    var deadline: UInt64? {
        switch state {
        case .offering: nextOffer
        case .listening, .deciding, .over: nil
        case .open: min(sender.deadline ?? .max, lastHeard &+ silence)
        case .closing(_, _, let until): min(until, sender.deadline ?? .max)
        }
    }

    /// The first probe comes after `silence_time`; further ones follow the sender's timeouts.
    private var silence: UInt64 { limits.silenceTime &+ UInt64(sender.timeouts) &* max(limits.resendTime, 1_000_000_000) }

    mutating func elapsed(_ now: UInt64, _ events: inout [Event]) {
        guard let deadline, now >= deadline else { return }
        if case .closing(let code, let reason, let until) = state, now >= until { return end(code, reason, byPeer: false, &events) }
        if case .offering = state { return }
        if sender.elapsed(now) { control = [probe] }
        if sender.timeouts > limits.resends {
            end(1006, "the peer has not answered \(sender.timeouts) times in a row, resends is \(limits.resends)", byPeer: false, &events)
        }
    }

    private var probe: LinkFrame { LinkFrame(kind: .probe, session: session, acknowledged: receiver.expected, window: receiver.window) }
}

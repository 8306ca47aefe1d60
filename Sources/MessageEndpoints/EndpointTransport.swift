import Environment
import Interfaces
import NIOCore
import Synchronization

/// Connects a ``MessageEndpointConnection`` to a replication session: a ``ReplicatorConnection`` on one side, a transport on the other.
///
/// Sendable although it is mutable: all mutable state is accessed only in `executionContext`.
final class EndpointTransport: MessageTransport, ReplicatorConnection, @unchecked Sendable {
    private enum Phase { case new, opening, open, ending, over }

    let executionContext: any SerialContext
    let peerDescription: String
    private let connection: any MessageEndpointConnection
    private let limits: MessageEndpointLimits
    private let time: any TimeSource
    private let observer: EndpointObserver

    private var phase = Phase.new
    /// Nil for a message stream.
    private var link: ByteStreamLink?
    /// The protocol for message streams, on which nothing is negotiated.
    private let messageProtocol: String
    /// Set once, before the owner learns of the connection.
    private let agreed = Mutex<(subprotocol: Subprotocol?, isByteStream: Bool)>((nil, false))
    private var receiver: (any MessageReceiver)?
    private var inbox: [ByteBuffer] = []
    private var inboxBytes = 0
    private var isReading = true
    private var isDelivering = false
    /// Bytes passed to the connection whose completion has not been called.
    private var outstanding = 0
    private var writable = true
    private var isPumping = false
    private var end: ConnectionEnd?
    private var timer: (any ScheduledJob)?
    private var timerDeadline = UInt64.max
    private var openingTimer: (any ScheduledJob)?
    private let memory: MemoryBudget
    private var share: MemoryBudget.Share?
    private var reportedHeld = (bytes: 0, owedByPeer: 0)

    init(
        _ connection: any MessageEndpointConnection, type: ProtocolType, offer: EndpointOffer?, context: any SerialContext,
        limits: MessageEndpointLimits, environment: Environment, memory: MemoryBudget, observer: EndpointObserver
    ) {
        self.memory = memory
        self.connection = connection
        self.limits = limits
        self.observer = observer
        executionContext = context
        peerDescription = connection.peerDescription
        time = environment.time
        messageProtocol = offer?.protocols.first ?? Subprotocol.generation3.rawValue
        if type == .byteStream {
            var session = UInt32(truncatingIfNeeded: environment.random.next())
            if session == 0 { session = 1 }
            link = ByteStreamLink(limits: limits, offer: offer, session: session, now: time.monotonicNanoseconds())
        }
    }

    private func inContext(_ work: @escaping @Sendable () -> Void) {
        if executionContext.isCurrent { work() } else { executionContext.execute(work) }
    }

    // MARK: - Opening

    /// Opens the connection.
    ///
    /// - Parameter waitsForPeer: ignore `connect_time`: on a permanently open line, no peer may appear for days.
    func open(waitsForPeer: Bool) {
        inContext {
            guard self.phase == .new else { return }
            self.phase = .opening
            self.share = self.memory.register { [weak self] standing in
                guard let self else { return }
                self.executionContext.execute { self.stand(standing) }
            }
            if !waitsForPeer || self.link == nil {
                self.openingTimer = self.executionContext.schedule(afterNanoseconds: self.limits.connectTime) { [weak self] in
                    guard let self, self.phase == .opening else { return }
                    let seconds = self.limits.connectTime / 1_000_000_000
                    self.fail(
                        ReplicationError(network: .timeout, message: "\(self.peerDescription): no connection within \(seconds) s (connect_time)"))
                }
            }
            self.connection.open(self) { success, error in
                self.inContext { self.connectionOpened(success, error) }
            }
        }
    }

    private func connectionOpened(_ success: Bool, _ error: MessagingError?) {
        guard phase == .opening else { return }
        guard success else {
            let error = error ?? MessagingError("\(peerDescription): the connection could not be opened", isRecoverable: true)
            return fail(error.replicationError)
        }
        guard link != nil else { return opened(messageProtocol) }
        pump()
    }

    private func opened(_ name: String) {
        guard phase == .opening else { return }
        phase = .open
        let isByteStream = link != nil
        agreed.withLock { $0 = (Subprotocol(rawValue: name), isByteStream) }
        openingTimer?.cancel()
        observer.opened(.success(name))
    }

    private func fail(_ error: ReplicationError) {
        guard phase == .opening else { return }
        let code: UInt16 = error.isTransient ? 4001 : 4002
        finish(ConnectionEnd(code: code, reason: error.message, initiatedLocally: true), failure: error)
    }

    /// The listener's answer to the offer.
    func answer(_ answer: EndpointAnswer) {
        inContext {
            guard self.phase == .opening else { return }
            switch answer {
            case .accept(let name, _):
                self.link?.accept(name)
                self.opened(name)
                self.pump()
            case .refuse(let status, let reason):
                self.link?.refuse(status: status, reason: reason)
                self.pump()
                self.finish(ConnectionEnd(code: 4002, reason: reason, initiatedLocally: true))
            }
        }
    }

    // MARK: - ReplicatorConnection

    func receive(_ data: ByteBuffer) {
        inContext {
            guard self.phase == .opening || self.phase == .open || self.phase == .ending else { return }
            if self.link != nil { return self.receiveBytes(data) }
            guard data.readableBytes <= self.limits.messageBytes else {
                return self.finish(
                    ConnectionEnd(
                        code: 1009, reason: "a message of \(data.readableBytes) bytes: message_bytes is \(self.limits.messageBytes)", initiatedLocally: true))
            }
            self.arrived([data])
        }
    }

    func close(error: MessagingError?) {
        inContext {
            let code = error?.closeCode ?? 1000
            let reason = error?.description ?? "the connection was closed"
            if self.phase == .opening {
                self.fail((error ?? MessagingError("\(self.peerDescription): closed before it was open", isRecoverable: true)).replicationError)
            } else {
                // Requested by the application, on either side: to the session, the peer is gone.
                self.finish(ConnectionEnd(code: code, reason: reason, initiatedLocally: false), error: error)
            }
        }
    }

    private func receiveBytes(_ data: ByteBuffer) {
        var events: [ByteStreamLink.Event] = []
        link?.received(data, time.monotonicNanoseconds(), &events)
        handle(events)
        settleAccounts()
        pump()
    }

    private func handle(_ events: [ByteStreamLink.Event]) {
        for event in events {
            switch event {
            case .offered(let offer): observer.offered(offer)
            case .opened(let name): opened(name)
            case .refused(let status, let reason):
                fail(ReplicationError(domain: .http, code: status, message: "\(peerDescription): HTTP \(status), \(reason)"))
            case .messages(let messages): arrived(messages)
            case .ended(let code, let reason, let byPeer):
                // An answer to the peer's CLOSE may be pending.
                pump()
                if phase == .opening {
                    fail(ReplicationError(domain: .websocket, code: Int(code), message: "\(peerDescription): \(reason)"))
                } else {
                    finish(ConnectionEnd(code: code, reason: reason, initiatedLocally: !byPeer))
                }
            }
        }
    }

    // MARK: - MessageTransport

    var subprotocol: Subprotocol? { agreed.withLock { $0.subprotocol } }

    /// Only Nightjars frame a byte stream like ``ByteStreamLink`` does.
    var peerHasBothNames: Bool { agreed.withLock { $0.isByteStream && $0.subprotocol == .generation4 } }

    var isWritable: Bool { writable && phase == .open }

    func start(_ receiver: any MessageReceiver) {
        guard self.receiver == nil else { return }
        self.receiver = receiver
        deliver()
    }

    func write(_ messages: [ByteBuffer]) {
        guard phase == .open else { return }
        for message in messages {
            if link != nil { link?.send(message) } else { send(message) }
            guard phase == .open else { return }
        }
        pump()
        let waiting = unsentBytes
        if waiting > limits.writeHighWatermark { writable = false }
        settleAccounts()
        if waiting > limits.outboundBytes {
            finish(
                ConnectionEnd(
                    code: 4001, reason: "\(waiting) bytes wait for a peer that does not read; outbound_bytes is \(limits.outboundBytes)",
                    initiatedLocally: true))
        }
    }

    func setReading(_ enabled: Bool) {
        guard enabled != isReading else { return }
        isReading = enabled
        if link != nil { link?.setReading(enabled) } else { connection.setReading(enabled) }
        settleAccounts()
        guard enabled else { return }
        executionContext.execute {
            self.deliver()
            if self.link != nil, self.phase == .open { self.receiveBytes(ByteBuffer()) }
        }
    }

    func close(code: UInt16, reason: String) {
        inContext {
            switch self.phase {
            case .new, .opening: self.finish(ConnectionEnd(code: code, reason: reason, initiatedLocally: true))
            // Bounded by close_time.
            case .ending, .over: break
            case .open:
                guard self.link != nil else {
                    return self.finish(ConnectionEnd(code: code, reason: reason, initiatedLocally: true))
                }
                self.phase = .ending
                self.link?.close(code: code, reason: reason, self.time.monotonicNanoseconds())
                self.pump()
            }
        }
    }

    func drop() {
        inContext { self.finish(ConnectionEnd(code: 1006, reason: "dropped", initiatedLocally: true)) }
    }

    // MARK: - Memory

    /// Changes smaller than this, in bytes, are not reported.
    private static let notableBytes = 8 << 10

    /// Reports what is held between the stream and the session, and acts on the resulting standing. The peer is charged for incomplete messages, and
    /// for messages that it does not acknowledge.
    private func settleAccounts() {
        guard phase != .over, let share else { return }
        let held = link?.heldBytes ?? 0
        // While reading is off, received messages wait for us.
        let owedByPeer = unsentBytes + (isReading ? held : 0)
        let bytes = held + unsentBytes + inboxBytes
        guard abs(bytes - reportedHeld.bytes) >= Self.notableBytes || abs(owedByPeer - reportedHeld.owedByPeer) >= Self.notableBytes else { return }
        reportedHeld = (bytes, owedByPeer)
        stand(share.hold(bytes, owedByPeer: owedByPeer))
    }

    private func stand(_ standing: MemoryBudget.Standing) {
        guard phase != .over else { return }
        switch standing {
        case .free, .crowded:
            link?.setCrowded(standing == .crowded)
            if phase == .open { pump() }
        case .evicted:
            let reason = "the memory for peers (limits.memory) is used up; come back later"
            if phase == .opening { return fail(ReplicationError(domain: .websocket, code: 1013, message: "\(peerDescription): \(reason)")) }
            finish(ConnectionEnd(code: 1013, reason: reason, initiatedLocally: true))
        }
    }

    // MARK: - Sending

    private var unsentBytes: Int { link.map { $0.waitingBytes + outstanding } ?? outstanding }

    /// Passes data to the stream in small amounts, so that retransmissions do not queue up behind it.
    private func pump() {
        guard !isPumping, phase != .over, link != nil else { return }
        isPumping = true
        let allowance = max(ByteStreamLink.burstBytes, limits.segmentBytes * 4)
        while outstanding < allowance, let bytes = link?.output(time.monotonicNanoseconds()) { send(bytes) }
        isPumping = false
        setTimer()
    }

    private func send(_ bytes: ByteBuffer) {
        let count = bytes.readableBytes
        outstanding += count
        connection.send(bytes) { success, error in self.inContext { self.sent(count, success, error) } }
    }

    private func sent(_ count: Int, _ success: Bool, _ error: MessagingError?) {
        outstanding -= count
        guard phase != .over else { return }
        guard success else {
            let error = error ?? MessagingError("\(peerDescription): sending failed", isRecoverable: true)
            if phase == .opening { return fail(error.replicationError) }
            return finish(ConnectionEnd(code: error.closeCode, reason: error.description, initiatedLocally: false), error: error)
        }
        pump()
        settleAccounts()
        becomeWritable()
    }

    private func becomeWritable() {
        guard !writable, phase == .open, unsentBytes < limits.writeLowWatermark else { return }
        writable = true
        receiver?.writabilityChanged(true)
    }

    private func setTimer() {
        guard phase != .over, let deadline = link?.deadline else { return }
        // A timer that fires too early sets itself again.
        if timer != nil, timerDeadline <= deadline { return }
        timer?.cancel()
        timerDeadline = deadline
        let now = time.monotonicNanoseconds()
        timer = executionContext.schedule(afterNanoseconds: deadline > now ? deadline - now : 0) { [weak self] in
            guard let self else { return }
            self.timer = nil
            var events: [ByteStreamLink.Event] = []
            self.link?.elapsed(self.time.monotonicNanoseconds(), &events)
            self.handle(events)
            self.pump()
        }
    }

    // MARK: - Delivery and end

    private func arrived(_ messages: [ByteBuffer]) {
        inbox += messages
        for message in messages { inboxBytes += message.readableBytes }
        guard inboxBytes <= limits.inboundBytes || (isReading && receiver != nil) else {
            return finish(
                ConnectionEnd(
                    code: 4001, reason: "\(inboxBytes) bytes came unasked, inbound_bytes is \(limits.inboundBytes)", initiatedLocally: true))
        }
        deliver()
        settleAccounts()
        becomeWritable()
    }

    private func deliver() {
        guard let receiver, !isDelivering else { return }
        isDelivering = true
        defer { isDelivering = false }
        while isReading || end != nil, !inbox.isEmpty {
            let messages = inbox
            inbox = []
            inboxBytes = 0
            if end?.initiatedLocally != true { receiver.received(messages) }
        }
        if let end {
            self.receiver = nil
            receiver.closed(end)
        }
    }

    /// Ends the connection, once: first tells the application's connection to close, then the session.
    private func finish(_ end: ConnectionEnd, error: MessagingError? = nil, failure: ReplicationError? = nil) {
        guard phase != .over else { return }
        let wasNew = phase == .new
        let wasOpening = phase == .opening
        phase = .over
        self.end = end
        timer?.cancel()
        openingTimer?.cancel()
        share?.giveUp()
        share = nil
        link?.letGo()
        if !wasNew {
            let fault = failure.map { MessagingError($0.message, isRecoverable: $0.isTransient, cause: $0) } ?? error
            connection.close(error: fault) {}
        }
        if wasNew || wasOpening {
            observer.opened(
                .failure(failure ?? ReplicationError(domain: .websocket, code: Int(end.code), message: "\(peerDescription): \(end.reason)")))
        }
        observer.ended(end)
        // Never from within the caller's own call.
        executionContext.execute { self.deliver() }
    }
}

import Interfaces
import Environment
import NIOCore

/// One end of a connection that exists only in memory: for tests, and for simulations with many replicas in one process.
///
/// Messages keep their order. Messages that the other end has not read count towards the watermarks, so that back-pressure works as on a socket.
///
/// Sendable although mutable: all mutable state is confined to `eventLoop`; the ends communicate by hopping between loops.
public final class InMemoryTransport: MessageTransport, @unchecked Sendable {
    /// Faults to inject on the way from one end to the other.
    public struct Faults: Sendable {
        /// Returns true to drop a message; called with the message's number, from 0.
        public var loses: (@Sendable (_ number: Int) -> Bool)?
        /// Instead of delivering the message with this number, the connection is cut (1006 at both ends).
        public var cutsAt: Int?
        /// Added to every message; the order is kept.
        public var latency: TimeAmount?

        public init(loses: (@Sendable (Int) -> Bool)? = nil, cutsAt: Int? = nil, latency: TimeAmount? = nil) {
            self.loses = loses
            self.cutsAt = cutsAt
            self.latency = latency
        }
    }

    package let eventLoop: any EventLoop
    public let executionContext: any SerialContext
    public let peerDescription: String
    public let subprotocol: Subprotocol?
    public let peerHasBothNames: Bool
    private let limits: TransportLimits
    private let faults: Faults
    // Set once, in `pair`, before either end is returned.
    private var peer: InMemoryTransport?

    private var receiver: (any MessageReceiver)?
    private var inbox: [ByteBuffer] = []
    private var inboxBytes = 0
    private var isReading = true
    private var isDelivering = false
    private var outstanding = 0
    private var writable = true
    private var sent = 0
    private var end: ConnectionEnd?
    private var endIsDelivered = false

    private init(
        eventLoop: any EventLoop, peerDescription: String, faults: Faults, subprotocol: Subprotocol?, peerHasBothNames: Bool, limits: TransportLimits
    ) {
        self.subprotocol = subprotocol
        self.peerHasBothNames = peerHasBothNames
        self.eventLoop = eventLoop
        executionContext = EventLoopContext(eventLoop)
        self.peerDescription = peerDescription
        self.faults = faults
        self.limits = limits
    }

    /// Creates two connected ends.
    ///
    /// - Parameters:
    ///   - firstLoop: the event loop of the first end; both ends may share a loop.
    ///   - faults: on the way from the first end to the second; `returnFaults` for the opposite direction.
    public static func pair(
        _ firstLoop: any EventLoop, _ secondLoop: any EventLoop, faults: Faults = Faults(), returnFaults: Faults = Faults(),
        names: (first: String, second: String) = ("memory-1", "memory-2"), subprotocol: Subprotocol? = nil,
        peerHasBothNames: Bool = true, limits: TransportLimits = TransportLimits()
    ) -> (first: InMemoryTransport, second: InMemoryTransport) {
        let first = InMemoryTransport(eventLoop: firstLoop, peerDescription: names.second, faults: faults, subprotocol: subprotocol, peerHasBothNames: peerHasBothNames,
            limits: limits)
        let second = InMemoryTransport(eventLoop: secondLoop, peerDescription: names.first, faults: returnFaults, subprotocol: subprotocol, peerHasBothNames: peerHasBothNames,
            limits: limits)
        first.peer = second
        second.peer = first
        return (first, second)
    }

    // MARK: MessageTransport

    public var isWritable: Bool {
        eventLoop.preconditionInEventLoop()
        return writable && end == nil
    }

    public var waitingBytes: Int {
        eventLoop.preconditionInEventLoop()
        return outstanding
    }

    public func start(_ receiver: any MessageReceiver) {
        eventLoop.preconditionInEventLoop()
        precondition(self.receiver == nil, "a transport is started once")
        self.receiver = receiver
        deliver()
    }

    public func write(_ messages: [ByteBuffer]) {
        eventLoop.preconditionInEventLoop()
        guard end == nil, let peer else { return }
        var passed: [ByteBuffer] = []
        passed.reserveCapacity(messages.count)
        var isCut = false
        for message in messages {
            defer { sent += 1 }
            if sent == faults.cutsAt {
                isCut = true
                break
            }
            if faults.loses?(sent) == true { continue }
            passed.append(message)
            outstanding += message.readableBytes
        }
        if outstanding > limits.writeHighWatermark { writable = false }
        if !passed.isEmpty {
            let delivered = passed
            deliverLater { peer.arrived(delivered) }
        }
        if isCut {
            let cut = ConnectionEnd(code: CloseFrame.abnormal, reason: "the in-memory connection was cut", initiatedLocally: false)
            deliverLater { peer.ended(cut) }
            ended(cut)
        } else if outstanding > limits.outboundBytes {
            close(code: 4001, reason: "\(outstanding) bytes wait for a peer that does not read; outbound_bytes is \(limits.outboundBytes)")
        }
    }

    public func setReading(_ enabled: Bool) {
        eventLoop.preconditionInEventLoop()
        guard enabled != isReading else { return }
        isReading = enabled
        if enabled { eventLoop.execute { self.deliver() } }
    }

    public func close(code: UInt16, reason: String) {
        onLoop {
            guard self.end == nil, let peer = self.peer else { return }
            self.deliverLater { peer.ended(ConnectionEnd(code: code, reason: reason, initiatedLocally: false)) }
            self.ended(ConnectionEnd(code: code, reason: reason, initiatedLocally: true))
        }
    }

    public func drop() {
        onLoop {
            guard self.end == nil, let peer = self.peer else { return }
            self.deliverLater {
                peer.ended(
                    ConnectionEnd(code: CloseFrame.abnormal, reason: "the connection ended without a CLOSE frame", initiatedLocally: false))
            }
            self.ended(ConnectionEnd(code: CloseFrame.abnormal, reason: "dropped", initiatedLocally: true))
        }
    }

    // MARK: Delivery

    private func onLoop(_ work: @escaping @Sendable () -> Void) {
        if eventLoop.inEventLoop { work() } else { eventLoop.execute(work) }
    }

    /// Runs something at the other end, always in a later tick of its loop, so that no end is called from within its own `write`.
    private func deliverLater(_ work: @escaping @Sendable () -> Void) {
        guard let target = peer?.eventLoop else { return }
        if let latency = faults.latency {
            target.scheduleTask(in: latency, work)
        } else {
            target.execute(work)
        }
    }

    private func arrived(_ messages: [ByteBuffer]) {
        guard end == nil else { return }
        inbox.append(contentsOf: messages)
        for message in messages { inboxBytes += message.readableBytes }
        deliver()
    }

    private func deliver() {
        guard let receiver, !isDelivering else { return }
        isDelivering = true
        defer { isDelivering = false }
        while isReading || end != nil, !inbox.isEmpty {
            var messages: [ByteBuffer] = []
            swap(&messages, &inbox)
            let bytes = inboxBytes
            inboxBytes = 0
            if let peer { peer.eventLoop.execute { peer.taken(bytes) } }
            if end?.initiatedLocally != true { receiver.received(messages) }
        }
        if let end, !endIsDelivered {
            endIsDelivered = true
            self.receiver = nil
            peer = nil
            receiver.closed(end)
        }
    }

    private func taken(_ bytes: Int) {
        outstanding -= bytes
        if !writable, outstanding < limits.writeLowWatermark, end == nil {
            writable = true
            receiver?.writabilityChanged(true)
        }
    }

    private func ended(_ end: ConnectionEnd) {
        guard self.end == nil else { return }
        self.end = end
        if end.initiatedLocally {
            inbox = []
            inboxBytes = 0
        }
        // Never from within the caller's own call.
        eventLoop.execute { self.deliver() }
    }
}

import Environment
import Interfaces
import NIOCore

/// One end of a simulated connection. Messages in one direction keep their order; what the other end has not yet taken counts
/// against the watermarks.
///
/// Unchecked: used only on the simulation's one thread.
package final class SimulatedTransport: MessageTransport, @unchecked Sendable {
    package let context: SimulatedContext
    package let peerDescription: String
    package let machine: Int
    let peerMachine: Int
    /// Whether the connection was opened from this end.
    var isActive = false
    private unowned let network: SimulatedNetwork
    fileprivate(set) var peer: SimulatedTransport?
    package var subprotocol: Subprotocol?
    /// False if one side is to look like a peer that knows only versions.
    package var peerHasBothNames = true

    private var receiver: (any MessageReceiver)?
    private var inbox: [ByteBuffer] = []
    private var isReading = true
    private var isDelivering = false
    private var outstanding = 0
    private var writable = true
    private var lastArrival: UInt64 = 0
    private var end: ConnectionEnd?
    private var endIsDelivered = false
    /// Whether the line is dead here: nothing arrives any more, and nothing that is written leaves.
    private var isSevered = false

    init(_ network: SimulatedNetwork, machine: Int, peer: Int) {
        self.network = network
        self.machine = machine
        peerMachine = peer
        context = SimulatedContext(network.scheduler, machine: machine)
        peerDescription = "machine-\(peer)"
    }

    static func join(_ first: SimulatedTransport, _ second: SimulatedTransport) {
        first.peer = second
        second.peer = first
    }

    package var executionContext: any SerialContext { context }
    package var isOver: Bool { end != nil }
    /// Whether what either end writes arrives at the other.
    var isWhole: Bool { end == nil && !isSevered && peer.map { $0.end == nil && !$0.isSevered } ?? false }

    package var isWritable: Bool {
        context.checkIsolated()
        return writable && end == nil
    }

    package func start(_ receiver: any MessageReceiver) {
        context.checkIsolated()
        self.receiver = receiver
        deliver()
    }

    package func write(_ messages: [ByteBuffer]) {
        context.checkIsolated()
        guard end == nil, let peer else { return }
        for message in messages {
            network.sent(message.readableBytes)
            outstanding += message.readableBytes
            if isSevered { continue }
            lastArrival = max(lastArrival + 1, network.arrival(bytes: message.readableBytes))
            peer.context.at(lastArrival, .network) { peer.arrived(message) }
        }
        if outstanding > network.conditions.highWatermark { writable = false }
    }

    package func setReading(_ enabled: Bool) {
        context.checkIsolated()
        guard enabled != isReading else { return }
        isReading = enabled
        if enabled { context.execute { self.deliver() } }
    }

    package func close(code: UInt16, reason: String) { leave(code: code, reason: reason) }
    package func drop() { leave(code: 1006, reason: "dropped") }

    private func leave(code: UInt16, reason: String) {
        context.execute { [self] in
            guard end == nil else { return }
            if let peer, !isSevered {
                lastArrival = max(lastArrival + 1, network.arrival(bytes: 0))
                peer.context.at(lastArrival, .network) {
                    if !peer.isSevered { peer.ended(ConnectionEnd(code: code, reason: reason, initiatedLocally: false)) }
                }
            }
            ended(ConnectionEnd(code: code, reason: reason, initiatedLocally: true))
        }
    }

    /// The line goes dead here, which is noticed after a time.
    func sever(noticedAfter nanoseconds: UInt64) {
        guard end == nil, !isSevered else { return }
        isSevered = true
        context.at(network.scheduler.now + nanoseconds, .network) { [self] in
            ended(ConnectionEnd(code: 1006, reason: "the simulated line is dead", initiatedLocally: false))
        }
    }

    private func arrived(_ message: ByteBuffer) {
        guard end == nil, !isSevered else { return }
        inbox.append(message)
        deliver()
    }

    private func deliver() {
        guard let receiver, !isDelivering else { return }
        isDelivering = true
        defer { isDelivering = false }
        while isReading || end != nil, !inbox.isEmpty {
            let messages = inbox
            inbox = []
            let bytes = messages.reduce(0) { $0 + $1.readableBytes }
            if let peer { peer.context.at(network.arrival(bytes: 0), .network) { peer.taken(bytes) } }
            if end?.initiatedLocally != true { receiver.received(messages) }
        }
        if let end, !endIsDelivered {
            endIsDelivered = true
            self.receiver = nil
            peer = nil
            network.ended(self)
            receiver.closed(end)
        }
    }

    private func taken(_ bytes: Int) {
        guard !isSevered else { return }
        outstanding -= bytes
        if !writable, outstanding < network.conditions.lowWatermark, end == nil {
            writable = true
            receiver?.writabilityChanged(true)
        }
    }

    private func ended(_ end: ConnectionEnd) {
        guard self.end == nil else { return }
        self.end = end
        if end.initiatedLocally { inbox = [] }
        context.execute { self.deliver() }
    }
}

import Environment
import Interfaces
import NIOCore

/// The lines between simulated machines.
///
/// Unchecked: used by the one thread of a simulation.
package final class SimulatedNetwork: @unchecked Sendable {
    package struct Conditions: Sendable {
        /// Of a message, in nanoseconds.
        package var latency: ClosedRange<UInt64> = 200_000...5_000_000
        /// Nanoseconds that a byte takes; 0 for a line without limit.
        package var nanosecondsPerByte: UInt64 = 0
        /// Bytes on their way above which an end is not writable, and below which it is again.
        package var highWatermark = 64 << 10
        package var lowWatermark = 16 << 10

        package init() {}
    }

    let scheduler: Scheduler
    package var conditions = Conditions()
    /// Messages and bytes of all connections so far.
    package private(set) var messages = 0
    package private(set) var bytes = 0
    /// Connections made so far.
    package private(set) var connections = 0
    /// Takes a connection at a machine; false if nobody listens.
    /// Whether a machine names revisions by versions, to those that do so as well.
    package var speaksVersions: (_ machine: Int) -> Bool = { _ in false }
    package var accept: (_ machine: Int, _ transport: SimulatedTransport) -> Bool = { _, _ in false }
    /// Machines that nobody reaches, and that reach nobody.
    package var unreachable: Set<Int> = []
    private var open: [SimulatedTransport] = []

    package init(_ scheduler: Scheduler) { self.scheduler = scheduler }

    /// When a message that is sent now arrives.
    func arrival(bytes: Int) -> UInt64 {
        let range = conditions.latency
        return scheduler.now + range.lowerBound + scheduler.random.next() % (range.upperBound - range.lowerBound + 1)
            + UInt64(bytes) * conditions.nanosecondsPerByte
    }

    func sent(_ bytes: Int) {
        messages += 1
        self.bytes += bytes
    }

    func ended(_ transport: SimulatedTransport) { open.removeAll { $0 === transport } }

    /// A connection from one machine to another; nil when it cannot be had.
    func connect(_ from: Int, _ to: Int) -> SimulatedTransport? {
        guard !unreachable.contains(from), !unreachable.contains(to) else { return nil }
        let near = SimulatedTransport(self, machine: from, peer: to)
        let far = SimulatedTransport(self, machine: to, peer: from)
        SimulatedTransport.join(near, far)
        near.isActive = true
        if speaksVersions(from), speaksVersions(to) { (near.subprotocol, far.subprotocol) = (.generation4, .generation4) }
        guard accept(to, far) else { return nil }
        connections += 1
        open += [near, far]
        return near
    }

    /// Ends of connections at a machine that are not over there.
    func ends(of machine: Int) -> Int { open.count { $0.machine == machine } }

    /// How many connections between two machines work, made by the first.
    func wholeConnections(_ from: Int, _ to: Int) -> Int { open.count { $0.isActive && $0.machine == from && $0.peerMachine == to && $0.isWhole } }

    /// How many connections are open.
    package var openConnections: Int { open.count / 2 }

    /// Cuts a connection: both ends hear of it soon, or, half-open, one of them only after its time-out.
    package func cut(_ end: SimulatedTransport, isHalfOpen: Bool) {
        let random = scheduler.random
        let peer = end.peer
        end.sever(noticedAfter: 1_000 + random.next() % 1_000_000)
        peer?.sever(noticedAfter: isHalfOpen ? 40_000_000_000 : 1_000 + random.next() % 1_000_000)
    }

    package func cutOne(isHalfOpen: Bool) {
        guard !open.isEmpty else { return }
        cut(open[scheduler.random.below(open.count)], isHalfOpen: isHalfOpen)
    }

    package func cutAll(of machine: Int) {
        for end in open where end.machine == machine { cut(end, isHalfOpen: scheduler.random.chance(0.3)) }
    }
}

/// Opens simulated connections from one machine to another.
package struct SimulatedConnector: TransportConnector {
    let network: SimulatedNetwork
    let time: SimulatedTime
    let from: Int
    let to: Int
    /// False once the process that connects has died.
    let isAlive: @Sendable () -> Bool

    package func connect() async throws -> any MessageTransport {
        try await time.sleep(nanoseconds: network.arrival(bytes: 0) - network.scheduler.now)
        guard isAlive(), let transport = network.connect(from, to) else {
            throw ReplicationError(network: .refused, message: "machine \(to) cannot be reached from machine \(from)")
        }
        return transport
    }
}

import Environment
import Interfaces
import NIOCore

/// The lines between simulated machines.
///
/// Unchecked: used only on the simulation's one thread.
package final class SimulatedNetwork: @unchecked Sendable {
    package struct Conditions: Sendable {
        /// How long a message takes, in nanoseconds.
        package var latency: ClosedRange<UInt64> = 200_000...5_000_000
        /// How long each byte takes in addition; 0 for a line of unlimited speed.
        package var nanosecondsPerByte: UInt64 = 0
        /// An end is not writable once more bytes than the first of these are on their way, until fewer than the second are.
        package var highWatermark = 64 << 10
        package var lowWatermark = 16 << 10

        package init() {}
    }

    let scheduler: Scheduler
    package var conditions = Conditions()
    /// Messages and bytes sent on all connections so far.
    package private(set) var messages = 0
    package private(set) var bytes = 0
    /// Connections made so far.
    package private(set) var connections = 0
    /// Whether a machine names revisions by versions to machines that do so as well.
    package var speaksVersions: (_ machine: Int) -> Bool = { _ in false }
    /// Takes a connection at a machine; false if nobody listens.
    package var accept: (_ machine: Int, _ transport: SimulatedTransport) -> Bool = { _, _ in false }
    /// Machines that nobody can reach, and that can reach nobody.
    package var unreachable: Set<Int> = []
    private var open: [SimulatedTransport] = []

    package init(_ scheduler: Scheduler) { self.scheduler = scheduler }

    /// The time at which a message sent now arrives.
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

    /// Connects one machine to another; nil if that is not possible.
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

    /// How many connections a machine has that have not ended at its side.
    func ends(of machine: Int) -> Int { open.count { $0.machine == machine } }

    /// How many working connections the first machine has made to the second.
    func wholeConnections(_ from: Int, _ to: Int) -> Int { open.count { $0.isActive && $0.machine == from && $0.peerMachine == to && $0.isWhole } }

    /// How many connections are open.
    package var openConnections: Int { open.count / 2 }

    /// Cuts a connection. Both ends notice soon, or one of them only after its timeout if the connection is left half-open.
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

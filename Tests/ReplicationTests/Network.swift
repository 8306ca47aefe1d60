import Documents
import Environment
import DocumentStore
import Interfaces
import NIOCore
import Replication
import Synchronization
import Transport

/// A listener without a socket: its connections are pairs of transports in memory.
final class Hub: TransportConnector, Sendable {
    /// What goes wrong on the n-th connection, from 0: on the way to the hub, and back.
    typealias Faults = @Sendable (_ connection: Int) -> (InMemoryTransport.Faults, InMemoryTransport.Faults)

    private struct State {
        var connections = 0
        var sessions: [ReplicationSession] = []
        var refusal: ReplicationError?
        var refusalsLeft = 0
    }

    private let state = Mutex(State())
    private let configuration: PassiveConfiguration
    private let faults: Faults
    private let peersHaveBothNames: Bool
    private let environment: Environment
    let counters = ReplicationCounters()
    /// Keeps the database open for as long as the hub exists.
    private let owner: TestDatabase?
    /// The activity levels that this hub's sessions report, such as "busy", "idle" and "stopped".
    let activity: AsyncStream<ActivityLevel>
    private let activityContinuation: AsyncStream<ActivityLevel>.Continuation

    init(
        _ configuration: PassiveConfiguration, owner: TestDatabase? = nil, peersHaveBothNames: Bool = true,
        environment: Environment = .system, faults: @escaping Faults = { _ in (.init(), .init()) }
    ) {
        self.peersHaveBothNames = peersHaveBothNames
        self.environment = environment
        self.configuration = configuration
        self.owner = owner
        self.faults = faults
        (activity, activityContinuation) = AsyncStream.makeStream()
    }

    convenience init(_ database: TestDatabase, faults: @escaping Faults = { _ in (.init(), .init()) }) {
        self.init(PassiveConfiguration(listener: "hub", database: database.database), owner: database, faults: faults)
    }

    /// Makes the next attempts fail with this error.
    func refuse(_ count: Int, _ error: ReplicationError) {
        state.withLock {
            $0.refusal = error
            $0.refusalsLeft = count
        }
    }

    var connections: Int { state.withLock { $0.connections } }
    var sessions: [ReplicationSession] { state.withLock { $0.sessions } }

    /// Ends all connections with the code that asks peers to come back later.
    func cut() async {
        for session in sessions { await session.stop(code: 4001) }
    }

    func connect() async throws -> any MessageTransport {
        let (number, refusal) = state.withLock { state -> (Int, ReplicationError?) in
            if state.refusalsLeft > 0 {
                state.refusalsLeft -= 1
                return (0, state.refusal)
            }
            state.connections += 1
            return (state.connections - 1, nil)
        }
        if let refusal { throw refusal }
        let (there, back) = faults(number)
        let (client, server) = InMemoryTransport.pair(
            loops.next(), loops.next(), faults: there, returnFaults: back, subprotocol: configuration.subprotocol == .generation4 ? .generation4 : nil,
            peerHasBothNames: peersHaveBothNames)
        take(server)
        return client
    }

    func take(_ transport: any MessageTransport) {
        let continuation = activityContinuation
        let session = ReplicationSession(
            transport: transport, role: .passive(configuration),
            observer: SessionObserver(activityChanged: { continuation.yield($0) }), counters: counters, environment: environment, logger: quietLogger())
        state.withLock { $0.sessions.append(session) }
        Task { await session.start() }
    }
}

extension ReplicatorConfiguration {
    init(
        _ database: TestDatabase, to target: String = "ws://hub/db", _ type: ReplicatorType = .pushAndPull, continuous: Bool = false,
        _ change: (inout ReplicatorConfiguration) -> Void = { _ in }
    ) {
        self.init(name: "test", database: database.database, target: target, type: type, isContinuous: continuous)
        change(&self)
    }

    /// Changes the settings of the default collection, the only one.
    mutating func only(_ change: (inout CollectionReplication) -> Void) {
        var collection = CollectionReplication(collection: .default)
        change(&collection)
        collections = [collection]
    }
}

extension Replicator {
    init(_ configuration: ReplicatorConfiguration, _ connector: any TransportConnector, environment: Environment = .system) {
        self.init(configuration: configuration, connector: connector, environment: environment, logger: quietLogger())
    }

    /// Runs a one-shot replication to its end.
    @discardableResult
    func run(reset: Bool = false) async -> ReplicatorStatus {
        start(reset: reset)
        return await waitUntilStopped()
    }

    /// Waits for a status; nil if the replicator stops first.
    @discardableResult
    nonisolated func wait(for holds: (ReplicatorStatus) -> Bool) async -> ReplicatorStatus? {
        for await status in statusChanges() {
            if holds(status) { return status }
        }
        return nil
    }
}

/// Runs one replication in memory.
@discardableResult
func replicate(
    _ database: TestDatabase, _ hub: Hub, _ type: ReplicatorType = .pushAndPull, reset: Bool = false,
    _ change: (inout ReplicatorConfiguration) -> Void = { _ in }
) async -> ReplicatorStatus {
    await Replicator(ReplicatorConfiguration(database, type, change), hub).run(reset: reset)
}

/// The system's random numbers, except for single draws, so that no delay is shortened.
struct WithoutJitter: RandomSource {
    func next() -> UInt64 { .max }
    func fill(_ buffer: UnsafeMutableRawBufferPointer) { SystemRandom().fill(buffer) }
}

/// A clock that stands still until somebody sleeps, and then lets that time pass at once.
final class JumpingTime: TimeSource {
    private let state = Mutex((now: UInt64(0), sleeps: [Int]()))
    /// How long each sleep lasted, in seconds.
    var sleeps: [Int] { state.withLock { $0.sleeps } }
    /// Everything else is as on this machine.
    var environment: Environment { Environment(time: self, random: WithoutJitter()) }

    func monotonicNanoseconds() -> UInt64 { state.withLock { $0.now } }
    func wallSeconds() -> Int64 { SystemTime().wallSeconds() }

    func sleep(nanoseconds: UInt64) async throws {
        try Task.checkCancellation()
        state.withLock {
            $0.sleeps.append(Int(nanoseconds / 1_000_000_000))
            $0.now += nanoseconds
        }
        await Task.yield()
    }
}

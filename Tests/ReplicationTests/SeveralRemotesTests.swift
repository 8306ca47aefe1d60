import Interfaces
import Synchronization
import Testing

@testable import Replication

/// A target that connects to several remote databases, one after the other.
@Suite("Several remote databases of one target")
struct SeveralRemotesTests {
    @Test("each remote has its own checkpoint: it gets everything the first time, and only what is new later")
    func checkpoints() async throws {
        let (edge, first, second) = (try TestDatabase("edge"), try TestDatabase("first"), try TestDatabase("second"))
        let group = Group(["hubs first": Hub(first), "hubs second": Hub(second)])
        try await edge.fill(0..<20)
        let replicator = Replicator(ReplicatorConfiguration(edge), group, environment: JumpingTime().environment)
        #expect(replicator.configuration.chosenRemote == nil)
        for (remote, hub) in [("hubs first", first), ("hubs second", second)] {
            group.choose(remote)
            let status = await replicator.run()
            #expect(status.error == nil && status.counts.pushed == 20, "\(status)")
            #expect(try await hub.contents() == edge.contents())
            #expect(replicator.configuration.chosenRemote == remote)
        }
        try await edge.put("new", "{}")
        try await first.put("there", "{}")
        for (remote, pulled) in [("hubs second", 0), ("hubs first", 1)] as [(String, UInt64)] {
            group.choose(remote)
            let status = await replicator.run()
            #expect(status.error == nil && status.counts.pushed == 1 && status.counts.pulled == pulled && status.wentBack == nil, "\(remote): \(status)")
        }
        #expect(try await first.contents() == edge.contents())
    }
}

/// Connects to the chosen remote.
private final class Group: TransportConnector, Sendable {
    private let hubs: [String: Hub]
    private let chosen = Mutex("")

    init(_ hubs: [String: Hub]) { self.hubs = hubs }

    func choose(_ remote: String) { chosen.withLock { $0 = remote } }

    func connect() async throws -> any MessageTransport { try await reach(nil).transport }

    func reach(_ remote: String?) async throws -> ReachedRemote {
        let name = remote ?? chosen.withLock { $0 }
        guard let hub = hubs[name] else { throw ReplicationError(network: .unknownHost, message: "\(name) is not there") }
        return ReachedRemote(transport: try await hub.connect(), remote: name)
    }
}

import DocumentStore
import Replication
import Testing

/// A remote that is not where it was, which an operator hears of.
@Suite(.timeLimit(.minutes(10)))
struct RemoteWentBackTests {
    @Test("a remote that lost our checkpoint is noticed once, and what it lost is pushed again")
    func lost() async throws {
        let (edge, hub, other) = (try TestDatabase("edge"), try TestDatabase("hub"), try TestDatabase("other"))
        try await edge.fill(0..<20)
        #expect(await replicate(edge, Hub(hub)).wentBack == nil, "at first there is nothing to lose")
        #expect(await replicate(edge, Hub(hub)).wentBack == nil)
        let status = await replicate(edge, Hub(other))
        let noticed = try #require(status.wentBack)
        #expect(noticed.message.contains("lost its checkpoint of _default") && noticed.message.contains("everything is compared anew"), "\(noticed)")
        #expect(!noticed.isComparing, "it is in step")
        #expect(try await other.contents() == edge.contents())
        #expect(await replicate(edge, Hub(other)).wentBack == nil, "both have a checkpoint again")
    }

    @Test("a reset asks for it: nobody lost anything")
    func reset() async throws {
        let (edge, hub, other) = (try TestDatabase("edge"), try TestDatabase("hub"), try TestDatabase("other"))
        try await edge.fill(0..<3)
        await replicate(edge, Hub(hub))
        #expect(await replicate(edge, Hub(other), reset: true).wentBack == nil)
    }

    @Test("a remote whose checkpoint went back is noticed, with the sequence from which all is compared")
    func wentBack() async throws {
        let (edge, hub) = (try TestDatabase("edge"), try TestDatabase("hub"))
        try await edge.fill(0..<5)
        await replicate(edge, Hub(hub), .push)
        let (collection, configuration) = (try edge.collection(), ReplicatorConfiguration(edge, .push))
        let id = ReplicationSession.checkpointID(configuration, configuration.collections[0], privateUUID: edge.database.privateUUID)
        try await edge.database.write { _ = try $0.setCheckpoint(id: id, collection: collection, body: CheckpointBody(local: 9).bytes(time: 0)) }
        let status = await replicate(edge, Hub(hub), .push)
        #expect(status.wentBack?.message.contains("went back: everything after sequence 5 here") == true, "\(String(describing: status.wentBack))")
    }

    /// What a connection has not come to is compared by the next one, although both sides have a checkpoint again.
    @Test("all that a remote lost is pushed again, however often the connection breaks meanwhile", arguments: [1, 3, 7])
    func interrupted(_ step: Int) async throws {
        let (edge, hub, other) = (try TestDatabase("edge"), try TestDatabase("hub"), try TestDatabase("other"))
        try await edge.fill(0..<400)
        await replicate(edge, Hub(hub), .push)
        let broken = Hub(other) { number in (.init(cutsAt: 30 + number * step), .init()) }
        let replicator = Replicator(
            ReplicatorConfiguration(edge, .push) {
                $0.retry = .init(maximumAttempts: 1_000)
                $0.limits.rowsPerChangeList = 20
                $0.limits.checkpointIntervalSeconds = 0
            }, broken, environment: JumpingTime().environment)
        let status = await replicator.run()
        #expect(status.error == nil && broken.connections > 3, "\(status)")
        #expect(try await other.contents() == edge.contents())
        #expect(status.wentBack?.isComparing == false)
    }
}

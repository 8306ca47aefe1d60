import Documents
import DocumentStore
import Environment
import Interfaces
import Synchronization
import Testing
import TestSupport
import Transport

@testable import Replication

/// A remote that has gone back to an earlier state, which the operator is told.
@Suite(.timeLimit(.minutes(10)))
struct RemoteWentBackTests {
    @Test("a remote that lost our checkpoint is noticed once, and what it lost is pushed again")
    func lost() async throws {
        let (edge, hub, other) = (try TestDatabase("edge"), try TestDatabase("hub"), try TestDatabase("other"))
        try await edge.fill(0..<20)
        #expect(await replicate(edge, Hub(hub)).wentBack == nil, "on the first run there is nothing to lose")
        #expect(await replicate(edge, Hub(hub)).wentBack == nil)
        let status = await replicate(edge, Hub(other))
        let noticed = try #require(status.wentBack)
        #expect(noticed.message.contains("lost its checkpoint of _default") && noticed.message.contains("everything is compared again"), "\(noticed)")
        #expect(!noticed.isComparing, "it should be in step")
        #expect(try await other.contents() == edge.contents())
        #expect(await replicate(edge, Hub(other)).wentBack == nil, "both should have a checkpoint again")
    }

    /// The remote accepts everything and keeps the checkpoint, and has nothing left on the next connection.
    @Test("if a remote goes back on each connection, the replicator reconnects at growing intervals and counts the occurrences")
    func again() async throws {
        let (edge, hub, time) = (try TestDatabase("edge"), ForgetfulHub(), JumpingTime())
        try await edge.fill(0..<20)
        let replicator = Replicator(
            ReplicatorConfiguration(edge, .push, continuous: true) { $0.limits.checkpointIntervalSeconds = 0 }, hub, environment: time.environment)
        await replicator.start()
        for number in 1...6 {
            try await eventually("everything is pushed to database number \(number)") { hub.connections == number && replicator.status.activity == .idle }
            #expect(replicator.status.wentBack?.times == (number == 1 ? nil : number - 1))
            if number < 6 { await hub.cut() }
        }
        await replicator.stop()
        // The first and the second time, it may just have been the line that broke.
        #expect(time.sleeps == [2, 2, 4, 8, 16])
        let back = try #require(replicator.status.wentBack)
        #expect(back.isRecurring(now: back.time) && !back.isRecurring(now: back.time + RemoteWentBack.againSeconds) && !back.isComparing)
        // The number survives a restart of the agent, but another accident a day later is counted as the first.
        for (age, times) in [(Int64(60), 6), (RemoteWentBack.againSeconds + 60, 1)] {
            var noted = back
            noted.time = SystemTime().wallSeconds() - age
            let next = Replicator(ReplicatorConfiguration(edge, .push), ForgetfulHub())
            next.restore(.init(), lastSuccess: nil, wentBack: noted)
            #expect(await next.run().wentBack?.times == times)
        }
    }

    /// The filter lets it pass on the connection that notices the loss, or on a later one.
    @Test("a document that a filter held back and the remote has since lost is pushed there once the filter lets it pass", arguments: [false, true])
    func heldMeanwhile(_ isLater: Bool) async throws {
        let (edge, hub, other) = (try TestDatabase("edge"), try TestDatabase("hub"), try TestDatabase("other"))
        let filter = TestFilter { document, _ in
            document.id == doc("held") ? .failed(PolicyFailure(plugin: "test-filter", version: "1", kind: "plugin_error", message: "")) : .pass
        }
        try await edge.fill(0..<3)
        _ = try await hub.put("held", #"{"n":1}"#)
        func run(_ database: TestDatabase) async -> ReplicatorStatus {
            await Replicator(ReplicatorConfiguration(edge) { $0.only { $0.pullFilter = filter } }, Hub(database)).run()
        }
        #expect(await run(hub).error == nil)
        #expect(try await edge.get("held") == nil)
        if isLater { #expect(await run(other).wentBack != nil) }
        filter.become("2") { _, _ in .pass }
        #expect((await run(other).wentBack == nil) == isLater)
        #expect(try await edge.body("held") == #"{"n":1}"#)
        // What is taken off the list while a run is ending is left to the next run.
        _ = await run(other)
        #expect(try await other.body("held") == #"{"n":1}"#)
    }

    /// It is not offered there, so nothing is known about it.
    @Test("a document that the push filter keeps back from a remote that has lost it is pushed once the filter lets it pass", arguments: [false, true])
    func keptBackMeanwhile(_ fails: Bool) async throws {
        let (edge, hub, other) = (try TestDatabase("edge"), try TestDatabase("hub"), try TestDatabase("other"))
        let filter = TestFilter { _, _ in .pass }
        func run(_ database: TestDatabase) async -> ReplicatorStatus {
            await Replicator(ReplicatorConfiguration(edge, .push) { $0.only { $0.pushFilter = filter } }, Hub(database)).run()
        }
        try await edge.fill(0..<3)
        try await edge.put("kept", "{}")
        #expect(await run(hub).error == nil)
        filter.become("2") { document, _ in
            let failure = PolicyFailure(plugin: "test-filter", version: "2", kind: "plugin_error", message: "")
            return document.id == doc("kept") ? fails ? .failed(failure) : .reject : .pass
        }
        #expect(await run(other).wentBack != nil)
        #expect(try await other.count() == 3)
        filter.become("3") { _, _ in .pass }
        #expect(await run(other).error == nil)
        #expect(try await other.body("kept") == "{}")
    }

    @Test("a document that a remote without its data refuses is not taken for delivered")
    func refusedAfterwards() async throws {
        let (edge, hub, other) = (try TestDatabase("edge"), try TestDatabase("hub"), try TestDatabase("other"))
        try await edge.fill(0..<3)
        try await edge.put("late", "{}")
        #expect(await replicate(edge, Hub(hub)).error == nil)
        var strict = PassiveConfiguration(listener: "hub", database: other.database)
        strict.pullFilter = TestFilter { document, _ in document.id == doc("late") ? .reject : .pass }
        let replicator = Replicator(ReplicatorConfiguration(edge), Hub(strict))
        #expect(await replicator.run().wentBack != nil)
        #expect(try await replicator.refusedDocuments().map(\.id) == [doc("late")])
        guard case .refused = try await replicator.standing(of: doc("late"), in: .default).push else {
            Issue.record("\(try await replicator.standing(of: doc("late"), in: .default).push)")
            return
        }
        #expect(await replicate(edge, Hub(other)).error == nil)
        #expect(try await other.contents() == edge.contents())
    }

    /// The local edit and the held revision are in conflict, and the resolver decides for the remote's side, which the remote no longer has.
    @Test("the winner of a conflict is pushed to a remote that has lost it, on the connection that notices the loss or on a later one", arguments: [false, true])
    func lostWinner(_ isLater: Bool) async throws {
        let (edge, hub, other) = (try TestDatabase("edge"), try TestDatabase("hub"), try TestDatabase("other"))
        let filter = TestFilter { document, _ in
            text(document.body)?.contains("hub") == true
                ? .failed(PolicyFailure(plugin: "test-filter", version: "1", kind: "plugin_error", message: "")) : .pass
        }
        // Otherwise the remote might have the local edit before the conflict is noticed.
        let own = TestFilter { document, _ in text(document.body)?.contains("edge") == true ? .reject : .pass }
        func run(_ database: TestDatabase) async -> ReplicatorStatus {
            let configuration = ReplicatorConfiguration(edge) {
                $0.only { ($0.pullFilter, $0.pushFilter, $0.resolver) = (filter, own, TestResolver { _ in .remote }) }
            }
            return await Replicator(configuration, Hub(database)).run()
        }
        try await edge.fill(0..<3)
        try await hub.put("both", #"{"by":"hub"}"#)
        #expect(await run(hub).counts.held == 1)
        try await edge.put("both", #"{"by":"edge"}"#)
        if isLater { #expect(await run(other).wentBack != nil) }
        filter.become("2") { _, _ in .pass }
        #expect((await run(other).wentBack == nil) == isLater)
        #expect(try await edge.body("both") == #"{"by":"hub"}"#)
        // What is decided while a run is ending is left to the next run.
        _ = await run(other)
        #expect(try await other.body("both") == #"{"by":"hub"}"#)
    }

    @Test("several collections that are lost at once are one loss, even if the line breaks in the meantime")
    func onceEach() async throws {
        let edge = try TestDatabase("edge")
        let replicator = Replicator(ReplicatorConfiguration(edge, .push), Hub(edge))
        let (first, second) = (CollectionName.default, try CollectionName(parsing: "other"))
        replicator.noteWentBack("lost", first)
        replicator.noteWentBack("lost", second)
        replicator.noteWentBack("lost", first)
        #expect(replicator.status.wentBack?.times == 1)
        // The next connection finds what the first did not get to.
        replicator.noteSaved(first)
        replicator.noteWentBack("lost", second)
        #expect(replicator.status.wentBack?.times == 1)
    }

    @Test("a reset is not a loss: it was asked for")
    func reset() async throws {
        let (edge, hub, other) = (try TestDatabase("edge"), try TestDatabase("hub"), try TestDatabase("other"))
        try await edge.fill(0..<3)
        await replicate(edge, Hub(hub))
        #expect(await replicate(edge, Hub(other), reset: true).wentBack == nil)
    }

    @Test("a remote whose checkpoint went back is noticed, with the sequence from which everything is compared")
    func wentBack() async throws {
        let (edge, hub) = (try TestDatabase("edge"), try TestDatabase("hub"))
        try await edge.fill(0..<5)
        await replicate(edge, Hub(hub), .push)
        let (collection, configuration) = (try edge.collection(), ReplicatorConfiguration(edge, .push))
        let id = configuration.checkpointID(of: configuration.collections[0], privateUUID: edge.database.privateUUID)
        try await edge.database.write { _ = try $0.setCheckpoint(id: id, collection: collection, body: CheckpointBody(local: 9).bytes(time: 0)) }
        let status = await replicate(edge, Hub(hub), .push)
        #expect(status.wentBack?.message.contains("went back: everything after sequence 5 here") == true, "\(String(describing: status.wentBack))")
    }

    /// What a connection does not get to is compared by the next one, although by then both sides have a checkpoint again.
    @Test("everything that a remote lost is pushed again, however often the connection breaks meanwhile", arguments: [1, 3, 7])
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

/// Has a new database for each connection.
private final class ForgetfulHub: TransportConnector, Sendable {
    private let hubs = Mutex<[Hub]>([])

    var connections: Int { hubs.withLock { $0.count } }

    func connect() async throws -> any MessageTransport {
        let hub = Hub(try TestDatabase("hub"))
        hubs.withLock { $0.append(hub) }
        return try await hub.connect()
    }

    func cut() async {
        let last = hubs.withLock { $0.last }
        await last?.cut()
    }
}

import Documents
import DocumentStore
import Interfaces
import NIOCore
import Synchronization
import Testing

@testable import Replication

/// What a peer refuses is on a list that outlives the connection, until the peer accepts it or the document changes.
@Suite(.timeLimit(.minutes(10)))
struct RefusedDocumentTests {
    private func list(_ replicator: Replicator) async throws -> [String] {
        try await replicator.refusedDocuments().map { "\($0.id) \($0.domain)/\($0.code) \($0.reason) \($0.tries)" }
    }

    @Test func documentsSettledByAnotherReplicatorAreNotCounted() async throws {
        let (mine, theirs) = (try TestDatabase("a"), try TestDatabase("b"))
        try await mine.put("x", "{\"n\":1}")
        try await theirs.put("x", "{\"n\":2}")
        let push = Replicator(ReplicatorConfiguration(mine, .push), Hub(theirs))
        #expect(await push.run().error == nil)
        #expect(try await push.refusedCount() == 1)
        #expect(try await list(push).count == 1)
        #expect(await Replicator(ReplicatorConfiguration(mine, .pull), Hub(theirs)).run().error == nil)
        #expect(try await push.refusedCount() == 0)
        #expect(try await list(push).isEmpty)
    }

    @Test func theListOutlivesTheConnectionUntilTheReasonIsGone() async throws {
        let (mine, theirs) = (try TestDatabase("a"), try TestDatabase("b"))
        let bad = try await mine.put("bad", "{\"n\":1}")
        try await mine.put("good", "{}")
        var strict = PassiveConfiguration(listener: "hub", database: theirs.database)
        strict.pullFilter = TestFilter { document, _ in document.id == doc("bad") ? .reject : .pass }
        let first = Replicator(ReplicatorConfiguration(mine, .push), Hub(strict))
        #expect(await first.run().error == nil)
        let refused = try await first.refusedDocuments()
        #expect(refused.map(\.id) == [doc("bad")])
        #expect(refused.first?.revision == bad && refused.first?.domain == "http" && refused.first?.code == 403)
        #expect(refused.first?.reason.isEmpty == false)
        #expect(try await theirs.get("good") != nil)

        // Each run offers it again, and the list says since when it has been refused.
        let second = Replicator(ReplicatorConfiguration(mine, .push), Hub(strict))
        #expect(await second.run().error == nil)
        let again = try await second.refusedDocuments()
        #expect(again.map(\.tries) == [2] && again.first?.since == refused.first?.since)
        #expect(try await second.refusedCount() == 1)

        // The peer's configuration has changed.
        let lenient = Replicator(ReplicatorConfiguration(mine, .push), Hub(theirs))
        #expect(await lenient.run().error == nil)
        #expect(try await theirs.body("bad") == "{\"n\":1}")
        #expect(try await lenient.refusedDocuments().isEmpty)
        #expect(try await lenient.refusedCount() == 0)
    }

    @Test func aChangedDocumentIsOfferedOnTheSameConnection() async throws {
        let (mine, theirs) = (try TestDatabase("a"), try TestDatabase("b"))
        try await mine.put("x", "{\"bad\":true}")
        var configuration = PassiveConfiguration(listener: "hub", database: theirs.database)
        let isOpen = Mutex(false)
        configuration.pullFilter = TestFilter { document, _ in
            String(decoding: document.body, as: UTF8.self).contains("bad") && !isOpen.withLock { $0 } ? .reject : .pass
        }
        let replicator = Replicator(ReplicatorConfiguration(mine, .push, continuous: true), Hub(configuration))
        await replicator.start()
        try await mine.put("y", "{\"bad\":true}")
        while try await replicator.refusedCount() != 2 { await Task.yield() }
        try await mine.put("x", "{}")
        try await theirs.wait { try await $0.get("x") != nil }
        while try await replicator.refusedCount() != 1 { await Task.yield() }
        // An operator who has fixed the other side asks for it.
        isOpen.withLock { $0 = true }
        #expect(await replicator.retryRefused())
        try await theirs.wait { try await $0.get("y") != nil }
        while try await replicator.refusedCount() != 0 { await Task.yield() }
        await replicator.stop()
    }

    @Test func aPeerThatChangesMeanwhileGetsItOnTheSameConnection() async throws {
        let (mine, theirs) = (try TestDatabase("a"), try TestDatabase("b"))
        try await mine.put("x", "{}")
        var configuration = PassiveConfiguration(listener: "hub", database: theirs.database)
        let isOpen = Mutex(false)
        configuration.pullFilter = TestFilter { _, _ in isOpen.withLock { $0 } ? .pass : .reject }
        let replicator = Replicator(
            ReplicatorConfiguration(mine, .push, continuous: true) { $0.limits.refusedRetrySeconds = 1 }, Hub(configuration))
        await replicator.start()
        while try await replicator.refusedCount() != 1 { await Task.yield() }
        isOpen.withLock { $0 = true }
        // Here nobody asks for it.
        try await theirs.wait { try await $0.get("x") != nil }
        while try await replicator.refusedCount() != 0 { await Task.yield() }
        await replicator.stop()
    }

    @Test func aConflictWhoseOtherSideDoesNotArriveIsListed() async throws {
        let (mine, theirs) = (try TestDatabase("a"), try TestDatabase("b"))
        try await mine.put("x", "{\"mine\":1}")
        try await theirs.put("x", "{\"theirs\":1}")
        var configuration = PassiveConfiguration(listener: "hub", database: theirs.database)
        // The peer does not show it to us.
        configuration.pushFilter = TestFilter { _, _ in .reject }
        let replicator = Replicator(ReplicatorConfiguration(mine), Hub(configuration))
        _ = await replicator.run()
        #expect(try await replicator.refusedDocuments().map(\.code) == [409])
    }

    @Test func theListIsBounded() async throws {
        let (mine, theirs) = (try TestDatabase("a"), try TestDatabase("b"))
        try await mine.fill(0..<10)
        var configuration = PassiveConfiguration(listener: "hub", database: theirs.database)
        configuration.pullFilter = TestFilter { _, _ in .reject }
        var limits = ReplicationLimits()
        limits.refusedDocuments = 3  // refused_documents
        let replicator = Replicator(ReplicatorConfiguration(mine, .push) { $0.limits = limits }, Hub(configuration))
        #expect(await replicator.run().error == nil)
        #expect(try await replicator.refusedCount() == 3)
        #expect(replicator.status.counts.failed == 10)
    }
}

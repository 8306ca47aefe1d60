import BLIP
import Documents
import DocumentStore
import Interfaces
import NIOCore
import Replication
import Testing

/// A listener's push filter that fails on a document: what follows the document is sent, and the peer's checkpoint must not pass the document.
@Suite(.timeLimit(.minutes(10)))
struct ListenerFilterTests {
    private func hub(_ database: TestDatabase, _ filter: TestFilter) -> Hub {
        Hub(PassiveConfiguration(listener: "hub", database: database.database, pushFilter: filter))
    }

    private func failing(at id: String) -> TestFilter.Rule {
        { document, _ in
            document.id.text == id
                ? .failed(PolicyFailure(plugin: "test-filter", version: "1", kind: "plugin_error", message: "filter.lua:1: broken")) : .pass
        }
    }

    @Test func whatTheFilterFailedOnIsDeliveredAfterTheFixToAPeerThatReconnects() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        for id in 1...5 { try await b.put("doc-\(id)", "{\"n\":\(id)}") }
        let filter = TestFilter(failing(at: "doc-3"))
        let hub = hub(b, filter)
        let replicator = Replicator(ReplicatorConfiguration(a, .pull), hub)
        var status = await replicator.run()
        #expect(status.error == nil && status.counts.pulled == 4)
        #expect(hub.counters.stalls.map(\.id) == [doc("doc-3")])
        #expect(hub.counters.snapshot.held == 1)
        // It reconnects for nothing, and once more after the fix.
        status = await replicator.run()
        #expect(status.error == nil && status.counts.pulled == 0)
        filter.become("2") { _, _ in .pass }
        status = await replicator.run()
        #expect(status.error == nil && status.counts.pulled == 1)
        #expect(try await a.contents() == b.contents())
    }

    /// Whoever asks for documents by name would take those that are missing for gone. That one of them exists and that the filter failed on it is not told.
    @Test("the end of a backlog of requested documents says that there is a filter, whether that fails or not", arguments: ["doc-2", "none", nil])
    func theEndOfABacklog(_ failing: String?) async throws {
        let database = try TestDatabase("b")
        for id in 1...3 { try await database.put("doc-\(id)", "{}") }
        let configuration = PassiveConfiguration(
            listener: "hub", database: database.database, pushFilter: failing.map { TestFilter(self.failing(at: $0)) })
        let peer = try await Peer(Hub(configuration)) { _ in nil }
        #expect(await peer.begin()?.error == nil)
        #expect(await peer.ask("subChanges", [("collection", "0")], "{\"docIDs\":[\"doc-2\",\"doc-9\"]}")?.error == nil)
        var end: IncomingRequest?
        for await request in peer.requests where request.profile == "changes" && request.body.readableBytes == 2 {
            end = request
            break
        }
        #expect(end?.properties["filtered"] == failing.map { _ in "true" })
    }

    @Test func aContinuousPeerGetsTheRestWithoutANewConnection() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        for id in 1...5 { try await b.put("doc-\(id)", "{\"n\":\(id)}") }
        let filter = TestFilter(failing(at: "doc-2"))
        let hub = hub(b, filter)
        let replicator = Replicator(ReplicatorConfiguration(a, .pull, continuous: true), hub)
        await replicator.start()
        try await a.wait { try await $0.count() == 4 }
        try await b.put("doc-6", "{}")
        try await a.wait { try await $0.count() == 5 }
        #expect(hub.counters.stalls.map(\.id) == [doc("doc-2")])
        filter.become("2") { _, _ in .pass }
        try await a.wait { try await $0.count() == 6 }
        #expect(hub.counters.stalls.isEmpty && hub.connections == 1)
        await replicator.stop()
    }

    /// The filter stays the same, and the document changes.
    @Test func aRepairedDocumentIsDeliveredToo() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        for id in 1...3 { try await b.put("doc-\(id)", "{\"bad\":\(id == 2)}") }
        let filter = TestFilter { document, _ in
            text(document.body)?.contains("true") == true
                ? .failed(PolicyFailure(plugin: "test-filter", version: "1", kind: "plugin_error", message: "filter.lua:1: broken")) : .pass
        }
        let hub = hub(b, filter)
        let replicator = Replicator(ReplicatorConfiguration(a, .pull, continuous: true), hub)
        await replicator.start()
        try await a.wait { try await $0.count() == 2 }
        try await b.put("doc-2", "{\"bad\":false}")
        try await a.wait { try await $0.count() == 3 }
        await replicator.stop()
        #expect(try await a.contents() == b.contents())
    }
}

/// A listener's push filter that is replaced: peers get what only the old one kept from them.
@Suite(.timeLimit(.minutes(10)))
struct ChangedListenerFilterTests {
    private let configuration: PassiveConfiguration
    private let (a, b): (TestDatabase, TestDatabase)
    private let filter = TestFilter { document, _ in text(document.body)?.contains("9") == true ? .reject : .pass }
    private let hub: Hub

    init() throws {
        (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        configuration = PassiveConfiguration(listener: "hub", database: b.database, pushFilter: filter)
        hub = Hub(configuration)
    }

    private func fill() async throws {
        for (id, level) in [("low", 1), ("high", 9), ("low2", 2)] { try await b.put(id, "{\"level\":\(level)}") }
    }

    private func pull(_ replicator: Replicator, _ count: UInt64, _ comment: Comment) async {
        let status = await replicator.run()
        #expect(status.error == nil && status.counts.pulled == count, comment)
    }

    @Test func aPeerThatReconnectsGetsWhatAnotherVersionKeptFromIt() async throws {
        try await fill()
        let replicator = Replicator(ReplicatorConfiguration(a, .pull), hub)
        await pull(replicator, 2, "the old version")
        // With the same version there is nothing new to tell.
        #expect(try await configuration.kept.review(filter, in: b.database, isStart: true) == 0)
        await pull(replicator, 0, "as before")
        filter.become("2") { _, _ in .pass }
        #expect(try await configuration.kept.review(filter, in: b.database) == 1)
        await pull(replicator, 1, "the new version")
        #expect(try await configuration.kept.review(filter, in: b.database) == 0)
        #expect(try await a.contents() == b.contents())
    }

    @Test func aVersionThatDecidesTheSameBringsNothing() async throws {
        try await fill()
        let replicator = Replicator(ReplicatorConfiguration(a, .pull), hub)
        await pull(replicator, 2, "the old version")
        filter.become("2") { document, _ in text(document.body)?.contains("9") == true ? .reject : .pass }
        #expect(try await configuration.kept.review(filter, in: b.database) == 1)
        await pull(replicator, 0, "the new version")
        // The list is kept for the version after that.
        filter.become("3") { _, _ in .pass }
        #expect(try await configuration.kept.review(filter, in: b.database) == 1)
        await pull(replicator, 1, "the third version")
    }

    @Test func aContinuousPeerGetsItAtOnce() async throws {
        try await fill()
        let replicator = Replicator(ReplicatorConfiguration(a, .pull, continuous: true), hub)
        await replicator.start()
        try await a.wait { try await $0.count() == 2 }
        // The filter is taken out of the configuration.
        filter.become("2") { _, _ in .pass }
        try await configuration.kept.review(nil, in: b.database)
        try await a.wait { try await $0.count() == 3 }
        #expect(hub.connections == 1)
        await replicator.stop()
    }

    /// A peer that connects between the change of version and the review of the list, and from which the new version keeps documents too, must not hide the others.
    @Test func anotherPeerInBetweenCostsTheFirstNothing() async throws {
        try await fill()
        let replicator = Replicator(ReplicatorConfiguration(a, .pull), hub)
        await pull(replicator, 2, "the old version")
        filter.become("2") { document, _ in document.id.text == "high" ? .reject : .pass }
        let c = try TestDatabase("c")
        await pull(Replicator(ReplicatorConfiguration(c, .pull), hub), 2, "the other peer")
        filter.become("2") { _, _ in .pass }
        try await configuration.kept.review(filter, in: b.database)
        await pull(replicator, 1, "the first peer")
    }

    @Test func peersOfARemovedListenerGetItFromAnotherOne() async throws {
        try await fill()
        let replicator = Replicator(ReplicatorConfiguration(a, .pull), hub)
        await pull(replicator, 2, "the listener that is removed")
        #expect(try await KeptFromPeers.releaseRest(in: b.database, servedBy: ["hub", "other"]) == 0)
        #expect(try await KeptFromPeers.releaseRest(in: b.database, servedBy: ["other"]) == 1)
        let other = Hub(PassiveConfiguration(listener: "other", database: b.database))
        await pull(Replicator(ReplicatorConfiguration(a, .pull), other), 1, "the other listener")
    }
}

/// One document that changes faster than the network can carry it.
@Suite(.timeLimit(.minutes(10)))
struct RapidSaveTests {
    @Test func threeHundredSavesEndWithTheLastOne() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        let hub = Hub(b) { _ in (.init(latency: .milliseconds(3)), .init(latency: .milliseconds(3))) }
        let replicator = Replicator(ReplicatorConfiguration(a, .pushAndPull, continuous: true), hub)
        let events = replicator.documentEvents()
        let errors = Task {
            var errors: [String] = []
            for await batch in events { errors += batch.compactMap { $0.error.map { "\($0)" } } }
            return errors
        }
        await replicator.start()
        for n in 1...300 { try await a.put("meter", "{\"n\":\(n)}") }
        try await b.wait { try await $0.body("meter") == "{\"n\":300}" }
        await replicator.wait { $0.activity == .idle && $0.counts.completed == $0.counts.total }
        errors.cancel()
        let seen = await errors.value
        #expect(seen == [], "\(seen)")
        #expect(try await replicator.pendingDocumentIDs().isEmpty)
        await replicator.stop()
        #expect(try await a.contents() == b.contents())
    }
}

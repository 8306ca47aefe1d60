import BLIP
import Documents
import DocumentStore
import Interfaces
import NIOCore
import Replication
import Testing

/// A push filter that is replaced between the offer of a document and the peer's answer: whatever is sent has passed the filter in force.
@Suite(.timeLimit(.minutes(5)))
struct ReplacedFilterTests {
    private let database: TestDatabase
    private let filter = TestFilter { _, _ in .pass }

    init() async throws {
        database = try TestDatabase()
        try await database.put("a", "{\"n\":1}")
        try await database.put("b", "{\"n\":2}")
    }

    private static func changesA(_ verdict: FilterVerdict) -> TestFilter.Rule { { document, _ in document.id.text == "a" ? verdict : .pass } }

    /// The other side, which does not answer lists until it is told to.
    private struct Waiting {
        let peer: Peer
        private var requests: AsyncStream<IncomingRequest>.Iterator
        /// Lists that arrived between revisions.
        private var lists: [UInt64] = []

        init(_ peer: Peer) {
            self.peer = peer
            requests = peer.requests.makeAsyncIterator()
        }

        /// Makes it a peer that pulls.
        init(_ hub: Hub) async throws {
            self.init(try await Peer(hub) { request in request.profile == "changes" ? nil : OutgoingReply() })
            await peer.begin()
            #expect(await peer.ask("subChanges", [("collection", "0"), ("continuous", "true")])?.error == nil)
        }

        /// The message number of the next list that expects an answer.
        mutating func list() async -> UInt64? {
            if !lists.isEmpty { return lists.removeFirst() }
            while let request = await requests.next() {
                if isList(request) { return request.number }
            }
            return nil
        }

        /// Waits for this many messages that bring a revision or a `norev` in its place.
        mutating func revisions(_ count: Int) async -> [IncomingRequest] {
            var found: [IncomingRequest] = []
            while found.count < count, let request = await requests.next() {
                if request.profile == "rev" || request.profile == "norev" { found.append(request) }
                if isList(request) { lists.append(request.number) }
            }
            return found
        }

        private func isList(_ request: IncomingRequest) -> Bool {
            (request.profile == "changes" || request.profile == "proposeChanges") && !request.isNoReply
        }
    }

    // MARK: - A listener's

    @Test(arguments: [false, true]) func aPeerThatTakesItsTimeBeforeItAsksForThem(_ fails: Bool) async throws {
        let configuration = PassiveConfiguration(listener: "hub", database: database.database, pushFilter: filter)
        let hub = Hub(configuration, owner: database)
        var waiting = try await Waiting(hub)
        let list = try #require(await waiting.list())
        filter.become("2", Self.changesA(fails ? filter.failure() : .reject))
        waiting.peer.reply(to: list, OutgoingReply(json: "[[],[]]"))
        let told = await waiting.revisions(2)
        #expect(told.map(\.profile) == ["norev", "rev"] && told.map { $0.properties["id"] } == ["a", "b"])
        #expect(told.first?.properties["error"] == "403" && told.first.map { String(buffer: $0.body) } == "")
        #expect(configuration.kept.heldDocuments.map { $0.stall.id } == (fails ? [doc("a")] : []))
        // It is not lost: the next version decides about it again.
        filter.become("3") { _, _ in .pass }
        if !fails { #expect(try await configuration.kept.review(filter, in: database.database) == 1) }
        waiting.peer.reply(to: try #require(await waiting.list()), OutgoingReply(json: "[[]]"))
        let later = await waiting.revisions(1)
        #expect(later.map(\.profile) == ["rev"] && later.first?.properties["id"] == "a")
        #expect(await waiting.peer.isAlive())
        #expect(hub.counters.snapshot.completed == hub.counters.snapshot.total && hub.counters.snapshot.pushed == 2)
    }

    /// The filter in force is asked about the document, and not about the body that the former filter replaced it with.
    @Test func theFilterInForceIsAskedAboutTheOriginalDocument() async throws {
        filter.become("1", Self.changesA(.replace(Array("{\"changed\":true}".utf8))))
        var waiting = try await Waiting(Hub(PassiveConfiguration(listener: "hub", database: database.database, pushFilter: filter), owner: database))
        let list = try #require(await waiting.list())
        filter.become("2") { _, _ in .pass }
        waiting.peer.reply(to: list, OutgoingReply(json: "[[],[]]"))
        let told = await waiting.revisions(2)
        #expect(told.map { String(buffer: $0.body) } == ["{\"n\":1}", "{\"n\":2}"])
    }

    /// The newer revision is offered when its turn comes.
    @Test func aDocumentThatChangedMeanwhileIsSentAsItIs() async throws {
        let hub = Hub(PassiveConfiguration(listener: "hub", database: database.database, pushFilter: filter), owner: database)
        var waiting = try await Waiting(hub)
        let list = try #require(await waiting.list())
        try await database.put("a", "{\"n\":3}")
        filter.become("2") { _, _ in .pass }
        waiting.peer.reply(to: list, OutgoingReply(json: "[[],[]]"))
        let told = await waiting.revisions(2)
        #expect(told.map(\.profile) == ["norev", "rev"] && told.last?.properties["id"] == "b")
        waiting.peer.reply(to: try #require(await waiting.list()), OutgoingReply(json: "[[]]"))
        let later = await waiting.revisions(1)
        #expect(later.map(\.profile) == ["rev"] && later.first.map { String(buffer: $0.body) } == "{\"n\":3}")
    }

    // MARK: - A replicator's

    @Test func aListenerThatTakesItsTimeBeforeItAsksForThem() async throws {
        let listener = FakeListener { request in
            switch request.profile {
            case "getCollections": OutgoingReply(json: "[{}]")
            case "proposeChanges": nil
            default: OutgoingReply()
            }
        }
        let filter = self.filter
        let replicator = Replicator(
            ReplicatorConfiguration(database, .push, continuous: true) { $0.only { $0.pushFilter = filter } }, listener)
        await replicator.start()
        var peers = listener.peers.makeAsyncIterator()
        var waiting = Waiting(try #require(await peers.next()))
        let list = try #require(await waiting.list())
        filter.become("2", Self.changesA(.reject))
        waiting.peer.reply(to: list, OutgoingReply(json: "[]"))
        #expect(await waiting.revisions(1).first?.properties["id"] == "b")
        await replicator.wait { $0.activity == .idle && $0.counts.rejected == 1 }
        let collection = try database.collection()
        let kept = try await database.database.read { try $0.exclusions(collection, direction: .push, limit: 10) }
        #expect(kept.map(\.id) == [doc("a")] && kept.first?.kind == .rejected && kept.first?.version == "2")
        #expect(replicator.status.counts.pushed == 1)
        filter.become("3") { _, _ in .pass }
        waiting.peer.reply(to: try #require(await waiting.list()), OutgoingReply(json: "[]"))
        #expect(await waiting.revisions(1).first?.properties["id"] == "a")
        await replicator.stop()
    }
}

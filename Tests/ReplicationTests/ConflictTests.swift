import Documents
import DocumentStore
import Interfaces
import Replication
import TestRandomness
import Testing
import TestSupport

/// Two edits of one document, made without knowledge of each other.
@Suite(.timeLimit(.minutes(10)))
struct ConflictTests {
    /// Both have the document, and both have edited it.
    private func diverged(_ hub: Hub, _ a: TestDatabase, _ b: TestDatabase, local: String = "{\"at\":\"a\"}", remote: String = "{\"at\":\"b\"}") async throws {
        try await a.put("x", "{\"base\":true}")
        await replicate(a, hub)
        try await a.put("x", local)
        try await b.put("x", remote)
    }

    @Test func theDefaultRuleMakesBothSidesEqual() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        let hub = Hub(b)
        try await diverged(hub, a, b)
        let winner = try #require([try await a.get("x"), try await b.get("x")].compactMap { $0 }.max { $0.revision < $1.revision })
        let status = await replicate(a, hub)
        #expect(status.error == nil && status.counts.resolved == 1)
        #expect(try await a.contents() == b.contents())
        #expect(try await a.body("x") == text(winner.body))
        #expect(try await a.database.statistics().first?.conflictsPending == 0)
    }

    @Test func theHigherGenerationWins() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        let hub = Hub(b)
        try await diverged(hub, a, b)
        try await a.put("x", "{\"at\":\"a again\"}")
        await replicate(a, hub)
        #expect(try await b.body("x") == "{\"at\":\"a again\"}")
        #expect(try await a.contents() == b.contents())
    }

    @Test(arguments: [true, false])
    func aDeletionWins(_ localDeletes: Bool) async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        let hub = Hub(b)
        try await a.put("x", "{}")
        await replicate(a, hub)
        let (deleting, editing) = localDeletes ? (a, b) : (b, a)
        try await deleting.put("x", "{}", deleted: true)
        try await editing.put("x", "{\"edited\":1}")
        try await editing.put("x", "{\"edited\":2}")
        await replicate(a, hub)
        #expect(try await a.get("x")?.isDeleted == true)
        #expect(try await b.get("x")?.isDeleted == true)
        #expect(try await a.contents() == b.contents())
    }

    @Test func twoFirstRevisionsAreAConflictToo() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        try await a.put("x", "{\"at\":\"a\"}")
        try await b.put("x", "{\"at\":\"b\"}")
        let status = await replicate(a, Hub(b))
        #expect(status.error == nil && status.counts.resolved == 1)
        #expect(try await a.contents() == b.contents())
    }

    @Test func theSameEditOnBothSidesIsNoConflict() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        try await a.put("x", "{\"same\":1}")
        try await b.put("x", "{ \"same\": 1 }")
        let status = await replicate(a, Hub(b))
        #expect(status.error == nil && status.counts.resolved == 0)
    }

    /// The pull is past what the peer holds, and here it is gone, so that it has to be requested by name.
    @Test(arguments: [true, false])
    func aDocumentPurgedAndRewrittenConflictsWithThePeersAgain(_ isContinuous: Bool) async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        let hub = Hub(b)
        try await a.put("x", "{\"base\":true}")
        try await a.put("y", "{}")
        await replicate(a, hub)
        let collection = try #require(a.database.collection(.default))
        try await a.database.write { _ = try $0.purge(collection, DocumentID(stored: "x")) }
        try await a.put("x", "{\"again\":true}")
        if isContinuous {
            let replicator = Replicator(ReplicatorConfiguration(a, continuous: true), hub)
            await replicator.start()
            try await eventually("both have the same content") { try await a.contents() == b.contents() }
            try await eventually("the decision is counted") { replicator.status.counts.resolved == 1 }
            await replicator.stop()
        } else {
            let status = await replicate(a, hub)
            #expect(status.error == nil && status.counts.resolved == 1)
        }
        #expect(try await a.contents() == b.contents())
        #expect(try await a.database.statistics().first?.conflictsPending == 0)
    }

    @Test(arguments: [
        (ConflictDecision.local, "{\"at\":\"a\"}"), (.remote, "{\"at\":\"b\"}"), (.merged(Array("{\"merged\":true}".utf8)), "{\"merged\":true}"),
        (.delete, nil),
    ] as [(ConflictDecision, String?)])
    func theResolverDecides(_ decision: ConflictDecision, _ body: String?) async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        let hub = Hub(b)
        try await diverged(hub, a, b)
        let resolver = TestResolver { conflict in
            #expect(text(conflict.local?.body) == "{\"at\":\"a\"}" && text(conflict.remote?.body) == "{\"at\":\"b\"}")
            #expect(text(conflict.base?.body) == "{\"base\":true}")
            return decision
        }
        // A one-shot run pushes the decision before it ends.
        let status = await replicate(a, hub) { $0.only { $0.resolver = resolver } }
        #expect(status.error == nil && status.counts.resolved == 1)
        for database in [a, b] {
            #expect(try await database.body("x") == body)
            #expect(try await database.get("x")?.isDeleted == (body == nil))
        }
        #expect(try await a.contents() == b.contents())
    }

    @Test func aFailingResolverLeavesTheLocalDocumentAndIsAskedAgainWhenRepaired() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        let hub = Hub(b)
        try await diverged(hub, a, b)
        let local = try await a.get("x")
        let resolver = TestResolver { _ in
            .failed(PolicyFailure(plugin: "merge", version: "1", kind: "plugin_error", message: "merge.lua:3: attempt to index nil"))
        }
        let replicator = Replicator(ReplicatorConfiguration(a, continuous: true) { $0.only { $0.resolver = resolver } }, hub)
        let events = replicator.documentEvents()
        await replicator.start()
        for await batch in events {
            guard let event = batch.first(where: { $0.error != nil }) else { continue }
            #expect(event.id.text == "x" && event.error?.domain == .plugin && event.error?.message.contains("merge.lua:3") == true)
            break
        }
        await replicator.wait { $0.activity == .idle }
        #expect(try await a.get("x")?.revision == local?.revision)
        #expect(try await a.body("x") == "{\"at\":\"a\"}")
        #expect(try await b.body("x") == "{\"at\":\"b\"}")
        let collection = try a.collection()
        let pending = try await a.database.read { try $0.pendingConflicts(collection, limit: 10) }
        #expect(pending.count == 1 && pending.first?.plugin == "merge" && pending.first?.error.contains("attempt to index nil") == true)

        // Other documents are replicated meanwhile.
        try await a.put("y", "{}")
        try await b.wait { try await $0.get("y") != nil }

        resolver.become("2") { _ in .merged(Array("{\"at\":\"both\"}".utf8)) }
        try await b.wait { try await $0.body("x") == "{\"at\":\"both\"}" }
        #expect(try await a.body("x") == "{\"at\":\"both\"}")
        #expect(try await a.database.statistics().first?.conflictsPending == 0)
        await replicator.stop()
    }

    @Test func anAnswerThatCannotBeStoredIsAFailure() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        let hub = Hub(b)
        try await diverged(hub, a, b)
        let status = await replicate(a, hub) { $0.only { $0.resolver = TestResolver { _ in .merged(Array("[1,2]".utf8)) } } }
        #expect(status.error == nil && status.counts.resolved == 0)
        #expect(try await a.body("x") == "{\"at\":\"a\"}")
        #expect(try await a.database.statistics().first?.conflictsPending == 1)
    }

    @Test func anEditDuringTheDecisionIsNotLost() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        let hub = Hub(b)
        try await diverged(hub, a, b)
        let collection = try a.collection()
        let database = a.database
        let resolver = EditingResolver(database, collection)
        let status = await replicate(a, hub) { $0.only { $0.resolver = resolver } }
        #expect(status.error == nil && status.counts.resolved == 1)
        #expect(try await a.body("x") == "{\"merged\":\"edited meanwhile\"}")
        #expect(try await a.contents() == b.contents())
    }

    @Test func manyConflictsAtOnce() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        let hub = Hub(b)
        try await a.fill(0..<500)
        await replicate(a, hub)
        for index in 0..<500 {
            try await a.put("doc-\(index)", "{\"at\":\"a\",\"n\":\(index)}")
            try await b.put("doc-\(index)", "{\"at\":\"b\",\"n\":\(index)}")
        }
        let resolver = TestResolver { conflict in .merged(Array("{\"merged\":\"\(conflict.id)\"}".utf8)) }
        let status = await replicate(a, hub) { $0.only { $0.resolver = resolver } }
        #expect(status.error == nil && status.counts.resolved == 500)
        #expect(try await b.body("doc-77") == "{\"merged\":\"doc-77\"}")
        #expect(try await a.contents() == b.contents())
    }

    /// A replicator that only pushes cannot see the other revision: this one document fails.
    @Test func aPushOnlyReplicatorReportsTheConflict() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        let hub = Hub(b)
        try await diverged(hub, a, b)
        try await a.put("other", "{}")
        let status = await replicate(a, hub, .push)
        #expect(status.error == nil && status.counts.pushed == 1 && status.counts.failed == 1)
        #expect(try await b.body("x") == "{\"at\":\"b\"}")
    }

    /// Several peers edit the same few documents for a while: nothing is lost, and all end up equal.
    @Test(arguments: [UInt64(11), 12, 13])
    func randomEditsConverge(_ seed: UInt64) async throws {
        var random = SeededGenerator(seed: seed)
        let b = try TestDatabase("hub")
        let hub = Hub(b)
        let peers = [try TestDatabase("p"), try TestDatabase("p"), try TestDatabase("p")]
        let all = peers + [b]
        for step in 0..<120 {
            let place = all[Int.random(in: 0..<all.count, using: &random)]
            let id = "doc-\(Int.random(in: 0..<6, using: &random))"
            let deletes = Int.random(in: 0..<6, using: &random) == 0
            if let now = try await place.get(id), now.isDeleted, deletes { continue }
            try await place.put(id, "{\"step\":\(step)}", deleted: deletes)
            if Int.random(in: 0..<3, using: &random) == 0 {
                let status = await replicate(peers[Int.random(in: 0..<3, using: &random)], hub)
                #expect(status.error == nil, "seed \(seed)")
            }
        }
        for _ in 0..<3 { for peer in peers { await replicate(peer, hub) } }
        for peer in peers { #expect(try await peer.contents() == b.contents(), "seed \(seed)") }
        for database in all { #expect(try await database.database.statistics().first?.conflictsPending == 0, "seed \(seed)") }
    }
}

/// Edits the document while deciding about it, the first time it is asked.
private final class EditingResolver: ConflictResolver, Sendable {
    let pluginName = "editing"
    let version = "1"
    private let database: Database
    private let collection: Collection

    init(_ database: Database, _ collection: Collection) {
        self.database = database
        self.collection = collection
    }

    func resolve(_ conflict: PolicyConflict, _ context: PolicyContext) async -> ConflictDecision {
        if text(conflict.local?.body) == "{\"at\":\"a\"}" {
            let (collection, revision) = (collection, conflict.localRevision)
            _ = try? await database.write {
                try $0.save(collection, id: doc("x"), body: Array("{\"at\":\"edited meanwhile\"}".utf8), deleted: false, parent: revision)
            }
        }
        guard let local = text(conflict.local?.body) else { return .remote }
        return .merged(Array("{\"merged\":\(local.dropFirst("{\"at\":".count))".utf8))
    }

    func versionChanges() -> AsyncStream<String> { AsyncStream { $0.finish() } }
}

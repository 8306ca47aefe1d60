import Documents
import DocumentStore
import Interfaces
import Synchronization
import TestSupport
import Testing
@testable import Replication

/// Documents on which a listener's push filter failed, for peers whose feeds leave them out.
@Suite(.timeLimit(.minutes(10)))
struct PushFilterRetryTests {
    @Test("a document on which the filter failed is announced again once the filter, which stays the same, can decide about it")
    func retry() async throws {
        let database = try TestDatabase("hub")
        try await database.put("doc", "{}")
        let collection = try database.collection()
        let works = Mutex(false)
        let filter = TestFilter { _, _ in
            works.withLock { $0 } ? .pass : .failed(PolicyFailure(plugin: "test-filter", version: "1", kind: "plugin_timeout", message: "it ran too long"))
        }
        let kept = KeptFromPeers(listener: "door")
        @Sendable func newest() async throws -> SequenceNumber { try await database.database.read { try $0.lastSequence(collection) } }
        func fail() async throws {
            let row = try #require(try await database.database.read { try $0.row(collection, doc("doc")) })
            let document = PolicyDocument(id: doc("doc"), revision: row.revision, isDeleted: false, body: Array("{}".utf8))
            let context = PolicyContext(database: "hub", collection: .default, direction: .push, listener: "door", remote: "peer")
            _ = try await kept.verdicts(of: [document], filter, context, database.database, collection, listsFailures: true)
            #expect(kept.heldDocuments.count == 1)
        }
        try await fail()
        let review = PushFilterReview(
            kept, database: database.database, filterOf: { _ in filter }, servedBy: { ["door"] }, environment: JumpingTime().environment, logger: quietLogger())
        // The start announces it without asking the filter.
        await review.start()
        try await eventually("the first review is over") { kept.heldDocuments.isEmpty }
        let before = try await newest()
        try await fail()
        let asked = filter.questions.count
        try await eventually("it is tried again") { filter.questions.count > asked + 2 }
        #expect(try await newest() == before && kept.heldDocuments.count == 1)
        works.withLock { $0 = true }
        try await eventually("it is announced again") { try await newest() > before }
        try await eventually("it is no longer held") { kept.heldDocuments.isEmpty }
        await review.stop()
    }
}

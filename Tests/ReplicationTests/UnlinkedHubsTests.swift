import DocumentStore
import Documents
import Replication
import Testing
import TestSupport

/// A replica between two hubs that do not replicate with each other. Each result is below the revision of one of them, and the other refuses it.
@Suite(.timeLimit(.minutes(10)))
struct UnlinkedHubsTests {
    @Test func aDocumentThatBothEditedIsPausedWithTheReasonAndHasOneContentEverywhere() async throws {
        let (edge, first, second) = (try TestDatabase("edge"), try TestDatabase("first"), try TestDatabase("second"))
        try await first.put("x", #"{"at":"first"}"#)
        try await second.put("x", #"{"at":"second"}"#)
        let replicators = [("ws://first/db", first), ("ws://second/db", second)].map { target, hub in
            Replicator(ReplicatorConfiguration(edge, to: target, continuous: true), Hub(hub))
        }
        for replicator in replicators { await replicator.start() }
        let collection = try edge.collection()
        try await eventually("the decision is paused") {
            try await edge.database.read { try $0.pendingConflict(collection, doc("x"))?.error.contains("undone again and again") } == true
        }
        // Work is owed, and nobody is asked to mend a resolver.
        #expect(replicators.contains { $0.status.activity == .busy })
        #expect(try await edge.database.read { try $0.pendingConflict(collection, doc("x"))?.plugin } == "")
        let bodies = [try await edge.body("x"), try await first.body("x"), try await second.body("x")]
        #expect(Set(bodies).count == 1, "\(bodies)")
        let generation = try await edge.get("x")?.revision.generation ?? 0
        #expect((2...200).contains(generation), "\(generation)")
        for replicator in replicators { await replicator.stop() }
    }
}

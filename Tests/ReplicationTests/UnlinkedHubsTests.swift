import DocumentStore
import Documents
import Replication
import Testing
import TestSupport

/// A replica between two hubs that do not replicate with each other, and take only what follows their own revision.
@Suite(.timeLimit(.minutes(10)))
struct UnlinkedHubsTests {
    /// - Parameters: how often each hub had saved the document before.
    @Test(arguments: [(1, 1), (1, 4), (4, 1), (30, 2), (2, 30)])
    func aDocumentThatBothEditedHasOneRevisionEverywhere(_ saves: (Int, Int)) async throws {
        let (edge, first, second) = (try TestDatabase("edge"), try TestDatabase("first"), try TestDatabase("second"))
        for number in 1...saves.0 { try await first.put("x", #"{"at":"first","n":\#(number)}"#) }
        for number in 1...saves.1 { try await second.put("x", #"{"at":"second","n":\#(number)}"#) }
        let replicators = [("ws://first/db", first), ("ws://second/db", second)].map { target, hub in
            Replicator(ReplicatorConfiguration(edge, to: target, continuous: true), Hub(hub))
        }
        for replicator in replicators { await replicator.start() }
        @Sendable func haveOneRevision() async throws -> Bool {
            let revisions = [try await edge.get("x")?.revision, try await first.get("x")?.revision, try await second.get("x")?.revision]
            return Set(revisions).count == 1 && revisions[0] != nil && replicators.allSatisfy { $0.status.activity == .idle }
        }
        try await eventually("all have the same revision") { try await haveOneRevision() }
        let generation = try await edge.get("x")?.revision.generation ?? 0
        #expect(generation <= max(saves.0, saves.1) + 1, "\(generation)")
        let collection = try edge.collection()
        #expect(try await edge.database.read { try $0.pendingConflict(collection, doc("x")) } == nil)

        // Edits pass from either hub to the other.
        try await first.put("x", #"{"at":"first again"}"#)
        try await eventually("the edit is everywhere") { try await second.body("x") == #"{"at":"first again"}"# }
        try await eventually("all have the edit") { try await haveOneRevision() }
        try await second.put("x", #"{"at":"second again"}"#)
        try await eventually("and the other one") { try await first.body("x") == #"{"at":"second again"}"# }
        try await eventually("all have that one") { try await haveOneRevision() }
        for replicator in replicators { await replicator.stop() }
    }
}

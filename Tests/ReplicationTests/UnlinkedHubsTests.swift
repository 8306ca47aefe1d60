import DocumentStore
import Documents
import Interfaces
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

    /// A person is asked once, and decides for all.
    @Test(arguments: [ConflictDecision.local, .remote, .merged(Array(#"{"at":"both"}"#.utf8))], [(1, 1), (1, 3), (3, 1)])
    func aDecisionByHandReachesBothHubs(_ decision: ConflictDecision, _ saves: (Int, Int)) async throws {
        let (edge, first, second) = (try TestDatabase("edge"), try TestDatabase("first"), try TestDatabase("second"))
        for number in 1...saves.0 { try await first.put("x", #"{"at":"first","n":\#(number)}"#) }
        for number in 1...saves.1 { try await second.put("x", #"{"at":"second","n":\#(number)}"#) }
        let resolver = TestResolver { _ in .failed(PolicyFailure(plugin: "test-resolver", version: "1", kind: "plugin_error", message: "broken")) }
        let replicators = [("ws://first/db", first), ("ws://second/db", second)].map { target, hub in
            Replicator(ReplicatorConfiguration(edge, to: target, continuous: true) { $0.only { $0.resolver = resolver } }, Hub(hub))
        }
        await replicators[0].start()
        try await edge.wait { try await $0.count() == 1 }
        await replicators[1].start()
        let collection = try edge.collection()
        try await eventually("it waits for a decision") {
            try await edge.database.read { try $0.pendingConflict(collection, doc("x")) } != nil
        }
        let conflict = try #require(try await edge.database.read { try $0.conflict(collection, doc("x")) })
        let decider = ConflictDecider(
            database: edge.database, collection: collection, resolver: nil, context: PolicyContext(database: "edge", collection: .default, direction: .pull, remote: ""),
            scope: .all)
        _ = try await decider.decide(doc("x"), local: conflict.local.revision, remote: conflict.remote.revision, byHand: decision)
        let chosen = switch decision {
        case .local: "first"
        case .remote: "second"
        default: "both"
        }
        try await eventually("both hubs have what was chosen") {
            for hub in [first, second] where try await hub.body("x")?.contains(chosen) != true { return false }
            let revisions = [try await edge.get("x")?.revision, try await first.get("x")?.revision, try await second.get("x")?.revision]
            return Set(revisions).count == 1
        }
        #expect(try await edge.database.read { try $0.pendingConflict(collection, doc("x")) } == nil)
        for replicator in replicators { await replicator.stop() }
    }
}

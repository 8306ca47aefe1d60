import Documents
import DocumentStore
import Interfaces
import Replication
import Testing

/// One hub, and many leaves that replicate with it.
@Suite(.timeLimit(.minutes(10)))
struct HubTests {
    private static let leaves = 100

    private func haveConverged(_ hub: TestDatabase, _ leaves: [TestDatabase]) async throws -> Bool {
        let contents = try await hub.contents()
        guard contents.count == Self.leaves + 1 else { return false }
        for leaf in leaves where try await leaf.contents() != contents { return false }
        return true
    }

    /// What each leaf makes reaches every other leaf through the hub, each edit travels to each leaf once, and then there is silence.
    @Test func aHundredLeavesConverge() async throws {
        let database = try TestDatabase("hub")
        let hub = Hub(database)
        let leaves = try (0..<Self.leaves).map { _ in try TestDatabase("l") }
        for (index, leaf) in leaves.enumerated() { try await leaf.put("l\(index)", "{\"from\":\(index)}") }
        let replicators = leaves.map { Replicator(ReplicatorConfiguration($0, continuous: true), hub) }
        for replicator in replicators { await replicator.start() }
        for leaf in leaves { try await leaf.wait { try await $0.count() == Self.leaves } }
        // Some leaves edit the same document: one edit wins, and it is the same one everywhere.
        for (index, leaf) in leaves.prefix(10).enumerated() { try await leaf.put("shared", "{\"by\":\(index)}") }
        while try await !haveConverged(database, leaves) { try await Task.sleep(for: .milliseconds(50)) }
        let wanted = try await database.contents()
        for replicator in replicators {
            let status = await replicator.wait { $0.activity == .idle && $0.counts.completed == $0.counts.total }
            #expect(status?.error == nil)
        }
        #expect(try await haveConverged(database, leaves))
        #expect(try await database.contents() == wanted)
        // No echo: a leaf is sent only what it has not made, and sends what it has made once. Conflicts over the one document may take several turns.
        let all = replicators.map { $0.lifetime }
        for counts in all {
            #expect(counts.pulled >= UInt64(Self.leaves - 1) && counts.pulled <= UInt64(Self.leaves * 2), "\(counts.pulled) pulled")
            #expect(counts.pushed <= 10, "\(counts.pushed) pushed")
            // Each conflict that a push runs into counts once.
            #expect(counts.failed <= 10 && counts.held == 0, "\(counts.failed) failed, \(counts.held) held")
        }
        let last = try #require(try await database.database.statistics().first).lastSequence
        #expect(last <= UInt64(Self.leaves * 3), "the hub was written to \(last) times")
        // Each of the ten leaves in conflict may have requested the other side over a separate connection.
        #expect((Self.leaves...Self.leaves + 10).contains(hub.connections), "\(hub.connections) connections")
        for replicator in replicators { await replicator.stop() }
    }
}

import Documents
import DocumentStore
import Environment
import Interfaces
import Testing

@testable import Replication

/// Documents that a peer pulls, and that the memory of the side that has them has no room to send.
@Suite(.timeLimit(.minutes(5)))
struct UnsentDocumentTests {
    private func body(_ megabytes: Int) -> String { "{\"text\":\"\(String(repeating: "x", count: (megabytes << 20) - (megabytes << 10)))\"}" }

    /// One attempt of a one-shot pull, and the errors of documents that it reported.
    private func pull(_ database: TestDatabase, from hub: MemoryHub) async -> (status: ReplicatorStatus, words: String?) {
        let replicator = Replicator(
            configuration: ReplicatorConfiguration(database, .pull) { $0.retry.maximumAttempts = 1 }, connector: hub, environment: .system, memory: .unlimited,
            logger: quietLogger())
        return await replicator.run { $0.error != nil }
    }

    @Test func theOthersComeAndItComesWhenThereIsRoom() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        for (id, megabytes) in [("first", 0), ("large", 2), ("larger", 7), ("last", 0)] { try await b.put(id, body(megabytes)) }
        let memory = MemoryBudget(limit: 8 << 20)
        let (status, words) = await pull(a, from: MemoryHub(database: b, memory: memory))
        #expect(status.counts.pulled == 2 && status.counts.failed == 2, "\(status)")
        #expect(words?.contains("limits.memory (8388608) of the agent that sends it has no room") == true, "\(words ?? "")")
        #expect(memory.takeHighest() < 8 << 20)
        let later = await pull(a, from: MemoryHub(database: b, memory: MemoryBudget(limit: 64 << 20))).status
        #expect(later.error == nil && later.counts.pulled == 2, "\(later)")
        #expect(try await a.contents() == b.contents())
    }

    @Test func aFilterIsAskedIfThereIsRoomForThat() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        for (id, megabytes) in [("cut", 2), ("hidden", 2), ("large", 2), ("larger", 7), ("small", 0)] { try await b.put(id, body(megabytes)) }
        let filter = TestFilter { document, _ in
            switch document.id.text {
            case "cut": .replace(Array("{}".utf8))
            case "hidden": .reject
            default: .pass
            }
        }
        let (status, words) = await pull(a, from: MemoryHub(database: b, memory: MemoryBudget(limit: 8 << 20), pushFilter: filter))
        // The hub tells nothing of the hidden one, nor of the one about which the filter could not be asked.
        #expect(status.counts.pulled == 2 && status.counts.failed == 1, "\(status)")
        #expect(words?.contains("limits.memory (8388608)") == true && Set(filter.questions) == ["cut", "hidden", "large", "small"], "\(words ?? "") \(filter.questions)")
        let later = await pull(a, from: MemoryHub(database: b, memory: MemoryBudget(limit: 64 << 20), pushFilter: filter)).status
        #expect(later.error == nil && later.counts.pulled == 2, "\(later)")
        #expect(try await a.count() == 4)
    }
}

import Environment
import Interfaces
import TestSupport
import Testing

@testable import Replication

/// Large documents that several replicators of this agent push at the same time.
@Suite(.timeLimit(.minutes(5)))
struct LargePushTests {
    /// Passes fifty times as fast as the system's.
    private struct FastTime: TimeSource {
        private let start = SystemTime().monotonicNanoseconds()
        func monotonicNanoseconds() -> UInt64 { start + (SystemTime().monotonicNanoseconds() - start) * 50 }
        func wallSeconds() -> Int64 { SystemTime().wallSeconds() }
        func sleep(nanoseconds: UInt64) async throws { try await SystemTime().sleep(nanoseconds: nanoseconds / 50) }
    }

    private func body(_ megabytes: Int) -> String { "{\"text\":\"\(String(repeating: "x", count: megabytes << 20))\"}" }

    private func replicator(_ database: TestDatabase, to hub: Hub, _ memory: MemoryBudget, continuous: Bool = false) -> Replicator {
        Replicator(
            configuration: ReplicatorConfiguration(database, .push, continuous: continuous), connector: hub, environment: .system, memory: memory,
            logger: quietLogger())
    }

    @Test func replicatorsTakeTurns() async throws {
        let source = try TestDatabase("source")
        for (id, megabytes) in [("before", 0), ("large", 12), ("larger", 14), ("after", 0)] { try await source.put(id, body(megabytes)) }
        let memory = MemoryBudget(limit: 64 << 20)
        let targets = try (0..<4).map { try TestDatabase("target\($0)") }
        let runs = targets.map { target in
            let replicator = replicator(source, to: Hub(target), memory)
            return Task { await replicator.run { $0.error != nil } }
        }
        for run in runs {
            let (status, words) = await run.value
            #expect(status.error == nil && status.counts.pushed == 4, "\(status), \(words ?? "")")
        }
        for target in targets { #expect(try await target.contents() == source.contents()) }
        #expect(memory.takeHighest() <= 64 << 20)
        #expect(memory.claimed == 0)
    }

    @Test func aPeerThatTakesNothingDoesNotKeepTheOthersWaiting() async throws {
        let (source, dead, target) = (try TestDatabase("source"), try TestDatabase("dead"), try TestDatabase("target"))
        try await source.put("large", body(12))
        let memory = MemoryBudget(limit: 32 << 20, time: FastTime())
        // It takes the first messages, and then no more.
        let hub = Hub(dead) { _ in (.init(loses: { $0 > 12 }), .init()) }
        let stuck = replicator(source, to: hub, memory, continuous: true)
        await stuck.start()
        try await eventually("the document is on its way") { memory.claimed > 0 }
        // In a time that runs fast, this one may be too slow for a busy machine as well, and has another try.
        try await eventually("the other target has it") {
            let (status, words) = await replicator(source, to: Hub(target), memory).run { $0.error != nil }
            #expect(status.error == nil, "\(status), \(words ?? "")")
            return status.counts.pushed == 1
        }
        #expect(try await target.contents() == source.contents())
        await stuck.stop()
    }
}

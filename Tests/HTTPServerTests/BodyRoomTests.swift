import Environment
import Synchronization
import Testing

@testable import HTTPServer

/// What a client is told whose body has no room in the agent's memory: that it never will, or that it should come again.
@Suite("Bodies without room", .timeLimit(.minutes(10)))
struct BodyRoomTests {
    /// A process that uses much besides what it counts.
    private static func crowdedMemory() -> MemoryBudget {
        let looks = Mutex(0)
        let budget = MemoryBudget(limit: 8 << 20, processMemory: {
            looks.withLock { looks in
                looks += 1
                return looks == 1 ? 10 << 20 : 18 << 20
            }
        })
        budget.noteRest()
        return budget
    }

    @Test("a body that gets no memory although nobody else has any is too large, and one that others leave none is put off", arguments: [
        (4_000_000, 0, 413), (3_400_000, 1 << 20, 503), (6_000_000, 1 << 20, 413),
    ])
    func neverOrNotNow(_ length: Int, _ others: Int, _ status: Int) async throws {
        let budget = Self.crowdedMemory()
        let other = budget.register { _ in }
        _ = other.hold(others, owedByPeer: 0)
        let routes: [Route] = [.put("x") { .json("\(try await $0.body.collect().readableBytes)") }]
        try await withRoutes(routes, memory: budget) { _, port in
            let request = "PUT /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: \(length)\r\n\r\n" + String(repeating: "l", count: length)
            let answer = try await exchange(port, request)
            #expect(answer.hasPrefix("HTTP/1.1 \(status)") && answer.contains("limits.memory (8388608)"), "\(answer)")
            #expect(answer.contains("Retry-After") == (status == 503) && answer.contains("limits: { memory: ") == (status == 413), "\(answer)")
        }
        withExtendedLifetime(other) {}
    }
}

import Environment
import Testing

@testable import Replication

/// A peer's questions about checkpoints, which wait for their turn.
@Suite struct PassiveRequestTests {
    @Test func roomForAnAnswerIsKeptUntilTheAnswerIsCounted() {
        let memory = MemoryBudget(limit: 1 << 20)
        var requests = PassiveRequests()
        for _ in 0..<2 { requests.append(.checkpoint(nil, id: "c")) }
        #expect(requests.next() != nil)
        #expect(requests.next() == nil, "one at a time")
        requests.served(memory.reserveNow(120_000))
        #expect(memory.reserved == 120_000)
        // The next one does not end it.
        #expect(requests.next() != nil && memory.reserved == 120_000)
        #expect(requests.takeReservations().count == 1)
        #expect(memory.reserved == 0)
        requests.served()
        #expect(requests.bytes == 0 && requests.isEmpty && requests.takeReservations().isEmpty)
    }
}

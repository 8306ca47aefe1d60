import Environment
import Testing

@testable import Replication

/// A peer's requests for checkpoints, which wait for their turn.
@Suite struct PassiveRequestTests {
    @Test func roomForAnAnswerIsKeptUntilTheAnswerIsCounted() {
        let memory = MemoryBudget(limit: 1 << 20)
        var requests = PassiveRequests()
        for _ in 0..<2 { requests.append(.checkpoint(nil, id: "c")) }
        #expect(requests.next() != nil)
        #expect(requests.next() == nil, "only one request should be served at a time")
        requests.served(memory.reserveNow(120_000))
        #expect(memory.reserved == 120_000)
        // Beginning the next request does not release the memory.
        #expect(requests.next() != nil && memory.reserved == 120_000)
        #expect(requests.takeReservations().count == 1)
        #expect(memory.reserved == 0)
        requests.served()
        #expect(requests.bytes == 0 && requests.isEmpty && requests.takeReservations().isEmpty)
    }
}

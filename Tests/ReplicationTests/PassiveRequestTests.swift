import Testing

@testable import Replication

/// A peer's questions about checkpoints, which wait for their turn.
@Suite struct PassiveRequestTests {
    @Test func whatIsReadForAnAnswerCountsBeforeItIsHere() {
        var requests = PassiveRequests()
        func take() -> Int {
            let before = requests.bytes
            _ = requests.next()
            return requests.bytes - before
        }
        for _ in 0..<4 { requests.append(.checkpoint(nil, id: "c")) }
        requests.append(.setCheckpoint(nil, id: "c", body: [1, 2, 3], expectedRevision: nil))
        requests.append(.collections(nil, ids: ["c"], found: [true]))
        // Nothing is known of the first.
        #expect(take() == 0)
        requests.served(answer: 120_000)
        #expect(take() == 120_000)
        requests.served(answer: 50)
        #expect(take() == 50)
        // One that failed says nothing of the next.
        requests.served()
        #expect(take() == 50)
        requests.served(answer: 120_000)
        // What is stored is here already.
        #expect(take() == 0)
        requests.served(answer: 3)
        #expect(take() == 3)
        requests.served()
        #expect(requests.bytes == 0 && requests.isEmpty)
    }
}

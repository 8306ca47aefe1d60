import Documents
import Interfaces
import Replication
import Testing

@testable import Agent

/// What peers of a listener refused, as status and metrics count it.
@Suite struct RefusedByPeersTests {
    private let refusal = ReplicationError(domain: .http, code: 403, message: "not here")

    private func events(_ numbers: Range<Int>, _ error: ReplicationError?) throws -> [DocumentEvent] {
        try numbers.map { try DocumentEvent(id: DocumentID("doc-\($0)"), collection: .default, direction: .push, error: error) }
    }

    @Test("a document is counted once, however often its peer comes for it, and no longer once it was accepted")
    func counts() throws {
        var refused = RefusedByPeers()
        let all = RefusedByPeers.limit + 500
        for visit in 0..<3 {
            refused.note(try events(0..<all, refusal), peer: "ada", database: "main", now: Int64(visit))
            #expect(refused.refusals.count == RefusedByPeers.limit && refused.more == 500, "visit \(visit)")
        }
        // Another peer's is another refusal.
        refused.note(try events(all - 1..<all, refusal), peer: "ben", database: "main", now: 3)
        #expect(refused.more == 501)
        refused.note(try events(0..<all, nil), peer: "ada", database: "main", now: 4)
        #expect(refused.refusals.isEmpty && refused.more == 1)
        // Refused again where there is room for its name now.
        refused.note(try events(all - 1..<all, refusal), peer: "ben", database: "main", now: 5)
        #expect(refused.refusals.count == 1 && refused.more == 0)
    }

    @Test("what a peer keeps on a list is known until it says otherwise, or gives the document itself")
    func kept() throws {
        var said = RefusedByPeers()
        func note(_ direction: Direction, _ kept: KeptByPeer? = nil) throws {
            var event = DocumentEvent(id: try DocumentID("a"), collection: .default, direction: direction)
            event.kept = kept
            said.note([event], peer: "ada", database: "main", now: 1)
        }
        let there = KeptByPeer(.rejected, try RevisionID("1-aa"))
        for taken in [Direction.push, .pull] {
            try note(.push, there)
            #expect(said.kept.values.map(\.kept) == [there] && said.refusals.isEmpty)
            try note(taken)
            #expect(said.kept.isEmpty)
        }
    }
}

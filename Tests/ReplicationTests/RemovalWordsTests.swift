import Documents
import Interfaces
import Testing

@testable import Replication

/// The messages about documents that a peer removes.
@Suite struct RemovalWordsTests {
    @Test("a removal that our own pull filter rejects does not concern the peer's operator")
    func keptByFilter() throws {
        let taken = RemovalOutcome(removal: Removal(id: try DocumentID("only-red"), sequence: nil, replyTo: nil), end: .rejected(by: "keepit"))
        let error = try #require(taken.event(.default)?.error)
        #expect(error.domain == .http && error.code == 403 && error.kind == .needsAction)
        let remedy = try #require(error.remedy)
        #expect(remedy.contains("keepit") && remedy.contains("access_removed") && !remedy.contains("the peer's operator"), "\(remedy)")
    }
}

import DocumentStore
import Documents
import Testing

/// A client of version vectors carries a document that has no version from one agent to another, and tells its version only.
@Suite("Revisions from clients with versions") struct CarriedRevisionTests {
    private static let bob = "ABEiM0RVZneImaq7zN3u/w"
    private let first = rev("1-b5b38c9e7f0011")
    private let second = rev("2-cc")
    private let third = rev("3-dd")

    /// A database with the document as the client brought it.
    private func carried() async throws -> Store {
        let store = try Store()
        try await insert(store, VectorHistory(VersionVector(VectorVersion(standingFor: first))), body: #"{"n":1}"#)
        #expect(try await store.get("x")?.revision != first)
        return store
    }

    @discardableResult
    private func insert(
        _ store: Store, _ vector: VectorHistory, body: String = "{}", deleted: Bool = false, remote: RemoteID? = nil
    ) async throws -> InsertOutcome {
        let c = try store.c
        var incoming = IncomingRevision(
            id: doc("x"), revision: RevisionID(vector.vector.current), history: [], isDeleted: deleted, body: Array(body.utf8), remote: remote)
        incoming.vector = vector
        return try await store.database.write { [incoming] in try $0.insert(incoming, into: c, conflicts: .refuse) }
    }

    @Test("the current revision, which a remote is known to have, is not fetched from it once more")
    func isCurrentThere() async throws {
        let store = try Store()
        let (c, remote) = (try store.c, try await store.remote())
        try await insert(store, try VectorHistory("5@\(Self.bob)", history: ""), remote: remote)
        let offer = RevisionOffer(id: doc("x"), revision: try RevisionID(named: "5@\(Self.bob)"))
        #expect(try await store.database.read { try $0.missing(c, [offer], from: remote, naming: .vectors) } == [.have])
    }

    @Test("what was made at the other agent of the same revision, which has another id there, is newer", arguments: [false, true], [false, true])
    func goesOn(deleted: Bool, hasVersion: Bool) async throws {
        let store = try await carried()
        let outcome: InsertOutcome
        if hasVersion {
            var vector = try VectorHistory("9@\(Self.bob)", history: "")
            vector.place = VectorHistory.TreePlace(revision: third, history: RevisionHistory([second, first]))
            outcome = try await insert(store, vector, deleted: deleted)
        } else {
            outcome = try await store.insert("x", third.text, [second.text, first.text], deleted: deleted, .refuse)
        }
        guard case .inserted = outcome else { Issue.record("\(outcome)"); return }
        let stored = try #require(try await store.get("x"))
        #expect(stored.revision == third && stored.isDeleted == deleted)
        let c = try store.c
        #expect(try await store.database.read { try $0.tree(c, doc("x")) }?.leaves.count == 1)
    }

    @Test("a proposal that names it as its parent by that id is accepted, and by the id of another one is not", arguments: [RevisionNaming.trees, .vectors])
    func proposed(naming: RevisionNaming) async throws {
        let store = try await carried()
        let c = try store.c
        let proposals = [first, rev("1-b5b38c9e8f0011")].map { Proposal(id: doc("x"), revision: second, parent: $0) }
        let verdicts = try await store.database.read { try $0.checkProposals(c, proposals, naming: naming) }
        #expect(verdicts.count == 2 && verdicts.first == .accept && verdicts.last != .accept, "\(verdicts)")
        // Beside it, what has nothing to do with it is a conflict still.
        guard case .conflict = try await store.insert("x", second.text, ["1-aa"], .refuse) else { Issue.record("taken"); return }
    }
}

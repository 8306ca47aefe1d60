import DocumentStore
import Documents
import Testing

/// A revision gets the same answer before its body is here as with its body.
@Suite struct IncomingPlaceTests {
    private struct Offer {
        var revision: String
        var history: [String]
        /// Whether it is known without the body that the revision is refused or already here.
        var isKnown: Bool

        init(_ revision: String, _ history: [String], _ isKnown: Bool) { (self.revision, self.history, self.isKnown) = (revision, history, isKnown) }
    }

    private func compare(_ offers: [Offer], _ store: Store) async throws {
        let c = try store.c
        for offer in offers {
            let incoming = IncomingRevision(id: doc("x"), revision: rev(offer.revision), history: RevisionHistory(offer.history.map(rev)), body: Array("{}".utf8))
            let said = try await store.database.read { try $0.refusal(of: incoming, bytes: 100, in: c) }
            let outcome = try? await store.database.write { try $0.insert(incoming, into: c, conflicts: .refuse) }
            #expect((said != nil) == offer.isKnown, "\(offer)")
            if let said { #expect(said == outcome, "\(offer)") }
        }
    }

    @Test func ofADocumentWithBranches() async throws {
        let store = try Store()
        _ = try await store.insert("x", "3-cc", ["2-bb", "1-aa"], body: #"{"n":1}"#)
        _ = try await store.insert("x", "2-ab", ["1-aa"], body: #"{"n":2}"#)
        try await compare([
            Offer("3-cc", ["2-bb", "1-aa"], true), Offer("2-bb", ["1-aa"], true), Offer("1-aa", [], true), Offer("2-ab", ["1-aa"], true),
            Offer("3-ab", ["2-ab", "1-aa"], true), Offer("3-cd", ["2-bb", "1-aa"], true), Offer("1-ff", [], true), Offer("9-ff", ["8-ff"], true),
            Offer("\(DocumentLimits.revisionGeneration + 1)-aa", ["1-aa"], false), Offer("4-dd", ["3-cc", "2-bb", "1-aa"], false),
            Offer("4-dd", ["3-cc", "2-bb", "1-aa"], true), Offer("4-ee", ["3-cc"], true),
        ], store)
    }

    @Test func ofADeletedDocumentAndOfNone() async throws {
        let store = try Store()
        try await compare([Offer("1-aa", [], false)], store)
        _ = try await store.insert("x", "2-bb", ["1-aa"], deleted: true)
        try await compare([
            Offer("2-bb", ["1-aa"], true), Offer("1-aa", [], true), Offer("2-cc", ["1-aa"], true), Offer("3-cc", ["2-bb", "1-aa"], false),
        ], store)
        let deleted = try Store()
        _ = try await deleted.insert("x", "2-bb", ["1-aa"], deleted: true)
        // Created again by a writer that never had the document.
        try await compare([Offer("1-ff", [], false)], deleted)
    }

    /// With many ids of one generation, a sender could otherwise find out which one is here.
    @Test func aHistoryWhoseGenerationsDoNotFallIsInvalidWhateverIsKnown() async throws {
        let store = try Store()
        _ = try await store.insert("x", "3-cc", ["2-bb", "1-aa"], deleted: true)
        _ = try await store.insert("y", "3-cc", ["2-bb", "1-aa"])
        for id in ["x", "y"] {
            for guesses in [["2-01", "2-02", "2-bb"], ["2-01", "2-02", "2-03"], ["2-01", "3-cc"], ["4-01", "3-cc"]] {
                await #expect(throws: StoreError.self, "\(guesses)") { try await store.insert(id, "4-dd", guesses, .refuse) }
                let (c, incoming) = (try store.c, IncomingRevision(id: doc(id), revision: rev("4-dd"), history: RevisionHistory(guesses.map(rev)), body: []))
                #expect(try await store.database.read { try $0.refusal(of: incoming, bytes: 100, in: c) } == nil)
            }
        }
    }

    /// If there is no room, that is the answer, and the write gives it.
    @Test func notWhereThereIsNoRoom() async throws {
        var options = DatabaseOptions()
        options.refusal = { _, _ in "no room" }
        let store = try Store()
        _ = try await store.insert("x", "1-aa")
        let (c, incoming) = (try store.c, IncomingRevision(id: doc("x"), revision: rev("1-bb"), history: [], body: []))
        #expect(try await store.database.read { try $0.refusal(of: incoming, bytes: 100, in: c) } != nil)
        #expect(try await store.database.read { try $0.refusal(of: incoming, bytes: StoreLimits.maxBodyBytes + 1, in: c) } == nil)
        store.database.close()
        let full = try Database.open(folder: store.folder, name: "test", options: options)
        defer { full.close() }
        let collection = try #require(full.collection(.default))
        #expect(try await full.read { try $0.refusal(of: incoming, bytes: 100, in: collection) } == nil)
    }
}

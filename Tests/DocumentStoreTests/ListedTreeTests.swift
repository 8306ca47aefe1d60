import Documents
import Testing

@testable import DocumentStore

/// A peer may name the same document in each of a thousand rows of a list: the costly work is done once for it.
@Suite struct ListedTreeTests {
    /// Two documents with many branches each.
    private func store() async throws -> Store {
        let store = try Store()
        for id in ["a", "b"] {
            for branch in 0..<8 { _ = try await store.insert(id, "2-\(branch)0", ["1-00"], body: "{\"n\":\(branch)}") }
        }
        return store
    }

    private let revisions = (0..<200).map { rev("2-\(String($0 + 256, radix: 16))0") }

    @Test(arguments: [RevisionNaming.trees, .vectors]) func aTreeIsDecodedOnceForAListOfChanges(_ naming: RevisionNaming) async throws {
        let store = try await store()
        let c = try store.c
        let offers = revisions.enumerated().map { RevisionOffer(id: doc($0.offset % 2 == 0 ? "a" : "b"), revision: $0.element) }
        let (needs, decoded) = try await store.database.read { transaction in
            let needs = try transaction.missing(c, offers, naming: naming)
            return (needs, transaction.decodedTrees)
        }
        #expect(needs.count == offers.count && needs.allSatisfy { $0 != .have })
        #expect(decoded == 2)
        // Each row gets the same answer as it would alone.
        for (offer, need) in zip(offers.prefix(4), needs) {
            #expect(try await store.database.read { try $0.missing(c, [offer], naming: naming) } == [need])
        }
    }

    @Test(arguments: [RevisionNaming.trees, .vectors]) func aTreeIsDecodedOnceForAListOfProposals(_ naming: RevisionNaming) async throws {
        let store = try await store()
        let c = try store.c
        let proposals = revisions.enumerated().map { Proposal(id: doc($0.offset % 2 == 0 ? "a" : "b"), revision: $0.element, parent: rev("1-00")) }
        let (verdicts, decoded) = try await store.database.read { transaction in
            let verdicts = try transaction.checkProposals(c, proposals, naming: naming)
            return (verdicts, transaction.decodedTrees)
        }
        #expect(verdicts.count == proposals.count && verdicts.allSatisfy { if case .conflict = $0 { true } else { false } })
        #expect(decoded == 2)
    }
}

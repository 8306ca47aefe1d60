import Documents
import DocumentStore
import Testing

/// Trees of revisions take memory as bodies do, and a document may have a large one and hardly a body.
@Suite struct TreeSizeTests {
    /// Branches of fifty generations each.
    private func tree(branches: Int) throws -> RevisionTree {
        var tree = RevisionTree()
        for branch in 0..<branches {
            let history = try (1...49).reversed().map { try RevisionID("\($0)-\(digest(branch, $0))") }
            try tree.insert(try RevisionID("50-\(digest(branch, 50))"), history: history)
        }
        return tree
    }

    private func digest(_ branch: Int, _ generation: Int) -> String {
        let text = String(branch * 1000 + generation, radix: 16)
        return String(repeating: "0", count: 32 - text.count) + text
    }

    @Test func whatATreeComesToIsKnownBeforeItIsRead() throws {
        for branches in [1, 7, 32] {
            let tree = try tree(branches: branches)
            #expect(tree.memorySize >= branches * 50 * 40)
            #expect(RevisionTree.memorySize(ofEncoded: tree.encode()) >= tree.memorySize)
        }
        #expect(RevisionTree.memorySize(ofEncoded: [1, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F, 0]) < 1_000, "a count that cannot be")
    }

    @Test(arguments: [true, false])
    func aPartOfTheFeedIsBoundedByTreesToo(withBodies: Bool) async throws {
        let store = try Store()
        let tree = try tree(branches: 32)
        let current = try #require(tree.winner?.revision)
        for number in 0..<60 { _ = try await store.save("d\(number)", "{}") }
        try store.alter("UPDATE documents_1 SET rev = '\(current)', tree = ?1", tree.encode())
        let again = try Store(folder: store.folder)
        let c = try again.c
        let bound = 4 * tree.encode().count
        var (since, parts): (SequenceNumber, [Int]) = (0, [])
        while true {
            let from = since
            let rows = try await again.database.read { try $0.changes(c, since: from, limit: 500, includeBodies: withBodies, maxBytes: bound) }
            guard let last = rows.last else { break }
            since = last.sequence
            parts.append(rows.count)
            #expect(rows.reduce(0) { $0 + $1.storedTreeSize } <= bound)
        }
        #expect(parts.reduce(0, +) == 60 && parts.allSatisfy { $0 >= 1 && $0 <= 4 }, "\(parts)")
    }

    @Test func documentsThatAreNeverReplicatedComeInParts() async throws {
        let store = try Store()
        let c = try store.c
        let body = Array("{\"t\":\"\(String(repeating: "x", count: 1_000))\"}".utf8)
        try await store.database.write { transaction in
            for number in 1...9 { _ = try transaction.putLocalDocument(c, id: "_design/\(number)", body: body, expectedRevision: nil) }
            _ = try transaction.putLocalDocument(c, id: "other", body: body, expectedRevision: nil)
        }
        var (after, ids): (String, [String]) = ("", [])
        while true {
            let from = after
            let part = try await store.database.read {
                try $0.localDocuments(c, prefix: "_design/", after: from, limit: 500, maxBytes: 2_500).map(\.id)
            }
            guard let last = part.last else { break }
            #expect(part.count <= 3)
            ids += part
            after = last
        }
        #expect(ids == (1...9).map { "_design/\($0)" })
        #expect(try await store.database.read { try $0.localDocumentSize(c, id: "other") } == body.count)
        #expect(try await store.database.read { try $0.localDocumentSize(c, id: "none") } == nil)
    }
}

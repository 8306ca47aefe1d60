import DocumentStore
import Documents
import Testing

/// Tombstones of peers that keep every leaf of a document, as CouchDB does.
@Suite struct BranchEndTests {
    /// Three branches without an owner, the greatest is read.
    private func branched(_ remote: RemoteID? = nil) async throws -> Store {
        let store = try Store()
        for (index, leaf) in ["2-aa", "2-bb", "2-cc"].enumerated() {
            _ = try await store.insert("x", leaf, ["1-00"], body: #"{"n":\#(index)}"#, remote: leaf == "2-cc" ? remote : nil)
        }
        return store
    }

    private func end(_ store: Store, _ leaf: String, _ tombstone: String, _ deletion: Deletion) async throws -> InsertOutcome {
        var incoming = IncomingRevision(id: doc("x"), revision: rev(tombstone), history: [rev(leaf), rev("1-00")], isDeleted: true, body: [])
        incoming.deletion = deletion
        let (c, tombstone) = (try store.c, incoming)
        return try await store.database.write { try $0.insert(tombstone, into: c, conflicts: .store) }
    }

    private func leaves(_ store: Store) async throws -> [String] {
        let c = try store.c
        return try await store.database.read { try $0.tree(c, doc("x"))?.leaves.filter { !$0.isDeleted }.map(\.revision.text) ?? [] }
    }

    @Test(arguments: [Deletion.leaf, .otherLeaf], ["2-aa", "2-bb", "2-cc"])
    func aBranchThatEndsIsNoSideOfAConflict(_ deletion: Deletion, _ ended: String) async throws {
        let store = try await branched()
        _ = try await end(store, ended, "3-ee", deletion)
        let left = ["2-cc", "2-bb", "2-aa"].filter { $0 != ended }
        #expect(try await leaves(store) == left)
        let conflict = try #require(try await store.conflict("x"))
        #expect(!conflict.local.isDeleted && !conflict.remote.isDeleted)
        #expect(Set([conflict.local.revision.text, conflict.remote.revision.text]) == Set(left))
        #expect(try await store.get("x")?.revision.text == left[0])
        _ = try await end(store, left[0], "3-ff", deletion)
        #expect(try await store.conflict("x") == nil)
        let current = try #require(try await store.get("x"))
        #expect(current.revision.text == left[1] && !current.isDeleted && !current.hasConflict)
    }

    @Test func theLastBranchEndsWithItsDocumentOnly() async throws {
        let store = try await branched()
        for leaf in ["2-cc", "2-bb"] { _ = try await end(store, leaf, "3-\(leaf.suffix(2))", .leaf) }
        #expect(try await end(store, "2-aa", "3-aa", .otherLeaf) == .alreadyPresent)
        #expect(try await store.get("x")?.revision == rev("2-aa"))
        _ = try await end(store, "2-aa", "3-aa", .leaf)
        #expect(try await store.get("x")?.isDeleted == true)
    }

    @Test func anUnknownBranchThatEndedIsKeptByWhoKeepsAllAndElseForgotten() async throws {
        let store = try await branched()
        #expect(try await end(store, "2-dd", "3-dd", .otherLeaf) == .alreadyPresent)
        let c = try store.c
        #expect(try await store.database.read { try $0.tree(c, doc("x"))?.contains(rev("3-dd")) } == false)
        _ = try await end(store, "2-dd", "3-dd", .leaf)
        #expect(try await store.database.read { try $0.tree(c, doc("x"))?.contains(rev("3-dd")) } == true)
        #expect(try await leaves(store) == ["2-cc", "2-bb", "2-aa"])
    }

    /// A remote that ended what it gave us is followed to a lesser revision as well.
    @Test(arguments: [true, false])
    func whatTheRemoteEndedIsLeft(_ isEnded: Bool) async throws {
        let store = try Store()
        let remote = try await store.remote()
        _ = try await store.insert("x", "2-cc", ["1-00"], body: #"{"n":2}"#, remote: remote)
        var incoming = IncomingRevision(id: doc("x"), revision: rev("2-aa"), history: [rev("1-00")], body: Array(#"{"n":0}"#.utf8), remote: remote)
        if isEnded { incoming.endedLeaves = [rev("2-cc")] }
        let (c, lesser) = (try store.c, incoming)
        _ = try await store.database.write { try $0.insert(lesser, into: c, conflicts: .store) }
        #expect(try await store.conflict("x") == nil ? isEnded : !isEnded)
        #expect(try await store.get("x")?.revision.text == (isEnded ? "2-aa" : "2-cc"))
    }

    @Test(arguments: zip([Resolution.localWins, .remoteWins, .merged(Array(#"{"m":1}"#.utf8))], [#"{"n":2}"#, #"{"n":0}"#, #"{"m":1}"#]))
    func ofTwoBranchesOfNobodyTheGreaterSurvives(_ resolution: Resolution, _ result: String) async throws {
        let store = try Store()
        _ = try await store.insert("x", "2-cc", ["1-00"], body: #"{"n":2}"#)
        _ = try await store.insert("x", "2-aa", ["1-00"], body: #"{"n":0}"#)
        let conflict = try #require(try await store.conflict("x"))
        #expect(conflict.local.revision == rev("2-cc"))
        let c = try store.c
        let saved = try await store.database.write {
            try $0.resolveConflict(
                c, id: doc("x"), expectedLocal: conflict.local.revision, expectedRemote: conflict.remote.revision, resolution: resolution, keepsGreater: true)
        }
        #expect(saved.revision >= rev("2-cc"))
        if resolution == .localWins { #expect(saved.revision == rev("2-cc")) }
        #expect(try await store.get("x").map { text($0.body) } == result)
    }
}

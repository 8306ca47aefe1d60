import DocumentStore
import Documents
import Testing

/// A document that is read beside a tombstone, which is what a remote reads.
@Suite struct MovedDocumentTests {
    /// `3-cc` was created on `2-bb`; the remote reads `2-aa`. With keepers of branches, what lost stays as an ended branch.
    private func recreated(isGivenUp: Bool = false, keepers: Bool = false) async throws -> (Store, RemoteID) {
        let store = try Store()
        if keepers { await store.database.noteBranchKeeper() }
        let remote = try await store.remote()
        if isGivenUp {
            // The remote's tombstone was followed to a lesser one.
            _ = try await store.insert("x", "2-dd", ["1-00"], deleted: true, remote: remote)
            _ = try await store.insert("x", "2-bb", ["1-00"], deleted: true, remote: remote)
        } else {
            _ = try await store.insert("x", "2-bb", ["1-00"], deleted: true)
            _ = try await store.insert("x", "2-aa", ["1-00"], deleted: true)
        }
        _ = try await store.insert("x", "3-cc", ["2-bb", "1-00"], body: #"{"n":3}"#)
        return (store, remote)
    }

    private func move(_ store: Store, _ revision: String = "3-cc", below tombstone: String, _ remote: RemoteID) async throws -> Bool {
        let c = try store.c
        return try await store.database.write { try $0.moveDocument(c, doc("x"), rev(revision), below: rev(tombstone), of: remote) }
    }

    @Test(arguments: [true, false], [true, false]) func itsContentGoesOnFromThatTombstone(_ isGivenUp: Bool, _ keepers: Bool) async throws {
        let (store, remote) = try await recreated(isGivenUp: isGivenUp, keepers: keepers)
        let (c, tombstone) = (try store.c, isGivenUp ? "2-dd" : "2-aa")
        #expect(try await move(store, below: tombstone, remote))
        let found = try #require(try await store.get("x"))
        #expect(text(found.body) == #"{"n":3}"# && !found.isDeleted && !found.hasConflict)
        let tree = try #require(try await store.database.read { try $0.tree(c, doc("x")) })
        #expect(tree.ancestors(of: found.revision) == [rev(tombstone), rev("1-00")])
        // What the other tombstone ended must not come back.
        #expect(tree.leaves.map(\.revision) == [found.revision, keepers ? RevisionTree.end(of: rev("3-cc")) : rev("2-bb")])
        // The remote takes it for what follows its tombstone.
        let other = try Store()
        _ = try await other.insert("x", tombstone, ["1-00"], deleted: true)
        guard case .inserted = try await other.insert("x", found.revision.text, [tombstone, "1-00"], body: #"{"n":3}"#, .refuse) else { return #expect(Bool(false)) }
        let row = try await store.database.read { try $0.changes(c, since: 0, limit: 1, includeBodies: false, ids: [doc("x")], remote: remote).first }
        #expect(row?.remoteRevision == rev(tombstone))
    }

    /// That remote would refuse the result.
    @Test(arguments: ["2-bb", "3-cc"]) func whatAnotherRemoteHasStaysAsItIs(_ known: String) async throws {
        let (store, remote) = try await recreated()
        let c = try store.c
        try await store.database.write { try $0.setRemoteRevisions(try $0.remoteID(for: "wss://other/db"), c, [(doc("x"), rev(known))]) }
        #expect(try await !move(store, below: "2-aa", remote))
        #expect(try await store.get("x")?.revision == rev("3-cc"))
    }

    @Test func whatHasChangedOrIsNoTombstoneIsLeftAlone() async throws {
        let (store, remote) = try await recreated()
        #expect(try await move(store, "2-bb", below: "2-aa", remote))
        for other in ["2-bb", "1-00", "9-ff"] { #expect(try await !move(store, below: other, remote)) }
        #expect(try await store.get("x")?.revision == rev("3-cc"))
    }
}

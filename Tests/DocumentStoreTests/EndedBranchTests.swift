import DocumentStore
import Documents
import Testing

/// Branches that lost a decision, where peers come that keep every branch.
@Suite struct EndedBranchTests {
    /// `2-aa` lost against the remote's `2-bb`.
    private func decided() async throws -> (Store, RemoteID) {
        let store = try Store()
        await store.database.noteBranchKeeper()
        let remote = try await store.remote()
        _ = try await store.insert("x", "2-aa", ["1-00"], body: #"{"n":1}"#)
        _ = try await store.insert("x", "2-bb", ["1-00"], body: #"{"n":2}"#, remote: remote)
        _ = try await store.resolve("x", .remoteWins)
        return (store, remote)
    }

    private func leaves(_ store: Store) async throws -> [RevisionID] {
        let c = try store.c
        return try await store.database.read { try $0.tree(c, doc("x"))?.leaves.map(\.revision) ?? [] }
    }

    @Test func theLoserEndsWithATombstone() async throws {
        let (store, _) = try await decided()
        #expect(try await leaves(store) == [rev("2-bb"), RevisionTree.end(of: rev("2-aa"))])
        let current = try #require(try await store.get("x"))
        #expect(current.revision == rev("2-bb") && !current.hasConflict)
    }

    /// A peer that has one branch and goes on with the losing one is in conflict with what was made of the decision, as if the branch had gone. Where
    /// nothing was, it is followed.
    @Test(arguments: [true, false]) func aRemoteThatGoesOnWithTheLoser(_ isEdited: Bool) async throws {
        let (store, remote) = try await decided()
        let edit = isEdited ? try await store.save("x", #"{"n":3}"#, parent: rev("2-bb")) : nil
        let c = try store.c
        let needs = try await store.database.read { try $0.missing(c, [RevisionOffer(id: doc("x"), revision: rev("2-aa"))], from: remote) }
        guard case .need? = needs.first else { return #expect(Bool(false), "\(needs)") }
        let outcome = try await store.insert("x", "2-aa", ["1-00"], body: #"{"n":1}"#, remote: remote)
        guard let edit else {
            #expect(outcome == .inserted(sequence: 4))
            #expect(try await leaves(store) == [rev("2-aa"), RevisionTree.end(of: rev("2-bb"))])
            return
        }
        let conflict = try #require(try await store.conflict("x"))
        #expect(conflict.local.revision == edit.revision && conflict.remote.revision == rev("2-aa") && !conflict.remote.isDeleted)
    }

    /// The tombstone of a document is what it is read by, not that of a branch which had grown longer.
    @Test func aDeletionThatWinsIsWhatTheDocumentIsReadBy() async throws {
        let store = try Store()
        await store.database.noteBranchKeeper()
        let remote = try await store.remote()
        _ = try await store.insert("x", "4-aa", ["3-aa", "2-aa", "1-00"], body: #"{"n":1}"#)
        _ = try await store.insert("x", "2-bb", ["1-00"], body: "{}", deleted: true, remote: remote)
        _ = try await store.resolve("x", .remoteWins)
        let current = try #require(try await store.get("x"))
        #expect(current.revision == rev("2-bb") && current.isDeleted)
    }

    /// The remote reports its tombstones one after the other, the one that it reads last.
    @Test(arguments: [RevisionNaming.trees, .vectors]) func aTombstoneThatWasGivenUpForAnotherComesBack(_ naming: RevisionNaming) async throws {
        let store = try Store()
        let (c, remote) = (try store.c, try await store.remote())
        _ = try await store.insert("x", "2-bb", ["1-bb"], deleted: true)
        _ = try await store.insert("x", "2-aa", ["1-aa"], deleted: true, remote: remote)
        #expect(try await leaves(store) == [RevisionTree.end(of: rev("2-bb")), rev("2-aa")])
        let offer = RevisionOffer(id: doc("x"), revision: rev("2-bb"), isDeletion: true)
        let needs = try await store.database.read { try $0.missing(c, [offer], from: remote, naming: naming) }
        guard case .need? = needs.first else { return #expect(Bool(false), "\(needs)") }
        _ = try await store.insert("x", "2-bb", ["1-bb"], deleted: true, remote: remote)
        #expect(try await store.get("x")?.revision == rev("2-bb"))
        #expect(try await store.database.read { try $0.missing(c, [offer], from: remote, naming: naming) } == [.have])
    }

    @Test func theNewestEndsAreKept() async throws {
        let store = try Store()
        await store.database.noteBranchKeeper()
        let remote = try await store.remote()
        _ = try await store.insert("x", "1-00", body: "{}", remote: remote)
        for n in 1...StoreLimits.endedBranches + 5 {
            let parent = try #require(try await store.get("x")?.revision)
            _ = try await store.save("x", "{\"mine\":\(n)}", parent: parent)
            _ = try await store.insert("x", "\(n + 1)-bb", (1..<n).reversed().map { "\($0 + 1)-bb" } + ["1-00"], body: "{\"n\":\(n)}", remote: remote)
            _ = try await store.resolve("x", .remoteWins)
        }
        #expect(try await leaves(store).count == 1 + StoreLimits.endedBranches)
    }

    @Test func withoutSuchPeersTheLoserGoes() async throws {
        let store = try Store()
        let remote = try await store.remote()
        _ = try await store.insert("x", "2-aa", ["1-00"], body: #"{"n":1}"#)
        _ = try await store.insert("x", "2-bb", ["1-00"], body: #"{"n":2}"#, remote: remote)
        _ = try await store.resolve("x", .remoteWins)
        #expect(try await leaves(store) == [rev("2-bb")])
    }
}

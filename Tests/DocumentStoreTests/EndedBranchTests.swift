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

    /// It had ended here before somebody went on from it, and that lost as well.
    @Test func aRevisionBelowTwoEndsIsDecidedOnceMoreWhereThePeerHasIt() async throws {
        let store = try Store()
        let (c, remote) = (try store.c, try await store.remote())
        _ = try await store.insert("x", "4-cc", ["3-cc", "2-cc", "1-00"])
        for history in [["3-aa", "2-aa", "1-00"], ["2-aa", "1-00"]].map({ $0.map(rev) }) {
            var end = IncomingRevision(
                id: doc("x"), revision: RevisionTree.end(of: history[0]), history: RevisionHistory(history), isDeleted: true, body: [])
            end.deletion = .leaf
            _ = try await store.database.write { [end] in try $0.insert(end, into: c, conflicts: .refuse) }
        }
        let tree = try #require(try await store.database.read { try $0.tree(c, doc("x")) })
        try #require(tree.endsOfBranch(of: rev("2-aa")).count == 2)
        _ = try await store.insert("x", "2-aa", ["1-00"], body: #"{"n":1}"#, remote: remote)
        let conflict = try #require(try await store.conflict("x"))
        #expect(conflict.local.revision == rev("4-cc") && conflict.remote.revision == rev("2-aa"))
    }

    /// Both branches were deleted before they ended, and the peer has gone back to what one of the deletions deleted: it has to learn of that one, or
    /// it would keep the document forever.
    @Test(arguments: [ConflictHandling.store, .refuse]) func aDeletionCountsAgainWhereThePeerHasWhatItDeleted(_ conflicts: ConflictHandling) async throws {
        let store = try Store()
        let remote = try await store.remote()
        let ended = RevisionTree.end(of: rev("2-bb")).text
        _ = try await store.insert("x", "3-ee", ["2-ee", "1-00"], deleted: true)
        _ = try await store.insert("x", "2-bb", ["1-00"], deleted: true, remote: remote)
        _ = try await store.insert("x", ended, ["2-bb", "1-00"], deleted: true, .refuse)
        #expect(try await leaves(store) == [RevisionTree.end(of: rev("3-ee")), rev(ended)])
        let outcome = try await store.insert("x", "2-ee", ["1-00"], body: #"{"n":1}"#, remote: conflicts == .store ? remote : nil, conflicts)
        #expect(outcome == (conflicts == .store ? .inserted(sequence: 4) : .ended(current: rev("3-ee"))))
        let current = try #require(try await store.get("x"))
        #expect(current.revision == rev("3-ee") && current.isDeleted && current.sequence == 4)
    }

    /// The deletion lost here to what is current, and the peer has it as a successor of just that, whatever it succeeded here.
    @Test func aDeletionThatFollowsWhatIsCurrentWins() async throws {
        let store = try Store()
        let (c, remote) = (try store.c, try await store.remote())
        _ = try await store.insert("x", "1-aa", body: #"{"n":1}"#)
        for history in [["3-dd", "2-cc", "1-cc"], [RevisionTree.end(of: rev("3-dd")).text, "3-dd", "2-cc", "1-cc"]].map({ $0.map(rev) }) {
            var end = IncomingRevision(id: doc("x"), revision: history[0], history: RevisionHistory(history.dropFirst()), isDeleted: true, body: [])
            end.deletion = .leaf
            _ = try await store.database.write { [end] in try $0.insert(end, into: c, conflicts: .refuse) }
        }
        #expect(try await store.get("x")?.revision == rev("1-aa"))
        // Its history is asked for as far back as that.
        let needs = try await store.database.read { try $0.missing(c, [RevisionOffer(id: doc("x"), revision: rev("3-dd"))], from: remote) }
        guard case .need(let ancestors, _)? = needs.first else { return #expect(Bool(false), "\(needs)") }
        #expect(ancestors == [rev("1-aa")])
        _ = try await store.insert("x", "3-dd", ["2-cc"], deleted: true, remote: remote)
        #expect(try await store.get("x")?.isDeleted == false, "that is what lost here")
        _ = try await store.insert("x", "3-dd", ["2-cc", "1-aa"], deleted: true, remote: remote)
        let current = try #require(try await store.get("x"))
        #expect(current.revision == rev("3-dd") && current.isDeleted && !current.hasConflict)
    }

    /// The remote was told without its history, because its tombstone is another one than that on which it was created.
    @Test func whatARemoteHasOnAnotherTombstoneGoesOnHere() async throws {
        let store = try Store()
        let remote = try await store.remote()
        _ = try await store.insert("x", "3-bb", ["2-bb", "1-bb"], deleted: true)
        _ = try await store.insert("x", "2-aa", ["1-aa"], deleted: true, .refuse)
        let c = try store.c
        try await store.database.write { try $0.setRemoteRevisions(remote, c, [(doc("x"), rev("2-aa"))]) }
        try #require(try await store.get("x")?.revision == rev("3-bb"))
        let outcome = try await store.insert("x", "3-cc", body: #"{"new":true}"#, remote: remote)
        #expect(outcome == .inserted(sequence: 3))
        let current = try #require(try await store.get("x"))
        #expect(current.revision == rev("3-cc") && !current.isDeleted && !current.hasConflict)
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

    /// A neighbour decided by revision ids, so that no vector tells the remote of it.
    @Test func aVersionThatLostToARevisionWithoutOneIsDecidedOnceMore() async throws {
        let store = try Store()
        await store.database.noteBranchKeeper()
        let (c, remote, neighbour) = (try store.c, try await store.remote(), try await store.remote("wss://neighbour/db"))
        let name = try RevisionID(named: "5@AAAAAAAAAAAAAAAAAAAAAA")
        func take(_ incoming: IncomingRevision) async throws -> InsertOutcome {
            try await store.database.write { try $0.insert(incoming, into: c, conflicts: .store) }
        }
        var version = IncomingRevision(id: doc("x"), revision: name, history: [], body: Array(#"{"n":1}"#.utf8), remote: remote)
        var vector = try VectorHistory(name.text, history: "")
        vector.place = VectorHistory.TreePlace(revision: rev("2-bb"), history: RevisionHistory([rev("1-00")]))
        version.vector = vector
        _ = try await take(version)
        version.remote = neighbour
        _ = try await take(version)
        var lesser = IncomingRevision(id: doc("x"), revision: rev("2-aa"), history: [rev("1-00")], body: Array(#"{"n":2}"#.utf8), remote: neighbour)
        lesser.endedLeaves = [rev("2-bb")]
        _ = try await take(lesser)
        #expect(try await store.get("x")?.revision == rev("2-aa"))
        #expect(try await leaves(store).contains(RevisionTree.end(of: rev("2-bb"))))

        let offer = RevisionOffer(id: doc("x"), revision: name)
        let needs = try await store.database.read { try $0.missing(c, [offer], from: remote, naming: .vectors) }
        guard case .need? = needs.first else { return #expect(Bool(false), "\(needs)") }
        version.remote = remote
        guard case .insertedConflict = try await take(version) else { return #expect(Bool(false), "it is not in conflict") }
        _ = try await store.resolve("x", .remoteWins)
        #expect(try await store.get("x")?.revision == rev("2-bb"))
    }

    /// Two neighbours decided one conflict differently, and each told of the end of its loser.
    @Test(arguments: [RevisionNaming.trees, .vectors]) func aDocumentOfWhichOnlyEndsAreLeftWasDeletedByNobody(_ naming: RevisionNaming) async throws {
        let store = try Store()
        let c = try store.c
        _ = try await store.insert("x", "2-aa", ["1-00"], body: #"{"n":1}"#)
        _ = try await store.insert("x", RevisionTree.end(of: rev("2-aa")).text, ["2-aa"], deleted: true, .refuse)
        #expect(try await store.get("x")?.isDeleted == true)
        // Whoever still has one of them may bring it, whatever is known of what is here.
        let proposals = [Proposal(id: doc("x"), revision: rev("2-aa"), parent: nil), Proposal(id: doc("x"), revision: rev("2-bb"), parent: rev("1-00"))]
        #expect(try await store.database.read { try $0.checkProposals(c, proposals, naming: naming) } == [.accept, .accept])
        guard case .inserted = try await store.insert("x", "2-aa", ["1-00"], body: #"{"n":1}"#, .refuse) else { return #expect(Bool(false), "it is refused") }
        #expect(try await store.get("x")?.revision == rev("2-aa"))
        #expect(try await leaves(store) == [rev("2-aa")])
        _ = try await store.insert("x", RevisionTree.end(of: rev("2-aa")).text, ["2-aa"], deleted: true, .refuse)
        guard case .inserted = try await store.insert("x", "2-bb", ["1-00"], .refuse) else { return #expect(Bool(false), "it is refused") }
        #expect(try await store.get("x")?.revision == rev("2-bb"))
    }

    /// Its sender has yet to learn of the deletion, which is not the one that is read.
    @Test func aRevisionThatWasDeletedBesideAGreaterTombstoneIsRefusedAsSuch() async throws {
        let store = try Store()
        _ = try await store.insert("x", "5-aa", ["4-aa", "3-aa", "2-aa", "1-aa"], deleted: true)
        _ = try await store.insert("x", "1-bb", [], .refuse)
        _ = try await store.save("x", "{}", deleted: true, parent: rev("1-bb"))
        #expect(try await store.get("x")?.revision == rev("5-aa"))
        #expect(try await store.insert("x", "1-bb", [], .refuse) == .ended(current: rev("5-aa")))
        #expect(try await store.insert("x", "4-aa", ["3-aa", "2-aa", "1-aa"], .refuse) == .alreadyPresent)
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
